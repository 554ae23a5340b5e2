//! Neighbours, links, addresses, overflow and sysctls that change while the mirror runs.

mod common;

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bora_fib::{NextHop, PortId, PuntReason};
use bora_kernel::MirrorConfig;
use common::{Router, known, ports, run, with_config, with_router};

fn is_punt(router: &Router, address: &str, wanted: PuntReason) -> bool {
    let found = router.look_up(address.parse().unwrap());
    matches!(found, NextHop::Punt { reason, .. } if reason == wanted)
}

fn port(router: &Router, address: &str) -> Option<PortId> {
    match router.look_up(address.parse().unwrap()) {
        NextHop::Forward(way) => Some(way.port),
        _ => None,
    }
}

/// Adds `count` routes with one process.
fn burst(count: u32, verb: &str) {
    let mut batch = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = batch.stdin.take().unwrap();
    for n in 0..count {
        writeln!(
            input,
            "route {verb} 20.{}.{}.0/24 via 10.0.0.2",
            n >> 8,
            n & 255
        )
        .unwrap();
    }
    drop(input);
    assert!(batch.wait().unwrap().success());
}

#[test]
fn neighbours_come_and_go() {
    with_router(|router| {
        known("r0", "10.0.0.9");
        known("r0", "2001:db8:0::9");
        run("ip route add 10.3.0.0/16 via 10.0.0.9");
        router.check();
        for address in ["10.0.0.9", "2001:db8:0::9", "10.3.0.1"] {
            assert_eq!(port(router, address), Some(PortId(0)), "{address}");
        }
        run("ip neigh replace 10.0.0.9 lladdr 02:cc:00:00:00:01 dev r0 nud reachable");
        router.check();
        let NextHop::Forward(way) = router.look_up("10.3.0.1".parse().unwrap()) else {
            panic!()
        };
        assert_eq!(way.l2[..6], [2, 0xcc, 0, 0, 0, 1]);

        run("ip neigh del 10.0.0.9 dev r0");
        run("ip neigh del 2001:db8:0::9 dev r0");
        router.check();
        for address in ["10.0.0.9", "2001:db8:0::9", "10.3.0.1"] {
            assert!(
                is_punt(router, address, PuntReason::NoNeighbour),
                "{address}"
            );
        }
        run("ip neigh add 10.0.0.9 dev r0 nud failed");
        router.check();
        assert!(is_punt(router, "10.0.0.9", PuntReason::NoNeighbour));
    });
}

#[test]
fn host_routes_yield_to_more_specific_routes() {
    with_router(|router| {
        known("r0", "10.0.0.130");
        router.check();
        assert_eq!(port(router, "10.0.0.130"), Some(PortId(0)));
        run("ip route add 10.0.0.128/25 via 10.0.1.2");
        router.check();
        assert_eq!(
            port(router, "10.0.0.130"),
            Some(PortId(1)),
            "the /25 leads elsewhere"
        );
        run("ip route replace 10.0.0.130/32 dev r0");
        router.check();
        assert_eq!(
            port(router, "10.0.0.130"),
            Some(PortId(0)),
            "an on-link /32"
        );
        run("ip route del 10.0.0.130/32");
        run("ip route del 10.0.0.128/25");
        router.check();
        assert_eq!(port(router, "10.0.0.130"), Some(PortId(0)));
        run("ip route add blackhole 10.0.0.130/32");
        router.check();
        assert_eq!(
            router.look_up("10.0.0.130".parse().unwrap()),
            NextHop::Blackhole
        );
    });
}

#[test]
fn link_down_and_up() {
    with_router(|router| {
        run("ip route add 10.3.0.0/16 via 10.0.0.2");
        run("ip route add 10.3.0.0/16 via 10.0.1.2 metric 500");
        run("ip route add 10.2.0.0/16 via 10.0.0.2");
        run("ip -6 route add 2001:db8:3::/48 via 2001:db8:0::2");
        router.check();
        run("ip link set r0 down");
        let start = Instant::now();
        while !is_punt(router, "10.2.0.1", PuntReason::NoRoute) {
            assert!(
                start.elapsed() < Duration::from_secs(1),
                "the kernel told nobody, we must see"
            );
            router.mirror.poll(Duration::from_millis(10)).unwrap();
        }
        assert_eq!(
            port(router, "10.3.0.1"),
            Some(PortId(1)),
            "the next metric takes over"
        );
        router.check();
        run("ip link set r0 up");
        known("r0", "10.0.0.2");
        router.check();
        assert!(
            is_punt(router, "10.2.0.1", PuntReason::NoRoute),
            "deleted routes stay deleted"
        );
        assert_eq!(
            port(router, "10.0.0.2"),
            Some(PortId(0)),
            "the connected network is back"
        );

        // down and up before anybody looks
        run("ip route add 10.2.0.0/16 via 10.0.0.2");
        router.check();
        run("ip link set r0 down");
        run("ip link set r0 up");
        router.check();
        assert!(is_punt(router, "10.2.0.1", PuntReason::NoRoute));
    });
}

#[test]
fn carrier_lost() {
    with_router(|router| {
        run("ip route add 10.3.0.0/16 via 10.0.0.2");
        run("ip route add 10.3.0.0/16 via 10.0.1.2 metric 500");
        router.check();
        let peer = router.net.peer.clone();
        run(&format!("ip -n {peer} link set p0 down"));
        router.check();
        assert_ne!(
            port(router, "10.3.0.1"),
            Some(PortId(1)),
            "used without a carrier by default"
        );
        run("sysctl -qw net.ipv4.conf.r0.ignore_routes_with_linkdown=1");
        router.check();
        assert_eq!(port(router, "10.3.0.1"), Some(PortId(1)), "now ignored");
        run(&format!("ip -n {peer} link set p0 up"));
        known("r0", "10.0.0.2");
        router.check();
        assert_eq!(port(router, "10.3.0.1"), Some(PortId(0)));
    });
}

#[test]
fn last_address_removed() {
    with_router(|router| {
        run("ip route add 10.3.0.0/16 via 10.0.0.2");
        run("ip addr add 10.0.1.99/24 dev r1");
        run("ip route add 10.2.0.0/16 via 10.0.1.2 src 10.0.1.99");
        run("ip route add 10.1.0.0/16 nexthop via 10.0.0.2 nexthop via 10.0.1.2");
        router.check();
        run("ip addr del 10.0.0.1/24 dev r0");
        router.check();
        assert!(is_punt(router, "10.3.0.1", PuntReason::NoRoute));
        assert!(
            !router
                .mirror
                .local_addresses()
                .v4
                .contains(&"10.0.0.1".parse().unwrap())
        );
        run("ip addr del 10.0.1.99/24 dev r1");
        router.check();
        assert!(
            is_punt(router, "10.2.0.1", PuntReason::NoRoute),
            "its preferred source went"
        );
        run("ip addr add 10.0.0.1/24 dev r0");
        router.check();
        run("ip link del r1");
        router.check();
        assert!(is_punt(router, "10.0.1.2", PuntReason::NoRoute));
    });
}

#[test]
fn mtu_ports_and_new_links() {
    with_router(|router| {
        let mtu = |router: &Router, address: &str| match router.look_up(address.parse().unwrap()) {
            NextHop::Forward(way) => way.mtu,
            other => panic!("{other:?}"),
        };
        router.check();
        assert_eq!(mtu(router, "10.0.0.2"), 1500);
        run("ip link set r0 mtu 1400");
        router.check();
        assert_eq!(
            (mtu(router, "10.0.0.2"), mtu(router, "2001:db8:0::2")),
            (1400, 1400)
        );
        run("sysctl -qw net.ipv6.conf.r0.mtu=1300");
        std::thread::sleep(Duration::from_secs(1));
        router.check();
        assert_eq!(
            (mtu(router, "10.0.0.2"), mtu(router, "2001:db8:0::2")),
            (1400, 1300)
        );

        let one = ports(&router.mirror, &["r0"]);
        router.mirror.set_ports(one).unwrap();
        router.check();
        assert!(
            is_punt(router, "10.0.1.2", PuntReason::Unsupported),
            "r1 is no port any more"
        );
        let both = ports(&router.mirror, &["r0", "r1"]);
        router.mirror.set_ports(both).unwrap();
        router.check();
        assert_eq!(port(router, "10.0.1.2"), Some(PortId(1)));

        run("ip link add r2 type veth peer name p2");
        run("ip addr add 10.0.2.1/24 dev r2");
        run("ip link set r2 up");
        run("ip link set p2 up");
        router.check();
        let three = ports(&router.mirror, &["r0", "r1", "r2"]);
        assert_eq!(three.len(), 3);
        run("ip link del r2");
        router.check();
        assert_eq!(ports(&router.mirror, &["r2"]).len(), 0);
    });
}

#[test]
fn overflow_recovers() {
    let config = MirrorConfig { event_buffer: 4096 };
    with_config(config, |router| {
        burst(3000, "add");
        router.settle();
        let status = router.mirror.status();
        assert!(status.overflows > 0, "the test did not overflow the socket");
        assert_eq!(router.mirror.fib().len4(), status.v4.fib_prefixes);
        assert!(status.v4.kernel_routes >= 3000);
        router.check();
        burst(3000, "del");
        router.check();
        assert!(router.mirror.fib().len4() < 100);
    });
}

#[test]
fn routes_change_without_a_leak() {
    with_router(|router| {
        router.settle();
        let before = router.mirror.fib().stats().next_hops;
        for _ in 0..3 {
            burst(500, "add");
            router.settle();
            run("ip route add 10.3.0.0/16 nexthop via 10.0.0.2 nexthop via 10.0.1.2");
            router.settle();
            run("ip route del 10.3.0.0/16");
            burst(500, "del");
            router.settle();
        }
        assert_eq!(router.mirror.fib().stats().next_hops, before);
    });
}

#[test]
fn sysctls() {
    with_router(|router| {
        let index = router
            .mirror
            .links()
            .values()
            .find(|l| l.name == "r0")
            .unwrap()
            .index;
        let settings = router.mirror.settings().interfaces[&index];
        assert!(settings.forwarding4 && settings.forwarding6 && settings.rp_filter == 0);
        let generation = router.mirror.settings().generation;
        run("sysctl -qw net.ipv4.conf.r0.forwarding=0");
        run("sysctl -qw net.ipv4.conf.all.rp_filter=2");
        run("sysctl -qw net.ipv4.conf.r0.rp_filter=1");
        run("sysctl -qw net.ipv6.conf.all.forwarding=0");
        router.settle();
        let settings = router.mirror.settings().interfaces[&index];
        assert!(!settings.forwarding4 && !settings.forwarding6 && settings.rp_filter == 2);
        assert!(router.mirror.settings().generation > generation);

        run("sysctl -qw net.ipv4.fib_multipath_hash_policy=1");
        run("sysctl -qw net.ipv6.fib_multipath_hash_policy=3");
        let start = Instant::now();
        while router.mirror.settings().hash6.policy != 3 {
            assert!(
                start.elapsed() < Duration::from_secs(3),
                "no event tells, but a second does"
            );
            router.mirror.poll(Duration::from_millis(200)).unwrap();
        }
        assert_eq!(router.mirror.settings().hash4.policy, 1);
    });
}

#[test]
fn waker_ends_a_poll() {
    with_router(|router| {
        router.settle();
        let waker = router.mirror.waker();
        let start = Instant::now();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            waker.wake();
        });
        while start.elapsed() < Duration::from_millis(20) {
            router.mirror.poll(Duration::from_millis(900)).unwrap();
        }
        thread.join().unwrap();
        assert!(start.elapsed() < Duration::from_millis(800));
    });
}
