//! Which neighbours packets were sent to: a bit for each hash of a device and an address, which readers set and
//! the writer clears. The XDP program sets them too (`router/xdp/bpf/marks.h`), where only Linux's FIB knows the neighbour.
//!
//! Neighbours that share a bit are taken for used together, which costs one question of Linux now and then.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use bora_contract::USE_MARKS;

use crate::region::{PAGE, Pages, Region};

/// The golden ratio of 2^32; a multiplication by it spreads the bits (Knuth, TAOCP 3, 6.4).
const SPREAD: u32 = 0x9e37_79b1;

/// The bit of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UseMark(NonZeroU32);

impl UseMark {
    /// Mark of the neighbour with this address behind this interface index.
    pub fn new(device: u32, address: IpAddr) -> Self {
        let octets = match address {
            IpAddr::V4(address) => &address.octets()[..],
            IpAddr::V6(address) => &address.octets()[..],
        };
        let words = octets.as_chunks().0.iter();
        let hash = words.fold(device.wrapping_mul(SPREAD), |hash, &word| {
            (hash ^ u32::from_ne_bytes(word)).wrapping_mul(SPREAD)
        });
        let bit = hash >> (u32::BITS - USE_MARKS.ilog2());
        Self(NonZeroU32::new(bit).unwrap_or(NonZeroU32::MIN)) // 0 stands for none
    }

    /// Its number.
    pub fn get(self) -> u32 {
        self.0.get()
    }

    fn place(self) -> (usize, u64) {
        (self.get() as usize / 64, 1 << (self.get() % 64))
    }
}

/// Memory of all bits.
pub(crate) const OCTETS: usize = USE_MARKS as usize / 8;

/// All bits.
#[derive(Debug)]
pub(crate) struct Marks(Region);

impl Marks {
    /// Makes the bits, in a BPF map of `USE_MARKS` bits, if there is one; `None` if the system refuses.
    pub(crate) fn new(map: Option<BorrowedFd<'_>>) -> Option<Self> {
        let region = match map {
            Some(map) => Region::in_map(OCTETS, Pages::Small, map, 0..(OCTETS / PAGE) as u32),
            None => Region::reserve(OCTETS, Pages::Small),
        };
        region.map(Self)
    }

    /// Records a use.
    #[inline]
    pub(crate) fn note(&self, mark: UseMark) {
        let (word, bit) = mark.place();
        let word = &self.0.words64()[word];
        // test first, so that readers which all send there share the cache line
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Whether a use was recorded since the last call for this bit.
    pub(crate) fn take(&self, mark: UseMark) -> bool {
        let (word, bit) = mark.place();
        let word = &self.0.words64()[word];
        word.load(Ordering::Relaxed) & bit != 0 && {
            word.fetch_and(!bit, Ordering::Relaxed);
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn neighbours_have_bits_of_their_own() {
        let v4 = (0..50_000u32).map(|host| IpAddr::from((0x0a00_0000 + host).to_be_bytes()));
        let v6 =
            (0..50_000u128).map(|host| IpAddr::from(((0x2001_0db8 << 96) + host).to_be_bytes()));
        let marks: HashSet<_> = v4
            .chain(v6)
            .map(|address| UseMark::new(7, address))
            .collect();
        assert!(marks.len() > 98_000, "{} of 100 000", marks.len());
        assert!(marks.iter().all(|mark| mark.get() < USE_MARKS));
    }

    #[test]
    fn a_use_is_taken_once() {
        let marks = Marks::new(None).unwrap();
        let [one, other] = [1, 2].map(|device| UseMark::new(device, [10, 0, 0, 1].into()));
        marks.note(one);
        marks.note(one);
        assert_eq!(
            [one, other, one].map(|mark| marks.take(mark)),
            [true, false, false]
        );
    }
}
