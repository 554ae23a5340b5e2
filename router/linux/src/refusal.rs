//! What an interface or its driver would not do.

use std::fmt;

/// A step that was refused, and why; the next one was tried after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What was refused, such as `zero-copy`.
    pub step: String,
    /// What the kernel said.
    pub reason: String,
}

impl Refusal {
    /// A step that was refused, for a reason.
    pub fn new(step: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            step: step.into(),
            reason: reason.into(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} refused: {}", self.step, self.reason)
    }
}
