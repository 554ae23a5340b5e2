//! The Internet checksum (RFC 1071), its incremental update (RFC 1624), and the checksums of TCP,
//! UDP and ICMPv6 over their pseudo-headers.
//!
//! In ones' complement, zero has two forms. A sum of words that are not all zero folds to
//! 0x0001..=0xffff and never to 0x0000, so a checksum computed here is never 0xffff, except over
//! nothing but zeros. [`decrement_ttl`] keeps that, corner values included, which is why it is
//! equation 3 of RFC 1624 and not the older equation 4 of RFC 1141.

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::field;
use crate::{Error, Protocol};

/// A ones' complement sum in the making.
///
/// Room for 2^32 additions, more than any packet has words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[must_use]
pub struct Sum(u64);

impl Sum {
    /// The empty sum.
    pub const ZERO: Sum = Sum(0);

    /// Adds a 16-bit word.
    #[inline]
    pub const fn add_u16(self, word: u16) -> Sum {
        Sum(self.0 + word as u64)
    }

    /// Adds two 16-bit words, given as one of 32.
    #[inline]
    pub const fn add_u32(self, words: u32) -> Sum {
        Sum(self.0 + words as u64)
    }

    /// Adds four 16-bit words, given as one of 64.
    #[inline]
    pub const fn add_u64(self, words: u64) -> Sum {
        self.add_u32((words >> 32) as u32).add_u32(words as u32)
    }

    /// Adds eight 16-bit words, given as one of 128.
    #[inline]
    pub const fn add_u128(self, words: u128) -> Sum {
        self.add_u64((words >> 64) as u64).add_u64(words as u64)
    }

    /// Adds bytes as 16-bit big-endian words; an odd last byte counts as if a zero followed, so
    /// only the last of several slices may have an odd length.
    #[inline]
    pub fn add_bytes(self, data: &[u8]) -> Sum {
        // RFC 1071 2(B): the sum of byte-swapped words is the byte-swapped sum. So add in the
        // machine's own order, four bytes at a time, and swap once at the end.
        let (words, rest) = data.as_chunks::<4>();
        let mut native = words
            .iter()
            .fold(0, |sum, word| sum + u64::from(u32::from_ne_bytes(*word)));
        let mut tail = [0; 4];
        for (to, from) in tail.iter_mut().zip(rest) {
            *to = *from;
        }
        native += u64::from(u32::from_ne_bytes(tail));
        self.add_u16(u16::from_be(fold(native)))
    }

    /// The sum in 16 bits, not inverted. Over a pseudo-header this is what Linux leaves in the
    /// checksum field of a packet with a partial checksum.
    #[inline]
    #[must_use]
    pub const fn fold(self) -> u16 {
        fold(self.0)
    }

    /// The checksum: the complement of the sum.
    #[inline]
    #[must_use]
    pub const fn finish(self) -> u16 {
        !self.fold()
    }
}

/// Adds the carries back in until 16 bits are left.
#[inline]
const fn fold(sum: u64) -> u16 {
    // The first step leaves at most 33 bits, the second 18, the third 17, the fourth 16.
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    sum as u16
}

/// The checksum of `data` (whose own checksum field must read zero).
#[inline]
#[must_use]
pub fn checksum(data: &[u8]) -> u16 {
    Sum::ZERO.add_bytes(data).finish()
}

/// Whether `data`, checksum field included, adds up.
#[inline]
#[must_use]
pub fn is_valid(data: &[u8]) -> bool {
    Sum::ZERO.add_bytes(data).fold() == 0xffff
}

/// TTL (not 0), protocol and checksum of an IPv4 header after the TTL went down by one.
#[inline]
#[must_use]
pub const fn decrement_ttl(octets: [u8; 4]) -> [u8; 4] {
    // The sum loses 0x0100, so the checksum gains it. Little-endian, the octets of the checksum are
    // swapped (RFC 1071 2 (B)): it gains 1 in the upper half of the word. 0xfffe and 0xffff go to 0 and 1:
    // two steps up overflow then, and the second one stays. All bits are added at once, because the compiler
    // reads the word by octets if a part is enough for the carry.
    let word = u32::from_le_bytes(octets);
    let (two, carry) = word.overflowing_add((2 << 16) - 1);
    two.wrapping_sub((!carry as u32) << 16).to_le_bytes()
}

/// The sum over the IPv4 pseudo-header (RFC 9293 3.1); `len` is that of the segment in bytes.
#[inline]
pub fn pseudo_v4(src: Ipv4Addr, dst: Ipv4Addr, protocol: Protocol, len: u16) -> Sum {
    Sum::ZERO
        .add_u32(src.to_bits())
        .add_u32(dst.to_bits())
        .add_u16(u16::from(protocol.0))
        .add_u16(len)
}

/// The sum over the IPv6 pseudo-header (RFC 8200 8.1). `dst` is the final destination, which with
/// a routing header is not the one in the IPv6 header; `protocol` is that of the segment, behind
/// all extension headers; `len` is that of the segment in bytes.
#[inline]
pub fn pseudo_v6(src: Ipv6Addr, dst: Ipv6Addr, protocol: Protocol, len: u32) -> Sum {
    Sum::ZERO
        .add_u128(src.to_bits())
        .add_u128(dst.to_bits())
        .add_u16(u16::from(protocol.0))
        .add_u32(len)
}

/// Where a segment keeps its checksum, for the protocols that checksum a pseudo-header too.
/// (ICMP does not, and SCTP uses a CRC.)
#[inline]
#[must_use]
pub const fn transport_offset(protocol: Protocol) -> Option<usize> {
    match protocol {
        Protocol::TCP => Some(16),
        Protocol::UDP => Some(6),
        Protocol::ICMPV6 => Some(2),
        _ => None,
    }
}

/// What a look at the checksum of a TCP, UDP or ICMPv6 segment showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// The checksum is right.
    Valid,
    /// There is none to check: UDP over IPv4 with a zero field, or a protocol without a checksum
    /// over a pseudo-header.
    Absent,
    /// The field holds the pseudo-header's sum and nothing else: the sender left the rest to the
    /// hardware (Linux CHECKSUM_PARTIAL), and [`fill_transport`] completes it.
    Partial,
    /// The checksum is wrong, or the segment too short to have one.
    Invalid,
}

/// Whether the checksum field holds just the folded pseudo-header sum. Cheap: the payload is not
/// touched; but one complete checksum in 65535 looks the same, so ask [`transport`] before
/// acting on a yes.
#[inline]
#[must_use]
pub fn looks_partial(pseudo: Sum, protocol: Protocol, segment: &[u8]) -> bool {
    match transport_offset(protocol) {
        Some(at) if segment.len() >= at + 2 => field::u16(segment, at) == pseudo.fold(),
        _ => false,
    }
}

/// Checks the segment's checksum; `segment` is exactly the bytes whose length went into `pseudo`.
///
/// A zero UDP checksum is reported as [`Transport::Absent`] for IPv6 too: tunnels may use it
/// (RFC 6936), and a router has no say in it.
#[must_use]
pub fn transport(pseudo: Sum, protocol: Protocol, segment: &[u8]) -> Transport {
    let Some(at) = transport_offset(protocol) else {
        return Transport::Absent;
    };
    if segment.len() < at + 2 {
        return Transport::Invalid;
    }
    if protocol == Protocol::UDP && field::u16(segment, at) == 0 {
        return Transport::Absent;
    }
    if pseudo.add_bytes(segment).fold() == 0xffff {
        Transport::Valid
    } else if looks_partial(pseudo, protocol, segment) {
        Transport::Partial
    } else {
        Transport::Invalid
    }
}

/// Computes the segment's checksum and writes it; `segment` is exactly the bytes whose length went
/// into `pseudo`. A protocol without a checksum over a pseudo-header is left alone.
///
/// # Errors
/// [`Error::Truncated`] if the segment is too short to have a checksum.
pub fn fill_transport(pseudo: Sum, protocol: Protocol, segment: &mut [u8]) -> Result<(), Error> {
    let Some(at) = transport_offset(protocol) else {
        return Ok(());
    };
    if segment.len() < at + 2 {
        return Err(Error::Truncated);
    }
    field::put_u16(segment, at, 0);
    let checksum = match pseudo.add_bytes(segment).finish() {
        // RFC 768: zero means "none", so a computed zero is sent in its other form.
        0 if protocol == Protocol::UDP => 0xffff,
        checksum => checksum,
    };
    field::put_u16(segment, at, checksum);
    Ok(())
}

/// [`transport`] over IPv4. A segment beyond 65535 bytes is invalid.
#[must_use]
pub fn transport_v4(src: Ipv4Addr, dst: Ipv4Addr, protocol: Protocol, segment: &[u8]) -> Transport {
    match u16::try_from(segment.len()) {
        Ok(len) => transport(pseudo_v4(src, dst, protocol, len), protocol, segment),
        Err(_) => Transport::Invalid,
    }
}

/// [`transport`] over IPv6. A segment beyond 65535 bytes is invalid: Bora knows no jumbograms.
#[must_use]
pub fn transport_v6(src: Ipv6Addr, dst: Ipv6Addr, protocol: Protocol, segment: &[u8]) -> Transport {
    match u16::try_from(segment.len()) {
        Ok(len) => transport(pseudo_v6(src, dst, protocol, len.into()), protocol, segment),
        Err(_) => Transport::Invalid,
    }
}

/// [`fill_transport`] over IPv4.
///
/// # Errors
/// [`Error::Truncated`] as there, [`Error::BadTotalLength`] beyond 65535 bytes.
pub fn fill_transport_v4(
    src: Ipv4Addr,
    dst: Ipv4Addr,
    protocol: Protocol,
    segment: &mut [u8],
) -> Result<(), Error> {
    let len = u16::try_from(segment.len()).map_err(|_| Error::BadTotalLength)?;
    fill_transport(pseudo_v4(src, dst, protocol, len), protocol, segment)
}

/// [`fill_transport`] over IPv6.
///
/// # Errors
/// [`Error::Truncated`] as there, [`Error::BadTotalLength`] beyond 65535 bytes.
pub fn fill_transport_v6(
    src: Ipv6Addr,
    dst: Ipv6Addr,
    protocol: Protocol,
    segment: &mut [u8],
) -> Result<(), Error> {
    let len = u16::try_from(segment.len()).map_err(|_| Error::BadTotalLength)?;
    fill_transport(pseudo_v6(src, dst, protocol, len.into()), protocol, segment)
}

#[cfg(test)]
mod tests;
