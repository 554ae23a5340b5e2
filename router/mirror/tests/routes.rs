//! Adds, changes and deletes routes of all kinds in a real kernel; after each step the FIB must
//! agree with the kernel.

mod common;

use std::process::Command;

use bora_fib::{Adjacency, NextHop, PortId, Reason};
use bora_mirror::SyncStatus;
use common::{Router, attempt, known, run, with_router};

fn punt(router: &Router, address: &str) -> (Reason, Option<PortId>) {
    match router.look_up(address.parse().unwrap()) {
        NextHop::Punt { reason, port } => (reason, port),
        other => panic!("{address}: {other:?} is not a punt"),
    }
}

fn forward(router: &Router, address: &str) -> Adjacency {
    match router.look_up(address.parse().unwrap()) {
        NextHop::Forward(way) => way,
        other => panic!("{address}: {other:?} does not forward"),
    }
}

#[test]
fn every_type() {
    with_router(|router| {
        run("ip route add 10.9.0.0/16 via 10.0.0.2");
        run("ip route add blackhole 10.9.1.0/24");
        run("ip route add unreachable 10.9.2.0/24");
        run("ip route add prohibit 10.9.3.0/24");
        run("ip route add throw 10.9.4.0/24");
        run("ip route add 10.9.5.0/24 via 10.0.1.2 tos 0x10");
        run("ip -6 route add 2001:db8:9::/48 via 2001:db8:0::2");
        run("ip -6 route add blackhole 2001:db8:9:1::/64");
        run("ip -6 route add unreachable 2001:db8:9:2::/64");
        run("ip -6 route add prohibit 2001:db8:9:3::/64");
        router.check();
        assert_eq!(forward(router, "10.9.0.1").port, PortId(0));
        assert_eq!(
            router.look_up("10.9.1.1".parse().unwrap()),
            NextHop::Blackhole
        );
        assert_eq!(punt(router, "10.9.2.1").0, Reason::Unreachable);
        assert_eq!(punt(router, "10.9.3.1").0, Reason::Prohibit);
        assert_eq!(punt(router, "10.9.4.1").0, Reason::Unsupported);
        assert_eq!(punt(router, "10.9.5.1").0, Reason::Unsupported);
        assert_eq!(punt(router, "10.0.0.1").0, Reason::Local);
        assert_eq!(punt(router, "10.0.0.255").0, Reason::Local);
        assert_eq!(
            punt(router, "10.0.0.77"),
            (Reason::NoNeighbour, Some(PortId(0)))
        );
        assert_eq!(punt(router, "10.77.0.1").0, Reason::NoRoute);
        assert_eq!(punt(router, "fe80::1").0, Reason::Local);
        assert_eq!(
            router.look_up("2001:db8:9:1::1".parse().unwrap()),
            NextHop::Blackhole
        );
        let way = forward(router, "2001:db8:9::1");
        assert_eq!((way.port, &way.l2[12..]), (PortId(0), &[0x86, 0xdd][..]));
        assert!(router.is_own("10.0.0.255", 32));
        assert!(router.is_own("2001:db8:0::1", 128));
        assert!(!router.is_own("10.0.0.2", 32));
        run("ip route add local 192.0.2.0/24 dev lo");
        router.check();
        assert!(router.is_own("192.0.2.0", 24));
        run("ip route del local 192.0.2.0/24 dev lo");
        router.check();
        assert!(!router.is_own("192.0.2.0", 24));
        assert!(
            !router.is_own("127.0.0.0", 8),
            "loopback addresses are never transit"
        );

        for gone in ["10.9.1.0/24", "10.9.2.0/24", "10.9.3.0/24", "10.9.4.0/24"] {
            run(&format!("ip route del {gone}"));
        }
        run("ip route del 10.9.5.0/24 tos 0x10");
        run("ip -6 route del 2001:db8:9:1::/64");
        router.check();
        assert_eq!(forward(router, "10.9.5.1").port, PortId(0));
        assert_eq!(forward(router, "2001:db8:9:1::1").port, PortId(0));
    });
}

#[test]
fn metrics_replace_append() {
    with_router(|router| {
        for (ip, prefix, one, two) in [
            ("ip", "10.8.0.0/16", "10.0.0.2", "10.0.1.2"),
            ("ip -6", "2001:db8:8::/48", "2001:db8:0::2", "2001:db8:1::2"),
        ] {
            let inside =
                prefix.split('/').next().unwrap().to_owned() + if ip == "ip" { "" } else { "1" };
            run(&format!("{ip} route add {prefix} via {one} metric 100"));
            run(&format!("{ip} route add {prefix} via {two} metric 50"));
            router.check();
            assert_eq!(forward(router, &inside).port, PortId(1), "lowest metric");
            run(&format!("{ip} route del {prefix} metric 50"));
            router.check();
            assert_eq!(forward(router, &inside).port, PortId(0));
            run(&format!("{ip} route replace {prefix} via {two} metric 100"));
            router.check();
            assert_eq!(forward(router, &inside).port, PortId(1));
            run(&format!("{ip} route append {prefix} via {one} metric 100"));
            router.check();
            run(&format!("{ip} route del {prefix} via {two} metric 100"));
            router.check();
            assert_eq!(forward(router, &inside).port, PortId(0));
            run(&format!("{ip} route prepend {prefix} via {two} metric 100"));
            router.check();
            run(&format!("{ip} route del {prefix} via {one} metric 100"));
            router.check();
            run(&format!("{ip} route del {prefix}"));
            router.check();
            assert_eq!(punt(router, &inside).0, Reason::NoRoute);
        }
    });
}

#[test]
fn multipath_with_weights() {
    with_router(|router| {
        run("ip route add 10.7.0.0/16 nexthop via 10.0.0.2 weight 3 nexthop via 10.0.1.2 weight 1");
        run("ip -6 route add 2001:db8:7::/48 nexthop via 2001:db8:0::2 nexthop via 2001:db8:1::2");
        router.check();
        let NextHop::Group(group) = router.look_up("10.7.0.1".parse().unwrap()) else {
            panic!("no group")
        };
        let first = group.members().next().unwrap();
        let share = (0..1000u32)
            .filter(|n| group.select(n * ((u32::MAX >> 1) / 1000)) == first)
            .count();
        assert!(
            (749..=751).contains(&share),
            "three quarters to the first, not {share}/1000"
        );
        assert_eq!(router.ways("2001:db8:7::1").len(), 2);

        run("ip -6 route append 2001:db8:7::/48 via 2001:db8:0::3");
        router.check();
        assert_eq!(router.ways("2001:db8:7::1").len(), 3);
        run("ip -6 route del 2001:db8:7::/48 via 2001:db8:1::2");
        router.check();
        assert_eq!(router.ways("2001:db8:7::1").len(), 2);

        // when one path is down the other stays, in both families
        run("ip route replace 10.7.0.0/16 nexthop via 10.0.0.2 nexthop via 10.0.1.2");
        run("ip link set r0 down");
        router.check();
        let ways = router.ways("10.7.0.1");
        assert!(
            matches!(ways.as_slice(), [NextHop::Forward(way)] if way.port == PortId(1)),
            "{ways:?}"
        );
    });
}

#[test]
fn next_hop_objects() {
    with_router(|router| {
        run("ip nexthop add id 1 via 10.0.0.2 dev r0");
        run("ip nexthop add id 2 via 10.0.1.2 dev r1");
        run("ip nexthop add id 3 group 1,3/2");
        run("ip nexthop add id 4 blackhole");
        run("ip nexthop add id 6 via 2001:db8:1::2 dev r1");
        run("ip route add 10.6.1.0/24 nhid 1");
        run("ip route add 10.6.3.0/24 nhid 3");
        run("ip route add 10.6.4.0/24 nhid 4");
        run("ip route add 10.6.6.0/24 nhid 6");
        run("ip -6 route add 2001:db8:6::/48 nhid 6");
        router.check();
        assert_eq!(router.ways("10.6.3.1").len(), 2);
        assert_eq!(
            router.look_up("10.6.4.1".parse().unwrap()),
            NextHop::Blackhole
        );
        let ways = router.ways("10.6.6.1"); // IPv4 behind an IPv6 gateway
        assert!(
            matches!(ways.as_slice(), [NextHop::Forward(w)] if w.l2[12..] == [8, 0]),
            "{ways:?}"
        );

        run("ip nexthop replace id 1 via 10.0.1.2 dev r1");
        router.check();
        let ways = router.ways("10.6.1.1");
        assert!(
            matches!(ways.as_slice(), [NextHop::Forward(w)] if w.port == PortId(1)),
            "{ways:?}"
        );

        run("ip nexthop del id 1");
        router.check();
        assert_eq!(punt(router, "10.6.1.1").0, Reason::NoRoute);
        assert_eq!(router.ways("10.6.3.1").len(), 1);
        run("ip link set r1 down");
        router.check();
        assert_eq!(punt(router, "10.6.3.1").0, Reason::NoRoute);
    });
}

fn left_to_linux(status: &SyncStatus, reason: &str) -> usize {
    let found = status.unsupported.iter().find(|one| one.reason == reason);
    found.map_or(0, |one| one.routes)
}

/// A path that only Linux can use leaves the whole route to Linux: neither goes the route away, nor do its
/// flows take the other paths.
#[test]
fn groups_with_members_that_only_linux_can_use() {
    const ENCAP: &str = "encap seg6 mode encap segs fc00::1 via 2001:db8:1::2 dev r1";
    with_router(|router| {
        run("ip -6 route add default via 2001:db8:0::2");
        run("ip nexthop add id 21 via 2001:db8:0::2 dev r0");
        run(&format!("ip nexthop add id 22 {ENCAP}"));
        run("ip nexthop add id 23 group 22");
        run("ip nexthop add id 24 group 21/22");
        run("ip -6 nexthop add id 25 blackhole");
        run("ip nexthop add id 26 group 25");
        run("ip nexthop add id 27 group 21/22 type resilient buckets 8");
        for (net, object) in [(1, 22), (2, 23), (3, 24), (4, 26), (5, 27)] {
            run(&format!(
                "ip -6 route add 2001:db8:6{net}::/48 nhid {object}"
            ));
        }
        run("ip route add 10.66.0.0/16 nhid 24");
        run(&format!(
            "ip -6 route add 2001:db8:66::/48 nexthop via 2001:db8:0::2 nexthop {ENCAP}"
        ));
        router.check();
        for net in ["61::1", "62::1", "63::1", "65::1", "66::1"] {
            let found = punt(router, &format!("2001:db8:{net}"));
            assert_eq!(found.0, Reason::Unsupported, "{net}");
        }
        assert_eq!(punt(router, "10.66.0.1").0, Reason::Unsupported);
        let dropped = router.look_up("2001:db8:64::1".parse().unwrap());
        assert_eq!(dropped, NextHop::Blackhole);
        assert_eq!(left_to_linux(&router.mirror.status(), "encapsulation"), 6);
        assert_eq!(router.mirror.multipath(), [true; 2], "Linux hashes flows");

        run("ip nexthop replace id 22 via 2001:db8:1::2 dev r1");
        router.check();
        let ways = router.ways("2001:db8:61::1");
        assert!(
            matches!(ways.as_slice(), [NextHop::Forward(way)] if way.port == PortId(1)),
            "{ways:?}"
        );
        assert_eq!(router.ways("2001:db8:63::1").len(), 2);
        run(&format!("ip nexthop replace id 22 {ENCAP}"));
        router.check();
        assert_eq!(punt(router, "2001:db8:63::1").0, Reason::Unsupported);
        run("ip link set r1 down");
        router.check();
        let ways = router.ways("2001:db8:63::1");
        assert!(
            matches!(ways.as_slice(), [NextHop::Forward(way)] if way.port == PortId(0)),
            "only the member without encapsulation is left: {ways:?}"
        );
        assert_eq!(
            forward(router, "2001:db8:61::1").port,
            PortId(0),
            "the default route"
        );
    });
}

/// The preferences of RFC 4191 2.1, in the octet of flags.
const MEDIUM: u8 = 0;
const HIGH: u8 = 0x08;
const LOW: u8 = 0x18;

/// Lets a router with this link-local address advertise itself to r0 or r1.
fn advertise(router: &Router, device: u32, source: &str, preference: u8, lifetime: u16) {
    const PROGRAM: &str = "import socket, struct, sys
name, source, flags, lifetime = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
index = socket.if_nametoindex(name)
s = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
s.bind((source, 0, 0, index))
s.sendto(struct.pack('!BBHBBHII', 134, 0, 0, 64, flags, lifetime, 0, 0), ('ff02::1', 0, 0, index))";
    let done = Command::new("ip")
        .args(["netns", "exec", &router.net.peer.to_string()])
        .args(["python3", "-c", PROGRAM, &format!("p{device}"), source])
        .args([preference.to_string(), lifetime.to_string()])
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{error}");
}

/// Routers on the links: link, address, and the last octet of the Ethernet address.
const ADVERTISERS: [(u32, &str, u8); 3] = [
    (0, "fe80::a", 0xa),
    (0, "fe80::b", 0xb),
    (1, "fe80::c", 0xc),
];

fn with_advertisers(test: impl FnOnce(&mut Router) + Send + 'static) {
    with_router(|router| {
        for (device, address, last) in ADVERTISERS {
            let peer = &router.net.peer;
            run(&format!(
                "ip -n {peer} addr add {address}/64 dev p{device} nodad"
            ));
            run(&format!(
                "ip neigh replace {address} lladdr 02:bb:00:00:00:{last:x} dev r{device} nud permanent"
            ));
            let accept = format!("/proc/sys/net/ipv6/conf/r{device}/accept_ra");
            std::fs::write(accept, "2").unwrap();
        }
        // both ends take advertisements only with link-local addresses that are settled
        let tentative = "ip -6 addr show scope link tentative";
        let start = std::time::Instant::now();
        while !run(tentative).is_empty() {
            assert!(
                start.elapsed().as_secs() < 10,
                "duplicate address detection"
            );
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        test(router);
    });
}

/// The last octet of the Ethernet address of the default router that the FIB uses.
fn default_router(router: &Router) -> u8 {
    forward(router, "2001:db8:ffff::1").l2[5]
}

fn default_routes() -> usize {
    run("ip -6 route show default").lines().count()
}

/// Routes of router advertisements are never parts of one multipath route.
#[test]
fn two_advertised_routers() {
    with_advertisers(|router| {
        advertise(router, 0, "fe80::a", MEDIUM, 1800);
        advertise(router, 0, "fe80::b", MEDIUM, 1800);
        router.check();
        assert_eq!(default_routes(), 2);
        assert_eq!(default_router(router), 0xa, "the older route");
        advertise(router, 0, "fe80::b", MEDIUM, 0);
        router.check();
        assert_eq!((default_routes(), default_router(router)), (1, 0xa));
        advertise(router, 0, "fe80::b", HIGH, 1800);
        router.check();
        assert_eq!((default_routes(), default_router(router)), (2, 0xb));
        advertise(router, 0, "fe80::b", LOW, 1800); // without an event
        let start = std::time::Instant::now();
        while default_router(router) != 0xa {
            assert!(
                start.elapsed().as_secs() < 10,
                "the preference is not noticed"
            );
            let _ = router
                .mirror
                .poll(std::time::Duration::from_millis(100))
                .unwrap();
        }
        router.check();
        advertise(router, 0, "fe80::a", MEDIUM, 0);
        router.check();
        assert_eq!((default_routes(), default_router(router)), (1, 0xb));

        // a static route of the same metric replaces one of them, whatever its order
        advertise(router, 0, "fe80::a", MEDIUM, 1800);
        router.check();
        run("ip -6 route replace default via 2001:db8:1::2 metric 1024");
        router.check();
        run("ip -6 route append default via 2001:db8:0::2 metric 1024");
        router.check();
        run("ip -6 route del default via 2001:db8:1::2 metric 1024");
        router.check();
    });
}

/// Among routes of equal metric and preference Linux takes that of the input's own device, which a look-up by
/// destination cannot know.
#[test]
fn the_input_decides_among_equal_ipv6_routes() {
    const REASON: &str = "of equal metric, among which the input interface decides";
    let by_linux = |input: &str| {
        let from = if input == "r0" {
            "2001:db8:0::9"
        } else {
            "2001:db8:1::9"
        };
        run(&format!(
            "ip -6 route get 2001:db8:ffff::1 from {from} iif {input}"
        ))
    };
    with_advertisers(move |router| {
        advertise(router, 0, "fe80::a", MEDIUM, 1800);
        advertise(router, 1, "fe80::c", MEDIUM, 1800);
        run("ip -6 route add 2001:db8:77::/48 dev r0 metric 5");
        run("ip -6 route append 2001:db8:77::/48 dev r1 metric 5");
        router.check();
        assert!(by_linux("r0").contains("fe80::a") && by_linux("r1").contains("fe80::c"));
        assert_eq!(punt(router, "2001:db8:ffff::1").0, Reason::Unsupported);
        assert_eq!(punt(router, "2001:db8:77::1").0, Reason::Unsupported);
        assert_eq!(left_to_linux(&router.mirror.status(), REASON), 2);
        advertise(router, 1, "fe80::c", MEDIUM, 0);
        advertise(router, 1, "fe80::c", HIGH, 1800);
        run("ip -6 route del 2001:db8:77::/48 dev r0 metric 5");
        router.check();
        assert!(by_linux("r0").contains("fe80::c") && by_linux("r1").contains("fe80::c"));
        assert_eq!(default_router(router), 0xc);
        assert_eq!(punt(router, "2001:db8:77::1").1, Some(PortId(1)));
        assert_eq!(left_to_linux(&router.mirror.status(), REASON), 0);

        // the route of the lowest metric counts, unless none of them can be used
        run("ip -6 route add 2001:db8:78::/48 via 2001:db8:0::2 metric 3");
        run("ip -6 route add 2001:db8:78::/48 via 2001:db8:1::2 metric 4 pref high");
        router.check();
        assert_eq!(forward(router, "2001:db8:78::1").port, PortId(0));
    });
}

#[test]
fn ipv6_gateway_and_encapsulation() {
    with_router(|router| {
        run("ip route add 10.5.0.0/24 via inet6 2001:db8:1::2 dev r1");
        run("ip route add 10.5.1.0/24 via 10.0.1.2 dev r1 mtu 1300");
        run("ip route add 10.5.3.0/24 via 203.0.113.9 dev r1 onlink");
        router.check();
        let way = forward(router, "10.5.0.1");
        assert_eq!(
            (way.port, way.mtu, &way.l2[12..]),
            (PortId(1), 1500, &[8, 0][..])
        );
        assert_eq!(forward(router, "10.5.1.1").mtu, 1300);
        assert_eq!(
            punt(router, "10.5.3.1"),
            (Reason::NoNeighbour, Some(PortId(1)))
        );
        known("r1", "203.0.113.9");
        router.check();
        assert_eq!(forward(router, "10.5.3.1").port, PortId(1));
        let encap =
            attempt("ip route add 10.5.2.0/24 encap ip id 7 dst 10.0.1.2 via 10.0.1.2 dev r1");
        if encap.status.success() {
            router.check();
            assert_eq!(punt(router, "10.5.2.1").0, Reason::Unsupported);
        } else {
            eprintln!("skipped: this kernel has no lightweight tunnels");
        }
    });
}

#[test]
fn wide_local_route_hides_and_default_table_comes_last() {
    with_router(|router| {
        run("ip -6 route add local 2001:db8:a::/48 dev lo");
        run("ip -6 route add 2001:db8:a:1::/64 via 2001:db8:0::2");
        router.check();
        assert_eq!(punt(router, "2001:db8:a:1::1").0, Reason::Local);
        run("ip -6 route del local 2001:db8:a::/48 dev lo table local");
        router.check();
        assert_eq!(forward(router, "2001:db8:a:1::1").port, PortId(0));

        run("ip route add 10.4.0.0/16 via 10.0.0.2 table default");
        run("ip route add 10.4.4.0/24 via 10.0.0.2 table default");
        router.check();
        assert_eq!(forward(router, "10.4.4.1").port, PortId(0));
        run("ip route add default via 10.0.1.2");
        router.check();
        assert_eq!(
            forward(router, "10.4.4.1").port,
            PortId(1),
            "Linux looks up main before default"
        );
    });
}

#[test]
fn expiring_ipv6_route() {
    with_router(|router| {
        run("ip -6 route add 2001:db8:e::/48 via 2001:db8:0::2 expires 2");
        router.check();
        assert_eq!(forward(router, "2001:db8:e::1").port, PortId(0));
        let start = std::time::Instant::now();
        while router
            .mirror
            .fib()
            .longest_match6(0x2001_0db8_000e << 80 | 1)
            .is_some()
        {
            assert!(
                start.elapsed().as_secs() < 5,
                "the route expired, but is still in the FIB"
            );
            router
                .mirror
                .poll(std::time::Duration::from_millis(100))
                .unwrap();
        }
        router.check();
    });
}
