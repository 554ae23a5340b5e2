//! Values of which only some bits are known, and conditions that hold perhaps.

use crate::report::Class;

/// An octet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Byte {
    /// Bits that are known.
    known: u8,
    /// Their values; 0 where a bit is not known.
    value: u8,
    /// Bits that may vary from packet to packet of a flow.
    varying: u8,
}

impl Byte {
    /// Not known, but constant in a flow.
    pub(crate) const CONSTANT: Self = Self::new(0, 0, 0);
    /// May be anything, in each packet.
    pub(crate) const VARYING: Self = Self::new(0, 0, 0xff);

    const fn new(known: u8, value: u8, varying: u8) -> Self {
        Self {
            known,
            value: value & known,
            varying: varying & !known,
        }
    }

    pub(crate) const fn known(value: u8) -> Self {
        Self::new(0xff, value, 0)
    }

    /// Some bits are known, all others vary.
    pub(crate) const fn partly(known: u8, value: u8) -> Self {
        Self::new(known, value, 0xff)
    }

    /// Some bits are known, some vary, all others are constant.
    pub(crate) const fn mixed(known: u8, value: u8, varying: u8) -> Self {
        Self::new(known, value, varying)
    }

    /// `(self & mask) ^ xor`
    pub(crate) fn masked(self, mask: u8, xor: u8) -> Self {
        let value = (self.value & mask) ^ xor;
        Self::new(self.known | !mask, value, self.varying & mask)
    }

    /// `(self & !mask) ^ other`, where `other` is 0 outside of what it sets.
    pub(crate) fn xor(self, other: Self) -> Self {
        let varying = self.varying | other.varying;
        Self::new(self.known & other.known, self.value ^ other.value, varying)
    }

    /// What is known if it is this one or the other one; which one depends on `class`.
    pub(crate) fn or(self, other: Self, class: Class) -> Self {
        let known = self.known & other.known & !(self.value ^ other.value);
        let varying = match class {
            Class::Varying => 0xff,
            Class::Constant => self.varying | other.varying,
        };
        Self::new(known, self.value, varying)
    }

    fn lowest(self) -> u8 {
        self.value
    }

    fn highest(self) -> u8 {
        self.value | !self.known
    }
}

/// On what the bits depend that are not known.
pub(crate) fn class(bytes: &[Byte]) -> Class {
    if bytes.iter().any(|byte| byte.varying != 0) {
        Class::Varying
    } else {
        Class::Constant
    }
}

/// A number of which nothing is known but what it depends on.
pub(crate) fn forget(bytes: [Byte; 4]) -> [Byte; 4] {
    match class(&bytes) {
        Class::Constant => [Byte::CONSTANT; 4],
        Class::Varying => [Byte::VARYING; 4],
    }
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Truth {
    Never,
    Perhaps(Class),
    Surely,
}

impl Truth {
    pub(crate) const CONSTANT: Self = Self::Perhaps(Class::Constant);
    pub(crate) const VARYING: Self = Self::Perhaps(Class::Varying);

    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Never, _) | (_, Self::Never) => Self::Never,
            (Self::Surely, truth) | (truth, Self::Surely) => truth,
            (Self::Perhaps(a), Self::Perhaps(b)) => Self::Perhaps(a.max(b)),
        }
    }

    pub(crate) fn inverted_if(self, inverted: bool) -> Self {
        match self {
            Self::Never if inverted => Self::Surely,
            Self::Surely if inverted => Self::Never,
            truth => truth,
        }
    }

    pub(crate) fn of(holds: bool) -> Self {
        Self::Never.inverted_if(holds)
    }
}

/// Whether a value equals a constant of this length.
pub(crate) fn equals(bytes: &[Byte], data: &[u8]) -> Truth {
    let pairs = || bytes.iter().zip(data);
    if pairs().any(|(byte, data)| (byte.value ^ data) & byte.known != 0) {
        Truth::Never
    } else if pairs().all(|(byte, _)| byte.known == 0xff) {
        Truth::Surely
    } else {
        Truth::Perhaps(class(bytes))
    }
}

/// Whether a value is between two constants of its length, both included.
pub(crate) fn between(bytes: &[Byte], low: &[u8], high: &[u8]) -> Truth {
    let lowest: Vec<u8> = bytes.iter().map(|byte| byte.lowest()).collect();
    let highest: Vec<u8> = bytes.iter().map(|byte| byte.highest()).collect();
    if highest.as_slice() < low || lowest.as_slice() > high {
        Truth::Never
    } else if lowest.as_slice() >= low && highest.as_slice() <= high {
        Truth::Surely
    } else {
        Truth::Perhaps(class(bytes))
    }
}

/// Whether a value is less than a constant of its length, or also equal.
pub(crate) fn less(bytes: &[Byte], data: &[u8], or_equal: bool) -> Truth {
    let zeros = vec![0; data.len()];
    if or_equal {
        between(bytes, &zeros, data)
    } else {
        let ones = vec![0xff; data.len()];
        between(bytes, data, &ones).inverted_if(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_decide_what_they_can() {
        // flags of TCP without SYN, FIN and RST
        let flags = [Byte::partly(0x07, 0)];
        let masked = |mask| [flags[0].masked(mask, 0)];
        assert_eq!(equals(&masked(0x17), &[0x02]), Truth::Never);
        assert_eq!(equals(&masked(0x07), &[0]), Truth::Surely);
        assert_eq!(equals(&masked(0x10), &[0x10]), Truth::VARYING);
        assert_eq!(equals(&flags, &[0]), Truth::VARYING);
        assert_eq!(equals(&[Byte::CONSTANT], &[7]), Truth::CONSTANT);
    }

    #[test]
    fn order_follows_from_the_known_bits() {
        let ports = [Byte::known(1), Byte::CONSTANT]; // 256 to 511
        assert_eq!(less(&ports, &[1, 0], false), Truth::Never);
        assert_eq!(less(&ports, &[2, 0], false), Truth::Surely);
        assert_eq!(less(&ports, &[1, 0xff], true), Truth::Surely);
        assert_eq!(less(&ports, &[1, 0xff], false), Truth::CONSTANT);
        assert_eq!(between(&ports, &[0, 0], &[1, 0x10]), Truth::CONSTANT);
        assert_eq!(between(&ports, &[2, 0], &[3, 0]), Truth::Never);
    }

    #[test]
    fn two_ways_know_what_they_agree_on() {
        let (a, b) = (Byte::known(0x0f), Byte::known(0x0d));
        let either = a.or(b, Class::Constant);
        assert_eq!(equals(&[either.masked(0xfd, 0)], &[0x0d]), Truth::Surely);
        assert_eq!(equals(&[either], &[0x0d]), Truth::CONSTANT);
        assert_eq!(equals(&[a.or(b, Class::Varying)], &[0x0d]), Truth::VARYING);
        assert_eq!(a.or(a, Class::Varying), a);
        let mark = Byte::CONSTANT.masked(0xf0, 0).xor(Byte::known(3));
        assert_eq!(equals(&[mark.masked(0x0f, 0)], &[3]), Truth::Surely);
    }
}
