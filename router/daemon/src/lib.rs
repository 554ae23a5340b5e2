//! The daemon: from configuration to running ports and workers, and the API that shows them.
//!
//! [`Router`] is the loop. `data_plane` holds what forwards, `apply` the configuration in force, and
//! `reports` what `bora show` shows.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    warn(
        clippy::disallowed_methods,
        clippy::let_underscore_must_use,
        clippy::map_err_ignore
    )
)]

mod answers;
mod api;
mod apply;
mod canary;
mod captures;
mod check;
mod config;
mod data_plane;
mod devices;
mod engine;
mod express;
mod guard;
mod hex;
mod live;
mod multipath;
mod offload;
mod page;
mod policy;
mod ports;
mod process;
mod proof;
mod reports;
mod router;
mod rules;
mod sampling;

pub use bora_prove::{Doubt, Doubted, PATIENCE};
pub use bora_worker::Mode;

pub use api::{Api, is_this_machine};
pub use apply::ApplyReport;
pub use canary::{Asked, Beside, MOST, Outcome, Verdict};
pub use check::machine::{check_all, check_machine};
pub use check::probe::{Probe, Probed, try_flows, try_program};
pub use config::{
    AddressMatch, AddressSet, ApiSection, BroughtKind, ClassSection, CodePoint, Collectors,
    DscpMatch, DscpSection, FibSection, File, FirewallSection, FlowChoice, LinuxSection,
    PathChoice, PcpMatch, PortKind, PortSection, Ports, Problem, ProtocolMatch, QueuesSection,
    Rate, RuleAction, RuleSection, SflowSection, StationAddress, Step, Table, TosMatch, TwinKind,
    Via, WorkersSection, bring, schema,
};
pub use live::report::{
    ByReason, DeviceNow, Event, EventKind, FibNow, FlowNow, GuardNow, History, Now, Packets,
    PortHistory, PortNow, PortRates, QueueNow, RuleNow, Severity, SyncNow, WorkerNow,
};
pub use ports::another::AnothersPort;
pub use process::calls::{Caller, Inbox};
pub use process::cpus::choose_cpus;
pub use process::private;
pub use process::runtime_dir::{RuntimeDir, other_namespaces};
pub use process::timeouts::{Patient, PatientIo};
pub use proof::watch_linux;
pub use reports::trace::{Explanation, Traced};
pub use reports::{Argument, REPORTS, Report, Request};
pub use router::{Router, detach_leftovers};
pub use sampling::five_tuple::Flow;
