//! The short way of nearly every packet: all checks of an IPv4 header at once, with one branch.

use crate::Ingress;
use crate::batch::{Family, Meta};

const ETHERNET: usize = bora_wire::ethernet::HEADER_LEN;
const HEADERS: usize = ETHERNET + 20;
/// EtherType IPv4, version 4, five words of header; any TOS.
const PLAIN: u32 = u32::from_ne_bytes([0x08, 0x00, 0x45, 0x00]);
const PLAIN_MASK: u32 = u32::from_ne_bytes([0xff, 0xff, 0xff, 0x00]);
const MAC_MASK: u64 = u64::from_ne_bytes([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0]);

/// First octets of addresses that may be special: 0/8, loopback, multicast, 255/8.
const MAYBE_SPECIAL: [bool; 256] = {
    let mut special = [false; 256];
    special[0] = true;
    special[127] = true;
    special[255] = true;
    let mut octet = 224;
    while octet < 240 {
        special[octet] = true;
        octet += 1;
    }
    special
};

/// What a port takes as addressed to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ours {
    mac: u64,
    forward4: bool,
}

impl Ours {
    pub(super) fn new(ingress: &Ingress) -> Self {
        let [a, b, c, d, e, f] = ingress.mac.0;
        Self {
            mac: u64::from_ne_bytes([a, b, c, d, e, f, 0, 0]),
            forward4: ingress.forward4 && ingress.gate.is_none_or(|gate| gate.up && !gate.kernel4),
        }
    }
}

/// The destination of a plain IPv4 transit packet without options. `None` says only that the packet
/// needs the full checks of [`super::parse_one`], which accepts every packet that is accepted
/// here, with the same result.
#[inline(always)]
pub(super) fn ipv4(octets: &[u8], ours: &Ours, meta: &mut Meta) -> Option<u32> {
    let header: &[u8; HEADERS] = octets.first_chunk()?;
    let long = |at| u64::from_ne_bytes(chunk(header, at));
    let word = |at| u32::from_ne_bytes(chunk(header, at));
    let length = usize::from(u16::from_be_bytes(chunk(header, 16)));
    // Ones' complement: wider words sum as 16-bit ones do, in any byte order (RFC 1071 2), and a
    // right header sums to a multiple of 0xffff. It is not zero: the version is not.
    let (one, two, three) = (long(14), long(22), word(30));
    let low = |long: u64| long & 0xffff_ffff;
    let sum = low(one) + (one >> 32) + low(two) + (two >> 32) + u64::from(three);
    let special = |at: usize| MAYBE_SPECIAL[usize::from(header[at])];
    let plain = ((long(0) ^ ours.mac) & MAC_MASK == 0)
        & (word(12) & PLAIN_MASK == PLAIN)
        & (length >= HEADERS - ETHERNET)
        & (length <= octets.len() - ETHERNET)
        & (header[22] > 1)
        & sum.is_multiple_of(0xffff)
        & ours.forward4
        & !(special(26) | special(30));
    if !plain {
        return None;
    }
    meta.family = Family::V4;
    meta.l3_length = length as u16;
    meta.tos = header[15];
    Some(u32::from_be(three))
}

/// The octets from `at` on; the compiler sees that they are there.
#[inline(always)]
fn chunk<const N: usize>(header: &[u8; HEADERS], at: usize) -> [u8; N] {
    let mut octets = [0; N];
    octets.copy_from_slice(&header[at..at + N]);
    octets
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use bora_fib::PortId;
    use bora_wire::MacAddr;
    use proptest::prelude::*;

    use super::*;

    fn ingress(forward4: bool) -> Ingress {
        Ingress {
            forward4,
            ..Ingress::new(PortId(0), MacAddr([2, 0, 0, 0, 0, 1]))
        }
    }

    /// A good packet of 60 octets.
    fn good() -> Vec<u8> {
        let mut frame = vec![0; 60];
        frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
        frame[12..24].copy_from_slice(&[8, 0, 0x45, 0xb8, 0, 46, 0, 0, 0, 0, 64, 17]);
        frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 1, 0, 2]);
        bora_wire::ipv4::Packet::new_unchecked(&mut frame[14..]).fill_checksum();
        frame
    }

    fn agree(frame: &[u8], forward4: bool) -> bool {
        let ingress = ingress(forward4);
        let (mut fast, mut slow) = (Meta::default(), Meta::default());
        let Some(destination) = ipv4(frame, &Ours::new(&ingress), &mut fast) else {
            return false;
        };
        let expected = super::super::parse_one(frame, &ingress, &mut slow);
        assert_eq!(expected, Ok(IpAddr::from(destination.to_be_bytes())));
        assert_eq!(
            (fast.family, fast.l3_length, fast.tos),
            (slow.family, slow.l3_length, slow.tos)
        );
        true
    }

    #[test]
    fn a_plain_packet_takes_this_way() {
        assert!(agree(&good(), true));
        assert!(!agree(&good(), false));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        /// One octet changed, with and without a right checksum: the short way accepts only what the full way does.
        #[test]
        fn nothing_is_accepted_that_the_full_parser_refuses(
            at in 0..34usize, value: u8, length in 0..61usize, repair: bool,
        ) {
            let mut frame = good();
            frame[at] = value;
            if repair {
                bora_wire::ipv4::Packet::new_unchecked(&mut frame[14..]).fill_checksum();
            }
            agree(&frame[..length], true);
            agree(&frame, true);
        }
    }
}
