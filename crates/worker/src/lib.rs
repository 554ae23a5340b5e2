//! Who does it: a thread a core.
//!
//! A [`Worker`] owns receive queues and a transmit ring of every port, or shares them with others
//! ([`Reception`], [`Share`]) by rings with one writer and one reader; nothing else on its way is shared but the
//! published tables, its counters (one writer) and the ring to the slow path.

#![forbid(unsafe_code)]

mod command;
mod counters;
mod flight;
mod leave;
mod mode;
mod punt;
mod receive;
mod share;
mod spread;
mod transmit;
mod worker;

pub use bora_port::Bell;
pub use counters::{ClassCounters, Counter, PortCounters, RuleCounters, WorkerCounters};
pub use leave::{Departure, reunite};
pub use mode::{BACKLOG, Mode};
pub use punt::{Budgets, PuntRings, Punted};
pub use share::{Member, Owner, Share, share};
pub use spread::{Reception, Spreader, spread};
pub use worker::{
    BUDGET, Command, Commands, QUOTA, Returned, Returns, Worker, WorkerConfig, WorkerPort,
};
