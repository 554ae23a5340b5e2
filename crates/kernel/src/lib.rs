//! The slow path: Linux. It is the source of truth for links, addresses, routes and neighbours,
//! and it gets every packet that Bora does not understand.
//!
//! - [`Mirror`] follows the kernel over netlink and reconciles by dump and diff.
//! - [`Routes`] turns what the mirror hears into the FIB.
//! - [`sysctl`] reads the settings that decide forwarding.
//! - [`SlowPath`] hands punted packets to the kernel as if just received.
#![forbid(unsafe_code)]

mod mirror;
mod netlink;
mod routes;
mod slow_path;
pub mod sysctl;

pub use mirror::{Changes, Link, Mirror, MirrorStats, Reconciliation};
pub use netlink::{Decoded, NetlinkError, decode};
pub use routes::{Difference, Net, PortInfo, Route, RouteKind, Routes, Via};
pub use slow_path::{SlowPath, SlowPathCounters};
