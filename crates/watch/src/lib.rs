//! `bora capture` and `bora trace`: which packets somebody wants to see, and what is known of each.
//!
//! A [`Filter`] is a program of classic BPF, as libpcap compiles one. The XDP program's part (`xdp/watch.bpf.c`)
//! and the workers (by a [`Tap`]) run it on the first octets of each packet while somebody watches, and make a
//! [`Sighting`] of those it takes. [`pcapng::Writer`] writes them as a capture file.

#![forbid(unsafe_code)]

mod filter;
pub mod pcapng;
mod sighting;
mod tap;

pub use filter::{Filter, Instruction, MAX_INSTRUCTIONS};
pub use sighting::{HEAD, Outcome, SNAP, Sighting, Tier, ip_offset};
pub use tap::Tap;
