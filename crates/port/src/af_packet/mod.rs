//! AF_PACKET sockets (packet(7)): any interface of Linux, without its driver's help.
//!
//! Linux receives every packet as well. A port of this kind must have its interface to itself: no
//! addresses on it, and whatever arrives dropped behind the socket, with
//! `tc qdisc add dev DEV clsact; tc filter add dev DEV ingress matchall action drop`.

mod queue;
mod socket;

pub use queue::Queue;
pub use socket::{OpenError, StatsReader};
