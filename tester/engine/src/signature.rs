//! What marks a frame as the tester's: 18 octets right behind the UDP header.
//!
//! | octets | field | meaning |
//! | --- | --- | --- |
//! | 0..2 | stream | index into [`crate::traffic::Traffic::streams`] |
//! | 2..4 | balance | makes the UDP checksum come out as the template has it |
//! | 4..10 | sequence | from 0 in each stream and trial |
//! | 10..16 | stamp | when the frame was due, ns of [`crate::clock::now`], 48 bits |
//! | 16..18 | check | of stream, sequence and stamp |
//!
//! All big endian. The BPF programs write and read the same octets.

use bora_wire::checksum::Sum;

/// Octets of a signature.
pub const LENGTH: usize = 18;

/// Bits of sequence and stamp.
pub const MASK: u64 = (1 << 48) - 1;

/// Factors of [`Signature::check`]: odd, with bits well spread (those of splitmix64, Steele 2014).
pub const FACTORS: [u64; 2] = [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb];
/// Keeps the check of zeros from being zero.
pub const MAGIC: u64 = 0xb07a;

/// A signature without its check and balance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Index of the stream.
    pub stream: u16,
    /// Number of the frame in its stream, 48 bits.
    pub sequence: u64,
    /// Due time, ns, 48 bits.
    pub stamp: u64,
}

impl Signature {
    /// Upper 16 bits of `(stream << 48 | sequence) * FACTORS[0] ^ (MAGIC << 48 | stamp) *
    /// FACTORS[1]`, modulo 2^64. Any one wrong bit shows, other damage but for one in 65536 times.
    #[inline]
    pub const fn check(self) -> u16 {
        let first = (self.stream as u64) << 48 | self.sequence & MASK;
        let second = self.stamp & MASK | MAGIC << 48;
        let mixed = first.wrapping_mul(FACTORS[0]) ^ second.wrapping_mul(FACTORS[1]);
        (mixed >> 48) as u16
    }

    /// The octets on the wire. `sum` is that of the addresses and ports, which the template's UDP
    /// checksum leaves out; the balance makes up for it and for the signature but its stream.
    #[inline]
    pub fn octets(self, sum: Sum) -> [u8; LENGTH] {
        let check = self.check();
        let (sequence, stamp) = (self.sequence & MASK, self.stamp & MASK);
        let balance = sum.add_u64(sequence).add_u64(stamp).add_u16(check).finish();
        let first = u128::from(self.stream) << 48 | u128::from(balance) << 32;
        let words = first << 64 | u128::from(sequence) << 48 | u128::from(stamp);
        let mut octets = [0; LENGTH];
        octets[..16].copy_from_slice(&words.to_be_bytes());
        octets[16..].copy_from_slice(&check.to_be_bytes());
        octets
    }

    /// Reads the fields; the second is whether the check is right.
    #[inline]
    pub fn read(octets: &[u8; LENGTH]) -> (Self, bool) {
        let [words @ .., high, low] = octets;
        let words = u128::from_be_bytes(*words);
        let signature = Self {
            stream: (words >> 112) as u16,
            sequence: (words >> 48) as u64 & MASK,
            stamp: words as u64 & MASK,
        };
        let check = u16::from_be_bytes([*high, *low]);
        (signature, signature.check() == check)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_signature() -> impl Strategy<Value = Signature> {
        (any::<u16>(), 0..=MASK, 0..=MASK).prop_map(|(stream, sequence, stamp)| Signature {
            stream,
            sequence,
            stamp,
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(signature in any_signature(), sum: u64) {
            let sum = Sum::ZERO.add_u64(sum);
            let octets = signature.octets(sum);
            prop_assert_eq!(Signature::read(&octets), (signature, true));
            prop_assert_eq!(sum.add_bytes(&octets[2..]).fold(), 0xffff);
        }

        #[test]
        fn any_one_wrong_bit_shows(signature in any_signature()) {
            let octets = signature.octets(Sum::ZERO);
            for bit in (0..LENGTH * 8).filter(|bit| !(16..32).contains(bit)) {
                let mut damaged = octets;
                damaged[bit / 8] ^= 1 << (bit % 8);
                prop_assert!(!Signature::read(&damaged).1, "bit {bit}");
            }
        }
    }

    #[test]
    fn fixed_examples_for_other_implementations() {
        let check = |stream, sequence, stamp| {
            Signature {
                stream,
                sequence,
                stamp,
            }
            .check()
        };
        assert_eq!(check(0, 0, 0), 0x19fe);
        assert_eq!(check(1, 2, 3), 0xbc07);
        assert_eq!(check(u16::MAX, MASK, MASK), 0xd7bf);
        assert_eq!(check(7, 123_456_789, 987_654_321_012), 0x5aa0);
        assert!(!Signature::read(&[0; LENGTH]).1);
        assert!(!Signature::read(&[0xff; LENGTH]).1);
    }
}
