//! `bora upgrade --canary`: one binary decides about the packets that another one forwards, and both say what they do with each. The
//! running Bora answers `POST /v1/decide` ([`Deciding`]); the one that is to replace it has tables of its own ([`Beside`]). No
//! packet is sent or counted by either.

mod beside;
mod deciding;
mod judge;
mod verdict;

pub use beside::Beside;
pub(crate) use deciding::Deciding;
pub use verdict::{Asked, MOST, Outcome, Verdict};
