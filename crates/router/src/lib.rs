//! The daemon: from configuration to running ports and workers, and the API that shows them.
#![forbid(unsafe_code)]

mod answers;
mod api;
mod config;
mod engine;
mod file;
mod lease;
mod place;
mod ports;
mod report;
mod router;
mod spec;
mod twin;

pub use bora_worker::Mode;

pub use api::{Call, Caller, listen, serve};
pub use config::{Bypass, PathChoice, RunConfig};
pub use file::{FibSection, File, LinuxSection, PortSection, Table, WorkersSection, schema};
pub use place::{Place, other_places};
pub use report::{
    DropsReport, FibFamilyReport, FibReport, NeighbourReport, PortReport, RouteReport, SyncReport,
    WorkerReport,
};
pub use router::{Router, detach_leftovers};
pub use spec::{PortSpec, TwinSpec, Wire};
