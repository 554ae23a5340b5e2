//! Adds, changes and deletes routes of all kinds in a real kernel; after each step the FIB must
//! agree with the kernel.

mod common;

use bora_fib::{Adjacency, NextHop, PortId, Reason};
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
