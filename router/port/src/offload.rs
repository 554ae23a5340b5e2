//! Ports that forward by themselves what they have a route for, such as HERO's cards (hero/README.md).

use std::fmt;
use std::net::Ipv4Addr;

/// The control side of such a port: slots for routes, each of which leads to one other port on its bus.
pub trait Offload {
    /// Whether its options allow it.
    fn is_allowed(&self) -> bool;

    /// Identifies its bus among those of this process: it forwards to ports on the same one alone.
    fn bus(&self) -> usize;

    /// Its place on the bus.
    fn place(&self) -> usize;

    /// The slots whose routes lead to a place on its bus.
    fn slots_to(&self, place: usize) -> Vec<usize>;

    /// Its load when its counters were last read.
    fn load(&self) -> Load;

    /// Sets the routes by slot, and returns when they are in force. Slots whose route changed count
    /// from 0 again.
    fn set_routes(&self, routes: Vec<Option<Route>>);
}

/// A route of the fast path. Its slot says which port it leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Destination network.
    pub address: Ipv4Addr,
    /// Its prefix length, 1 to 32: a card forwards nothing to 0.0.0.0.
    pub len: u8,
    /// Ethernet address of the next hop.
    pub mac: [u8; 6],
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

/// How much traffic a port has, and of which kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Frames forwarded by each route slot since its route was set.
    pub routes: Vec<u64>,
    /// Frames enqueued to the host.
    pub to_host: u64,
    /// IPv4 packets that the host received.
    pub seen: u64,
    /// The destinations of the last of them, latest first.
    pub recent: Vec<Ipv4Addr>,
}
