use super::*;
use std::vec::Vec;

/// A UDP datagram with DSCP 46, ECN 1 and flow label 0xabcde, in a padded frame.
const PADDED: [u8; 52] = [
    0x6b, 0x9a, 0xbc, 0xde, 0x00, 0x08, 0x11, 0x40, //
    0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, //
    0x20, 0x01, 0x0d, 0xb8, 0, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, //
    0x03, 0xe8, 0x07, 0xd0, 0x00, 0x08, 0x97, 0xb2, // UDP without data
    0xee, 0xee, 0xee, 0xee,
];

#[test]
fn reads_fields() {
    let packet = Packet::new_checked(PADDED).unwrap();
    assert_eq!(
        (packet.version(), packet.payload_len(), packet.total_len()),
        (6, 8, 48)
    );
    assert_eq!((packet.traffic_class(), packet.dscp()), (0xb9, 46));
    assert_eq!(
        (packet.next_header(), packet.hop_limit()),
        (Protocol::UDP, 64)
    );
    assert_eq!(packet.src(), "2001:db8::1".parse::<Ipv6Addr>().unwrap());
    assert_eq!(packet.dst(), "2001:db8:ff::2".parse::<Ipv6Addr>().unwrap());
}

#[test]
fn payload_is_without_padding() {
    let mut packet = Packet::new_checked(PADDED).unwrap();
    assert_eq!(packet.payload(), &PADDED[40..48]);
    packet.payload_mut().fill(0);
    assert_eq!(packet.buffer[48..], PADDED[48..]);
}

#[test]
fn every_refusal() {
    assert_eq!(Packet::new_checked(&PADDED[..39]), Err(Error::Truncated));
    assert_eq!(Packet::new_checked(&PADDED[..47]), Err(Error::Truncated)); // payload > buffer
    assert!(Packet::new_checked(&PADDED[..48]).is_ok());
    let mut bytes = PADDED;
    bytes[0] = 0x4b;
    assert_eq!(Packet::new_checked(bytes), Err(Error::BadVersion));
}

#[test]
fn hop_limit_stops_at_zero() {
    let mut packet = Packet::new_checked(PADDED).unwrap();
    packet.buffer[7] = 1;
    packet.decrement_hop_limit();
    assert_eq!(packet.hop_limit(), 0);
    packet.decrement_hop_limit();
    assert_eq!(packet.hop_limit(), 0);
}

#[test]
fn writes_a_header() {
    let repr = Repr {
        traffic_class: 0xb9,
        flow_label: 0xabcde,
        next_header: Protocol::UDP,
        hop_limit: 64,
        src: "2001:db8::1".parse().unwrap(),
        dst: "2001:db8:ff::2".parse().unwrap(),
    };
    let mut out = [0xa5; 48];
    assert_eq!(repr.emit(&mut out).unwrap(), [0xa5; 8]);
    assert_eq!(out[..40], PADDED[..40]);
    assert_eq!(repr.emit(&mut [0; 39]), Err(Error::Truncated));
    assert_eq!(repr.emit(&mut [0; 65576]), Err(Error::BadTotalLength));
}

fn walk(first: u8, payload: &[u8]) -> Result<UpperLayer, Error> {
    UpperLayer::find(Protocol(first), payload)
}

#[test]
fn nothing_to_walk() {
    let found = Packet::new_checked(PADDED).unwrap().upper_layer().unwrap();
    assert_eq!((found.protocol, found.offset), (Protocol::UDP, 0));
    assert_eq!(found.fragment_offset, None);
    for last in [50, 59, 200] {
        assert_eq!(walk(last, &[]).unwrap().protocol, Protocol(last));
    }
}

#[test]
fn walks_every_kind() {
    let mut chain = Vec::new();
    chain.extend([43, 0, 5, 2, 0, 0, 1, 0]); // hop-by-hop: router alert, pad
    chain.extend([60, 2, 0, 1, 0, 0, 0, 0]); // routing type 0, one address left
    chain.extend([0xfe; 16]);
    chain.extend([44, 0, 1, 4, 0, 0, 0, 0]); // destination options: pad
    chain.extend([51, 0, 0x00, 0x01, 0xca, 0xfe, 0xba, 0xbe]); // first fragment
    chain.extend([6, 4, 0, 0, 0, 0, 0, 1]); // authentication, 24 bytes
    chain.extend([0xaa; 16]);
    chain.extend([0x00, 0x50]); // TCP starts
    let found = walk(0, &chain).unwrap();
    assert_eq!((found.protocol, found.offset), (Protocol::TCP, 72));
    assert_eq!(found.fragment_offset, Some(0));
    for len in 0..72 {
        assert_eq!(walk(0, &chain[..len]), Err(Error::Truncated), "{len} bytes");
    }
}

#[test]
fn stops_at_the_data_of_a_later_fragment() {
    // Next header says destination options, but what follows is the middle of a packet.
    let payload = [60, 0, 0x05, 0xc9, 0, 0, 0, 1, 0xff, 0xff, 0xff];
    let found = walk(44, &payload).unwrap();
    assert_eq!(
        (found.protocol, found.offset),
        (Protocol::DESTINATION_OPTIONS, 8)
    );
    assert_eq!(found.fragment_offset, Some(1480));
}

#[test]
fn an_atomic_fragment_is_walked_through() {
    let payload = [17, 0, 0, 0, 0, 0, 0, 9, 1, 2];
    let found = walk(44, &payload).unwrap();
    assert_eq!((found.protocol, found.offset), (Protocol::UDP, 8));
    assert_eq!(found.fragment_offset, Some(0));
}

#[test]
fn the_walk_is_bounded() {
    let mut chain = [60, 0, 1, 4, 0, 0, 0, 0].repeat(MAX_EXTENSION_HEADERS);
    chain[(MAX_EXTENSION_HEADERS - 1) * 8] = 17;
    let found = walk(60, &chain).unwrap();
    assert_eq!(
        (found.protocol, found.offset),
        (Protocol::UDP, MAX_EXTENSION_HEADERS * 8)
    );
    let endless = [60, 0, 1, 4, 0, 0, 0, 0].repeat(100);
    assert_eq!(walk(60, &endless), Err(Error::TooManyHeaders));
}
