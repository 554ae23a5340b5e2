//! Keys of next hops and ids of routes' targets.

use std::net::IpAddr;

/// The id of an interned target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TargetId(pub(crate) u32);

/// Whether a search of a sorted list found something.
#[expect(
    clippy::disallowed_methods,
    reason = "the error is the place where it would have to be"
)]
pub(crate) fn is_found(search: Result<usize, usize>) -> bool {
    search.is_ok()
}

/// The key of a next hop: paths with equal keys share one. Ordered by device, then gateway, so that
/// next hops that are refreshed together are neighbours in a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HopKey {
    pub(crate) device: u32,
    /// Gateway or on-link neighbour; `None` for a whole connected network.
    pub(crate) gateway: Option<IpAddr>,
    /// The family of the packets, which need not be the gateway's.
    pub(crate) v6: bool,
    /// Path MTU of the route, 0 for none.
    pub(crate) mtu: u32,
}
