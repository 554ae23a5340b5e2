//! What Bora lets ports forward by themselves that can (`bora_port::offload`).

mod candidate;
mod choose;
mod offload;

pub(crate) use candidate::Surroundings;
pub(crate) use offload::{Offload, OffloadReport};
