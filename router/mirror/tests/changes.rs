//! Tests with neighbours, links, addresses and sysctls that change while the mirror runs, and with
//! overflow.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bora_fib::{FibConfig, NextHop, PortId, Reason};
use bora_mirror::MirrorConfig;
use bora_testing::ip_batch;
use common::{Router, known, ports, run, with_config, with_fib, with_router};

fn is_punt(router: &Router, address: &str, wanted: Reason) -> bool {
    let found = router.look_up(address.parse().unwrap());
    matches!(found, NextHop::Punt { reason, .. } if reason == wanted)
}

fn port(router: &Router, address: &str) -> Option<PortId> {
    match router.look_up(address.parse().unwrap()) {
        NextHop::Forward(way) => Some(way.port),
        _ => None,
    }
}

/// Adds or deletes `count` routes with one process.
fn burst(count: u32, verb: &str) {
    let line = |n: u32| {
        let (high, low) = (n >> 8, n & 255);
        format!("route {verb} 20.{high}.{low}.0/24 via 10.0.0.2\n")
    };
    ip_batch(&(0..count).map(line).collect::<String>());
}

/// Hosts and gateways for which no next hop is free are left to the kernel, and get one when others
/// go.
#[test]
fn next_hops_run_out_and_come_back() {
    let fib = FibConfig {
        max_next_hops: 30,
        ..FibConfig::default()
    };
    with_fib(MirrorConfig::default(), fib, |router| {
        let neighbours = |verb: &str, options: &str, count: u32| {
            let line = |n: u32| format!("neigh {verb} 10.0.0.{} dev r0{options}\n", n + 10);
            ip_batch(&(0..count).map(line).collect::<String>());
        };
        neighbours("add", " lladdr 02:bb:00:00:00:77 nud permanent", 60);
        router.poll_until("all hosts have next hops", |status| {
            status.v4.hosts_refused > 20
        });
        for n in 0..20 {
            run(&format!("ip route add 10.3.{n}.0/24 via 10.0.0.{}", n + 80));
        }
        run("ip route add 10.4.0.0/16 nexthop via 10.0.0.99 nexthop via 10.0.1.99");
        let status = router.poll_until("all routes have next hops", |status| {
            status.next_hops_refused == 21
        });
        assert!(!status.in_sync && status.fib_next_hops == 30, "{status:?}");
        // the FIB is written a few turns after the tables have them
        let start = Instant::now();
        for address in ["10.0.0.69", "10.3.19.1", "10.4.0.1"] {
            while !is_punt(router, address, Reason::Unsupported) {
                assert!(start.elapsed() < Duration::from_secs(10), "{address}");
                router.mirror.poll(Duration::from_millis(20)).unwrap();
            }
        }
        // existing next hops are right, and follow changes
        assert_eq!(port(router, "10.0.0.10"), Some(PortId(0)));
        neighbours("del", "", 58);
        run("ip route del 10.3.0.0/24");
        for n in 4..20 {
            run(&format!("ip route del 10.3.{n}.0/24"));
        }
        let status = router.poll_until("next hops come back", |status| status.in_sync);
        assert_eq!((status.v4.hosts_refused, status.next_hops_refused), (0, 0));
        assert_eq!(port(router, "10.0.0.69"), Some(PortId(0)));
        for address in ["10.3.1.1", "10.3.3.1", "10.4.0.1"] {
            let to_unknown = |way| matches!(way, NextHop::Punt { port: Some(_), .. });
            assert!(
                router.ways(address).into_iter().all(to_unknown),
                "{address}"
            );
        }
        router.agree();
    });
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
        // a deleted entry is held for a moment, in case packets go there
        let start = Instant::now();
        for address in ["10.0.0.9", "2001:db8:0::9", "10.3.0.1"] {
            while !is_punt(router, address, Reason::NoNeighbour) {
                assert!(start.elapsed() < Duration::from_secs(10), "{address}");
                router.mirror.poll(Duration::from_millis(20)).unwrap();
            }
        }
        run("ip neigh replace 10.0.0.9 dev r0 nud failed"); // it may be there: Linux is asked to find it again
        router.check();
        assert!(is_punt(router, "10.0.0.9", Reason::NoNeighbour));
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
            "the /25 has another gateway"
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
        while !is_punt(router, "10.2.0.1", Reason::NoRoute) {
            assert!(
                start.elapsed() < Duration::from_secs(1),
                "the kernel sends no event, but the mirror must notice"
            );
            router.mirror.poll(Duration::from_millis(10)).unwrap();
        }
        assert_eq!(
            port(router, "10.3.0.1"),
            Some(PortId(1)),
            "the route with the next metric takes over"
        );
        router.check();
        run("ip link set r0 up");
        known("r0", "10.0.0.2");
        router.check();
        assert!(
            is_punt(router, "10.2.0.1", Reason::NoRoute),
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
        assert!(is_punt(router, "10.2.0.1", Reason::NoRoute));
    });
}

#[test]
fn carrier_lost() {
    with_router(|router| {
        run("ip route add 10.3.0.0/16 via 10.0.0.2");
        run("ip route add 10.3.0.0/16 via 10.0.1.2 metric 500");
        router.check();
        let peer = router.net.peer.name().to_owned();
        run(&format!("ip -n {peer} link set p0 down"));
        router.check();
        assert_ne!(
            port(router, "10.3.0.1"),
            Some(PortId(1)),
            "Linux uses a link without a carrier by default"
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
        assert!(is_punt(router, "10.3.0.1", Reason::NoRoute));
        assert!(!router.is_own("10.0.0.1", 32));
        run("ip addr del 10.0.1.99/24 dev r1");
        router.check();
        assert!(
            is_punt(router, "10.2.0.1", Reason::NoRoute),
            "its preferred source was deleted"
        );
        run("ip addr add 10.0.0.1/24 dev r0");
        router.check();
        run("ip link del r1");
        router.check();
        assert!(is_punt(router, "10.0.1.2", Reason::NoRoute));
    });
}

/// The kernel silently deletes IPv4 routes with their preferred source. Only a comparison shows it,
/// and `poll` must report it to the caller as any other change.
#[test]
fn changes_by_a_comparison_are_reported() {
    with_router(|router| {
        run("ip addr add 10.0.1.99/24 dev r1");
        run("ip route add 10.2.0.0/16 via 10.0.1.2 src 10.0.1.99");
        router.check();
        run("ip addr del 10.0.1.99/24 dev r1");
        let start = Instant::now();
        let mut changes = 0;
        while !is_punt(router, "10.2.0.1", Reason::NoRoute) {
            assert!(start.elapsed() < Duration::from_secs(2), "nobody looked");
            changes = router.mirror.poll(Duration::from_millis(10)).unwrap().fib;
        }
        assert!(changes > 0, "poll did not report the change of the FIB");
    });
}

/// Many devices that change together are compared together.
#[test]
fn many_links_flap() {
    const LINKS: u32 = 40;
    with_router(|router| {
        let each = |what: &str| {
            let lines = (0..LINKS).map(|n| what.replace('%', &n.to_string()) + "\n");
            ip_batch(&lines.collect::<String>());
        };
        each("link add d% type veth peer name e%");
        // no link-local addresses: Linux would check them at random times, one link after the other
        each("link set d% addrgenmode none");
        each("addr add 10.9.%.1/24 dev d%");
        each("link set e% up");
        each("link set d% up");
        each("route add 20.%.0.0/16 via 10.9.%.2");
        router.check();
        let before = router.mirror.status().reconciliations;
        each("link set d% down");
        router.check();
        for n in 0..LINKS {
            assert!(is_punt(router, &format!("20.{n}.0.1"), Reason::NoRoute));
        }
        each("link set d% up");
        router.check();
        let compared = router.mirror.status().reconciliations - before;
        // one each would be twice as many as there are links; Linux tells of carriers in a few pieces
        assert!(
            compared < LINKS.into(),
            "{compared} comparisons for {LINKS} links"
        );
        each("link del d%");
        router.check();
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
        run("ip link set r1 alias noticed"); // settings of r1 are read at once, and those of r0 all the same
        router.check();
        assert_eq!(
            (mtu(router, "10.0.0.2"), mtu(router, "2001:db8:0::2")),
            (1400, 1300)
        );

        let one = ports(&router.mirror, &["r0"]);
        router.mirror.set_ports(one).unwrap();
        router.check();
        assert!(
            is_punt(router, "10.0.1.2", Reason::Unsupported),
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
fn ways_with_mtus_of_their_own_are_linuxs() {
    with_router(|router| {
        let is_linuxs = |router: &Router| is_punt(router, "2001:db8:f0::1", Reason::Unsupported);
        let add = |router: &mut Router, what: &str| {
            run(&format!("ip -6 route {what}"));
            router.agree();
        };
        known("r0", "2001:db8:0::3");
        add(router, "add 2001:db8:f0::/48 via 2001:db8:1::2 dev r1");
        assert!(!is_linuxs(router));
        // a dump shows the MTU of the first way for both
        add(
            router,
            "append 2001:db8:f0::/48 via 2001:db8:0::2 dev r0 mtu 1280",
        );
        assert!(is_linuxs(router));
        add(router, "append 2001:db8:f0::/48 via 2001:db8:0::3 dev r0");
        assert!(is_linuxs(router));
        add(router, "del 2001:db8:f0::/48 via 2001:db8:1::2 dev r1");
        assert!(is_linuxs(router), "two of three are left");
        add(router, "del 2001:db8:f0::/48 via 2001:db8:0::3 dev r0");
        assert!(!is_linuxs(router));
        match router.look_up("2001:db8:f0::1".parse().unwrap()) {
            NextHop::Forward(way) => assert_eq!(way.mtu, 1280),
            other => panic!("{other:?}"),
        }
        add(
            router,
            "replace 2001:db8:f0::/48 mtu 1400 nexthop via 2001:db8:0::2 dev r0 nexthop via 2001:db8:1::2 dev r1",
        );
        assert!(!is_linuxs(router), "all have the same");
    });
}

#[test]
fn overflow_recovers() {
    let config = MirrorConfig {
        event_buffer: 4096,
        ..MirrorConfig::default()
    };
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

/// A mirror has Linux keep gateways resolved, one that only looks does not.
#[test]
fn a_mirror_that_only_looks_asks_for_no_gateway() {
    for only_looks in [false, true] {
        let config = MirrorConfig {
            only_looks,
            ..MirrorConfig::default()
        };
        with_config(config, move |router| {
            run("ip route add 203.0.113.0/24 via 10.0.0.77");
            router.settle();
            let known = run("ip -d neigh show to 10.0.0.77");
            assert_eq!(known.is_empty(), only_looks, "{known}");
            router.check();
            run("ip route del 203.0.113.0/24");
            router.check();
        });
    }
}

/// Changes interrupt each dump of next-hop objects; a later comparison finds what the last dump
/// missed.
#[test]
fn steady_changes_interrupt_dumps() {
    const OBJECTS: u32 = 4000;
    with_router(|router| {
        let lines = |verb: &str, from: u32, to: u32| -> String {
            let line = |id: u32| match verb {
                "add" => format!("nexthop add id {id} via 10.0.0.2 dev r0\n"),
                _ => format!("nexthop del id {id}\n"),
            };
            (from..to).map(line).collect()
        };
        ip_batch(&lines("add", 1, OBJECTS));
        router.check();
        let stop = Arc::new(AtomicBool::new(false));
        let (stopping, again) = (stop.clone(), lines("add", OBJECTS, OBJECTS + 1000));
        let again = again + &lines("del", OBJECTS, OBJECTS + 1000);
        let namespace = router.net.enter();
        let storm = std::thread::spawn(move || {
            namespace();
            while !stopping.load(Relaxed) {
                ip_batch(&again);
            }
        });
        let start = Instant::now();
        let overtaken = |router: &Router| {
            let last = router.mirror.status().last_reconciliation;
            last.is_some_and(|last| last.failure.is_some())
        };
        while !overtaken(router) {
            assert!(
                start.elapsed() < Duration::from_secs(8),
                "no dump was interrupted: the test needs more changes"
            );
            router.mirror.poll(Duration::from_millis(10)).unwrap();
        }
        assert!(!router.mirror.status().in_sync);
        stop.store(true, Relaxed);
        storm.join().unwrap();
        run("ip nexthop flush");
        router.check();
        assert!(!overtaken(router) && router.mirror.status().kernel_next_hops == 0);
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
                "there is no event, but it is read again every second"
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

/// Only Linux knows the path MTUs that it has learned.
#[test]
fn learned_path_mtus_leave_ipv4_to_linux() {
    with_router(|router| {
        for set in [true, false] {
            let key = "/proc/sys/net/ipv4/ip_forward_use_pmtu";
            std::fs::write(key, u8::from(set).to_string()).unwrap();
            let start = Instant::now();
            loop {
                let guard = router.mirror.guard();
                let is_sysctl =
                    |one: &bora_mirror::Reason| one.kind == bora_mirror::ReasonKind::Sysctl;
                assert!(!guard.v6.iter().any(is_sysctl));
                if guard.v4.iter().any(is_sysctl) == set {
                    break;
                }
                assert!(start.elapsed() < Duration::from_secs(5), "{set}");
                router.mirror.poll(Duration::from_millis(100)).unwrap();
            }
        }
    });
}
