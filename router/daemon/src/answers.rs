//! What Linux's own answers have shown, for those who report it; [`crate::proof`] asks for them.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use bora_linux::lock;
use serde::{Serialize, Serializer};

/// Answers of Linux, shared with the thread that asks for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answers(Arc<Mutex<Watched>>);

/// Answers of Linux that were compared since the start.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Watched {
    /// All of them.
    pub(crate) compared: u64,
    /// Those where Bora does something else; each is in the log.
    pub(crate) differ: u64,
    /// Those that changed all the time.
    pub(crate) unsettled: u64,
    /// Prefixes that are left to Linux until it does what Bora does.
    pub(crate) distrusted: Vec<String>,
    /// Why Linux cannot be asked.
    pub(crate) why: Option<String>,
    /// The last proof about all addresses that came to its end.
    pub(crate) proof: Option<Proved>,
}

/// What a proof about all addresses has found.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Proved {
    /// Answers of Linux that were compared.
    pub(crate) compared: u64,
    /// Those where Bora does something else.
    pub(crate) differ: u64,
    /// When it ended.
    #[serde(serialize_with = "seconds_since")]
    pub(crate) ended: Instant,
}

fn seconds_since<S: Serializer>(then: &Instant, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(then.elapsed().as_secs())
}

impl Answers {
    /// What has been found.
    pub(crate) fn watched(&self) -> Watched {
        lock(&self.0).clone()
    }

    /// Changes it.
    pub(crate) fn note(&self, change: impl FnOnce(&mut Watched)) {
        change(&mut lock(&self.0));
    }
}
