//! `bora capture` and `bora trace`: which packets somebody wants to see, and what is known of each.
//!
//! A [`Filter`] is a program of classic BPF, as libpcap compiles one. The kernel, as machine code
//! ([`front`]), and the workers (by a [`Tap`]) run it on each packet while somebody watches, and make a [`Sighting`] of
//! those it takes. [`pcapng::Writer`] writes them as a capture file.

#![forbid(unsafe_code)]

mod filter;
mod front;
mod native;
pub mod pcapng;
mod sighting;
mod tap;

pub use filter::{Filter, Instruction, MAX_INSTRUCTIONS};
pub use front::{Surroundings, front};
pub use native::Native;
pub use sighting::{HEAD, Outcome, SNAP, Sighting, Tier, ip_offset};
pub use tap::Tap;
