//! Tests of the decoder with arbitrary octets, and with messages that netlink-packet-route writes.

use netlink_packet_core::Emitable;
use netlink_packet_route::AddressFamily;
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteMetric, RouteNextHop,
    RouteProtocol, RouteScope, RouteType as TheirType, RouteVia,
};
use proptest::prelude::*;

use super::*;

/// All message types that have a decoder, and some others.
const KINDS: [u16; 14] = [16, 17, 20, 21, 24, 25, 28, 29, 32, 36, 80, 104, 105, 9999];

fn decode_all(datagram: &[u8]) -> usize {
    let frames = Frames::new(datagram).map_while(Result::ok);
    frames.filter(|frame| decode(frame).is_ok()).count()
}

proptest! {
    #[test]
    fn arbitrary_octets_do_not_panic(octets in proptest::collection::vec(any::<u8>(), 0..300)) {
        decode_all(&octets);
    }

    #[test]
    fn an_arbitrary_payload_does_not_panic(
        kind in proptest::sample::select(&KINDS[..]),
        family in proptest::sample::select(vec![0u8, 2, 7, 10]),
        attributes in proptest::collection::vec(
            (0u16..32, proptest::collection::vec(any::<u8>(), 0..24)), 0..6),
        head in proptest::collection::vec(any::<u8>(), 7..20),
    ) {
        let mut payload = vec![family];
        payload.extend(head);
        payload.resize(payload.len().next_multiple_of(4), 0);
        for (kind, value) in attributes {
            payload.extend((value.len() as u16 + 4).to_ne_bytes());
            payload.extend(kind.to_ne_bytes());
            payload.extend(value);
            payload.resize(payload.len().next_multiple_of(4), 0);
        }
        let _ = decode(&Frame { kind, flags: 0, sequence: 0, payload: &payload });
    }
}

/// One route message as netlink-packet-route writes it, read by us.
fn read(message: &RouteMessage) -> super::RouteMessage {
    let mut payload = vec![0; message.buffer_len()];
    message.emit(&mut payload);
    let frame = Frame {
        kind: libc::RTM_NEWROUTE,
        flags: 0,
        sequence: 0,
        payload: &payload,
    };
    match decode(&frame) {
        Ok(Message::Route(route, false)) => route,
        other => panic!("{other:?} is not a route"),
    }
}

fn header(family: AddressFamily, len: u8) -> RouteHeader {
    RouteHeader {
        address_family: family,
        destination_prefix_length: len,
        source_prefix_length: 0,
        tos: 0,
        table: 254,
        protocol: RouteProtocol::Static,
        scope: RouteScope::Universe,
        kind: TheirType::Unicast,
        flags: RouteFlags::empty(),
    }
}

#[test]
fn messages_of_another_implementation_are_decoded() {
    let mut message = RouteMessage::default();
    message.header = header(AddressFamily::Inet, 24);
    message.attributes = vec![
        RouteAttribute::Destination(RouteAddress::Inet([198, 51, 100, 0].into())),
        RouteAttribute::Table(253),
        RouteAttribute::Priority(77),
        RouteAttribute::PrefSource(RouteAddress::Inet([192, 0, 2, 9].into())),
        RouteAttribute::Metrics(vec![RouteMetric::Hoplimit(9), RouteMetric::Mtu(1280)]),
        RouteAttribute::Via(RouteVia::Inet6("fe80::7".parse().unwrap())),
        RouteAttribute::Oif(5),
    ];
    let route = read(&message);
    assert_eq!((route.address, route.len), ([198, 51, 100, 0].into(), 24));
    assert_eq!(
        (route.table, route.metric, route.target.mtu),
        (253, 77, Some(1280))
    );
    assert_eq!(route.target.source, Some([192, 0, 2, 9].into()));
    let gateway = Some("fe80::7".parse().unwrap());
    let hop = Hop {
        device: 5,
        gateway,
        weight: 1,
        dead: false,
        encap: false,
    };
    assert_eq!(route.target.hops, [hop]);
}

#[test]
fn a_multipath_route_of_another_implementation_is_decoded() {
    let way = |device, hops, last: u16| {
        let mut way = RouteNextHop::default();
        way.interface_index = device;
        way.hops = hops;
        let gateway = RouteAddress::Inet6([0x2001, 0xdb8, 0, 0, 0, 0, 0, last].into());
        way.attributes = vec![RouteAttribute::Gateway(gateway)];
        way
    };
    let mut message = RouteMessage::default();
    message.header = header(AddressFamily::Inet6, 48);
    let prefix = RouteAddress::Inet6("2001:db8:9::".parse().unwrap());
    message.attributes = vec![
        RouteAttribute::Destination(prefix),
        RouteAttribute::MultiPath(vec![way(3, 0, 1), way(4, 9, 2)]),
    ];
    let hops = read(&message).target.hops;
    let expected = [(3, "2001:db8::1", 1), (4, "2001:db8::2", 10)];
    let expected = expected.map(|(device, gateway, weight)| {
        let gateway = Some(gateway.parse().unwrap());
        Hop {
            device,
            gateway,
            weight,
            dead: false,
            encap: false,
        }
    });
    assert_eq!(hops, expected);
}
