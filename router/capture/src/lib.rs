//! `bora capture`, `bora trace` and samples: which packets are wanted, and what is known of each.
//!
//! A [`Filter`] is a program of classic BPF, as libpcap compiles one. The kernel, as machine code
//! ([`front`]), and the workers (by a [`Subscription`]) run it on each packet while there is a capture or trace, and
//! make a [`Seen`] of those it takes. [`pcapng::Writer`] writes them as a capture file, [`sflow::Writer`]
//! as datagrams for collectors, and [`Heaviest`] finds what has the most traffic.

#![forbid(unsafe_code)]

mod filter;
mod front;
mod heaviest;
mod native;
pub mod pcapng;
mod seen;
pub mod sflow;
mod subscription;

pub use filter::{Filter, Instruction, MAX_INSTRUCTIONS};
pub use front::{Surroundings, front};
pub use heaviest::Heaviest;
pub use native::Native;
pub use seen::{HEAD, Outcome, SNAP, Seen, Tier, ip_offset};
pub use subscription::Subscription;
