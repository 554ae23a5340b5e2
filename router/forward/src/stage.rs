//! The stages of the loop, to say how long each takes.

/// What is done with a batch, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Packets come from the port's queue, which gets free frames back.
    Receive,
    /// [`crate::parse()`].
    Parse,
    /// [`crate::source_check()`].
    SourceCheck,
    /// [`crate::classify()`].
    Classify,
    /// [`crate::lookup()`].
    Lookup,
    /// [`crate::rewrite()`].
    Rewrite,
    /// [`crate::enqueue()`], punts and drops.
    Enqueue,
    /// Packets leave their queues for the transmit ring.
    Transmit,
}

impl Stage {
    /// All of them, in order.
    pub const ALL: [Self; 8] = [
        Self::Receive,
        Self::Parse,
        Self::SourceCheck,
        Self::Classify,
        Self::Lookup,
        Self::Rewrite,
        Self::Enqueue,
        Self::Transmit,
    ];

    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Receive => "receive",
            Self::Parse => "parse",
            Self::SourceCheck => "source check",
            Self::Classify => "classify",
            Self::Lookup => "look-up",
            Self::Rewrite => "rewrite",
            Self::Enqueue => "enqueue",
            Self::Transmit => "transmit",
        }
    }
}
