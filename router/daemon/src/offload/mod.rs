//! What Bora lets ports forward by themselves that can (`bora_port::offload`).

mod candidate;
mod choose;
mod slots;

pub(crate) use candidate::Surroundings;
pub(crate) use slots::{Offload, OffloadReport};
