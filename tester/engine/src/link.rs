//! How a stream's frames are addressed on the link.

use bora_wire::MacAddr;

/// Ethernet addresses of a stream's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The sending port's own.
    pub source: MacAddr,
    /// The router's, or in a test of a switch that of the receiving port.
    pub next_hop: MacAddr,
}
