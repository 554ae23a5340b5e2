use super::*;

fn examples() -> Vec<Message> {
    vec![
        Message::Ack,
        Message::Hello(Hello {
            name: Name::new("server"),
            min_version: VERSION,
            max_version: VERSION,
            max_region: 255,
            max_m2s_ring: 3,
            max_s2m_ring: 4,
            max_log2_ring_size: 14,
        }),
        Message::Init(Init {
            version: VERSION,
            id: 7,
            secret: padded("secret"),
            name: Name::new("client"),
        }),
        Message::AddRegion(AddRegion {
            index: 1,
            size: 1 << 33,
        }),
        Message::AddRing(AddRing {
            s2m: true,
            index: 2,
            region: 0,
            offset: 0x1234_5678,
            log2_ring_size: 10,
            private_hdr_size: 0,
        }),
        Message::Connect(Name::new("memif0")),
        Message::Connected(Name::new("memif1")),
        Message::Disconnect(Disconnect {
            code: 5,
            reason: "enough".into(),
        }),
    ]
}

#[test]
fn what_is_written_is_read() {
    for message in examples() {
        assert_eq!(Message::parse(&message.emit()), Ok(message));
    }
}

#[test]
#[cfg(target_endian = "little")]
fn the_layout_is_that_of_the_packed_structures() {
    let ring = examples()[4].emit();
    let expected = [5, 0, 1, 0, 2, 0, 0, 0, 0x78, 0x56, 0x34, 0x12, 10, 0, 0];
    assert_eq!(ring[..15], expected);
    let init = examples()[2].emit();
    assert_eq!(init[..9], [3, 0, 0, 2, 7, 0, 0, 0, 0]);
    assert_eq!(&init[9..16], b"secret\0");
    assert_eq!(&init[33..40], b"client\0");
    let hello = examples()[1].emit();
    assert_eq!(hello[34..45], [0, 2, 0, 2, 255, 0, 3, 0, 4, 0, 14]);
}

#[test]
fn bad_input_is_named() {
    assert_eq!(Message::parse(&[0; 127]), Err(MessageError::Size(127)));
    assert_eq!(Message::parse(&[0; 128]), Err(MessageError::Type(0)));
    let mut ring = examples()[4].emit();
    ring[12] = 15;
    assert_eq!(Message::parse(&ring), Err(MessageError::RingSize(15)));
    let mut init = examples()[2].emit();
    init[8] = 1;
    assert_eq!(Message::parse(&init), Err(MessageError::Mode(1)));
}

#[test]
fn what_a_peer_says_cannot_write_over_a_terminal() {
    let reason = "a\n\x1b[2J\u{9b}z".into();
    let octets = Message::Disconnect(Disconnect { code: 0, reason }).emit();
    let Ok(Message::Disconnect(disconnect)) = Message::parse(&octets) else {
        panic!("no DISCONNECT");
    };
    assert_eq!(disconnect.reason, "a\u{fffd}\u{fffd}[2J\u{fffd}z");
    assert_eq!(Name::new("m\r0").to_string(), "m\u{fffd}0");
}

#[test]
fn no_octets_make_it_panic() {
    // a multiplicative generator is random enough to meet every type and field
    let mut state = 1u64;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as u8
    };
    for round in 0..20_000u32 {
        let mut octets: [u8; MESSAGE_SIZE] = std::array::from_fn(|_| random());
        octets[..2].copy_from_slice(&(round as u16 % 10).to_ne_bytes());
        if let Ok(message) = Message::parse(&octets) {
            assert!(!message.kind().is_empty());
            assert!(Message::parse(&message.emit()).is_ok());
        }
    }
}
