//! Mirrors Linux's links, addresses, neighbours and routes into Bora's FIB, and keeps the FIB equal
//! to them.
//!
//! [`Mirror`] follows netlink events. It also compares with dumps, because events are not enough:
//! the kernel deletes IPv4 routes silently, and drops events when a socket overflows.
//! [`GuardReport`] says what must stay with the kernel altogether.
//!
//! ```no_run
//! use std::collections::BTreeMap;
//! use std::time::Duration;
//!
//! use bora_mirror::{Mirror, MirrorConfig, Port};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (writer, _handle) = bora_fib::new(bora_fib::FibConfig::default())?;
//! let mut mirror = Mirror::open(MirrorConfig::default(), writer)?;
//! let port = Port { id: bora_fib::PortId(0), mac: [2, 0, 0, 0, 0, 1], mtu: 1500, shaped: false, tunnel: None, peer: None };
//! mirror.set_ports(BTreeMap::from([(3, port)]))?;
//! loop {
//!     let changes = mirror.poll(Duration::from_secs(1))?;
//!     if changes.settings {
//!         println!("{:?}", mirror.settings());
//!     }
//! }
//! # }
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    warn(
        clippy::disallowed_methods,
        clippy::let_underscore_must_use,
        clippy::map_err_ignore
    )
)]

mod audit;
mod bridge;
mod check;
mod choice;
mod compared;
mod confirm;
mod digest;
mod error;
mod exceptions;
mod family;
mod guard;
mod keys;
mod load;
pub mod message;
mod mirror;
mod model;
mod nexthops;
mod path_mtu;
mod policy;
mod prefix_routes;
mod read_routes;
mod reader;
mod reading;
mod request;
mod resolve;
mod rib;
mod rules;
pub mod scratch;
mod socket;
mod status;
mod sysctl;
mod verification;
mod verify;
mod view;
mod waker;
mod world;

use bora_linux::attribute;
pub use bora_ruleset::Transit;
pub use bridge::Bridges;
pub use error::KernelError;
pub use guard::{Firewall, FlowOffload, Flowtable, GuardReport, Reason, ReasonKind};
pub use message::bridge::{BridgeEvent, BridgePort, BridgeVlan, Station};
pub use mirror::{Changes, HeldHop, Mirror, MirrorConfig};
pub use nexthops::SharedHops;
pub use rules::Rules;
pub use status::{Difference, FamilyCounts, Reconciliation, SyncStatus, Unsupported};
pub use sysctl::{HashPolicy, InterfaceSettings, Settings};
pub use verification::Verification;
pub use view::{RoutePlace, RouteView};
pub use waker::Waker;
pub use world::{LocalAddresses, Port, Tunnel};
