//! What becomes of a packet.

use bora_contract::Reason;
use bora_fib::PortId;
use bora_wire::Error;

/// The decision about one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// Not decided yet.
    #[default]
    Pending,
    /// Leaves by this port.
    Forward(PortId),
    /// Goes to Linux unchanged, which answers in its own way.
    Punt(Reason),
    /// Goes no further.
    Drop(Reason),
}

impl From<Error> for Verdict {
    fn from(error: Error) -> Self {
        Self::Drop(match error {
            Error::BadVersion => Reason::BadVersion,
            Error::BadHeaderLength => Reason::BadHeaderLength,
            Error::BadTotalLength => Reason::BadTotalLength,
            Error::BadChecksum => Reason::BadChecksum,
            _ => Reason::Truncated,
        })
    }
}
