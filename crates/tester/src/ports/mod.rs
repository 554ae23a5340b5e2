//! The tester's ports: opening them, and learning the addresses beyond.

mod spec;

pub use spec::{Attached, Kind, PortSpec};
