//! Questions and answers, as the API has them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Most packets in one request.
pub const MOST: usize = 2048;

/// A packet that is asked about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Name of the port or device that it comes in by, whose tags are taken off.
    pub input: String,
    /// Its first octets, hexadecimal; zeros follow.
    pub head: String,
    /// Octets in all, with the Ethernet header.
    pub length: u32,
}

/// What a Bora does with a packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// What becomes of it.
    pub outcome: Outcome,
    /// `express` or `engine`, whichever decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// Name of the port or device that it leaves by, where the engine sends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Why it goes to Linux, or is dropped, where the engine decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its first octets as it leaves, hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frame: Option<String>,
    /// Octets in all as it leaves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<usize>,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It leaves.
    Sent,
    /// Linux has it.
    ToLinux,
    /// It goes no further.
    Dropped,
    /// Bora cannot say: it has no such port or device, the driver takes no questions, or the frame is too long.
    Unknown,
}

impl Verdict {
    /// Nothing else is known.
    pub fn of(outcome: Outcome) -> Self {
        Self {
            outcome,
            tier: None,
            output: None,
            reason: None,
            frame: None,
            length: None,
        }
    }

    /// Whether the packet goes the same way. Reasons may have other names in another version.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.outcome, &self.output, &self.frame, self.length)
            == (other.outcome, &other.output, &other.frame, other.length)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(tier) = &self.tier {
            write!(f, "{tier}: ")?;
        }
        f.write_str(match self.outcome {
            Outcome::Sent => "sent",
            Outcome::ToLinux => "to Linux",
            Outcome::Dropped => "dropped",
            Outcome::Unknown => "cannot say",
        })?;
        if let Some(output) = &self.output {
            write!(f, " by {output}")?;
        }
        if let Some(reason) = &self.reason {
            write!(f, " ({reason})")?;
        }
        match (&self.frame, self.length) {
            (Some(frame), Some(length)) => write!(f, ", {length} octets: {frame}"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_do_not_count() {
        let left = |reason: &str| Verdict {
            reason: Some(reason.into()),
            ..Verdict::of(Outcome::ToLinux)
        };
        assert!(left("no_route").is_same(&left("unreachable")));
        assert!(!left("no_route").is_same(&Verdict::of(Outcome::Dropped)));
        let sent = |frame: &str| Verdict {
            frame: Some(frame.into()),
            length: Some(60),
            ..Verdict::of(Outcome::Sent)
        };
        assert!(!sent("00").is_same(&sent("01")));
        let shorter = Verdict {
            length: Some(59),
            ..sent("00")
        };
        assert!(!sent("00").is_same(&shorter));
        assert_eq!(sent("00").to_string(), "sent, 60 octets: 00");
    }
}
