//! Ports that are HERO cards: how they are named, and what Bora lets them forward by themselves.

mod candidate;
mod choose;
mod offload;
mod spec;

pub(crate) use offload::Offload;
pub use spec::HeroSpec;
pub(crate) use spec::parse;
