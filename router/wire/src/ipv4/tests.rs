use super::*;

/// An echo request as Linux sends it, in a frame padded to 60 bytes (46 of payload).
const PADDED: [u8; 46] = [
    0x45, 0xb9, 0x00, 0x1e, 0x12, 0x34, 0x40, 0x00, 0x40, 0x01, 0x3b, 0xbb, //
    192, 0, 2, 1, 198, 51, 100, 2, //
    0x08, 0x00, 0x4c, 0x30, 0x00, 0x01, 0x00, 0x01, 0xab, 0xcd, // 30 bytes end here
    0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee,
];

/// A last fragment with no operation, record route and router alert.
const FRAGMENT: [u8; 36] = [
    0x48, 0x00, 0x00, 0x24, 0xbe, 0xef, 0x00, 0xb9, 0x02, 0x11, 0x3a, 0x11, //
    10, 0, 0, 1, 10, 0, 1, 2, //
    0x01, 0x07, 0x07, 0x04, 10, 0, 0, 254, 0x94, 0x04, 0x00, 0x00, // NOP, record route, alert
    0xde, 0xad, 0xbe, 0xef,
];

fn changed(at: usize, value: u8) -> Result<Packet<[u8; 46]>, Error> {
    let mut bytes = PADDED;
    bytes[at] = value;
    Packet::new_checked(bytes)
}

#[test]
fn reads_fields() {
    let packet = Packet::new_checked(PADDED).unwrap();
    assert_eq!(packet.verify_checksum(), Ok(()));
    assert_eq!(
        (packet.version(), packet.header_len(), packet.total_len()),
        (4, 20, 30)
    );
    assert_eq!((packet.tos(), packet.dscp()), (0xb9, 46));
    assert!(packet.dont_fragment() && !packet.is_fragment());
    assert_eq!((packet.ttl(), packet.protocol()), (64, Protocol(1)));
    assert_eq!(packet.checksum(), 0x3bbb);
    assert_eq!(packet.src(), Ipv4Addr::new(192, 0, 2, 1));
    assert_eq!(packet.dst(), Ipv4Addr::new(198, 51, 100, 2));
    assert!(!packet.has_options());
}

#[test]
fn payload_is_without_padding() {
    let mut packet = Packet::new_checked(PADDED).unwrap();
    assert_eq!(packet.payload(), &PADDED[20..30]);
    packet.payload_mut().fill(0);
    assert_eq!(packet.buffer[30..], PADDED[30..]);
}

#[test]
fn reads_fragments_and_options() {
    let packet = Packet::new_checked(FRAGMENT).unwrap();
    assert_eq!(packet.verify_checksum(), Ok(()));
    assert!(!packet.dont_fragment() && packet.is_fragment());
    assert_eq!(packet.fragment_offset(), 185 * 8);
    assert!(packet.has_options());
    assert_eq!(packet.payload(), [0xde, 0xad, 0xbe, 0xef]);
}

#[test]
fn every_refusal() {
    assert_eq!(Packet::new_checked(&PADDED[..19]), Err(Error::Truncated));
    assert_eq!(Packet::new_checked(&PADDED[..29]), Err(Error::Truncated)); // total > buffer
    assert_eq!(changed(0, 0x65).unwrap_err(), Error::BadVersion);
    assert_eq!(changed(0, 0x44).unwrap_err(), Error::BadHeaderLength);
    assert_eq!(changed(3, 19).unwrap_err(), Error::BadTotalLength);
    assert_eq!(changed(0, 0x48).unwrap_err(), Error::BadTotalLength); // header 32, total 30
    assert_eq!(Packet::new_checked(&FRAGMENT[..28]), Err(Error::Truncated));
    assert_eq!(
        changed(10, 0x3c).unwrap().verify_checksum(),
        Err(Error::BadChecksum)
    );
    let mut with_options = FRAGMENT;
    with_options[31] ^= 1;
    let packet = Packet::new_checked(with_options).unwrap();
    assert_eq!(packet.verify_checksum(), Err(Error::BadChecksum));
}

#[test]
fn exact_fit_and_header_alone() {
    assert!(Packet::new_checked(&PADDED[..30]).is_ok());
    assert!(changed(3, 20).unwrap().payload().is_empty());
}

#[test]
fn ttl_steps_down_with_a_valid_checksum() {
    let mut packet = Packet::new_checked(PADDED).unwrap();
    for ttl in (0..64).rev() {
        packet.decrement_ttl();
        assert_eq!((packet.ttl(), packet.verify_checksum()), (ttl, Ok(())));
        let updated = packet.checksum();
        packet.fill_checksum();
        assert_eq!(packet.checksum(), updated);
    }
    packet.decrement_ttl();
    assert_eq!((packet.ttl(), packet.verify_checksum()), (0, Ok(())));
}

#[test]
fn writes_a_header() {
    let repr = Repr {
        tos: 0xb9,
        dont_fragment: true,
        ttl: 64,
        protocol: Protocol(1),
        src: Ipv4Addr::new(192, 0, 2, 1),
        dst: Ipv4Addr::new(198, 51, 100, 2),
    };
    let mut out = PADDED;
    out[..20].fill(0xa5);
    assert_eq!(repr.emit(&mut out[..30]).unwrap(), &PADDED[20..30]);
    let mut packet = Packet::new_checked(out).unwrap();
    assert_eq!(packet.verify_checksum(), Ok(()));
    packet.buffer[4..6].copy_from_slice(&[0x12, 0x34]); // the identification
    packet.fill_checksum();
    assert_eq!(packet.buffer, PADDED);
    packet.set_fragment(false, true, 1480);
    assert_eq!(packet.buffer[6..8], [0x20, 0xb9]);
    assert_eq!(repr.emit(&mut out[..19]), Err(Error::Truncated));
    assert_eq!(repr.emit(&mut [0; 65536]), Err(Error::BadTotalLength));
}
