//! Traffic classes.

/// Most classes an output has; the number of IEEE 802.1Q.
pub const MAX_CLASSES: usize = 8;

/// A packet's priority: the higher number goes first, 0 is best effort (as IEEE 802.1Q numbers
/// its traffic classes).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Class(pub u8);

impl Class {
    /// What is not marked otherwise.
    pub const BEST_EFFORT: Self = Self(0);
    /// The upper one of the two priorities there are without configuration.
    pub const HIGH: Self = Self(1);
}
