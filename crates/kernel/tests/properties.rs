//! The decoder against arbitrary octets, and the translation to the FIB against itself.

use std::net::{IpAddr, Ipv4Addr};

use bora_fib::{FibConfig, PortId};
use bora_kernel::{Decoded, Net, PortInfo, Route, RouteKind, Routes, Via, decode};
use proptest::prelude::*;

const PORT: u32 = 7;

fn routes() -> Routes {
    let (writer, _) = bora_fib::new(FibConfig {
        max_nodes6: 1024,
        ..FibConfig::default()
    })
    .unwrap();
    let mut routes = Routes::new(writer);
    let info = PortInfo {
        port: PortId(0),
        mac: [2, 0, 0, 0, 0, 1],
        mtu: 1500,
        up: true,
    };
    routes.set_port(PORT, Some(info));
    routes
}

fn address(host: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, host >> 4, host & 0xf).into()
}

fn unicast(gateways: &[Option<u8>]) -> RouteKind {
    let via = |gateway: &Option<u8>| Via {
        device: PORT,
        gateway: gateway.map(address),
        weight: 1,
    };
    RouteKind::Unicast(gateways.iter().map(via).collect())
}

fn kinds() -> impl Strategy<Value = RouteKind> {
    prop_oneof![
        Just(unicast(&[None])),
        any::<u8>().prop_map(|gateway| unicast(&[Some(gateway)])),
        any::<(u8, u8)>().prop_map(|(one, two)| unicast(&[Some(one), Some(two)])),
        Just(RouteKind::Blackhole),
        Just(RouteKind::Local),
        Just(RouteKind::Unsupported),
    ]
}

#[derive(Clone, Debug)]
enum Step {
    Add(u8, u8, bool, u32, RouteKind, bool),
    Remove(u8, u8, bool, u32, RouteKind),
    Neighbour(u8, bool),
    Port(bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let prefix = || (any::<u8>(), 20..=32u8, any::<bool>(), 0..3u32, kinds());
    let step = prop_oneof![
        4 => (prefix(), any::<bool>())
            .prop_map(|((host, len, local, metric, kind), replace)| {
                Step::Add(host, len, local, metric, kind, replace)
            }),
        3 => prefix().prop_map(|(host, len, local, metric, kind)| {
            Step::Remove(host, len, local, metric, kind)
        }),
        3 => any::<(u8, bool)>().prop_map(|(host, known)| Step::Neighbour(host, known)),
        1 => any::<bool>().prop_map(Step::Port),
    ];
    prop::collection::vec(step, 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_fib_follows_whatever_happens(steps in steps()) {
        let mut routes = routes();
        for step in steps {
            match step {
                Step::Add(host, len, local, metric, kind, replace) => {
                    let route = Route { local, metric, mtu: 0, kind };
                    routes.add(Net::of(address(host), len), route, replace);
                }
                Step::Remove(host, len, local, metric, kind) => {
                    let route = Route { local, metric, mtu: 0, kind };
                    routes.remove(Net::of(address(host), len), &route);
                }
                Step::Neighbour(host, known) => {
                    routes.set_neighbour(address(host), PORT, known.then_some([2; 6]));
                }
                Step::Port(up) => {
                    let info = PortInfo { port: PortId(0), mac: [2; 6], mtu: 1500, up };
                    routes.set_port(PORT, Some(info));
                }
            }
            prop_assert_eq!(routes.verify(), vec![]);
        }
        prop_assert_eq!(routes.missing(), 0);
    }

    #[test]
    fn the_decoder_never_panics(octets in prop::collection::vec(any::<u8>(), 0..512)) {
        decode(&octets, |_| {});
    }

    #[test]
    fn nor_on_messages_of_every_kind(
        kind in 16..120u16,
        body in prop::collection::vec(any::<u8>(), 0..256),
    ) {
        let mut message = Vec::new();
        message.extend((16 + body.len() as u32).to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend([0; 10]);
        message.extend(body);
        let mut count = 0;
        decode(&message, |_| count += 1);
        prop_assert_eq!(count, 1);
    }
}

#[test]
fn a_message_longer_than_the_buffer_is_malformed() {
    let mut octets = vec![0; 16];
    octets[..4].copy_from_slice(&100u32.to_ne_bytes());
    let mut malformed = false;
    decode(&octets, |decoded| {
        malformed = matches!(decoded, Decoded::Malformed)
    });
    assert!(malformed);
}
