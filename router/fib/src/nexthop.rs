//! Next hops: what look-ups lead to.

use std::fmt;

use bora_contract::Reason;

use crate::encapsulation::Encapsulation;
use crate::marks::UseMark;
use crate::port::PortId;

/// The id of a next-hop object. Prefixes hold ids, so one write to the object changes all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct NextHopId(pub(crate) u32);

impl NextHopId {
    /// The next hop of addresses without a route. It always exists and is always a punt.
    pub const NO_ROUTE: Self = Self(0);

    /// The number, for messages.
    pub fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for NextHopId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A neighbour on a port, with the Ethernet header ready to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adjacency {
    /// Output port.
    pub port: PortId,
    /// Largest IP packet, in octets.
    pub mtu: u16,
    /// Ethernet header as on the wire: destination, source, EtherType.
    pub l2: [u8; 14],
    /// Linux has not confirmed the neighbour for a while. A reader that sends there calls
    /// [`crate::FibReader::note_use`] with this, and then Linux asks whether it is still there.
    pub unconfirmed: Option<UseMark>,
}

/// Several next hops that share the flows of a prefix by weight, as Linux does: a flow is a number
/// below 2^31.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    choice: Choice,
    /// Each next hop once.
    members: Box<[NextHopId]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Choice {
    /// Next hops with the highest number each takes, ascending (RFC 2992).
    Threshold(Box<[(u32, NextHopId)]>),
    /// The next hop for each remainder of the number.
    Buckets(Box<[NextHopId]>),
}

/// A member of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its object.
    pub id: NextHopId,
    /// Its weight; 0 counts as 1.
    pub weight: u32,
    /// Whether flows may go there: Linux avoids a next hop whose neighbour has failed.
    pub good: bool,
}

impl Group {
    /// A group of next hops with weights. Shares are in proportion to the weights. An empty group
    /// leads to [`NextHopId::NO_ROUTE`].
    pub fn new(members: &[(NextHopId, u32)]) -> Self {
        let members: Vec<_> = members
            .iter()
            .map(|&(id, weight)| Member {
                id,
                weight,
                good: true,
            })
            .collect();
        Self::avoiding(&members)
    }

    /// A group that treats bad members as Linux's fib_select_multipath() and nexthop_select_path_hthr() do:
    /// their flows move to the next good member, those of the last ones to the first good one. If all are
    /// bad, all flows take the first.
    pub fn avoiding(members: &[Member]) -> Self {
        let weight = |member: &Member| u64::from(member.weight.max(1));
        let total: u64 = members.iter().map(weight).sum();
        let mut sum = 0;
        let mut thresholds = Vec::with_capacity(members.len() + 1);
        for member in members {
            sum += weight(member);
            // Linux's upper bound: round(2^31 * sum / total) - 1
            let bound = ((sum << 31) + total / 2) / total;
            if let Some(bound) = bound.checked_sub(1).filter(|_| member.good) {
                thresholds.push((bound as u32, member.id));
            }
        }
        let first = members
            .iter()
            .find(|member| member.good)
            .or(members.first());
        let complete = thresholds.last().is_some_and(|&(bound, _)| bound >= LAST);
        thresholds.extend(
            first
                .filter(|_| !complete)
                .map(|first| (u32::MAX, first.id)),
        );
        Self {
            choice: Choice::Threshold(thresholds.into()),
            members: once(members.iter().map(|member| member.id)),
        }
    }

    /// A group that assigns flows by buckets, as Linux's resilient groups do: when a next hop is
    /// removed, only the flows of its buckets move. An empty group leads to
    /// [`NextHopId::NO_ROUTE`].
    pub fn resilient(buckets: &[NextHopId]) -> Self {
        Self {
            choice: Choice::Buckets(buckets.into()),
            members: once(buckets.iter().copied()),
        }
    }

    /// The member that all flows take, if there is no choice.
    #[inline]
    pub fn only(&self) -> Option<NextHopId> {
        match *self.members {
            [only] => Some(only),
            _ => None,
        }
    }

    /// The member for a flow.
    #[inline]
    pub fn select(&self, flow: u32) -> NextHopId {
        let found = match &self.choice {
            Choice::Threshold(members) => members
                .iter()
                .find(|&&(bound, _)| flow <= bound)
                .map(|&(_, id)| id),
            Choice::Buckets(buckets) => (flow as usize)
                .checked_rem(buckets.len())
                .map(|bucket| buckets[bucket]),
        };
        found.unwrap_or(NextHopId::NO_ROUTE)
    }

    /// The flows, of 2^31, that each member gets, in the order of flows; `None` if buckets choose.
    pub fn shares(&self) -> Option<Vec<(NextHopId, u32)>> {
        let Choice::Threshold(members) = &self.choice else {
            return None;
        };
        let mut first = 0;
        let shares = members.iter().map(|&(bound, id)| {
            let end = bound.min(LAST) + 1;
            let share = end.saturating_sub(first);
            first = end;
            (id, share)
        });
        Some(shares.collect())
    }

    /// Memory of its lists, octets.
    pub(crate) fn octets(&self) -> usize {
        let choice = match &self.choice {
            Choice::Threshold(members) => size_of_val(&**members),
            Choice::Buckets(buckets) => size_of_val(&**buckets),
        };
        choice + size_of_val(&*self.members)
    }

    /// All members, each once, also those that get no flows.
    pub fn members(&self) -> impl Iterator<Item = NextHopId> {
        self.members.iter().copied()
    }
}

/// The last flow.
const LAST: u32 = u32::MAX >> 1;

fn once(ids: impl Iterator<Item = NextHopId>) -> Box<[NextHopId]> {
    let mut members = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    members.extend(ids.filter(|&id| seen.insert(id)));
    members.into()
}

/// A next-hop object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextHop {
    /// Rewrite and send.
    Forward(Adjacency),
    /// Put into a tunnel, and send to the tunnel's far end.
    Tunnel(Box<Encapsulation>),
    /// Choose by flow hash.
    Group(Group),
    /// Hand to Linux.
    Punt {
        /// Why.
        reason: Reason,
        /// The route's output port, if it is one; for the reverse-path check.
        port: Option<PortId>,
    },
    /// Drop.
    Blackhole,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_weights() {
        let group = Group::new(&[(NextHopId(1), 1), (NextHopId(2), 3)]);
        let hits = (0..=LAST)
            .step_by(1 << 15)
            .filter(|&h| group.select(h) == NextHopId(1));
        assert_eq!(hits.count(), 1 << 14);
        assert_eq!(group.select(LAST), NextHopId(2));
        let shares = [(NextHopId(1), 1 << 29), (NextHopId(2), 3 << 29)];
        assert_eq!(group.shares().as_deref(), Some(&shares[..]));
        assert_eq!(Group::new(&[]).select(7), NextHopId::NO_ROUTE);
        // Linux's fib_rebalance(): three equal ways
        let group = Group::new(&[1, 2, 3].map(|id| (NextHopId(id), 1)));
        let bounds = [0x2aaa_aaaa, 0x5555_5554];
        let at = |flow| group.select(flow).0;
        assert_eq!(bounds.map(at), [1, 2]);
        assert_eq!(bounds.map(|bound| at(bound + 1)), [2, 3]);
    }

    #[test]
    fn bad_members_get_no_flows() {
        let with = |good: [bool; 3]| {
            let members: Vec<_> = good
                .iter()
                .zip(1..)
                .map(|(&good, id)| Member {
                    id: NextHopId(id),
                    weight: 1,
                    good,
                })
                .collect();
            let group = Group::avoiding(&members);
            [0, 1 << 30, LAST].map(|flow| group.select(flow).0)
        };
        assert_eq!(with([true, true, true]), [1, 2, 3]);
        assert_eq!(with([false, true, true]), [2, 2, 3]);
        assert_eq!(with([true, false, true]), [1, 3, 3]);
        assert_eq!(with([true, true, false]), [1, 2, 1]);
        assert_eq!(with([false, false, false]), [1, 1, 1]);
    }

    #[test]
    fn buckets_keep_their_flows() {
        let ids = [1, 2, 3, 1, 2, 3].map(NextHopId);
        let (group, less) = (
            Group::resilient(&ids),
            Group::resilient(&ids.map(|id| match id {
                NextHopId(3) => NextHopId(1),
                id => id,
            })),
        );
        let moved = (0..600).filter(|&h| group.select(h) != less.select(h));
        assert_eq!(moved.count(), 200, "only the flows of next hop 3");
        assert_eq!(Group::resilient(&[]).select(7), NextHopId::NO_ROUTE);
    }
}
