//! A FIB that says what Linux does passes, and each planted fault is found.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use bora_fib::{Adjacency, FibConfig, FibWriter, Group, NextHop, NextHopId, PortId};
use bora_forward::{Ingress, Reason, RpFilter};
use bora_linux::interface::Interface;
use bora_linux::netns;
use bora_prove::{Asker, CardRoute, Decider, Difference, Input, Linux, Walk};
use bora_wire::MacAddr;
use bora_worker::{Intake, Tables};

/// What is done to Linux, with `ip -batch`.
const LINUX: &str = "
link add r0 type veth peer name h0
link add r1 type veth peer name h1
link set lo up
link set r0 up
link set r1 up
link set h0 up
link set h1 up
addr add 10.0.0.1/24 dev r0
addr add 10.0.1.1/24 dev r1
neigh add 10.0.0.2 lladdr 02:00:00:00:00:02 dev r0
neigh add 10.0.1.2 lladdr 02:00:00:00:01:02 dev r1
neigh add 10.0.1.3 lladdr 02:00:00:00:01:03 dev r1
route add 198.51.100.0/24 via 10.0.1.2
route add 198.51.100.128/25 via 10.0.1.3 mtu lock 1400
route add 203.0.113.0/24 nexthop via 10.0.1.2 weight 3 nexthop via 10.0.1.3 weight 1
route add blackhole 192.0.2.0/25
nexthop add id 5 via 10.0.1.2 dev r1
route add 198.51.101.0/24 nhid 5
";

/// A next hop of a FIB that is being made.
#[derive(Clone, Copy)]
enum Hop {
    Via(u16, u8, u16),
    Share(u32, u32),
    Linux,
    Nowhere,
}

/// What Linux does, as a FIB.
const RIGHT: [(&str, Hop); 10] = [
    ("10.0.0.2/32", Hop::Via(0, 2, 1500)),
    ("10.0.1.2/32", Hop::Via(1, 2, 1500)),
    ("10.0.1.3/32", Hop::Via(1, 3, 1500)),
    ("198.51.100.0/24", Hop::Via(1, 2, 1500)),
    ("198.51.100.128/25", Hop::Via(1, 3, 1400)),
    ("198.51.101.0/24", Hop::Via(1, 2, 1500)),
    ("203.0.113.0/24", Hop::Share(3, 1)),
    ("192.0.2.0/25", Hop::Nowhere),
    ("10.0.0.1/32", Hop::Linux),
    ("10.0.1.1/32", Hop::Linux),
];

/// Longer than a test.
const HOUR: Duration = Duration::from_secs(3600);

/// What a card may forward by itself.
const CARD: CardRoute = CardRoute {
    prefix: (Ipv4Addr::new(198, 51, 100, 0), 25),
    out: PortId(1),
    mac: MacAddr(mac_of(1, 2)),
    mtu: 1500,
};

const fn mac_of(port: u16, host: u8) -> [u8; 6] {
    [2, 0, 0, 0, port as u8, host]
}

fn add(fib: &mut FibWriter, hop: Hop) -> NextHopId {
    let object = match hop {
        Hop::Via(port, host, mtu) => {
            let mut l2 = [0; 14];
            l2[..6].copy_from_slice(&mac_of(port, host));
            NextHop::Forward(Adjacency {
                port: PortId(port),
                mtu,
                l2,
                unconfirmed: None,
            })
        }
        Hop::Share(one, other) => {
            let first = add(fib, Hop::Via(1, 2, 1500));
            let second = add(fib, Hop::Via(1, 3, 1500));
            NextHop::Group(Group::new(&[(first, one), (second, other)]))
        }
        Hop::Linux => NextHop::Punt {
            reason: Reason::Local,
            port: None,
        },
        Hop::Nowhere => NextHop::Blackhole,
    };
    fib.add_next_hop(object).unwrap()
}

/// Differences with this FIB and with a card that forwards by itself, in a new namespace.
fn differences(
    entries: &[(&str, Hop)],
    rp_filter: RpFilter,
    card: Option<CardRoute>,
) -> Vec<Difference> {
    let found = netns::in_new(|| {
        bora_testing::ip_batch(LINUX);
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
        std::fs::write("/proc/sys/net/ipv4/nexthop_compat_mode", "0").unwrap();
        let (mut fib, handle) = bora_fib::new(FibConfig::default()).unwrap();
        for &(prefix, hop) in entries {
            let id = add(&mut fib, hop);
            fib.insert4(prefix.parse().unwrap(), id).unwrap();
        }
        let inputs = [0, 1].map(|number| {
            let name = format!("r{number}");
            let link = Interface::named(&name).unwrap().unwrap();
            Input {
                number: PortId(number),
                ifindex: link.index,
                name,
                mac: MacAddr([2, 0, 0, 0, 9, number as u8]),
                to_linux: [false; 2],
                checks_sources: rp_filter != RpFilter::Off,
                entry: None,
                in_bond: false,
                card: card.into_iter().filter(|_| number == 0).collect(),
            }
        });
        let ports = inputs.iter().map(|input| {
            let ingress = Ingress {
                rp_filter,
                ..Ingress::new(input.number, input.mac)
            };
            Some(Intake { ingress, quota: 1 })
        });
        let tables = Tables {
            ports: ports.collect(),
            ..Tables::default()
        };
        let decider = Decider::new(handle.reader().unwrap()).unwrap();
        let mut asker = Asker::new(Linux::open().unwrap(), decider, None).unwrap();
        asker.adopt(inputs.to_vec(), tables, Instant::now() + HOUR);
        let prefixes = entries.iter().map(|(prefix, _)| {
            let (address, length) = prefix.split_once('/').unwrap();
            (address.parse().unwrap(), length.parse().unwrap())
        });
        let prefixes: Vec<_> = prefixes.collect();
        let mut walk = Walk::new(asker, &[0, 1], &prefixes).unwrap();
        while walk.step().unwrap() {}
        let progress = walk.asker().progress();
        assert_eq!(progress.compared + progress.looked_up, progress.total);
        assert!(progress.same > 20, "{progress:?}");
        let mut found = walk.asker().differences().to_vec();
        // the key of the kernel's hash is not known here
        found.retain(|difference| !difference.what.contains("another path"));
        found
    });
    found.unwrap()
}

fn has_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        bora_testing::skip("network namespaces need root");
    }
    root
}

#[test]
fn what_linux_does_passes() {
    if has_root() {
        assert_eq!(differences(&RIGHT, RpFilter::Off, None), []);
        assert_eq!(differences(&RIGHT, RpFilter::Off, Some(CARD)), []);
    }
}

#[test]
fn each_planted_fault_is_found() {
    if !has_root() {
        return;
    }
    let with = |prefix: &'static str, hop| {
        let mut entries = RIGHT.to_vec();
        entries.retain(|(known, _)| *known != prefix);
        entries.push((prefix, hop));
        entries
    };
    let mut without = RIGHT.to_vec();
    without.retain(|(prefix, _)| *prefix != "198.51.100.128/25");
    let faults = [
        (
            "a longer MTU",
            with("198.51.100.128/25", Hop::Via(1, 3, 1401)),
            "longer packets",
        ),
        (
            "another neighbour",
            with("198.51.100.0/24", Hop::Via(1, 3, 1500)),
            "neighbour",
        ),
        (
            "another interface",
            with("198.51.100.0/24", Hop::Via(0, 2, 1500)),
            "interface",
        ),
        ("a prefix is missing", without, "neighbour"),
        (
            "a route that is gone",
            with("198.18.0.0/15", Hop::Via(1, 2, 1500)),
            "does not forward",
        ),
        (
            "other weights",
            with("203.0.113.0/24", Hop::Share(2, 1)),
            "shares",
        ),
        (
            "no blackhole",
            with("192.0.2.0/25", Hop::Via(1, 2, 1500)),
            "does not forward",
        ),
        (
            "a blackhole",
            with("198.51.100.0/24", Hop::Nowhere),
            "Linux does not",
        ),
        (
            "not its own",
            with("10.0.0.1/32", Hop::Via(0, 2, 1500)),
            "for the router",
        ),
    ];
    // each waits for some seconds, in case Bora is only late
    std::thread::scope(|scope| {
        for (fault, entries, what) in &faults {
            scope.spawn(move || {
                let found = differences(entries, RpFilter::Off, None);
                let texts: Vec<String> = found.iter().map(ToString::to_string).collect();
                let is_found = texts.iter().any(|text| text.contains(what));
                assert!(is_found, "{fault}: {texts:#?}");
            });
        }
    });
    for (mac, length, mtu) in [(3, 25, 1500), (2, 24, 1500), (2, 25, 1501)] {
        let card = CardRoute {
            prefix: (CARD.prefix.0, length),
            mac: MacAddr(mac_of(1, mac)),
            mtu,
            ..CARD
        };
        let found = differences(&RIGHT, RpFilter::Off, Some(card));
        assert!(!found.is_empty(), "a card with {card:?}");
    }
    let found = differences(&RIGHT, RpFilter::Strict, None);
    assert!(!found.is_empty(), "a source check that Linux does not make");
}
