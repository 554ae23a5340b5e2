//! Request, grant, burst: how packets get from the workers that queue them to the worker that owns
//! the output's transmit ring, without locks, and without crossing the machine only to be dropped
//! there (HERO09).
//!
//! An [`Input`] tells the [`Arbiter`] of an output how many octets wait in each class. The arbiter
//! answers with a [`Grant`] for one class, the highest that the output has room for. The input
//! delivers at most that, and says in the same message what waits now. Bursts, the first of which
//! is only a request, go through one single-producer ring, and grants back through another; there are
//! never more than two bursts or one grant on the way. The packets of a burst go ahead of it, through
//! a third ring. Rings and threads are the caller's; the owner's own packets are one more input.
//!
//! - No loss: what is granted is reserved in the output's room until the burst comes.
//! - Order: a burst takes from the front of a queue, so a class's packets of one input stay in order.
//! - Only the output applies rates, priorities and shares. Each class has its own room there, so a
//!   class that waits for its rate keeps no other one out.
//! - Fairness: in one class, inputs that always have a request waiting when it is their turn have
//!   delivered the same octets within one quantum plus [`MAX_FRAME`] (deficit round robin), and
//!   another quantum while granted bursts are on the way.
//! - No deadlock: from a request to its grant every other input gets at most one grant for that class.
//!   Lower levels wait for the higher ones that have room, as they are meant to.

use bora_buffer::Packet;

use super::bucket::MAX_FRAME;
use super::output::{Output, OutputConfig};
use crate::class::{Class, MAX_CLASSES};

/// Shortest Ethernet frame in octets without FCS: how many packets to expect in a grant.
const MIN_FRAME: u32 = 60;

/// Octets that wait at one input, by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Octets without FCS.
    pub octets: [u32; MAX_CLASSES],
}

/// What an input may deliver at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The class of the packets.
    pub class: Class,
    /// Octets without FCS.
    pub octets: u32,
    /// Packets.
    pub packets: u32,
}

/// What an input delivers; the packets themselves go ahead of it. The first request is an empty burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Octets without FCS; never more than the grant's.
    pub octets: u32,
    /// Packets; never more than the grant's.
    pub packets: u32,
    /// What waits now; `None` ends the exchange until the input requests again.
    pub next: Option<Request>,
}

/// A worker's end towards an output of another worker. Its packets wait in an [`Output`] without
/// shapers, because the owner applies the rates.
#[derive(Debug, Default)]
pub struct Input {
    asked: bool,
}

impl Input {
    /// The first request, if packets wait and nothing has been asked for yet.
    pub fn request(&mut self, queues: &Output) -> Option<Burst> {
        if self.asked || queues.held() == 0 {
            return None;
        }
        self.asked = true;
        Some(Burst {
            octets: 0,
            packets: 0,
            next: Some(request(queues)),
        })
    }

    /// Answers a grant: moves the packets that fit to `out`, each marked with the class in which the
    /// owner is to queue it.
    pub fn burst(&mut self, grant: Grant, queues: &mut Output, out: &mut Vec<Packet>) -> Burst {
        let before = out.len();
        let class = usize::from(grant.class.0);
        let octets = queues.take(class, grant.octets, grant.packets, out);
        self.asked = queues.held() > 0;
        Burst {
            octets,
            packets: (out.len() - before) as u32,
            next: self.asked.then(|| request(queues)),
        }
    }

    /// Whether nothing has been asked for.
    pub fn is_idle(&self) -> bool {
        !self.asked
    }
}

/// What waits in each class.
fn request(queues: &Output) -> Request {
    let mut request = Request::default();
    for (octets, waiting) in request.octets.iter_mut().zip(queues.octets_by_class()) {
        *octets = u32::try_from(waiting).unwrap_or(u32::MAX);
    }
    request
}

/// Room at an output for packets of a class that are neither there nor granted yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Octets without FCS.
    pub octets: u64,
    /// Packets.
    pub packets: u32,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Idle,
    Requested(Request),
    Granted(Grant),
}

#[derive(Debug)]
struct Peer {
    state: State,
    /// Octets granted and not used, by class: less than a frame each, as packets do not divide.
    deficit: [u32; MAX_CLASSES],
}

/// The owner's end: says which input may deliver next.
#[derive(Debug)]
pub struct Arbiter {
    quantum: u32,
    peers: Vec<Peer>,
    /// Classes, those of the highest level first.
    order: Vec<usize>,
    /// Whose turn it is, by class.
    turn: [usize; MAX_CLASSES],
    /// Granted, not delivered, by class.
    reserved: [Room; MAX_CLASSES],
}

impl Arbiter {
    /// For this many inputs, which get `quantum` octets a turn; raised to [`MAX_FRAME`], so that
    /// every grant lets a packet through.
    pub fn new(inputs: usize, quantum: u32, output: &OutputConfig) -> Self {
        let peer = || Peer {
            state: State::Idle,
            deficit: [0; MAX_CLASSES],
        };
        let mut arbiter = Self {
            quantum: quantum.max(MAX_FRAME),
            peers: std::iter::repeat_with(peer).take(inputs).collect(),
            order: Vec::new(),
            turn: [0; MAX_CLASSES],
            reserved: [Room::default(); MAX_CLASSES],
        };
        arbiter.configure(output);
        arbiter
    }

    /// Takes the levels of a new configuration.
    pub fn configure(&mut self, output: &OutputConfig) {
        self.order = (0..MAX_CLASSES).collect();
        // packets of a class that the output does not have go to its last class
        let classes = &output.classes;
        let class = |number: &usize| classes.get(*number).or(classes.last());
        self.order
            .sort_by_key(|number| std::cmp::Reverse(class(number).map(|class| class.level)));
    }

    /// Whether there is no request, and no granted packet is on its way.
    pub fn is_idle(&self) -> bool {
        let mut peers = self.peers.iter();
        peers.all(|peer| matches!(peer.state, State::Idle))
    }

    /// The next grant and the number of its input; `None` if the output has no room for any request.
    /// `room` is what the output can take of a class beside the packets it holds; what is granted
    /// already is subtracted here. If the input whose turn it is needs more room than there is, the
    /// others of its class wait too, so an output that drains down to one quantum plus [`MAX_FRAME`]
    /// of room grants every request in the end.
    pub fn grant(&mut self, room: impl Fn(usize) -> Room) -> Option<(usize, Grant)> {
        for place in 0..self.order.len() {
            let class = self.order[place];
            let Some((input, waiting)) = self.next(class) else {
                continue;
            };
            let octets = waiting.min(self.quantum + self.peers[input].deficit[class]);
            let (room, reserved) = (room(class), &mut self.reserved[class]);
            let free = room.packets.saturating_sub(reserved.packets);
            if reserved.octets + u64::from(octets) > room.octets || free == 0 {
                continue;
            }
            let packets = octets.div_ceil(MIN_FRAME).min(free);
            let grant = Grant {
                class: Class(class as u8),
                octets,
                packets,
            };
            reserved.octets += u64::from(octets);
            reserved.packets += packets;
            self.peers[input].state = State::Granted(grant);
            self.turn[class] = (input + 1) % self.peers.len();
            return Some((input, grant));
        }
        None
    }

    /// Takes a burst or a first request in. The caller has its packets, and counts them in the next
    /// `room`.
    pub fn burst(&mut self, input: usize, burst: &Burst) {
        let peer = &mut self.peers[input];
        if let State::Granted(grant) = peer.state {
            let class = usize::from(grant.class.0);
            self.reserved[class].octets -= u64::from(grant.octets);
            self.reserved[class].packets -= grant.packets;
            let unused = grant.octets.saturating_sub(burst.octets);
            let more = burst.next.is_some_and(|next| next.octets[class] > 0);
            peer.deficit[class] = if more { unused.min(MAX_FRAME) } else { 0 };
        }
        peer.state = burst.next.map_or(State::Idle, State::Requested);
    }

    /// The input whose turn it is in a class, and its waiting octets.
    fn next(&self, class: usize) -> Option<(usize, u32)> {
        let inputs = self.peers.len();
        (0..inputs).find_map(|step| {
            let input = (self.turn[class] + step) % inputs;
            match &self.peers[input].state {
                State::Requested(request) if request.octets[class] > 0 => {
                    Some((input, request.octets[class]))
                }
                _ => None,
            }
        })
    }
}
