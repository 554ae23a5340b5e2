//! Tests of the mirror's own tables, which callers cannot see.

use std::net::IpAddr;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use bora_fib::{FibConfig, FibHandle, NextHop, PortId, Prefix4, TableId};
use bora_linux::netns::{self, Namespace};

use super::*;
use crate::rib::{MERGED, Prefix};

fn poll_until(mirror: &mut Mirror, what: &str, done: impl Fn(&mut Mirror) -> bool) {
    let start = Instant::now();
    while !done(mirror) {
        assert!(
            start.elapsed() < Duration::from_secs(15),
            "{what}: {:#?}",
            mirror.status()
        );
        mirror.poll(Duration::from_millis(20)).unwrap();
    }
}

#[test]
fn a_dump_that_fails_is_repeated() {
    let (fib, _readers) = bora_fib::new(bora_fib::FibConfig::default()).unwrap();
    let mut mirror = Mirror::open(MirrorConfig::default(), fib).unwrap();
    let open = std::mem::replace(&mut mirror.loader.open, || Ok(crate::socket::deaf()));
    mirror.model.stale.all = true;
    mirror.model.stale.reason = "a test";
    let failed = |mirror: &Mirror| {
        mirror
            .last
            .as_ref()
            .is_some_and(|last| last.failure.is_some())
    };
    poll_until(&mut mirror, "the dump did not fail", |mirror| {
        failed(mirror)
    });
    assert!(!mirror.status().in_sync && mirror.model.stale.all);
    mirror.loader.open = open;
    poll_until(&mut mirror, "not repeated", |mirror| {
        mirror.status().in_sync
    });
    assert!(!failed(&mirror));
}

/// Runs a test on a thread in a network namespace of its own, after these `ip` commands. Skipped,
/// saying so, where it is not permitted.
fn in_namespace(commands: &str, test: impl FnOnce() + Send + 'static) {
    if !rustix::process::geteuid().is_root() {
        bora_testing::skip("network namespaces need root");
        return;
    }
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Relaxed);
    let space = Namespace::new(&format!("mirror{count}")).unwrap();
    for command in commands.lines().map(str::trim) {
        space.run(&format!("ip {command}")).unwrap();
    }
    netns::in_named(space.name(), test).unwrap();
}

/// Runs `ip` in the namespace of this thread.
fn ip(words: &str) {
    netns::output(Command::new("ip").args(words.split_whitespace())).unwrap();
}

const NETWORK: &str = "link add r0 type veth peer name p0
    addr add 10.0.0.1/24 dev r0
    addr add 2001:db8::1/64 dev r0 nodad
    link set p0 up
    link set r0 up
    neigh add 10.0.0.2 lladdr 02:bb:00:00:00:02 dev r0 nud permanent
    neigh add 10.0.0.3 lladdr 02:bb:00:00:00:03 dev r0 nud permanent
    neigh add 2001:db8::2 lladdr 02:bb:00:00:00:02 dev r0 nud permanent
    nexthop add id 7 via 10.0.0.3 dev r0
    nexthop add id 8 group 7
    route add 10.1.0.0/16 via 10.0.0.2
    route add 10.1.0.0/16 via 10.0.0.3 metric 9
    route add 10.2.0.0/16 nhid 8
    route add 10.3.0.0/16 nexthop via 10.0.0.2 nexthop via 10.0.0.3 weight 3
    route add 10.4.0.0/16 tos 8 via 10.0.0.2
    route add 10.4.0.0/16 via 10.0.0.3
    route append 10.4.0.0/16 via 10.0.0.2
    route add blackhole 10.5.0.0/16
    route add 2001:db8:1::/48 via 2001:db8::2
    route append 2001:db8:1::/48 dev r0
    route add 2001:db8:2::/48 via 2001:db8::2 expires 3600";

/// A fault's name, and a function that plants it.
type Fault = (&'static str, fn(&mut Mirror));

/// Faults in the mirror's tables and in the FIB.
fn faults() -> Vec<Fault> {
    vec![
        ("a route that got lost", |mirror| {
            let Model { v4, hops, .. } = &mut mirror.model;
            assert!(v4.set(hops, (MERGED, "10.1.0.0/16".parse().unwrap()), vec![]));
        }),
        ("a route too many", |mirror| {
            let Model { v4, hops, .. } = &mut mirror.model;
            let routes = v4.rib.get("10.1.0.0/16".parse().unwrap()).to_vec();
            assert!(v4.set(hops, (MERGED, "10.77.0.0/16".parse().unwrap()), routes));
        }),
        ("routes in another order", |mirror| {
            let Model { v4, hops, .. } = &mut mirror.model;
            let prefix = "10.4.0.0/16".parse().unwrap();
            let mut routes = v4.rib.get(prefix).to_vec();
            routes.swap(1, 2);
            assert!(v4.set(hops, (MERGED, prefix), routes));
        }),
        ("an IPv6 route that got lost", |mirror| {
            let Model { v6, hops, .. } = &mut mirror.model;
            assert!(v6.set(hops, (MERGED, "2001:db8:1::/48".parse().unwrap()), vec![]));
        }),
        ("a neighbour that got lost", |mirror| {
            let key = ("10.0.0.2".parse().unwrap(), device(mirror));
            let mut gone = mirror.model.world.neighbours[&key];
            gone.mac = None;
            mirror.model.apply(message::Message::Neighbour(gone, true));
        }),
        ("a neighbour with another MAC", |mirror| {
            let key = ("10.0.0.2".parse().unwrap(), device(mirror));
            let mut other = mirror.model.world.neighbours[&key];
            other.mac = Some([2, 0, 0, 0, 0, 99]);
            mirror
                .model
                .apply(message::Message::Neighbour(other, false));
        }),
        ("a link with another MTU", |mirror| {
            let device = device(mirror);
            mirror.model.world.links.get_mut(&device).unwrap().mtu = 999;
        }),
        ("an address that got lost", |mirror| {
            let address = *mirror.model.world.addresses.first().unwrap();
            mirror.model.world.addresses.remove(&address);
        }),
        ("a next-hop object that got lost", |mirror| {
            assert!(mirror.model.world.objects.remove(&7).is_some());
        }),
        ("a prefix that the FIB lost", |mirror| {
            let prefix: Prefix4 = "10.1.0.0/16".parse().unwrap();
            prefix.fib_remove(&mut mirror.model.hops.fib, TableId::MAIN);
        }),
        ("a host that the FIB lost", |mirror| {
            let prefix: Prefix4 = "10.0.0.2/32".parse().unwrap();
            prefix.fib_remove(&mut mirror.model.hops.fib, TableId::MAIN);
        }),
        ("a prefix too many in the FIB", |mirror| {
            let fib = &mut mirror.model.hops.fib;
            let other = fib.get4("10.1.0.0/16".parse().unwrap()).unwrap();
            fib.insert4("10.66.6.0/24".parse().unwrap(), other).unwrap();
        }),
        ("a prefix of the FIB that leads elsewhere", |mirror| {
            let fib = &mut mirror.model.hops.fib;
            let other = fib.get4("10.5.0.0/16".parse().unwrap()).unwrap();
            fib.insert4("10.1.0.0/16".parse().unwrap(), other).unwrap();
        }),
        ("a next hop with another's content", |mirror| {
            let fib = &mut mirror.model.hops.fib;
            let id = fib.get4("10.1.0.0/16".parse().unwrap()).unwrap();
            fib.set_next_hop(id, NextHop::Blackhole).unwrap();
        }),
        ("a group with another's content", |mirror| {
            let fib = &mut mirror.model.hops.fib;
            let id = fib.get4("10.3.0.0/16".parse().unwrap()).unwrap();
            fib.set_next_hop(id, NextHop::Blackhole).unwrap();
        }),
    ]
}

fn device(mirror: &Mirror) -> u32 {
    let found = mirror.links().values().find(|link| link.name == "r0");
    found.unwrap().index
}

/// A mirror whose background check is nearly always due, and a handle to read its FIB.
fn often_checked() -> (Mirror, FibHandle) {
    let (fib, readers) = bora_fib::new(FibConfig::default()).unwrap();
    let config = MirrorConfig {
        check_interval: Duration::from_millis(50),
        ..MirrorConfig::default()
    };
    (Mirror::open(config, fib).unwrap(), readers)
}

/// Whether both ends of the link have their link-local addresses.
fn is_up(mirror: &Mirror) -> bool {
    let link_local = |own: &&message::Address| matches!(own.address, IpAddr::V6(it) if it.is_unicast_link_local());
    mirror.addresses().filter(link_local).count() == 2
}

/// Linux shows a carrier and an address in its tables before it sends the events.
#[test]
fn late_events_are_no_difference() {
    in_namespace(NETWORK, || {
        let (mut mirror, _readers) = often_checked();
        for _ in 0..3 {
            poll_until(&mut mirror, "the addresses", |mirror| is_up(mirror));
            ip("link set r0 down");
            poll_until(&mut mirror, "no address", |mirror| !is_up(mirror));
            ip("link set r0 up");
        }
        poll_until(&mut mirror, "the addresses again", |mirror| is_up(mirror));
        assert_eq!(mirror.mended, 0, "nothing was wrong");
    });
}

/// Events that wait while the tables are dumped tell once more what the dump has shown.
#[test]
fn events_that_are_older_than_a_dump_change_nothing() {
    in_namespace(NETWORK, || {
        let (fib, _readers) = bora_fib::new(FibConfig::default()).unwrap();
        let mut mirror = Mirror::open(MirrorConfig::default(), fib).unwrap();
        ip("nexthop add id 1 via 10.0.0.2 dev r0");
        ip("nexthop add id 2 via 10.0.0.3 dev r0");
        ip("route add 10.9.0.0/16 nhid 1");
        ip("route replace 10.9.0.0/16 nhid 2");
        mirror.model.stale.all = true;
        mirror.reconcile().unwrap();
        mirror.read(BATCH).unwrap();
        mirror.model.settle();
        mirror.model.sync();
        assert_eq!(mirror.verify().unwrap(), []);
        let routes = mirror.status().v4.kernel_routes;
        ip("route del 10.9.0.0/16");
        mirror.read(BATCH).unwrap();
        mirror.model.settle();
        mirror.model.sync();
        assert_eq!(mirror.status().v4.kernel_routes, routes - 1);
        assert_eq!(mirror.verify().unwrap(), []);
    });
}

/// A dump of advertised routes shows what is left of them after a replacement whose event still waits.
#[test]
fn a_replacement_is_older_than_the_dump_of_advertised_routes() {
    in_namespace(NETWORK, || {
        let (fib, _readers) = bora_fib::new(FibConfig::default()).unwrap();
        ip("-6 route add default dev r0 proto ra metric 1024");
        ip("-6 route append default via 2001:db8::3 proto ra metric 1024");
        let mut mirror = Mirror::open(MirrorConfig::default(), fib).unwrap();
        ip("-6 route replace default via 2001:db8::2 metric 1024");
        mirror.model.stale.protocols.insert(RTPROT_RA);
        mirror.reconcile().unwrap();
        mirror.read(BATCH).unwrap();
        mirror.reconcile().unwrap();
        let routes = mirror.model.v6.get((MERGED, Prefix::masked(0, 0)));
        let protocols: Vec<u8> = routes.iter().map(|route| route.protocol).collect();
        assert_eq!(protocols, [RTPROT_RA, 3], "Linux has both");
    });
}

/// Linux's dump leaves out a route that stands between the ways of a multipath route (`fib6_dump_node()` jumps over it).
#[test]
fn a_route_between_the_ways_of_another_comes_back() {
    in_namespace(NETWORK, || {
        let (fib, _readers) = bora_fib::new(FibConfig::default()).unwrap();
        let mut mirror = Mirror::open(MirrorConfig::default(), fib).unwrap();
        ip("-6 route add default via 2001:db8::2 metric 1024");
        ip("-6 route append default dev r0 proto ra metric 1024");
        for all in [true, false] {
            ip("-6 route append default via 2001:db8::3 metric 1024");
            mirror.read(BATCH).unwrap();
            if all {
                mirror.model.stale.all = true;
            } else {
                mirror.model.stale.protocols.insert(RTPROT_RA);
            }
            mirror.reconcile().unwrap();
            ip("-6 route del default via 2001:db8::3 metric 1024");
            mirror.read(BATCH).unwrap();
            mirror.reconcile().unwrap();
            let routes = mirror.model.v6.get((MERGED, Prefix::masked(0, 0)));
            assert_eq!(routes.len(), 2, "{routes:#?}");
        }
    });
}

/// With a carrier go next-hop objects, and the group that has no others. Linux tells only of the carrier.
#[test]
fn next_hop_objects_go_with_the_carrier() {
    in_namespace(NETWORK, || {
        ip("link add r1 type veth peer name p1");
        ip("addr add 10.0.1.1/24 dev r1");
        ip("link set p1 up");
        ip("link set r1 up");
        ip("nexthop add id 11 via 10.0.0.2 dev r0");
        ip("nexthop add id 12 via 10.0.1.2 dev r1");
        ip("nexthop add id 13 group 11/12");
        ip("nexthop add id 14 group 11");
        ip("route add 10.9.0.0/16 nhid 13");
        ip("route add 10.8.0.0/16 nhid 14");
        let (fib, _readers) = bora_fib::new(FibConfig::default()).unwrap();
        let mut mirror = Mirror::open(MirrorConfig::default(), fib).unwrap();
        let routes = mirror.status().v4.kernel_routes;
        ip("link set p0 down");
        let start = Instant::now();
        while mirror.model.world.objects.contains_key(&11) {
            assert!(start.elapsed() < Duration::from_secs(5), "no event");
            mirror.read(BATCH).unwrap(); // and no dump
            mirror.model.settle();
        }
        mirror.model.sync();
        let left = mirror.model.world.objects.range(11..).map(|(&id, _)| id);
        assert_eq!(left.collect::<Vec<_>>(), [12, 13]);
        // 10.8.0.0/16, and 10.2.0.0/16 of NETWORK
        assert_eq!(mirror.status().v4.kernel_routes, routes - 2);
        assert_eq!(mirror.verify().unwrap(), []);
    });
}

/// The work of a change is that of what changed, whatever number of routes there are.
#[test]
fn a_change_of_a_group_touches_no_prefix() {
    in_namespace(NETWORK, || {
        for n in 0..200 {
            ip(&format!("route add 10.77.{n}.0/24 nhid 8"));
        }
        let (fib, _readers) = bora_fib::new(FibConfig::default()).unwrap();
        let mut mirror = Mirror::open(MirrorConfig::default(), fib).unwrap();
        let mut work = |change: &str| {
            ip(change);
            mirror.read(BATCH).unwrap();
            mirror.model.settle();
            let marked = mirror.model.v4.marked();
            mirror.model.sync();
            assert_eq!(mirror.verify().unwrap(), [], "{change}");
            marked
        };
        assert_eq!(work("nexthop replace id 7 via 10.0.0.2 dev r0"), 0);
        assert_eq!(work("nexthop add id 9 via 10.0.0.3 dev r0"), 0);
        assert_eq!(work("nexthop replace id 8 group 7/9"), 0);
        assert_eq!(work("nexthop replace id 8 group 9,3/7"), 0);
        // the neighbours inside the prefixes are then reached directly
        assert!(work("nexthop replace id 7 dev r0") == 0);
        assert!(work("nexthop replace id 8 group 7") > 200);
        assert!(work("nexthop replace id 8 group 9") > 200);
    });
}

/// Whether tables and FIB are as [`NETWORK`] says and agree with Linux.
fn is_right(mirror: &mut Mirror) -> bool {
    let own: IpAddr = "10.0.0.1".parse().unwrap();
    mirror.status().in_sync
        && mirror.links()[&device(mirror)].mtu == 1500
        && mirror.addresses().any(|address| address.address == own)
        && mirror.verify().unwrap().is_empty()
}

#[test]
fn planted_differences_are_found_and_mended() {
    in_namespace(NETWORK, || {
        let (mut mirror, _readers) = often_checked();
        let port = Port {
            id: PortId(0),
            mac: [2, 0, 0, 0, 0, 1],
            mtu: 1500,
            shaped: false,
            tunnel: None,
            peer: None,
        };
        let ports = BTreeMap::from([(device(&mirror), port)]);
        mirror.set_ports(ports).unwrap();
        let opened = Instant::now();
        poll_until(&mut mirror, "no check", |mirror| {
            opened.elapsed() >= mirror.check.late
                && mirror.check.count >= 3
                && mirror.status().in_sync
        });
        mirror.check.late = Duration::from_millis(100); // Linux has no late events any more
        assert_eq!(mirror.mended, 0, "nothing was wrong");
        for (what, plant) in faults() {
            let before = mirror.mended;
            plant(&mut mirror);
            // the audit may run first, and correct the FIB by tables that are still wrong
            poll_until(&mut mirror, what, |mirror| {
                mirror.mended > before && is_right(mirror)
            });
        }
    });
}
