//! Networks on one machine: namespaces and veth pairs, a router between two hosts, the demo.
#![forbid(unsafe_code)]

pub mod demo;
mod netns;
mod testbed;

pub use netns::{Namespace, remove_leftovers};
pub use testbed::{Daemon, Measured, Network, Subject, Testbed, Traffic};
