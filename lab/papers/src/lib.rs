//! The experiments of the five papers that Bora comes from: what each paper measured, what carries
//! the experiment out today, and what must hold.
//!
//! The papers are data, one TOML file each in `papers/`; `papers/works.toml` says once how each piece
//! of work is carried out. The work itself is elsewhere: in the benches, in the tester's plans, and
//! in HERO's bench. An [`Experiment`] names a work, chooses among its rows, and checks them.
#![forbid(unsafe_code)]

mod check;
mod page;
mod paper;
mod row;
mod run;
mod table;
mod work;

pub use check::{Checked, Verdict, verdict};
pub use paper::{Experiment, Paper, papers};
pub use run::{Options, Outcome, run};
pub use table::{list, write};
