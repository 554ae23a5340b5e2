//! Outputs that several workers share: outputs with rates, and outputs with fewer queues than workers.
//! One worker owns the transmit ring, the others are members.
//!
//! Members send packets to the owner by request, grant and burst (HERO09; see
//! [`bora_forward::schedule::grant`]). What the output cannot take waits, or is dropped by priority, in
//! the worker that has it, and no lock is needed. The owner alone keeps rates, levels and weights, so
//! they hold for all workers together.

use std::sync::Arc;

use bora_buffer::Packet;
use bora_forward::Egress;
use bora_forward::schedule::grant::{Arbiter, Burst, Grant, Input, Room};
use bora_forward::schedule::{OutputConfig, OutputError, QueueLimits};
use bora_port::{Bell, PortQueue, memory};
use crossbeam_queue::ArrayQueue;

use crate::spread::RING;

/// Octets that an input may deliver in one turn.
const QUANTUM: u32 = 16 * 1024;
/// Packets of a class that the owner takes in ahead of its transmit ring: enough to keep the ring busy.
const ROOM: u32 = 512;
/// Places for messages; there are never more than two on the way.
const MESSAGES: usize = 4;

/// How a worker sends through a port.
#[derive(Debug, Default)]
pub enum Share {
    /// Through a transmit ring that only this worker uses.
    #[default]
    Alone,
    /// Through its own ring, and for other workers as well.
    Owner(Box<Owner>),
    /// Through another worker's ring.
    Member(Box<Member>),
}

/// The rings between one member and the owner of a port.
#[derive(Debug)]
struct Link {
    packets: memory::Queue,
    bursts: Arc<ArrayQueue<Burst>>,
    grants: Arc<ArrayQueue<Grant>>,
    /// Wakes the other side.
    bell: Arc<Bell>,
}

/// The owner's side of a shared output.
#[derive(Debug)]
pub struct Owner {
    links: Vec<Link>,
    /// Says which input may send next. The owner's own packets are the last input.
    arbiter: Arbiter,
    own: Input,
    own_grant: Option<Grant>,
    /// Packets between a burst and the transmit ring; applies the rates.
    pub(crate) egress: Egress,
    taken: Vec<Packet>,
}

/// A member's side of a shared output.
#[derive(Debug)]
pub struct Member {
    link: Link,
    input: Input,
    burst: Vec<Packet>,
}

/// Makes the sides of a shared output: the owner's, and one for each of `members`. Workers are named
/// by their bells.
///
/// # Errors
/// The output's configuration is impossible.
pub fn share(
    output: &OutputConfig,
    owner: &Arc<Bell>,
    members: &[Arc<Bell>],
) -> Result<(Owner, Vec<Member>), OutputError> {
    let mut side = Owner {
        links: Vec::new(),
        arbiter: Arbiter::new(members.len() + 1, QUANTUM, output),
        own: Input::default(),
        own_grant: None,
        egress: Egress::new(&roomy(output))?,
        taken: Vec::with_capacity(RING),
    };
    let mut others = Vec::new();
    for bell in members {
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
        others.push(Member {
            link: link(near, owner),
            input: Input::default(),
            burst: Vec::with_capacity(RING),
        });
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

    /// Whether nothing is on the way between this worker and others. The members of a removed port are
    /// drained first, then the owner.
    pub(crate) fn is_drained(&self) -> bool {
        match self {
            Self::Alone => true,
            Self::Owner(owner) => owner.is_drained(),
            Self::Member(member) => member.input.is_idle(),
        }
    }

    /// Whether a message of another worker waits here.
    pub(crate) fn has_messages(&self) -> bool {
        match self {
            Self::Alone => false,
            Self::Owner(owner) => owner.links.iter().any(|link| !link.bursts.is_empty()),
            Self::Member(member) => !member.link.grants.is_empty(),
        }
    }
}

impl Member {
    /// Requests room, or sends what was granted; returns the number of packets sent.
    pub(crate) fn exchange(
        &mut self,
        egress: &mut Egress,
        mut refused: impl FnMut(Packet),
    ) -> usize {
        egress.queue_all(&mut refused);
        let mut sent = 0;
        let asked = self.input.request(egress.queues());
        let granted = self.link.grants.pop().map(|grant| {
            self.input
                .burst(grant, egress.queues_mut(), &mut self.burst)
        });
        for burst in asked.into_iter().chain(granted) {
            sent += self.burst.len();
            self.link.packets.transmit(&mut self.burst);
            debug_assert!(self.burst.is_empty(), "a grant is for what fits");
            let _ = self.link.bursts.push(burst); // there are twice as many places as messages
            self.link.bell.ring();
        }
        sent
    }
}

impl Owner {
    /// Takes bursts in and gives grants out; what may leave is then in [`Owner::egress`].
    pub(crate) fn exchange(&mut self, egress: &mut Egress, mut refused: impl FnMut(Packet)) {
        egress.queue_all(&mut refused);
        for number in 0..self.links.len() {
            while let Some(burst) = self.links[number].bursts.pop() {
                let link = &mut self.links[number];
                link.packets
                    .receive(&mut self.taken, burst.packets as usize);
                self.taken
                    .drain(..)
                    .for_each(|packet| self.egress.stage(packet));
                self.arbiter.burst(number, &burst);
            }
        }
        let own = self.links.len();
        if let Some(burst) = self.own.request(egress.queues()) {
            self.arbiter.burst(own, &burst);
        }
        if let Some(grant) = self.own_grant.take() {
            let burst = self.own.burst(grant, egress.queues_mut(), &mut self.taken);
            let packets = self.taken.drain(..);
            packets.for_each(|packet| self.egress.stage(packet));
            self.arbiter.burst(own, &burst);
        }
        self.grant(own);
    }

    fn grant(&mut self, own: usize) {
        let held = self.egress.held_by_class();
        let room = |class: usize| Room {
            octets: u64::MAX,
            packets: ROOM.saturating_sub(held[class]),
        };
        while let Some((number, grant)) = self.arbiter.grant(room) {
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
        match self.egress.configure(&roomy(output), refused) {
            Ok(()) => self.arbiter.configure(output),
            Err(error) => log::error!("the rates of an output are not changed: {error}"),
        }
    }

    /// Whether all members are gone and nothing of theirs is left.
    fn is_drained(&self) -> bool {
        let mut links = self.links.iter();
        links.all(|link| Arc::strong_count(&link.bursts) == 1 && link.bursts.is_empty())
            && self.arbiter.is_idle()
    }

    /// Empties the rings of the members; `dropped` gets the packets.
    pub(crate) fn clear_rings(&mut self, dropped: impl FnMut(Packet)) {
        for link in &mut self.links {
            while link.packets.receive(&mut self.taken, RING) > 0 {}
        }
        self.taken.drain(..).for_each(dropped);
    }

    /// Moves the packets of this side and of the members' rings to `held`, in the order in which they
    /// are to leave.
    pub(crate) fn into_packets(mut self, held: &mut Vec<Packet>) {
        self.egress.clear(|packet| held.push(packet));
        for link in &mut self.links {
            link.packets.receive(held, RING);
        }
    }

    fn in_flight(&self) -> u64 {
        self.egress.held() as u64
    }
}

/// This scheduler, with queues that have room for whatever is granted.
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
