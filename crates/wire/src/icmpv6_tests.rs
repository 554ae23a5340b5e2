use super::*;
use core::net::Ipv6Addr;
use std::string::ToString;
use std::vec::Vec;

/// A UDP datagram with hop limit 1, as errors quote it; the messages here have its addresses.
const QUOTE: [u8; 48] = [
    0x60, 0x00, 0x00, 0x00, 0x00, 0x08, 0x11, 0x01, //
    0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, //
    0x20, 0x01, 0x0d, 0xb8, 0, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, //
    0x03, 0xe8, 0x07, 0xd0, 0x00, 0x08, 0x97, 0xb2,
];

const ECHO: [u8; 12] = [128, 0, 0x32, 0x3b, 0x12, 0x34, 0, 5, b'p', b'i', b'n', b'g'];

/// Headers of errors about [`QUOTE`], and what they say.
const ERRORS: [([u8; 8], Message); 4] = [
    (
        [2, 0, 0x2b, 0x29, 0, 0, 0x05, 0x00],
        Message::PacketTooBig { mtu: 1280 },
    ),
    (
        [3, 0, 0x2f, 0x29, 0, 0, 0, 0],
        Message::TimeExceeded {
            code: time_exceeded::HOP_LIMIT,
        },
    ),
    (
        [1, 3, 0x31, 0x26, 0, 0, 0, 0],
        Message::Unreachable {
            code: unreachable::ADDRESS,
        },
    ),
    (
        [4, 1, 0x2e, 0x22, 0, 0, 0, 6],
        Message::ParameterProblem {
            code: parameter_problem::NEXT_HEADER,
            pointer: 6,
        },
    ),
];

fn pseudo(len: usize) -> Sum {
    let src = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
    let dst = Ipv6Addr::new(0x2001, 0xdb8, 0xff, 0, 0, 0, 0, 2);
    checksum::pseudo_v6(src, dst, Protocol::ICMPV6, len as u32)
}

#[test]
fn echo() {
    let packet = Packet::new_checked(ECHO).unwrap();
    assert_eq!((packet.kind(), packet.code()), (Type::ECHO_REQUEST, 0));
    assert_eq!(
        (packet.ident(), packet.seq(), packet.checksum()),
        (0x1234, 5, 0x323b)
    );
    assert_eq!(packet.payload(), b"ping");
    assert!(!packet.kind().is_error() && !packet.kind().is_ndisc());
    assert_eq!(packet.to_string(), "ICMPv6 echo request code 0");
    let repr = Repr::parse(&packet, pseudo(12)).unwrap();
    assert_eq!(
        repr.message,
        Message::EchoRequest {
            ident: 0x1234,
            seq: 5
        }
    );
    let mut out = [0xa5; 12];
    repr.emit(&mut out, pseudo(12)).unwrap();
    assert_eq!(out, ECHO);
    assert_eq!(repr.emit(&mut out[..11], pseudo(12)), Err(Error::Truncated));
}

#[test]
fn reply() {
    let repr = Repr {
        message: Message::EchoReply { ident: 1, seq: 2 },
        payload: &[],
    };
    let mut out = [0xa5; 8];
    repr.emit(&mut out, pseudo(8)).unwrap();
    assert_eq!((out[0], &out[4..]), (129, &[0, 1, 0, 2][..]));
    assert_eq!(
        Repr::parse(&Packet::new_checked(out).unwrap(), pseudo(8)),
        Ok(repr)
    );
    assert_eq!((repr.len(), repr.is_empty()), (8, true));
}

#[test]
fn errors_parse_and_emit() {
    for (header, message) in ERRORS {
        let bytes: Vec<u8> = header.iter().chain(&QUOTE).copied().collect();
        let packet = Packet::new_checked(&bytes).unwrap();
        assert!(packet.kind().is_error(), "{packet}");
        assert_eq!(
            Repr::parse(&packet, pseudo(56)),
            Ok(Repr {
                message,
                payload: &QUOTE
            })
        );
        let mut out = [0xa5; 64];
        Repr {
            message,
            payload: &QUOTE,
        }
        .emit(&mut out, pseudo(56))
        .unwrap();
        assert_eq!((&out[..56], &out[56..]), (&bytes[..], &[0xa5; 8][..]));
    }
}

#[test]
fn kinds() {
    for kind in 0..=255 {
        assert_eq!(Type(kind).is_error(), kind < 128);
        assert_eq!(Type(kind).is_ndisc(), (133..=137).contains(&kind));
    }
    assert_eq!(Type(200).to_string(), "type 200");
}

#[test]
fn every_refusal() {
    assert_eq!(Packet::new_checked(&ECHO[..7]), Err(Error::Truncated));
    let mut packet = Packet::new_checked(ECHO).unwrap();
    packet.set_checksum(0x323c);
    assert_eq!(Repr::parse(&packet, pseudo(12)), Err(Error::BadChecksum));
    let mut bytes = ECHO;
    bytes[0] = 143;
    checksum::fill_transport(pseudo(12), Protocol::ICMPV6, &mut bytes).unwrap();
    let packet = Packet::new_checked(bytes).unwrap();
    assert_eq!(Repr::parse(&packet, pseudo(12)), Err(Error::UnknownType));
}
