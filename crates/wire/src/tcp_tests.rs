use super::*;
use core::net::Ipv4Addr;
use std::string::ToString;

/// SYN and ACK from 192.0.2.1 to 198.51.100.2, with MSS and window scale, and two bytes of data.
const SEGMENT: [u8; 30] = [
    0x9c, 0x40, 0x01, 0xbb, 0x01, 0x02, 0x03, 0x04, 0x0a, 0x0b, 0x0c, 0x0d, 0x70, 0x12, 0xfa, 0xf0,
    0x7c, 0x5b, 0x00, 0x00, 0x02, 0x04, 0x05, 0xb4, 0x01, 0x03, 0x03, 0x07, b'h', b'i',
];

fn pseudo() -> Sum {
    let (src, dst) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(198, 51, 100, 2));
    checksum::pseudo_v4(src, dst, Protocol::TCP, SEGMENT.len() as u16)
}

#[test]
fn reads_fields() {
    let packet = Packet::new_checked(SEGMENT).unwrap();
    assert_eq!((packet.src_port(), packet.dst_port()), (40000, 443));
    assert_eq!((packet.seq(), packet.ack()), (0x0102_0304, 0x0a0b_0c0d));
    assert_eq!(
        (packet.header_len(), packet.window(), packet.urgent()),
        (28, 64240, 0)
    );
    assert_eq!(packet.flags(), Flags::SYN | Flags::ACK);
    assert!(packet.flags().contains(Flags::SYN | Flags::ACK));
    assert!(!packet.flags().contains(Flags::SYN | Flags::FIN));
    assert_eq!(packet.option_bytes(), &SEGMENT[20..28]);
    assert_eq!(packet.payload(), b"hi");
    let text = "TCP 40000 > 443 SA seq 16909060 ack 168496141 win 64240";
    assert_eq!(packet.to_string(), text);
    assert_eq!(Flags::default().to_string(), ".");
}

#[test]
fn checksum_in_every_state() {
    let mut packet = Packet::new_checked(SEGMENT).unwrap();
    assert_eq!(packet.verify_checksum(pseudo()), Transport::Valid);
    packet.set_checksum(packet.checksum() ^ 1);
    assert_eq!(packet.verify_checksum(pseudo()), Transport::Invalid);
    packet.set_checksum(pseudo().fold());
    assert_eq!(packet.verify_checksum(pseudo()), Transport::Partial);
}

#[test]
fn emits_what_it_parsed() {
    let packet = Packet::new_checked(SEGMENT).unwrap();
    let repr = Repr::parse(&packet);
    let mut out = SEGMENT;
    out[..28].fill(0xa5);
    repr.emit(&mut out).unwrap();
    checksum::fill_transport(pseudo(), Protocol::TCP, &mut out).unwrap();
    assert_eq!(out, SEGMENT);
    assert_eq!(repr.emit(&mut out[..27]), Err(Error::Truncated));
    for options in [&[1; 3][..], &[1; 44]] {
        let repr = Repr { options, ..repr };
        assert_eq!(repr.emit(&mut [0; 80]), Err(Error::BadHeaderLength));
    }
}

#[test]
fn every_refusal() {
    assert_eq!(Packet::new_checked(&SEGMENT[..19]), Err(Error::Truncated));
    assert_eq!(Packet::new_checked(&SEGMENT[..27]), Err(Error::Truncated));
    assert!(
        Packet::new_checked(&SEGMENT[..28])
            .unwrap()
            .payload()
            .is_empty()
    );
    let mut bytes = SEGMENT;
    bytes[12] = 0x4f;
    assert_eq!(Packet::new_checked(bytes), Err(Error::BadHeaderLength));
}
