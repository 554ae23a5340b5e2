//! How a peer can break the rules of the rings.

/// What a peer did wrong. The link goes down for it, with this text as reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    /// The peer's ring index claims more slots than there are.
    #[error("ring index {theirs} is not within {size} slots of {ours}")]
    Index { ours: u16, theirs: u16, size: u16 },
    /// A descriptor that points outside the memory it was told of.
    #[error("buffer of {length} octets at {offset} is outside region {region}")]
    Buffer {
        region: u16,
        offset: u32,
        length: u32,
    },
    /// A packet in more buffers than `ring::LONGEST_CHAIN`.
    #[error("chain of more than {0} buffers")]
    Chain(u16),
    /// A buffer for no octets to write to.
    #[error("buffer of no octets")]
    Empty,
}
