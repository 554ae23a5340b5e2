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
///
/// Linux has two modes and so has this: hash threshold (the default), where the removal of a
/// member moves flows of all others too, and resilient (`ip nexthop ... type resilient`), where it
/// moves only its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Next hops with the highest hash each takes, ascending (RFC 2992 hash threshold).
    members: Box<[(u32, NextHopId)]>,
    /// Resilient: the next hop for each remainder of the hash. Empty for hash threshold.
    buckets: Box<[NextHopId]>,
}

impl Group {
    /// A hash-threshold group of next hops with weights. Shares are in proportion to the weights;
    /// weight 0 counts as 1. An empty group leads to [`NextHopId::NO_ROUTE`].
    pub fn new(members: &[(NextHopId, u32)]) -> Self {
        // as Linux: upper bound = round(2^32 * sum / total) - 1
        let bounds = bounds(members, 1 << 32).map(|bound| bound.saturating_sub(1) as u32);
        Self {
            members: bounds.zip(members.iter().map(|&(id, _)| id)).collect(),
            buckets: [].into(),
        }
    }

    /// A resilient group: `buckets` (at least 1) are shared out as Linux does for a new group.
    pub fn resilient(members: &[(NextHopId, u32)], buckets: u16) -> Self {
        let none = vec![NextHopId::NO_ROUTE; buckets.max(1).into()];
        Self::rebalanced(members, none.into())
    }

    /// A resilient group whose buckets are known, as from a dump of the kernel's.
    pub fn from_buckets(buckets: &[NextHopId]) -> Self {
        let mut ids = buckets.to_vec();
        ids.sort_unstable();
        ids.dedup();
        let members: Vec<_> = ids.into_iter().map(|id| (id, 1)).collect();
        Self {
            buckets: buckets.into(),
            ..Self::new(&members)
        }
    }

    /// This group with other members or weights. A resilient group moves only the buckets of
    /// members that went or that have more than their share; Linux does the same, but leaves
    /// buckets in use for its idle timer's time.
    #[must_use]
    pub fn with_members(&self, members: &[(NextHopId, u32)]) -> Self {
        if self.buckets.is_empty() {
            Self::new(members)
        } else {
            Self::rebalanced(members, self.buckets.clone())
        }
    }

    fn rebalanced(members: &[(NextHopId, u32)], mut buckets: Box<[NextHopId]>) -> Self {
        let mut wanted: Vec<_> = shares(members, buckets.len() as u64).collect();
        let mut homeless = vec![];
        for (at, bucket) in buckets.iter_mut().enumerate() {
            let mut takers = members.iter().zip(&mut wanted);
            match takers.find(|&(&(id, _), ref want)| id == *bucket && **want > 0) {
                Some((_, want)) => *want -= 1,
                None => homeless.push(at),
            }
        }
        let takers = members.iter().zip(wanted);
        let mut takers = takers.flat_map(|(&(id, _), want)| (0..want).map(move |_| id));
        for at in homeless {
            buckets[at] = takers.next().unwrap_or(NextHopId::NO_ROUTE);
        }
        Self {
            buckets,
            ..Self::new(members)
        }
    }

    /// The member for a flow.
    #[inline]
    pub fn select(&self, hash: u32) -> NextHopId {
        if !self.buckets.is_empty() {
            return self.buckets[hash as usize % self.buckets.len()];
        }
        let found = self.members.iter().find(|&&(bound, _)| hash <= bound);
        found.map_or(NextHopId::NO_ROUTE, |&(_, id)| id)
    }

    /// All members.
    pub fn members(&self) -> impl Iterator<Item = NextHopId> {
        self.members.iter().map(|&(_, id)| id)
    }

    /// The buckets of a resilient group; none for hash threshold.
    pub fn buckets(&self) -> &[NextHopId] {
        &self.buckets
    }
}

/// Where each member's part of `whole` ends: round(whole * sum of weights so far / total).
fn bounds(members: &[(NextHopId, u32)], whole: u64) -> impl Iterator<Item = u64> {
    let weights = members.iter().map(|&(_, weight)| u64::from(weight.max(1)));
    let total: u64 = weights.clone().sum();
    weights.scan(0, move |sum, weight| {
        *sum += weight;
        let (whole, total) = (u128::from(whole), u128::from(total));
        Some(((whole * u128::from(*sum) + total / 2) / total) as u64)
    })
}

/// Each member's part of `whole`.
fn shares(members: &[(NextHopId, u32)], whole: u64) -> impl Iterator<Item = u64> {
    bounds(members, whole).scan(0, |last, bound| {
        Some(bound - std::mem::replace(last, bound))
    })
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
    fn resilient_groups_move_only_what_they_must() {
        let ids = [1, 2, 3, 4].map(NextHopId);
        let group = Group::resilient(&ids.map(|id| (id, 1)), 128);
        let of = |group: &Group, id| group.buckets().iter().filter(|&&at| at == id).count();
        assert!(ids.iter().all(|&id| of(&group, id) == 32));
        assert_eq!(group.select(128 + 31), ids[0]);
        assert_eq!(group.select(32), ids[1]);

        let left = [ids[0], ids[2], ids[3]].map(|id| (id, 1));
        let fewer = group.with_members(&left);
        for (before, after) in group.buckets().iter().zip(fewer.buckets()) {
            assert!(before == after || *before == ids[1] && *after != ids[1]);
        }
        let back = fewer.with_members(&ids.map(|id| (id, 1)));
        let moved = fewer.buckets().iter().zip(back.buckets());
        assert_eq!(moved.filter(|(before, after)| before != after).count(), 32);

        assert_eq!(Group::from_buckets(group.buckets()).select(33), ids[1]);
        assert_eq!(Group::resilient(&[], 8).select(7), NextHopId::NO_ROUTE);
        assert_eq!(Group::resilient(&[(ids[0], 1)], 0).select(7), ids[0]);
    }
}
