//! Networks on one machine: namespaces and veth pairs, a router between two hosts, the demo.
#![forbid(unsafe_code)]

pub mod demo;
mod lab;
mod network;
mod testbed;

pub use bora_linux::netns::remove_own;
pub use lab::Lab;
pub use network::{Daemon, HOST_PORT, MOST_HOSTS, Napi, Network, Subject};
pub use testbed::{Measured, Offer, Testbed, Traffic};
