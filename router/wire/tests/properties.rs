//! No parser panics on arbitrary bytes, and what they say agrees.

#[expect(
    unreachable_pub,
    reason = "the fuzz crate has these checks as a library"
)]
mod checks;

use bora_wire::Error;
use proptest::prelude::*;

type Check = fn(&[u8]) -> Result<(), Error>;

const CHECKS: [Check; 7] = [
    checks::ethernet,
    checks::arp,
    checks::ipv4,
    checks::ipv6,
    checks::ndisc,
    checks::udp,
    checks::frame,
];

fn bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..=max)
}

/// An IPv4 packet with lengths that agree, and padding behind it.
fn ipv4(protocol: impl Strategy<Value = u8>) -> impl Strategy<Value = Vec<u8>> {
    (
        any::<[u8; 20]>(),
        0..=10usize,
        bytes(100),
        bytes(20),
        protocol,
    )
        .prop_flat_map(|(mut header, option_words, payload, padding, protocol)| {
            let total_len = 20 + option_words * 4 + payload.len();
            header[0] = 0x45 + option_words as u8;
            header[2..4].copy_from_slice(&(total_len as u16).to_be_bytes());
            header[9] = protocol;
            prop::collection::vec(any::<u8>(), option_words * 4)
                .prop_map(move |options| [&header[..], &options, &payload, &padding].concat())
        })
}

/// An IPv6 packet with lengths that agree, up to three extension headers, and padding behind it.
fn ipv6(last: impl Strategy<Value = u8>) -> impl Strategy<Value = Vec<u8>> {
    let extensions = prop::collection::vec(
        (
            prop::sample::select(vec![0u8, 43, 44, 51, 60]),
            any::<[u8; 8]>(),
        ),
        0..=3,
    );
    (any::<[u8; 40]>(), extensions, bytes(60), bytes(20), last).prop_map(
        |(mut header, extensions, payload, padding, last)| {
            let mut chain = Vec::new();
            let kinds = extensions
                .iter()
                .map(|(kind, _)| *kind)
                .skip(1)
                .chain([last]);
            for ((kind, mut extension), next) in extensions.iter().copied().zip(kinds) {
                extension[0] = next;
                // Eight bytes each, in the units of its kind.
                extension[1] = 0;
                chain.extend(extension);
                if kind == 51 {
                    chain.truncate(chain.len() - 8);
                    chain.extend([next, 0, 0, 0, 0, 0, 0, 0]);
                }
            }
            chain.extend(payload);
            header[0] = 0x60 | header[0] & 0x0f;
            header[4..6].copy_from_slice(&(chain.len() as u16).to_be_bytes());
            header[6] = extensions.first().map_or(last, |(kind, _)| *kind);
            [&header[..], &chain, &padding].concat()
        },
    )
}

fn upper_layer() -> impl Strategy<Value = u8> {
    prop_oneof![prop::sample::select(vec![1u8, 6, 17, 58, 132]), 61..=255u8]
}

/// A frame with up to three tags around an IP packet.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let packet = prop_oneof![
        ipv4(upper_layer()).prop_map(|packet| ([0x08, 0x00], packet)),
        ipv6(upper_layer()).prop_map(|packet| ([0x86, 0xdd], packet)),
        bytes(60).prop_map(|packet| ([0x08, 0x06], packet)),
    ];
    let tags = prop::collection::vec((any::<bool>(), any::<[u8; 2]>()), 0..=3);
    (any::<[u8; 12]>(), tags, packet).prop_map(|(addresses, tags, (ethertype, packet))| {
        let mut frame = addresses.to_vec();
        for (service, tci) in tags {
            frame.extend(if service { [0x88, 0xa8] } else { [0x81, 0x00] });
            frame.extend(tci);
        }
        frame.extend(ethertype);
        frame.extend(packet);
        frame
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes(data in bytes(160)) {
        for check in CHECKS {
            let _ = check(&data);
        }
    }

    #[test]
    fn fixed_headers(data in prop::collection::vec(any::<u8>(), 28..100)) {
        prop_assert_eq!(checks::ethernet(&data), Ok(()));
        let mut arp = data;
        arp[..6].copy_from_slice(&[0, 1, 8, 0, 6, 4]);
        prop_assert_eq!(checks::arp(&arp), Ok(()));
    }

    #[test]
    fn ipv4_packets(packet in ipv4(any::<u8>()), cut in any::<prop::sample::Index>()) {
        prop_assert_eq!(checks::ipv4(&packet), Ok(()));
        let _ = checks::ipv4(&packet[..cut.index(packet.len())]);
    }

    #[test]
    fn ipv6_packets(packet in ipv6(upper_layer()), cut in any::<prop::sample::Index>()) {
        prop_assert_eq!(checks::ipv6(&packet), Ok(()));
        let _ = checks::ipv6(&packet[..cut.index(packet.len())]);
    }

    #[test]
    fn ndisc_messages(
        mut data in prop::collection::vec(any::<u8>(), 24..120),
        kind in 135..=136u8,
    ) {
        data[0] = kind;
        prop_assert_eq!(checks::ndisc(&data), Ok(()));
    }

    #[test]
    fn udp_datagrams(mut data in prop::collection::vec(any::<u8>(), 60..200), cut in 8..60u16) {
        data[4..6].copy_from_slice(&cut.to_be_bytes());
        prop_assert_eq!(checks::udp(&data), Ok(()));
    }

    #[test]
    fn frames(frame in frame(), cut in any::<prop::sample::Index>()) {
        let _ = checks::frame(&frame);
        let _ = checks::frame(&frame[..cut.index(frame.len())]);
    }
}
