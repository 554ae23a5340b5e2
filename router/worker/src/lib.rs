//! Who does it: a thread a core.
//!
//! A [`Worker`] owns receive queues and a transmit ring of every port, or shares them with other workers
//! ([`Reception`], [`Share`]) through rings with one writer and one reader. Workers share nothing else
//! but the published tables, their counters (one writer each) and the ring to the slow path.

#![forbid(unsafe_code)]

mod byte_limit;
mod command;
mod config;
mod counters;
mod drain;
mod forward;
mod handover;
mod mode;
mod profile;
mod punt;
mod receive;
mod replace;
mod rest;
mod share;
mod sleep;
mod spread;
mod tables;
mod transmit;
mod watch;
mod worker;

pub use bora_port::Bell;
pub use config::{
    Command, Commands, QUOTA, Returned, Returns, WorkerConfig, WorkerPort, free_frames,
};
pub use counters::{ClassCounters, PortCounters, WorkerCounters};
pub use handover::Handover;
pub use mode::Mode;
pub use profile::ProfileCounters;
pub use punt::{Budgets, PuntRings, Punted};
pub use replace::merge_parts;
pub use share::{Member, Owner, Share, share};
pub use spread::{Reception, Spreader, spread};
pub use tables::{BUDGET, Intake, Published, Tables};
pub use worker::Worker;
