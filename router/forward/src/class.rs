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

/// The classes of the 64 code points (DSCP) by the bits of the class: bit `d` of `planes[b]` is bit `b` of the class of code point `d`. So
/// vector instructions find the classes of many packets without a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planes([u64; 3]);

impl Planes {
    pub(crate) fn new(classes: &[Class; 64]) -> Self {
        let plane = |bit: u32| {
            let bits = classes.iter().zip(0..);
            bits.fold(0, |plane, (class, dscp)| {
                plane | u64::from(class.0 >> bit & 1) << dscp
            })
        };
        Self([plane(0), plane(1), plane(2)])
    }

    /// The class of packets with this TOS or traffic class, which is below 2^8.
    #[inline(always)]
    pub(crate) fn class(&self, tos: u64) -> u64 {
        let dscp = tos >> 2;
        let [low, middle, high] = self.0.map(|plane| plane >> dscp & 1);
        low | middle << 1 | high << 2
    }
}
