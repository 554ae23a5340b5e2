//! Ports that are HERO cards: what Bora lets them forward by themselves.

mod candidate;
mod choose;
mod offload;

pub(crate) use candidate::Surroundings;
pub(crate) use offload::{Offload, OffloadReport};
