//! The XDP program of `router/xdp/bpf/bora.bpf.c`: loading, its maps, its counters, its attachments. Beside it, the programs that
//! put frames in, and that try what Linux does with multipath routes.

#![cfg_attr(
    not(test),
    warn(
        clippy::disallowed_methods,
        clippy::let_underscore_must_use,
        clippy::map_err_ignore
    )
)]

/// The module `skeleton`: what build.rs has generated for a program of `router/xdp/bpf`.
macro_rules! skeleton {
    ($program:literal) => {
        #[allow(
            clippy::all,
            missing_docs,
            unreachable_pub,
            clippy::undocumented_unsafe_blocks
        )]
        mod skeleton {
            include!(concat!(env!("OUT_DIR"), "/", $program, ".skel.rs"));
        }
    };
}

mod ask;
mod counters;
mod destinations;
mod devices;
mod error;
mod fib;
mod flows;
mod front;
mod generation;
pub mod inject;
mod link;
pub mod multipath;
pub mod pppoe;
mod program;
mod query;
mod rules;
mod survey;
pub(crate) mod symbols;
mod trust;
mod watch;

skeleton!("bora");

pub use ask::{Parts, ProgramAnswer, Questions};
pub use bora_contract::{MAX_PORTS, MAX_QUEUES, Path, PortSettings};
pub use counters::Counters;
pub use destinations::LinuxDestinations;
pub use devices::{OnPorts, TunnelKey};
pub use error::ProgramError;
pub use fib::{FibAnswer, GracePeriods};
pub use link::{AttachError, AttachMode, Attachment};
pub use program::{Lease, Program};
pub use query::{XdpQuery, query};
pub use rules::{RulePages, RulesAnswer, TooLarge};
pub use survey::{DeviceHooks, HOOKS, Hook, HookIdentity, LOCAL_HOOKS, Survey};
pub use symbols::names_of;
pub use trust::Trust;
pub use watch::{Allowances, MAX_WATCHERS, SeenPackets};
