use super::*;
use std::vec;
use std::vec::Vec;

/// The definition, word by word, with nothing clever: what the code above is compared with.
fn plain(data: &[u8]) -> u16 {
    let mut sum = 0u32;
    for word in data.chunks(2) {
        sum += u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0));
        if sum > 0xffff {
            sum -= 0xffff;
        }
    }
    !(sum as u16)
}

/// The words where ones' complement arithmetic goes wrong when it does.
const CORNERS: [u16; 13] = [
    0x0000, 0x0001, 0x00ff, 0x0100, 0x0101, 0x01ff, 0x7fff, 0x8000, 0xfeff, 0xff00, 0xff01, 0xfffe,
    0xffff,
];

#[test]
fn rfc_1071_example() {
    // RFC 1071 section 3: 0001 f203 f4f5 f6f7 sums to ddf2.
    let data = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
    assert_eq!(Sum::ZERO.add_bytes(&data).fold(), 0xddf2);
    assert_eq!(checksum(&data), 0x220d);
}

#[test]
fn any_length_and_any_cut_at_an_even_place() {
    let data: Vec<u8> = (0..200u32).map(|i| (i * 151 + 250) as u8).collect();
    for len in 0..data.len() {
        let data = &data[..len];
        assert_eq!(checksum(data), plain(data), "length {len}");
        for cut in (0..len).step_by(2) {
            let (a, b) = data.split_at(cut);
            assert_eq!(Sum::ZERO.add_bytes(a).add_bytes(b).finish(), plain(data));
        }
    }
}

#[test]
fn carries_of_a_large_packet() {
    let data = vec![0xff; 65535];
    assert_eq!(checksum(&data), plain(&data));
    assert_eq!(Sum(u64::MAX).fold(), 0xffff);
    assert_eq!(Sum(0xffff_ffff_0001_0000).fold(), 1); // carries in every step
    assert_eq!(checksum(&[0; 64]), 0xffff);
}

#[test]
fn ttl_decrement_equals_recomputation() {
    // Every TTL and protocol with corner sums for the rest, then every sum with corner TTLs.
    let all = (0..=0xffffu16).flat_map(|word| CORNERS.map(|rest| (word, rest)));
    let ttls = [1, 2, 3, 64, 127, 128, 254, 255u16];
    let sums = (0..=0xffffu16).flat_map(|rest| ttls.map(|ttl| (ttl << 8 | 17, rest)));
    for (word, rest) in all
        .chain(sums)
        .filter(|&(word, rest)| word >= 0x0100 && rest != 0)
    {
        let before = Sum::ZERO.add_u16(rest).add_u16(word).finish();
        let after = Sum::ZERO.add_u16(rest).add_u16(word - 0x0100).finish();
        let octets = |word: u16, checksum: u16| {
            let ([a, b], [c, d]) = (word.to_be_bytes(), checksum.to_be_bytes());
            [a, b, c, d]
        };
        let wanted = octets(word - 0x0100, after);
        assert_eq!(
            decrement_ttl(octets(word, before)),
            wanted,
            "{rest:04x} {word:04x}"
        );
    }
}

const SRC: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const DST: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
const SRC6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const DST6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xff, 0, 0, 0, 0, 2);

/// UDP 1000 -> 2000 with four bytes of data and no checksum yet.
const UDP: [u8; 12] = [
    0x03, 0xe8, 0x07, 0xd0, 0x00, 0x0c, 0, 0, b'b', b'o', b'r', b'a',
];

#[test]
fn pseudo_headers_word_by_word() {
    let v4 = [192, 0, 2, 1, 198, 51, 100, 2, 0, 17, 0, 12];
    assert_eq!(pseudo_v4(SRC, DST, Protocol::UDP, 12).finish(), plain(&v4));
    let mut v6 = [0; 40];
    v6[..16].copy_from_slice(&SRC6.octets());
    v6[16..32].copy_from_slice(&DST6.octets());
    v6[32..].copy_from_slice(&[0, 1, 0, 2, 0, 0, 0, 6]);
    assert_eq!(
        pseudo_v6(SRC6, DST6, Protocol::TCP, 0x1_0002).finish(),
        plain(&v6)
    );
}

#[test]
fn udp_from_absent_to_valid() {
    let mut segment = UDP;
    assert_eq!(
        transport_v4(SRC, DST, Protocol::UDP, &segment),
        Transport::Absent
    );
    fill_transport_v4(SRC, DST, Protocol::UDP, &mut segment).unwrap();
    // The datagram above, by scapy.
    assert_eq!(segment[6..8], [0x33, 0x16]);
    assert_eq!(
        transport_v4(SRC, DST, Protocol::UDP, &segment),
        Transport::Valid
    );
    segment[11] ^= 1;
    assert_eq!(
        transport_v4(SRC, DST, Protocol::UDP, &segment),
        Transport::Invalid
    );
    assert_eq!(
        transport_v4(DST, DST, Protocol::UDP, &UDP[..7]),
        Transport::Invalid
    );
}

#[test]
fn udp_never_sends_zero() {
    // Choose the last word so that the sum is 0xffff and the checksum would be zero.
    let mut segment = UDP;
    segment[10..].copy_from_slice(&[0, 0]);
    let missing = pseudo_v4(SRC, DST, Protocol::UDP, 12)
        .add_bytes(&segment)
        .finish();
    segment[10..].copy_from_slice(&missing.to_be_bytes());
    fill_transport_v4(SRC, DST, Protocol::UDP, &mut segment).unwrap();
    assert_eq!(segment[6..8], [0xff, 0xff]);
    assert_eq!(
        transport_v4(SRC, DST, Protocol::UDP, &segment),
        Transport::Valid
    );
}

#[test]
fn partial_is_recognised_and_completed() {
    for protocol in [Protocol::TCP, Protocol::UDP, Protocol::ICMPV6] {
        let at = transport_offset(protocol).unwrap();
        let mut segment: Vec<u8> = (0..61).collect();
        let pseudo = pseudo_v6(SRC6, DST6, protocol, 61);
        segment[at..at + 2].copy_from_slice(&pseudo.fold().to_be_bytes());
        assert!(looks_partial(pseudo, protocol, &segment));
        assert_eq!(
            transport_v6(SRC6, DST6, protocol, &segment),
            Transport::Partial
        );
        fill_transport_v6(SRC6, DST6, protocol, &mut segment).unwrap();
        assert!(!looks_partial(pseudo, protocol, &segment));
        assert_eq!(
            transport_v6(SRC6, DST6, protocol, &segment),
            Transport::Valid
        );
    }
}

#[test]
fn a_valid_checksum_that_looks_partial_is_valid() {
    let mut segment = [0u8; 20];
    let pseudo = pseudo_v4(SRC, DST, Protocol::TCP, 20);
    segment[16..18].copy_from_slice(&pseudo.fold().to_be_bytes());
    // The segment needs to sum to the complement of twice the pseudo-header's sum.
    let word = pseudo.add_u16(pseudo.fold()).finish();
    segment[..2].copy_from_slice(&word.to_be_bytes());
    assert!(looks_partial(pseudo, Protocol::TCP, &segment));
    assert_eq!(transport(pseudo, Protocol::TCP, &segment), Transport::Valid);
}

#[test]
fn protocols_without_one_and_lengths_out_of_range() {
    let mut sctp = [7; 12];
    assert_eq!(
        transport_v4(SRC, DST, Protocol::SCTP, &sctp),
        Transport::Absent
    );
    assert!(!looks_partial(Sum::ZERO, Protocol::SCTP, &sctp));
    fill_transport_v4(SRC, DST, Protocol::SCTP, &mut sctp).unwrap();
    assert_eq!(sctp, [7; 12]);
    let short = &mut [0; 17][..];
    assert_eq!(
        fill_transport_v4(SRC, DST, Protocol::TCP, short),
        Err(Error::Truncated)
    );
    let mut long = vec![0; 65536];
    assert_eq!(
        transport_v4(SRC, DST, Protocol::TCP, &long),
        Transport::Invalid
    );
    assert_eq!(
        transport_v6(SRC6, DST6, Protocol::TCP, &long),
        Transport::Invalid
    );
    let refused = Err(Error::BadTotalLength);
    assert_eq!(
        fill_transport_v4(SRC, DST, Protocol::TCP, &mut long),
        refused
    );
    assert_eq!(
        fill_transport_v6(SRC6, DST6, Protocol::TCP, &mut long),
        refused
    );
}
