//! Random rulesets.

use fastrand::Rng;

/// Chains that others jump to, each only to later ones.
const CHAINS: usize = 4;

const MATCHES: [&str; 46] = [
    "ct state established",
    "ct state != established",
    "ct state new",
    "ct state { established, related }",
    "ct state { new, invalid }",
    "ct state invalid",
    "ct state & (established | new) != 0",
    "ct direction original",
    "ct direction reply",
    "ct status seen-reply",
    "ct status dying",
    "ct status dnat",
    "ct mark 0",
    "ct mark 5",
    "ct mark & 0xf0 == 0x10",
    "meta mark 0",
    "meta mark != 5",
    "meta mark & 0xf0 == 0x10",
    "meta mark > 16",
    "iifname \"r0\"",
    "iifname \"r1\"",
    "iifname \"r*\"",
    "iifname \"lo\"",
    "iifname != \"lo\"",
    "iif lo",
    "oifname \"r1\"",
    "udp dport 1000-1002",
    "udp dport != 1003",
    "udp sport { 1001, 1003 }",
    "udp length > 700",
    "tcp flags syn",
    "tcp dport 1001",
    "meta l4proto udp",
    "meta l4proto { tcp, icmp }",
    "meta l4proto != udp",
    "meta length > 700",
    "meta pkttype host",
    "meta pkttype != host",
    "fib daddr type local",
    "fib daddr type { local, multicast }",
    "fib saddr type unicast",
    "limit rate 1/minute burst 2 packets",
    "numgen inc mod 2 0",
    "@th,16,16 1003",
    "@th,8,8 & 1 == 1",
    "jhash udp dport mod 2 seed 1 0",
];
const MATCHES_V4: [&str; 7] = [
    "ip saddr 10.0.0.2",
    "ip daddr != 10.0.0.0/24",
    "ip protocol icmp",
    "ip protocol udp",
    "ip frag-off & 0x1fff != 0",
    "ip ttl < 60",
    "ip version 4",
];
const MATCHES_V6: [&str; 5] = [
    "ip6 saddr fd00:0::2",
    "ip6 daddr != fd00:0::/64",
    "ip6 nexthdr udp",
    "exthdr frag exists",
    "ip6 hoplimit < 65",
];
const STATEMENTS: [&str; 24] = [
    "accept",
    "accept",
    "accept",
    "drop",
    "return",
    "counter",
    "continue",
    "jump CHAIN",
    "jump CHAIN",
    "goto CHAIN",
    "goto CHAIN",
    "goto CHAIN",
    "return",
    "reject",
    "meta mark set 5",
    "meta mark set 0x11",
    "meta mark set ct mark",
    "meta mark set meta mark & 0xf | 0x10",
    "ct mark set 5",
    "ct mark set meta mark",
    "meta priority set 1:2",
    "notrack",
    "log",
    "numgen inc mod 3 vmap { 0 : accept, 1 : drop }",
];
const MAPS: [&str; 12] = [
    "ct state vmap { established : accept, related : accept, invalid : drop }",
    "ct state vmap { established : jump CHAIN, new : drop }",
    "ct state vmap { new : drop, untracked : drop }",
    "ct direction vmap { original : accept, reply : jump CHAIN }",
    "iifname vmap { \"r0\" : jump CHAIN, \"r1\" : accept, \"lo\" : drop }",
    "udp dport vmap { 1000-1002 : drop, 1003 : accept }",
    "udp dport vmap { 1000 : drop, 1001 : jump CHAIN, 1002 : goto CHAIN }",
    "meta l4proto vmap { tcp : drop, icmp : drop, udp : jump CHAIN }",
    "meta mark vmap { 0 : accept, 5 : drop, 0x11 : jump CHAIN }",
    "ct mark vmap { 0 : jump CHAIN, 5 : accept }",
    "meta l4proto . udp dport vmap { udp . 1001 : drop, tcp . 1002 : drop }",
    "iifname . ct state vmap { \"r0\" . established : jump CHAIN, \"lo\" . established : drop, \"r1\" . new : drop }",
];

/// A ruleset of one or two tables, in place of the last one.
pub(crate) fn ruleset(random: &mut Rng) -> String {
    let mut text = String::new();
    for table in 0..2 {
        for family in ["inet", "ip", "ip6"] {
            text += &format!("table {family} t{table}\ndelete table {family} t{table}\n");
        }
    }
    for table in 0..random.usize(1..3) {
        let family = ["inet", "inet", "ip", "ip6"][random.usize(0..4)];
        text += &format!("table {family} t{table} {{\n");
        // a table with few rules often leaves packets alone
        let most = random.usize(1..7);
        for chain in (0..CHAINS).rev() {
            text += &format!(
                "chain c{chain} {{\n{}}}\n",
                rules(random, family, chain + 1, most)
            );
        }
        for (hook, priorities) in [
            ("prerouting", &[-300, -150, 0][..]),
            ("forward", &[-10, 0, 10]),
            ("postrouting", &[0]),
        ] {
            if random.bool() {
                let priority = priorities[random.usize(0..priorities.len())];
                let policy = if random.usize(0..3) == 0 {
                    "drop"
                } else {
                    "accept"
                };
                text += &format!(
                    "chain {hook} {{\ntype filter hook {hook} priority {priority}; policy {policy};\n{}}}\n",
                    rules(random, family, 0, most)
                );
            }
        }
        text += "}\n";
    }
    text
}

/// Rules of a chain that may jump to those from `chain` on.
fn rules(random: &mut Rng, family: &str, chain: usize, most: usize) -> String {
    (0..random.usize(0..=most))
        .map(|_| rule(random, family, chain))
        .collect()
}

fn rule(random: &mut Rng, family: &str, chain: usize) -> String {
    let mut words: Vec<&str> = (0..random.usize(0..3))
        .map(|_| condition(random, family))
        .collect();
    words.push(match random.usize(0..4) {
        0 => MAPS[random.usize(0..MAPS.len())],
        _ => STATEMENTS[random.usize(0..STATEMENTS.len())],
    });
    let text = words.join(" ");
    if !text.contains("CHAIN") {
        text + "\n"
    } else if chain < CHAINS {
        text.replace("CHAIN", &format!("c{}", random.usize(chain..CHAINS))) + "\n"
    } else {
        String::new()
    }
}

fn condition(random: &mut Rng, family: &str) -> &'static str {
    match random.usize(0..4) {
        0 if family != "ip6" => MATCHES_V4[random.usize(0..MATCHES_V4.len())],
        1 if family != "ip" => MATCHES_V6[random.usize(0..MATCHES_V6.len())],
        _ => MATCHES[random.usize(0..MATCHES.len())],
    }
}
