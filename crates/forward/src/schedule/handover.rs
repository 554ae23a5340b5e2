//! Request, grant, burst: how packets get from the workers that queue them to the worker that owns
//! the output's transmit ring, without locks and without crossing the machine for nothing (HERO09).
//!
//! An [`Input`] tells the [`Granter`] of an output how many octets wait at each priority; the
//! granter answers with a [`Grant`]; the input delivers at most that, high priority first, and
//! says in the same message what waits now. Bursts, the first of which only asks, go through one
//! single-producer ring and grants back through another; there are never more than two bursts or
//! one grant on the way. The packets of a burst go before it through a ring of their own. Rings and
//! threads are the caller's; the owner's own packets take part as one more input.
//!
//! - No loss: what is granted is reserved in the output's room until the burst comes.
//! - Order: a burst takes from the front of the queues, so a class's packets of one input stay in
//!   order.
//! - Fairness: at one priority, inputs that always have a request waiting when it is their turn
//!   have delivered the same octets within one quantum plus [`MAX_FRAME`] (deficit round robin),
//!   and another quantum while granted bursts are on the way.
//! - No deadlock: from a request to its grant every other input gets at most one grant at that
//!   priority. Lower priorities wait for the higher ones, as they are meant to. A burst is empty
//!   only if a packet of higher priority has come since the request and does not fit; its next
//!   request then asks for that priority.

use bora_buffer::Packet;

use super::bucket::MAX_FRAME;
use super::output::Output;
use crate::class::{Class, MAX_CLASSES};

/// Shortest Ethernet frame in octets without FCS: how many packets to expect in a grant.
const MIN_FRAME: u32 = 60;

/// Octets that wait at one input, by level of priority, the highest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Octets without FCS.
    pub octets: [u32; MAX_CLASSES],
}

/// What an input may deliver at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Octets without FCS.
    pub octets: u32,
    /// Packets.
    pub packets: u32,
}

/// What an input delivers: the packets themselves go before it. To ask for the first time, it
/// delivers nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Octets without FCS; never more than the grant's.
    pub octets: u32,
    /// Packets; never more than the grant's.
    pub packets: u32,
    /// What waits now; `None` ends the exchange until the input asks again.
    pub next: Option<Request>,
}

/// A worker's end towards one output it does not own; its packets wait in an [`Output`] without
/// shapers (rates are the owner's business).
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
            next: Some(queues.waiting()),
        })
    }

    /// Answers a grant: moves packets that fit to `out`, in order of priority, with the class the
    /// owner is to queue them in.
    pub fn burst(
        &mut self,
        grant: Grant,
        queues: &mut Output,
        out: &mut Vec<(Class, Packet)>,
    ) -> Burst {
        let before = out.len();
        let octets = queues.pull_within(grant.octets, grant.packets as usize, out);
        self.asked = queues.held() > 0;
        Burst {
            octets,
            packets: (out.len() - before) as u32,
            next: self.asked.then(|| queues.waiting()),
        }
    }
}

/// Room at an output for packets that are neither there nor granted yet.
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
    Granted { level: usize, grant: Grant },
}

#[derive(Debug)]
struct Peer {
    state: State,
    /// Octets granted and not used, by level: less than a frame each, as packets do not divide.
    deficit: [u32; MAX_CLASSES],
}

/// The owner's end: who may deliver next.
#[derive(Debug)]
pub struct Granter {
    quantum: u32,
    peers: Vec<Peer>,
    /// Whose turn it is, by level.
    turn: [usize; MAX_CLASSES],
    /// Granted, not delivered.
    reserved: Room,
}

impl Granter {
    /// For this many inputs, which get `quantum` octets a turn; raised to [`MAX_FRAME`], so that
    /// every grant lets a packet through.
    pub fn new(inputs: usize, quantum: u32) -> Self {
        let peer = || Peer {
            state: State::Idle,
            deficit: [0; MAX_CLASSES],
        };
        Self {
            quantum: quantum.max(MAX_FRAME),
            peers: std::iter::repeat_with(peer).take(inputs).collect(),
            turn: [0; MAX_CLASSES],
            reserved: Room::default(),
        }
    }

    /// Whether nobody asks and nothing granted is on its way.
    pub fn is_idle(&self) -> bool {
        let mut peers = self.peers.iter();
        peers.all(|peer| matches!(peer.state, State::Idle))
    }

    /// The next grant and whom it is for. `room` is what the output can take besides the packets it
    /// holds; what is granted already is known here. `None` if nobody asks or the next in turn
    /// must wait for room: nobody overtakes, so an output that drains down to one quantum plus
    /// [`MAX_FRAME`] of room grants every request.
    pub fn grant(&mut self, room: Room) -> Option<(usize, Grant)> {
        let (level, input, waiting) = self.next()?;
        let allowance = self.quantum + self.peers[input].deficit[level];
        let octets = waiting.min(allowance);
        let free = Room {
            octets: room.octets.saturating_sub(self.reserved.octets),
            packets: room.packets.saturating_sub(self.reserved.packets),
        };
        if u64::from(octets) > free.octets || free.packets == 0 {
            return None;
        }
        let packets = octets.div_ceil(MIN_FRAME).min(free.packets);
        let grant = Grant { octets, packets };
        self.reserved.octets += u64::from(octets);
        self.reserved.packets += packets;
        self.peers[input].state = State::Granted { level, grant };
        self.turn[level] = (input + 1) % self.peers.len();
        Some((input, grant))
    }

    /// Takes a burst in, or a first request; its packets are in the caller's hands and count in
    /// the next `room`.
    pub fn burst(&mut self, input: usize, burst: &Burst) {
        let peer = &mut self.peers[input];
        if let State::Granted { level, grant } = peer.state {
            self.reserved.octets -= u64::from(grant.octets);
            self.reserved.packets -= grant.packets;
            let unused = grant.octets.saturating_sub(burst.octets);
            let more = burst.next.is_some_and(|next| next.octets[level] > 0);
            peer.deficit[level] = if more { unused.min(MAX_FRAME) } else { 0 };
        }
        peer.state = burst.next.map_or(State::Idle, State::Requested);
    }

    /// Level, input and its waiting octets: the highest level first, in turn within it.
    fn next(&self) -> Option<(usize, usize, u32)> {
        let inputs = self.peers.len();
        for level in 0..MAX_CLASSES {
            for step in 0..inputs {
                let input = (self.turn[level] + step) % inputs;
                if let State::Requested(request) = &self.peers[input].state
                    && request.octets[level] > 0
                {
                    return Some((level, input, request.octets[level]));
                }
            }
        }
        None
    }
}
