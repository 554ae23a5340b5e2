//! The daemon: from configuration to running ports and workers, and the API that shows them.
#![forbid(unsafe_code)]

mod answers;
mod api;
mod apply;
mod change;
mod config;
mod divide;
mod engine;
mod follow;
mod forgetful;
mod hero;
mod hooks;
mod lease;
mod multipath;
mod offloads;
mod place;
mod ports;
mod probe;
mod report;
mod router;
mod rules;
mod spec;
mod told;
mod topology;
mod totals;
mod twin;

pub use bora_worker::Mode;

pub use api::{Call, Caller, listen, serve};
pub use apply::ApplyOptions;
pub use config::{
    Action, AddressMatch, Bypass, ClassSection, CodePoint, DscpMatch, DscpSection, FibSection,
    File, LinuxSection, PathChoice, PcpMatch, PortConfig, PortSection, Ports, Problem,
    ProtocolMatch, QueuesSection, Rate, RuleAction, RuleSection, RunConfig, Step, Table, TosMatch,
    Via, WorkersSection, diff, schema,
};
pub use hero::HeroSpec;
pub use place::{Place, other_places};
pub use probe::{Probe, Probed, try_program};
pub use report::{
    ApplyReport, ClassReport, DropsReport, FibFamilyReport, FibReport, FramesReport,
    NeighbourReport, OffloadReport, PortReport, RefusalReport, RouteReport, RuleReport, SyncReport,
    WorkerReport,
};
pub use router::{Router, detach_leftovers};
pub use spec::{PortSpec, TwinSpec, Wire};
pub use topology::place;
