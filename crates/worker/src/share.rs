//! Outputs that several workers share: those with rates, and those with fewer queues than workers. One
//! worker owns the transmit ring.
//!
//! What goes out is handed to the owner by request, grant and burst (HERO09; see
//! [`bora_forward::schedule::handover`]), so that what the output cannot take waits, or is dropped
//! by priority, with the worker that has it, and nobody locks. Rates, levels and weights are kept in
//! one place, so that they hold for all workers together.

use std::sync::Arc;

use bora_buffer::Packet;
use bora_forward::Exit;
use bora_forward::schedule::handover::{Burst, Grant, Granter, Input, Room};
use bora_forward::schedule::{OutputConfig, OutputError, QueueLimits};
use bora_port::{Bell, memory};
use crossbeam_queue::ArrayQueue;

use crate::spread::RING;

/// Octets that an input may deliver a turn.
const QUANTUM: u32 = 16 * 1024;
/// Packets of a class with the owner, or on their way there: enough to keep its ring busy.
const ROOM: u32 = 512;
/// Messages on the way; there are never more than two.
const MESSAGES: usize = 4;

/// How a worker sends by a port.
#[derive(Debug, Default)]
pub enum Share {
    /// By a ring of its own.
    #[default]
    Alone,
    /// By its ring, for others too.
    Owner(Box<Owner>),
    /// By another worker's ring.
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

/// The owner's side: who may send next.
#[derive(Debug)]
pub struct Owner {
    links: Vec<Link>,
    granter: Granter,
    /// The owner's own packets take part as the last input.
    own: Input,
    own_grant: Option<Grant>,
    /// Packets between a burst and the transmit ring; rates are kept here.
    pub(crate) last: Exit,
    taken: Vec<Packet>,
}

/// A member's side.
#[derive(Debug)]
pub struct Member {
    link: Link,
    input: Input,
    burst: Vec<Packet>,
}

/// Makes the two sides of a shared output: the owner's, and for each of `members` (named by their
/// bells) its side. `owner` is the owner's bell.
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
        granter: Granter::new(members.len() + 1, QUANTUM, output),
        own: Input::default(),
        own_grant: None,
        last: Exit::new(&roomy(output))?,
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

    /// Whether a removed port of which nothing is held here may be given up without a loss: first the
    /// members, then the owner.
    pub(crate) fn may_leave(&self) -> bool {
        match self {
            Self::Alone => true,
            Self::Owner(owner) => owner.is_left(),
            Self::Member(member) => member.input.is_idle(),
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
            sent += self.burst.len();
            self.link.packets.transmit(&mut self.burst);
            debug_assert!(self.burst.is_empty(), "no more is granted than fits");
            let _ = self.link.bursts.push(burst); // there is room for twice what there can be
            self.link.bell.ring();
        }
        sent
    }
}

impl Owner {
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
            let burst = self.own.burst(grant, exit.queues_mut(), &mut self.taken);
            let packets = self.taken.drain(..);
            packets.for_each(|packet| self.last.stage(packet));
            self.granter.burst(own, &burst);
        }
        self.grant(own);
    }

    fn grant(&mut self, own: usize) {
        let held = self.last.held_by_class();
        let room = |class: usize| Room {
            octets: u64::MAX,
            packets: ROOM.saturating_sub(held[class]),
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
        match self.last.configure(&roomy(output), refused) {
            Ok(()) => self.granter.configure(output),
            Err(error) => log::error!("rates stay as they were: {error}"),
        }
    }

    /// Whether no member is there any more, and nothing of them.
    fn is_left(&self) -> bool {
        let mut links = self.links.iter();
        links.all(|link| Arc::strong_count(&link.bursts) == 1 && link.bursts.is_empty())
            && self.granter.is_idle()
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
        self.last.held() as u64
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
