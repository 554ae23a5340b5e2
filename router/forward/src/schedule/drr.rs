//! Deficit round robin among the classes of one level.

use super::bucket::MAX_FRAME;

/// Smallest quantum in octets: with a whole Ethernet frame a visit nearly always sends something,
/// which is what makes the round robin O(1) (Shreedhar and Varghese 1996, section 3).
pub const MIN_QUANTUM: u32 = 1514;

/// What a scheduler can see of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// It is empty.
    Empty,
    /// Its shaper holds it back.
    Waiting,
    /// A packet of this many octets could leave.
    Ready(u32),
}

/// Deficit round robin (Shreedhar and Varghese, IEEE/ACM ToN 4(3), 1996). Queues that always have
/// packets have sent, at any time, octets in proportion to their quanta within one quantum plus
/// one longest packet.
#[derive(Clone, Debug)]
pub(super) struct Drr {
    /// Class, quantum and deficit in octets.
    members: Vec<Member>,
    turn: usize,
}

#[derive(Clone, Debug)]
struct Member {
    class: usize,
    quantum: u32,
    deficit: u32,
}

impl Drr {
    /// Over these classes with their quanta in octets.
    pub(super) fn new(members: impl IntoIterator<Item = (usize, u32)>) -> Self {
        let member = |(class, quantum)| Member {
            class,
            quantum,
            deficit: 0,
        };
        Self {
            members: members.into_iter().map(member).collect(),
            turn: 0,
        }
    }

    /// The only class, if there is just one: it needs no turns.
    #[inline]
    pub(super) fn single(&self) -> Option<usize> {
        match &self.members[..] {
            [member] => Some(member.class),
            _ => None,
        }
    }

    /// The class whose packet is next. Asking again gives the same answer until [`Self::sent`] or
    /// until that class has nothing ready.
    #[inline]
    pub(super) fn select(&mut self, head: impl Fn(usize) -> Head) -> Option<usize> {
        if let Some(class) = self.single() {
            return matches!(head(class), Head::Ready(_)).then_some(class);
        }
        let mut unready = 0;
        while unready < self.members.len() {
            let member = &mut self.members[self.turn];
            match head(member.class) {
                Head::Ready(octets) if octets <= member.deficit => return Some(member.class),
                Head::Ready(_) => unready = 0,
                Head::Waiting => unready += 1,
                Head::Empty => {
                    // an idle queue does not save up its quantum
                    member.deficit = 0;
                    unready += 1;
                }
            }
            self.turn = (self.turn + 1) % self.members.len();
            let next = &mut self.members[self.turn];
            if let Head::Ready(_) = head(next.class) {
                // a class that waits for its rate saves up no more than one turn
                let most = next.quantum.saturating_add(MAX_FRAME);
                next.deficit = next.deficit.saturating_add(next.quantum).min(most);
            }
        }
        None
    }

    /// Pays for the packet that [`Self::select`] chose.
    #[inline]
    pub(super) fn sent(&mut self, octets: u32) {
        let member = &mut self.members[self.turn];
        member.deficit = member.deficit.saturating_sub(octets);
    }
}
