//! Asks Linux whether it does what Bora does: once about everything ([`Proofs`]), and all the time about a little ([`watch_linux`]).

mod distrust;
mod everything;
pub(crate) mod facts;
mod watch;

pub(crate) use everything::{ProofOptions, Proofs};
pub use watch::watch_linux;
