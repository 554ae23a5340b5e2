//! What a look-up leads to.

use std::fmt;

/// Names a next-hop object. Prefixes hold ids, so that one write to the object changes all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct NextHopId(pub(crate) u32);

impl NextHopId {
    /// What addresses without a route lead to; always valid, always a punt.
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

/// Number of a Bora port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortId(pub u16);

/// Why a route hands its packets to Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PuntReason {
    /// No route.
    NoRoute,
    /// An address of the router, or broadcast, anycast, multicast.
    Local,
    /// The neighbour's link-layer address is not known.
    NoNeighbour,
    /// An unreachable route.
    Unreachable,
    /// A prohibit route.
    Prohibit,
    /// Something Bora does not implement, or an interface that is not its port.
    Unsupported,
}

/// A ready-made way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adjacency {
    /// Output port.
    pub port: PortId,
    /// Largest IP packet, in octets.
    pub mtu: u16,
    /// Ethernet header as on the wire: destination, source, EtherType.
    pub l2: [u8; 14],
}

/// Several next hops that share the flows of a prefix by weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group(Choice);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Choice {
    /// Next hops with the highest hash each takes, ascending (RFC 2992).
    Threshold(Box<[(u32, NextHopId)]>),
    /// The next hop for each remainder of the hash, and each next hop once.
    Buckets(Box<[NextHopId]>, Box<[NextHopId]>),
}

impl Group {
    /// A group of next hops with weights (RFC 2992 hash threshold). Shares are in proportion to the weights; weight 0
    /// counts as 1. An empty group leads to [`NextHopId::NO_ROUTE`].
    pub fn new(members: &[(NextHopId, u32)]) -> Self {
        let total: u64 = members
            .iter()
            .map(|&(_, weight)| u64::from(weight.max(1)))
            .sum();
        let mut sum = 0;
        let members = members
            .iter()
            .map(|&(id, weight)| {
                sum += u64::from(weight.max(1));
                // as Linux: upper bound = round(2^32 * sum / total) - 1
                let bound = ((sum << 32) + total / 2) / total - 1;
                (u32::try_from(bound).unwrap_or(u32::MAX), id)
            })
            .collect();
        Self(Choice::Threshold(members))
    }

    /// A group that assigns flows by buckets, as Linux's resilient groups do: a next hop that goes
    /// takes only the flows of its buckets along. An empty group leads to
    /// [`NextHopId::NO_ROUTE`].
    pub fn resilient(buckets: &[NextHopId]) -> Self {
        let mut members = buckets.to_vec();
        members.sort_unstable();
        members.dedup();
        Self(Choice::Buckets(buckets.into(), members.into()))
    }

    /// The member for a flow.
    #[inline]
    pub fn select(&self, hash: u32) -> NextHopId {
        let found = match &self.0 {
            Choice::Threshold(members) => members
                .iter()
                .find(|&&(bound, _)| hash <= bound)
                .map(|&(_, id)| id),
            Choice::Buckets(buckets, _) => (hash as usize)
                .checked_rem(buckets.len())
                .map(|bucket| buckets[bucket]),
        };
        found.unwrap_or(NextHopId::NO_ROUTE)
    }

    /// All members; of a resilient group each once.
    pub fn members(&self) -> impl Iterator<Item = NextHopId> {
        let (weighted, plain): (&[_], &[_]) = match &self.0 {
            Choice::Threshold(members) => (members, &[]),
            Choice::Buckets(_, members) => (&[], members),
        };
        weighted
            .iter()
            .map(|&(_, id)| id)
            .chain(plain.iter().copied())
    }
}

/// A next-hop object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextHop {
    /// Rewrite and send.
    Forward(Adjacency),
    /// Choose by flow hash.
    Group(Group),
    /// Hand to Linux.
    Punt {
        /// Why.
        reason: PuntReason,
        /// The output the route names, known for the reverse-path check.
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
        let hits = (0..=u32::MAX)
            .step_by(1 << 16)
            .filter(|&h| group.select(h) == NextHopId(1));
        assert_eq!(hits.count(), 1 << 14);
        assert_eq!(group.select(u32::MAX), NextHopId(2));
        assert_eq!(Group::new(&[]).select(7), NextHopId::NO_ROUTE);
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
