//! Tables that rules use are mirrored, and no others.

mod common;

use std::time::Duration;

use bora_fib::{NextHop, NextHopId, Prefix4, Reason};
use bora_mirror::message::RuleAction;
use common::{Router, known, run, with_router};

/// What a table of the FIB has for an address; `None` if the table is not mirrored or has no route.
fn find(router: &Router, table: u32, address: &str) -> Option<NextHop> {
    let table = router.mirror.further_table(false, table)?;
    let address: std::net::Ipv4Addr = address.parse().unwrap();
    let fib = router.mirror.fib();
    let (_, id) = fib.longest_match4_in(table, address.to_bits())?;
    fib.next_hop(id).cloned()
}

fn port(found: Option<NextHop>) -> u16 {
    match found {
        Some(NextHop::Forward(way)) => way.port.0,
        other => panic!("{other:?}"),
    }
}

#[test]
fn tables_come_and_go_with_rules() {
    with_router(|router| {
        run("ip route add 10.7.0.0/16 via 10.0.0.2 table 77");
        run("ip -6 route add 2001:db8:7::/48 via 2001:db8:0::2 table 77");
        router.agree();
        assert_eq!(router.mirror.further_table(false, 77), None);
        let before = router.mirror.policy_generation();
        run("ip rule add from 10.9.0.0/16 table 77");
        router.agree();
        assert!(router.mirror.policy_generation() > before);
        assert!(router.mirror.guard().v4.is_empty());
        assert_eq!(port(find(router, 77, "10.7.0.1")), 0);
        assert_eq!(find(router, 77, "10.8.0.1"), None);
        assert_eq!(router.mirror.further_table(true, 77), None);
        run("ip -6 rule add from 2001:db8:9::/48 table 77");
        router.agree();
        assert!(router.mirror.further_table(true, 77).is_some());
        let rules = &router.mirror.rules(false).list;
        let rule = rules.iter().find(|rule| rule.src.is_some()).unwrap();
        assert_eq!(rule.src, Some(("10.9.0.0".parse().unwrap(), 16)));
        assert_eq!(rule.action, RuleAction::Table(77));
        // changes of routes
        run("ip route replace 10.7.0.0/16 via 10.0.1.2 table 77");
        run("ip route add blackhole 10.8.0.0/16 table 77");
        run("ip route add throw default table 77");
        router.agree();
        assert_eq!(port(find(router, 77, "10.7.0.1")), 1);
        assert_eq!(find(router, 77, "10.8.0.1"), Some(NextHop::Blackhole));
        let throw = router.mirror.shared_hops().throw;
        assert_eq!(
            find(router, 77, "1.1.1.1"),
            router.mirror.fib().next_hop(throw).cloned()
        );
        // one prefix in two tables
        run("ip route add 10.7.0.0/16 via 10.0.0.2");
        router.agree();
        assert_eq!(port(find(router, 77, "10.7.0.1")), 1);
        run("ip link set r1 down");
        router.agree();
        assert_eq!(
            router.mirror.fib().get4_in(
                router.mirror.further_table(false, 77).unwrap(),
                Prefix4::masked(0x0a07_0000, 16)
            ),
            None
        );
        run("ip rule del from 10.9.0.0/16 table 77");
        router.agree();
        assert_eq!(router.mirror.further_table(false, 77), None);
        assert_eq!(router.mirror.further_tables(), [(77, 0, 1)]);
    });
}

#[test]
fn neighbours_and_own_addresses_of_a_table() {
    with_router(|router| {
        run("ip rule add from 10.9.0.0/16 table 77");
        run("ip route add 10.0.1.0/24 dev r1 table 77");
        run("ip route add local 10.66.0.1 dev r1 table 77");
        router.agree();
        assert_eq!(port(find(router, 77, "10.0.1.2")), 1);
        known("r1", "10.0.1.9");
        router.agree();
        assert_eq!(port(find(router, 77, "10.0.1.9")), 1);
        assert!(router.is_own("10.66.0.1", 32));
        let own = NextHop::Punt {
            reason: Reason::Local,
            port: None,
        };
        assert_eq!(find(router, 77, "10.66.0.1"), Some(own));
        run("ip neigh del 10.0.1.9 dev r1");
        run("ip route del local 10.66.0.1 dev r1 table 77");
        router.agree();
        assert!(!router.is_own("10.66.0.1", 32));
        assert!(!matches!(
            find(router, 77, "10.0.1.9"),
            Some(NextHop::Forward(_))
        ));
    });
}

#[test]
fn main_may_not_be_alone() {
    with_router(|router| {
        assert!(router.mirror.main_is_alone(false));
        run("ip route add 10.7.0.0/16 via 10.0.0.2 table default");
        router.agree();
        assert!(!router.mirror.main_is_alone(false));
        run("ip route del 10.7.0.0/16 table default");
        run("ip route add 10.7.0.0/16 via 10.0.0.2 table local");
        router.agree();
        assert!(!router.mirror.main_is_alone(false));
        run("ip route del 10.7.0.0/16 table local");
        router.agree();
        assert!(router.mirror.main_is_alone(false) && router.mirror.main_is_alone(true));
    });
}

/// The background check and the audit know the further tables.
#[test]
fn checks_find_nothing_to_mend() {
    with_router(|router| {
        run("ip rule add from 10.9.0.0/16 table 77");
        for number in 0..50 {
            run(&format!(
                "ip route add 10.7.{number}.0/24 via 10.0.0.2 table 77"
            ));
        }
        router.agree();
        let before = router.mirror.status();
        for _ in 0..30 {
            router.mirror.poll(Duration::from_millis(100)).unwrap();
        }
        let after = router.mirror.status();
        assert_eq!(after.mended, before.mended);
        assert_ne!(router.mirror.shared_hops().throw, NextHopId::NO_ROUTE);
    });
}
