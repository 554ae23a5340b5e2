//! Whether a card has a link.

use std::fmt;

/// Whether packets can pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// Yes.
    Up,
    /// No, and why.
    Down(String),
}

impl fmt::Display for LinkState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Down(reason) => write!(f, "down: {reason}"),
            Self::Up => f.write_str("up"),
        }
    }
}
