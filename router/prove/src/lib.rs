//! Asks Linux what it does with packets, asks Bora, and compares.
//!
//! Bora's other checks compare its tables with what its mirror understood of Linux's tables. A mistake of the mirror is in both, so
//! they agree. Here Linux itself answers, packet by packet, by `RTM_GETROUTE`; the answers are decoded by another library than the
//! mirror's; and Bora's answers come from the stages that its workers run.
//!
//! A question is a packet: what it comes in by, its addresses, TOS, protocol and ports. Between the borders of all prefixes, rules
//! and local addresses the answers cannot change, so that the first address of each such interval, and one inside, stand for all
//! ([`Walk`]). Bora may leave any packet to Linux: Linux forwards it then. Everything else must be what
//! Linux does.
#![forbid(unsafe_code)]

mod answer;
mod asker;
mod borders;
mod decide;
mod doubt;
mod exchange;
mod judge;
mod linux;
mod program;
mod question;
mod readers;
mod surroundings;
mod walk;
mod words;

pub use asker::{Asker, Difference, Progress};
pub use borders::ends;
pub use decide::Decider;
pub use doubt::{Doubt, Doubted, PATIENCE};
pub use exchange::ProveError;
pub use linux::Linux;
pub use question::{CardRoute, Entry, Input, Question, Tags};
pub use walk::Walk;
