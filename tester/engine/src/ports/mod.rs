//! The tester's ports: opening them, and learning the addresses beyond.

mod af_xdp;
mod drops;
mod hosts;
mod info;
mod learn;
mod management;
mod neighbour;
pub mod netns;
mod open;
mod redirect;
mod side;
mod spec;

pub use info::{PortInfo, VIRTUAL_SPEED};
pub use open::{Options, Port, open};
pub use side::Side;
pub use spec::{Attached, Kind, PortSpec};

pub(crate) use hosts::Neighbours;
pub(crate) use learn::learn;

/// Octets of a frame around its packet: Ethernet header and FCS.
pub(crate) const ETHERNET_AND_FCS: usize = 18;
