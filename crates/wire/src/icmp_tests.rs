use super::*;
use std::string::ToString;
use std::vec::Vec;

/// A UDP datagram with TTL 1, as errors quote it.
const QUOTE: [u8; 32] = [
    0x45, 0x00, 0x00, 0x20, 0x00, 0x07, 0x00, 0x00, 0x01, 0x11, 0xcd, 0x8f, 0xc0, 0x00, 0x02, 0x01,
    0xc6, 0x33, 0x64, 0x02, 0x03, 0xe8, 0x07, 0xd0, 0x00, 0x0c, 0x33, 0x16, 0x62, 0x6f, 0x72, 0x61,
];

const ECHO: [u8; 12] = [8, 0, 0x06, 0xf6, 0x12, 0x34, 0, 5, b'p', b'i', b'n', b'g'];

/// Headers of errors about [`QUOTE`], and what they say.
const ERRORS: [([u8; 8], Message); 4] = [
    (
        [3, 4, 0xe3, 0xd8, 0, 0, 0x05, 0x78],
        Message::Unreachable {
            code: unreachable::FRAGMENTATION_NEEDED,
            mtu: 1400,
        },
    ),
    (
        [11, 0, 0xe1, 0x54, 0, 0, 0, 0],
        Message::TimeExceeded {
            code: time_exceeded::TTL,
        },
    ),
    (
        [5, 1, 0x24, 0x55, 192, 0, 2, 254],
        Message::Redirect {
            code: redirect::HOST,
            gateway: Ipv4Addr::new(192, 0, 2, 254),
        },
    ),
    (
        [12, 0, 0xcc, 0x54, 20, 0, 0, 0],
        Message::ParameterProblem {
            code: 0,
            pointer: 20,
        },
    ),
];

#[test]
fn echo() {
    let packet = Packet::new_checked(ECHO).unwrap();
    assert_eq!((packet.kind(), packet.code()), (Type::ECHO_REQUEST, 0));
    assert_eq!(
        (packet.ident(), packet.seq(), packet.checksum()),
        (0x1234, 5, 0x06f6)
    );
    assert_eq!(packet.payload(), b"ping");
    assert!(!packet.kind().is_error());
    assert_eq!(packet.to_string(), "ICMP echo request code 0");
    let repr = Repr::parse(&packet).unwrap();
    assert_eq!(
        repr.message,
        Message::EchoRequest {
            ident: 0x1234,
            seq: 5
        }
    );
    let mut out = [0xa5; 12];
    repr.emit(&mut out).unwrap();
    assert_eq!(out, ECHO);
    assert_eq!(repr.emit(&mut out[..11]), Err(Error::Truncated));
}

#[test]
fn reply_differs_in_type_and_checksum_only() {
    let repr = Repr {
        message: Message::EchoReply {
            ident: 0x1234,
            seq: 5,
        },
        payload: b"ping",
    };
    let mut out = [0xa5; 12];
    repr.emit(&mut out).unwrap();
    assert_eq!((out[0], &out[4..]), (0, &ECHO[4..]));
    assert_eq!(Repr::parse(&Packet::new_checked(out).unwrap()), Ok(repr));
    assert_eq!((repr.len(), repr.is_empty()), (12, false));
}

#[test]
fn errors_parse_and_emit() {
    for (header, message) in ERRORS {
        let bytes: Vec<u8> = header.iter().chain(&QUOTE).copied().collect();
        let packet = Packet::new_checked(&bytes).unwrap();
        assert!(packet.kind().is_error(), "{packet}");
        assert_eq!(
            Repr::parse(&packet),
            Ok(Repr {
                message,
                payload: &QUOTE
            })
        );
        let mut out = [0xa5; 48];
        Repr {
            message,
            payload: &QUOTE,
        }
        .emit(&mut out)
        .unwrap();
        assert_eq!((&out[..40], &out[40..]), (&bytes[..], &[0xa5; 8][..]));
    }
}

#[test]
fn a_quote_cut_short_still_tells_the_flow() {
    let quoted = crate::ipv4::Packet::new_unchecked(&QUOTE[..28]);
    assert_eq!(quoted.src(), Ipv4Addr::new(192, 0, 2, 1));
    assert_eq!(quoted.dst(), Ipv4Addr::new(198, 51, 100, 2));
}

#[test]
fn every_refusal() {
    assert_eq!(Packet::new_checked(&ECHO[..7]), Err(Error::Truncated));
    let mut bytes = ECHO;
    bytes[11] ^= 1;
    let packet = Packet::new_checked(bytes).unwrap();
    assert_eq!(Repr::parse(&packet), Err(Error::BadChecksum));
    let mut packet = Packet::new_checked(ECHO).unwrap();
    packet.set_kind(Type(13), 0);
    packet.fill_checksum();
    assert_eq!(packet.verify_checksum(), Ok(()));
    assert_eq!(Repr::parse(&packet), Err(Error::UnknownType));
    assert_eq!(packet.kind().to_string(), "type 13");
}
