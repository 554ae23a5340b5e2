//! Tables of legacy iptables: made by its own program, read from the kernel, and analysed.

mod common;

use bora_linux::{iptables, netns};
use bora_ruleset::{Answer, Question, Ruleset, Transit};

const HOME: &str = "*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
:established - [0:0]
:lan - [0:0]
:last - [0:0]
-A FORWARD -i lo -m limit --limit 1/second -j LOG
-A FORWARD ! -i lo -p icmp -f -j DROP
-A FORWARD -m comment --comment nothing
-A FORWARD -j established
-A FORWARD -i eth+ -j lan
-A FORWARD -g last
-A FORWARD -m limit --limit 1/second -j LOG
-A established -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A established -m state --state INVALID -j DROP
-A lan -s LAN -d OTHER -p tcp -m tcp --dport 80 -j ACCEPT
-A lan -m mark --mark 0x5 -j RETURN
-A last -p tcp --syn -j REJECT
COMMIT
*mangle
:PREROUTING ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
-A FORWARD -p tcp -m tcp --tcp-flags SYN,RST SYN -j TCPMSS --clamp-mss-to-pmtu
COMMIT
";

/// Loads rules by legacy iptables, and reads what became of them; `None` where that cannot be tested.
fn analysis(v6: bool, rules: &str) -> Option<Transit> {
    let program = if v6 {
        "ip6tables-legacy-restore"
    } else {
        "iptables-legacy-restore"
    };
    netns::in_new(|| {
        if let Err(said) = common::feed(program, &["-w", "20"], rules) {
            bora_testing::skip(format!("{program}: {said}"));
            return None;
        }
        let mut ruleset = Ruleset::default();
        for name in rules.lines().filter_map(|line| line.strip_prefix('*')) {
            let table = iptables::read(v6, name).unwrap();
            ruleset
                .read_iptables(v6, name, &table.info, &table.entries)
                .unwrap();
        }
        assert!(
            ruleset
                .analyse(Question {
                    v6: !v6,
                    local_first: true
                })
                .chains
                .is_empty()
        );
        Some(ruleset.analyse(Question {
            v6,
            local_first: true,
        }))
    })
    .unwrap()
}

fn addresses(v6: bool, rules: &str) -> String {
    let (lan, other) = if v6 {
        ("2001:db8::/64", "2001:db8:1::1")
    } else {
        ("192.0.2.0/24", "203.0.113.1")
    };
    let rules = if v6 {
        rules.replace("icmp -f", "icmpv6")
    } else {
        rules.into()
    };
    rules.replace("LAN", lan).replace("OTHER", other)
}

#[test]
fn established_flows_pass_a_home_router() {
    if !common::is_root() {
        return;
    }
    for v6 in [false, true] {
        let Some(transit) = analysis(v6, &addresses(v6, HOME)) else {
            continue;
        };
        let text = common::text(&transit);
        assert_eq!(
            transit.established.answer(),
            Answer::Unconditional,
            "{text}"
        );
        let alone: Vec<bool> = transit
            .chains
            .iter()
            .map(|chain| chain.leaves_alone)
            .collect();
        let names: Vec<&str> = transit
            .chains
            .iter()
            .map(|chain| chain.name.as_str())
            .collect();
        assert_eq!(
            names,
            ["PREROUTING", "FORWARD", "FORWARD", "POSTROUTING"],
            "{text}"
        );
        assert_eq!(alone, [true, false, false, true], "{text}");
        assert!(transit.looks_at_conntrack);
    }
}

#[test]
fn without_the_first_jump_they_do_not() {
    if !common::is_root() {
        return;
    }
    for v6 in [false, true] {
        let rules = addresses(v6, HOME).replace("-A FORWARD -j established\n", "");
        let Some(transit) = analysis(v6, &rules) else {
            continue;
        };
        let text = common::text(&transit);
        let family = if v6 { "ip6tables" } else { "iptables" };
        for line in [
            format!(
                "Constant: rule 1 of chain {family} filter lan (ADDRESSES meta l4proto -m tcp accept)"
            ),
            format!("Constant: chain {family} filter FORWARD (policy drop)"),
        ] {
            let own = if v6 {
                "ip6 saddr ip6 daddr"
            } else {
                "ip saddr ip daddr"
            };
            let line = line.replace("ADDRESSES", own);
            assert!(text.contains(&line), "{line}\n{text}");
        }
        assert_eq!(transit.established.answer(), Answer::Constant, "{text}");
        assert!(!transit.looks_at_conntrack, "{text}");
    }
}

#[test]
fn a_table_without_rules_leaves_alone() {
    if !common::is_root() {
        return;
    }
    for v6 in [false, true] {
        let tables =
            ["raw", "mangle", "filter", "security"].map(|name| format!("*{name}\nCOMMIT\n"));
        let Some(transit) = analysis(v6, &tables.concat()) else {
            continue;
        };
        assert_eq!(transit.chains.len(), 6, "{}", common::text(&transit));
        assert!(transit.chains.iter().all(|chain| chain.leaves_alone));
        assert!(!transit.looks_at_conntrack);
        let Some(transit) = analysis(v6, "*nat\nCOMMIT\n") else {
            continue;
        };
        assert!(
            transit.looks_at_conntrack,
            "NAT's functions may change ports"
        );
    }
}
