//! The guard finds what must stay with the kernel, at the start and while running.

mod common;

use std::time::{Duration, Instant};

use bora_fib::FibConfig;
use bora_mirror::{GuardReport, Mirror, MirrorConfig, Reason, ReasonKind};
use common::{Router, attempt, run, with_router};

/// How late a busy machine may be.
const LATE: Duration = Duration::from_secs(10);

/// The report after a change; a fresh mirror must report the same, once the change is known.
fn report(router: &mut Router) -> GuardReport {
    let until = Instant::now() + LATE;
    loop {
        router.settle();
        let mut running = router.mirror.guard().clone();
        let (fib, _) = bora_fib::new(FibConfig::default()).unwrap();
        let mut fresh = Mirror::open(MirrorConfig::default(), fib).unwrap();
        let ports = common::ports(&fresh, &["r0", "r1"]);
        fresh.set_ports(ports).unwrap();
        if let (Some(rules), Some(fresh)) = (&mut running.firewall, &fresh.guard().firewall) {
            rules.edition = fresh.edition; // how often each has read others
        }
        if &running == fresh.guard() {
            // each change of the ruleset has another generation; router/ruleset tests what rules do
            return GuardReport {
                firewall: None,
                ..running
            };
        }
        let late = Instant::now() > until;
        assert!(!late, "it differs from one at the start: {running:?}");
    }
}

fn kinds(reasons: &[Reason]) -> Vec<ReasonKind> {
    reasons.iter().map(|reason| reason.kind).collect()
}

#[test]
fn nothing_to_guard() {
    with_router(|router| assert_eq!(report(router), GuardReport::default()));
}

#[test]
fn nftables() {
    with_router(|router| {
        run("nft add table inet filter");
        run("nft add chain inet filter input { type filter hook input priority 0 ; }");
        run("nft add chain inet filter helper");
        let found = report(router);
        let nothing: &[Reason] = &[];
        assert_eq!(
            (&*found.v4, &*found.v6),
            (nothing, nothing),
            "forwarded packets do not pass the hook"
        );
        assert_eq!(
            kinds(&found.local),
            [ReasonKind::Netfilter],
            "but tunnels' do"
        );
        run("nft delete chain inet filter input");
        assert_eq!(report(router), GuardReport::default());
        run(
            "nft add chain inet filter forward { type filter hook forward priority 0 ; policy drop ; }",
        );
        let changes = router.mirror.poll(Duration::from_millis(500)).unwrap();
        assert!(
            changes.guard,
            "the change must come by an event, not by the periodic check"
        );
        let found = report(router);
        let text = "nftables: table inet filter chain forward (hook forward, policy drop; a flowtable takes established \
                    flows past it, see docs/firewall.md; `nft delete table inet filter` removes it with all that it filters)";
        assert_eq!(found.v4[0].text, text);
        assert_eq!(found.v6[0].text, text);
        run("nft delete chain inet filter forward");
        run("nft add table ip6 nat");
        run("nft add chain ip6 nat pre { type nat hook prerouting priority 0 ; }");
        let found = report(router);
        assert_eq!(
            (found.v4.len(), kinds(&found.v6)),
            (0, vec![ReasonKind::Netfilter])
        );
        run("nft flush ruleset");
        if attempt("nft add table netdev t").status.success()
            && attempt(
                "nft add chain netdev t in { type filter hook ingress device r0 priority 0 ; }",
            )
            .status
            .success()
        {
            assert_eq!(report(router).v4.len(), 1);
            run("nft flush ruleset");
        } else {
            eprintln!("skipped: this kernel has no netdev chains");
        }
        assert_eq!(report(router), GuardReport::default());
    });
}

#[test]
fn iptables() {
    with_router(|router| {
        let mut tried = 0;
        for command in ["iptables-nft", "iptables-legacy"] {
            let add = attempt(&format!("{command} -w 20 -A FORWARD -s 10.9.9.9 -j DROP"));
            if !add.status.success() {
                eprintln!("skipped: {command} does not work here");
                continue;
            }
            tried += 1;
            // legacy tables have no event, so wait for the periodic check
            std::thread::sleep(Duration::from_millis(1100));
            let found = report(router);
            assert_eq!(kinds(&found.v4), [ReasonKind::Netfilter], "{command}");
            assert!(found.v6.is_empty());
            run(&format!("{command} -w 20 -F"));
            if command == "iptables-nft" {
                run("nft flush ruleset");
            }
        }
        assert!(tried > 0, "there is no iptables to test with");
    });
}

#[test]
fn policies_of_ipsec() {
    with_router(|router| {
        for (direction, forwarded, local) in [("fwd", 1, 0), ("out", 1, 0), ("in", 0, 1)] {
            let policy = format!("src 10.0.0.0/24 dst 10.0.1.0/24 dir {direction}");
            let add = attempt(&format!(
                "ip xfrm policy add {policy} tmpl src 10.0.0.1 dst 10.0.1.1 proto esp mode tunnel"
            ));
            if !add.status.success() {
                eprintln!("skipped: this kernel has no xfrm");
                return;
            }
            let found = report(router);
            let all = [&found.v4, &found.v6, &found.local].map(Vec::len);
            assert_eq!(all, [forwarded, 0, local], "{direction}: {found:?}");
            let mut reasons = found.v4.iter().chain(&found.local);
            assert!(reasons.all(|reason| reason.kind == ReasonKind::Xfrm));
            run(&format!("ip xfrm policy del {policy}"));
            assert_eq!(report(router), GuardReport::default());
        }
    });
}

#[test]
fn traffic_control_and_masters() {
    with_router(|router| {
        if attempt("tc qdisc add dev r0 clsact").status.success() {
            assert_eq!(kinds(&report(router).v4), [ReasonKind::Tc]);
            run("tc qdisc del dev r0 clsact");
            assert!(report(router).v4.is_empty());
        } else {
            eprintln!("skipped: this kernel has no clsact");
        }
        if attempt("ip link add br0 type bridge").status.success() {
            run("ip link set r0 master br0");
            assert_eq!(kinds(&report(router).v6), [ReasonKind::Master]);
            run("ip link set r0 nomaster");
            assert!(report(router).v6.is_empty());
        } else {
            eprintln!("skipped: this kernel has no bridge");
        }
    });
}

/// What each queueing discipline is to Bora: whether it shapes what leaves.
const QDISCS: [(&str, bool); 17] = [
    ("pfifo_fast", false),
    ("pfifo", false),
    ("bfifo limit 100k", false),
    ("fq_codel", false),
    ("fq_codel ce_threshold 1ms", true),
    ("fq", false),
    ("fq maxrate 1mbit", true),
    ("fq ce_threshold 1ms", true),
    ("tbf rate 1mbit burst 10k latency 50ms", true),
    ("htb default 1", true),
    ("hfsc default 1", true),
    ("cake unlimited", true),
    ("cake bandwidth 20mbit", true),
    ("prio", true),
    ("sfq", true),
    ("netem delay 1ms", true),
    ("red limit 400000 avpkt 1000", true),
];

#[test]
fn queueing_disciplines_that_shape() {
    with_router(|router| {
        let mut tried = [0, 0];
        for (qdisc, shapes) in QDISCS {
            if !attempt(&format!("tc qdisc replace dev r0 root handle 1: {qdisc}"))
                .status
                .success()
            {
                eprintln!("this kernel has no {qdisc}");
                continue;
            }
            tried[usize::from(shapes)] += 1;
            let found = report(router).shapers;
            let kinds: Vec<_> = found.values().map(String::as_str).collect();
            let expected = qdisc.split(' ').next().filter(|_| shapes);
            assert_eq!(kinds, Vec::from_iter(expected), "{qdisc}");
            run("tc qdisc del dev r0 root");
            assert!(report(router).shapers.is_empty(), "{qdisc} is gone");
        }
        assert!(tried[0] > 0 && tried[1] > 0, "{tried:?}");
    });
}
