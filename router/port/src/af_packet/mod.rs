//! AF_PACKET sockets (packet(7)): any interface of Linux, without its driver's help.
//!
//! Linux receives every packet as well. A port of this kind must have its interface to itself: no
//! addresses on it, no ARP, no IPv6, and strict reverse-path filtering, which finds no way back
//! through it and drops what Linux would forward or answer a second time (docs/ports.md).

mod queue;
mod socket;

pub use queue::Queue;
pub use socket::OpenError;
