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

mod api;
mod apply;
mod calls;
mod class_counts;
mod clock;
mod config;
mod data_plane;
mod devices;
mod divide;
mod engine;
mod express;
mod fair;
mod fib_rates;
mod five_tuple;
mod flows;
mod guard_watch;
mod history;
mod hooks;
mod inject;
mod interruption;
mod lease;
mod live;
mod metrics;
mod multipath;
mod offload;
mod offloads;
mod page;
mod patience;
mod policy;
mod port_table;
mod ports;
mod preflight;
pub mod private;
mod probe;
mod program_tables;
mod program_watch;
mod reclaim;
mod reports;
mod rights;
mod router;
mod rules;
mod runtime_dir;
mod sampling;
mod threads;
mod topology;
mod totals;
mod trace;
mod turn;
mod twin;
mod unconfirmed;
mod watches;

pub use bora_worker::Mode;

pub use api::{Api, is_this_machine};
pub use apply::ApplyReport;
pub use calls::{Caller, Inbox};
pub use config::{
    AddressMatch, AddressSet, ApiSection, BroughtKind, ClassSection, CodePoint, Collectors,
    DscpMatch, DscpSection, FibSection, File, LinuxSection, PathChoice, PcpMatch, PortKind,
    PortSection, Ports, Problem, ProtocolMatch, QueuesSection, Rate, RuleAction, RuleSection,
    SflowSection, StationAddress, Step, Table, TosMatch, TwinKind, Via, WorkersSection, bring,
    schema,
};
pub use five_tuple::Flow;
pub use live::report::{
    ByReason, DeviceNow, Event, EventKind, FibNow, FlowNow, GuardNow, History, Now, Packets,
    PortHistory, PortNow, PortRates, QueueNow, RuleNow, Severity, SyncNow, WorkerNow,
};
pub use patience::{Patient, PatientIo};
pub use preflight::{check_all, check_machine};
pub use probe::{Probe, Probed, try_flows, try_program};
pub use reports::{Argument, REPORTS, Report, Request};
pub use router::{Router, detach_leftovers};
pub use runtime_dir::{RuntimeDir, other_namespaces};
pub use topology::choose_cpus;
pub use trace::{Explanation, Traced};
