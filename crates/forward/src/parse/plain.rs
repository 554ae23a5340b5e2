//! The way of nearly every packet: all checks of an IPv4 header at once, one branch.

use super::is_special4;
use crate::Ingress;
use crate::batch::{Family, Meta};

const ETHERNET: usize = 14;
const HEADERS: usize = ETHERNET + 20;
/// EtherType IPv4, version 4, five words of header.
const PLAIN: u32 = 0x0800_4500;
/// 48 bits.
const MAC: u64 = 0xffff_ffff_ffff;

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
            mac: u64::from_le_bytes([a, b, c, d, e, f, 0, 0]),
            forward4: ingress.forward4,
        }
    }
}

/// The destination of a plain IPv4 transit packet without options. `None` says nothing of the
/// packet but that it must be looked at more closely; what is accepted here, [`super::parse_one`]
/// accepts with the same result.
#[inline]
pub(super) fn ipv4(octets: &[u8], ours: &Ours, meta: &mut Meta) -> Option<u32> {
    let header: &[u8; HEADERS] = octets.first_chunk()?;
    let word = |at: usize| {
        u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    let mac = u64::from(word(0).swap_bytes()) | u64::from(word(4).swap_bytes()) << 32;
    let (kind, length, ttl) = (word(12), word(14) as u16, header[22]);
    let (source, destination) = (word(26), word(30));
    // ones' complement: 32-bit words sum as 16-bit ones do (RFC 1071 2(A))
    let sum: u64 = (14..HEADERS).step_by(4).map(|at| u64::from(word(at))).sum();
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    let room = octets.len() - ETHERNET;
    let plain = (mac & MAC == ours.mac)
        & (kind & 0xffff_ff00 == PLAIN)
        & (usize::from(length) >= HEADERS - ETHERNET)
        & (usize::from(length) <= room)
        & (ttl > 1)
        & (sum == 0xffff)
        & ours.forward4
        & !is_special4(source)
        & !is_special4(destination);
    if !plain {
        return None;
    }
    meta.family = Family::V4;
    meta.l3_length = length;
    meta.tos = kind as u8;
    Some(destination)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use bora_fib::PortId;
    use bora_wire::MacAddr;
    use proptest::prelude::*;

    use super::*;
    use crate::RpFilter;

    fn ingress(forward4: bool) -> Ingress {
        Ingress {
            port: PortId(0),
            mac: MacAddr([2, 0, 0, 0, 0, 1]),
            forward4,
            forward6: true,
            rp_filter: RpFilter::Off,
            partial_checksum: false,
            send_redirects4: false,
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

        /// One octet changed, with and without a right checksum: never accepted but by both.
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
