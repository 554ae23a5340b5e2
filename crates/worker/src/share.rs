//! Ports with fewer queues than workers: one worker owns a queue and shares it with others.
//!
//! What comes in is spread by flow over single-producer rings (receive-side scaling in software);
//! what goes out is handed to the owner by request, grant and burst (HERO09; see
//! [`bora_forward::schedule::handover`]), so that what the output cannot take waits, or is dropped
//! by priority, with the worker that has it, and nobody locks.

use std::sync::Arc;

use bora_buffer::Packet;
use bora_forward::schedule::handover::{Burst, Grant, Granter, Input, Room};
use bora_forward::schedule::{OutputConfig, OutputError, QueueLimits};
use bora_forward::{Class, Exit};
use bora_port::{Bell, memory};
use crossbeam_queue::ArrayQueue;

/// Packets in a ring between two workers.
const RING: usize = 1024;
/// Octets that an input may deliver a turn.
const QUANTUM: u32 = 16 * 1024;
/// Packets on their way to the owner's transmit ring: enough to keep it busy, few enough that
/// priorities are decided at the inputs.
const ROOM: u32 = 512;
/// Messages on the way; there are never more than two.
const MESSAGES: usize = 4;

/// How a worker gets at a port.
#[derive(Debug, Default)]
pub enum Share {
    /// By a queue of its own.
    #[default]
    Alone,
    /// By its queue, which it shares.
    Owner(Box<Owner>),
    /// By another worker's queue.
    Member(Box<Member>),
}

/// One port's way from a member to the owner and back.
#[derive(Debug)]
struct Link {
    packets: memory::Queue,
    bursts: Arc<ArrayQueue<Burst>>,
    grants: Arc<ArrayQueue<Grant>>,
    bell: Arc<Bell>,
}

/// The owner's side: members to receive for, and who may send next.
#[derive(Debug)]
pub struct Owner {
    /// Received packets to each member.
    spread: Vec<memory::Queue>,
    links: Vec<Link>,
    granter: Granter,
    /// The owner's own packets take part as the last input.
    own: Input,
    own_grant: Option<Grant>,
    /// Packets between a burst and the transmit ring; rates are kept here.
    pub(crate) last: Exit,
    taken: Vec<Packet>,
    burst: Vec<(Class, Packet)>,
}

/// A member's side.
#[derive(Debug)]
pub struct Member {
    link: Link,
    input: Input,
    burst: Vec<(Class, Packet)>,
    packets: Vec<Packet>,
}

/// Makes the two sides of a shared port: the owner's, and for each of `members` (named by their
/// bells) its side and the queue it receives from. `owner` is the owner's bell.
///
/// # Errors
/// The output's configuration is impossible.
pub fn share(
    output: &OutputConfig,
    owner: &Arc<Bell>,
    members: &[Arc<Bell>],
) -> Result<(Owner, Vec<(Member, memory::Queue)>), OutputError> {
    let mut side = Owner {
        spread: Vec::new(),
        links: Vec::new(),
        granter: Granter::new(members.len() + 1, QUANTUM),
        own: Input::default(),
        own_grant: None,
        last: Exit::new(&roomy(output))?,
        taken: Vec::with_capacity(RING),
        burst: Vec::with_capacity(RING),
    };
    let mut others = Vec::new();
    for bell in members {
        let (give, take) = memory::pair(RING);
        side.spread.push(give);
        let (near, far) = memory::pair(RING);
        let bursts = Arc::new(ArrayQueue::new(MESSAGES));
        let grants = Arc::new(ArrayQueue::new(MESSAGES));
        let link = |packets, bell: &Arc<Bell>| Link {
            packets,
            bursts: bursts.clone(),
            grants: grants.clone(),
            bell: bell.clone(),
        };
        side.links.push(link(far, bell));
        let member = Member {
            link: link(near, owner),
            input: Input::default(),
            burst: Vec::with_capacity(RING),
            packets: Vec::with_capacity(RING),
        };
        others.push((member, take));
    }
    Ok((side, others))
}

impl Share {
    /// Packets between this worker and others.
    pub(crate) fn in_flight(&self) -> u64 {
        match self {
            Self::Alone => 0,
            Self::Owner(owner) => owner.in_flight(),
            Self::Member(member) => u64::from(member.link.packets.in_flight()),
        }
    }

    /// Whether a removed port may be given up here without a loss: its owner once no member has
    /// anything to send or to receive, then the members.
    pub(crate) fn may_leave(&mut self) -> bool {
        match self {
            Self::Alone => true,
            Self::Owner(owner) => owner.is_idle(),
            Self::Member(member) => Arc::strong_count(&member.link.bursts) == 1,
        }
    }

    /// Whether another worker has sent something here.
    pub(crate) fn has_mail(&self) -> bool {
        match self {
            Self::Alone => false,
            Self::Owner(owner) => owner.links.iter().any(|link| !link.bursts.is_empty()),
            Self::Member(member) => !member.link.grants.is_empty(),
        }
    }
}

impl Member {
    /// Asks for room, or sends what was granted; returns the packets that went.
    pub(crate) fn exchange(&mut self, exit: &mut Exit, mut refused: impl FnMut(Packet)) -> usize {
        exit.queue_all(&mut refused);
        let mut sent = 0;
        let asked = self.input.request(exit.queues());
        let granted = self
            .link
            .grants
            .pop()
            .map(|grant| self.input.burst(grant, exit.queues_mut(), &mut self.burst));
        for burst in asked.into_iter().chain(granted) {
            self.packets.extend(self.burst.drain(..).map(marked));
            sent += self.packets.len();
            self.link.packets.transmit(&mut self.packets);
            debug_assert!(self.packets.is_empty(), "no more is granted than fits");
            let _ = self.link.bursts.push(burst); // there is room for twice what there can be
            self.link.bell.ring();
        }
        sent
    }
}

impl Owner {
    /// Divides received packets by flow: those of this worker stay in `packets`. `refused` gets
    /// what a full ring does not take.
    pub(crate) fn spread(
        &mut self,
        packets: &mut Vec<Packet>,
        flow: impl Fn(&Packet) -> u32,
        mut refused: impl FnMut(Packet),
    ) {
        let workers = self.spread.len() as u64 + 1;
        let worker = |packet: &Packet| ((u64::from(flow(packet)) * workers) >> 32) as usize;
        let bells = self.links.iter().map(|link| &link.bell);
        for ((number, queue), bell) in self.spread.iter_mut().enumerate().zip(bells) {
            let theirs = packets.extract_if(.., |packet| worker(packet) == number + 1);
            self.taken.extend(theirs);
            if !self.taken.is_empty() {
                queue.transmit(&mut self.taken);
                bell.ring();
                self.taken.drain(..).for_each(&mut refused);
            }
        }
    }

    /// Takes bursts in, gives grants out; what may leave is then in [`Owner::last`].
    pub(crate) fn exchange(&mut self, exit: &mut Exit, mut refused: impl FnMut(Packet)) {
        exit.queue_all(&mut refused);
        for number in 0..self.links.len() {
            while let Some(burst) = self.links[number].bursts.pop() {
                let link = &mut self.links[number];
                link.packets
                    .receive(&mut self.taken, burst.packets as usize);
                self.taken
                    .drain(..)
                    .for_each(|packet| self.last.stage(packet));
                self.granter.burst(number, &burst);
            }
        }
        let own = self.links.len();
        if let Some(burst) = self.own.request(exit.queues()) {
            self.granter.burst(own, &burst);
        }
        if let Some(grant) = self.own_grant.take() {
            let burst = self.own.burst(grant, exit.queues_mut(), &mut self.burst);
            let packets = self.burst.drain(..).map(marked);
            packets.for_each(|packet| self.last.stage(packet));
            self.granter.burst(own, &burst);
        }
        self.grant(own);
    }

    fn grant(&mut self, own: usize) {
        let room = Room {
            octets: u64::MAX,
            packets: ROOM.saturating_sub(self.last.held() as u32),
        };
        while let Some((number, grant)) = self.granter.grant(room) {
            match self.links.get(number) {
                Some(link) => {
                    let _ = link.grants.push(grant); // never more than one
                    link.bell.ring();
                }
                None => {
                    debug_assert_eq!(number, own);
                    self.own_grant = Some(grant);
                }
            }
        }
    }

    /// Takes another configuration of the output.
    pub(crate) fn configure(&mut self, output: &OutputConfig, refused: impl FnMut(Packet)) {
        if let Err(error) = self.last.configure(&roomy(output), refused) {
            log::error!("rates stay as they were: {error}");
        }
    }

    fn is_idle(&mut self) -> bool {
        let quiet = self.links.iter_mut().all(|link| {
            link.bursts.is_empty() && link.grants.is_empty() && link.packets.waiting(1) == 0
        });
        quiet && self.granter.is_idle() && self.in_flight() == 0
    }

    /// Takes back what members sent that will not leave any more.
    pub(crate) fn drain(&mut self, dropped: impl FnMut(Packet)) {
        for link in &mut self.links {
            while link.packets.receive(&mut self.taken, RING) > 0 {}
        }
        self.taken.drain(..).for_each(dropped);
    }

    /// Moves what waits on this side of the members' rings to `held`, in the order it is to leave.
    pub(crate) fn give_up(mut self, held: &mut Vec<Packet>) {
        self.last.clear(|packet| held.push(packet));
        for link in &mut self.links {
            link.packets.receive(held, RING);
        }
    }

    fn in_flight(&self) -> u64 {
        let spread: u64 = self
            .spread
            .iter()
            .map(|queue| u64::from(queue.in_flight()))
            .sum();
        spread + self.last.held() as u64
    }
}

/// The same scheduler with queues that take whatever is granted.
fn roomy(output: &OutputConfig) -> OutputConfig {
    let mut output = output.clone();
    for class in &mut output.classes {
        class.limits = QueueLimits {
            packets: 2 * ROOM,
            octets: u64::MAX,
        };
    }
    output
}

/// The class goes along as the packet's mark.
fn marked((class, mut packet): (Class, Packet)) -> Packet {
    packet.set_mark(class.0);
    packet
}
