//! Any traffic, for property tests.

use std::net::IpAddr;

use bora_wire::MacAddr;
use proptest::prelude::*;

use crate::link::Link;
use crate::traffic::{FrameMix, Stream, Traffic, Values};

/// Addresses of some link.
pub(crate) fn link() -> Link {
    Link {
        source: MacAddr([2, 0, 0, 0, 0, 1]),
        next_hop: MacAddr([2, 0, 0, 0, 0, 2]),
    }
}

/// One flow of IPv4 from port 0 to port 1.
pub(crate) fn one_flow(length: u16) -> Traffic {
    Traffic {
        streams: vec![Stream {
            source_ports: Values::List(vec![1024]),
            ..Stream::new((0, 1), [198, 18, 0, 2], [198, 19, 0, 2])
        }],
        frames: FrameMix::of(length),
    }
}

/// One flow as [`one_flow`] makes it, but flows differ in their source port.
pub(crate) fn many_flows(flows: u32) -> Traffic {
    let mut traffic = one_flow(64);
    traffic.streams[0].flows = flows;
    traffic.streams[0].source_ports = Values::Range(1024, u16::MAX);
    traffic
}

/// Streams from port 0 to ports 0 to 2, of all kinds.
pub(crate) fn any_traffic() -> impl Strategy<Value = Traffic> {
    let lengths = proptest::collection::vec(88u16..700, 1..4);
    (proptest::collection::vec(any_stream(), 1..4), lengths).prop_map(|(streams, lengths)| {
        let frames = FrameMix {
            name: String::from("any"),
            lengths,
        };
        Traffic { streams, frames }
    })
}

fn any_stream() -> impl Strategy<Value = Stream> {
    let addresses = any::<bool>().prop_flat_map(|v4| (any_addresses(v4), any_addresses(v4)));
    let ports = (any_ports(), any_ports(), any::<u64>());
    let flows = (1u32..6, prop_oneof![Just(None), (1u32..5).prop_map(Some)]);
    let tag = prop_oneof![Just(None), (0u16..=4094, 0u8..=7).prop_map(Some)];
    (addresses, ports, flows, 0usize..3, 1u32..5, 0u8..64, tag).prop_map(
        |(addresses, ports, (flows, flow_length), to, weight, dscp, vlan)| Stream {
            from: 0,
            to,
            weight,
            flows,
            flow_length,
            sources: addresses.0,
            destinations: addresses.1,
            source_ports: ports.0,
            // always enough of them for new flows
            destination_ports: match flow_length {
                Some(_) => Values::Random {
                    first: 1,
                    last: u16::MAX,
                    seed: ports.2,
                },
                None => ports.1,
            },
            dscp,
            vlan,
        },
    )
}

fn any_addresses(v4: bool) -> BoxedStrategy<Values<IpAddr>> {
    let address = if v4 {
        any::<[u8; 4]>().prop_map(IpAddr::from).boxed()
    } else {
        any::<[u8; 16]>().prop_map(IpAddr::from).boxed()
    };
    let pair = (address.clone(), address.clone());
    let pair = pair.prop_map(|(a, b)| if a < b { (a, b) } else { (b, a) });
    prop_oneof![
        proptest::collection::vec(address, 1..4).prop_map(Values::List),
        pair.clone()
            .prop_map(|(first, last)| Values::Range(first, last)),
        (pair, any::<u64>()).prop_map(|((first, last), seed)| Values::Random { first, last, seed }),
    ]
    .boxed()
}

fn any_ports() -> impl Strategy<Value = Values<u16>> {
    prop_oneof![
        proptest::collection::vec(any::<u16>(), 1..4).prop_map(Values::List),
        (0u16..1000, 1000u16..).prop_map(|(first, last)| Values::Range(first, last)),
    ]
}
