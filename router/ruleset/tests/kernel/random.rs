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
    led(random, &words.join(" "), chain)
}

fn condition(random: &mut Rng, family: &str) -> &'static str {
    match random.usize(0..4) {
        0 if family != "ip6" => MATCHES_V4[random.usize(0..MATCHES_V4.len())],
        1 if family != "ip" => MATCHES_V6[random.usize(0..MATCHES_V6.len())],
        _ => MATCHES[random.usize(0..MATCHES.len())],
    }
}

/// Named sets of each table of [`stateless`].
const SETS: &str = "set hosts4 { type ipv4_addr; elements = { 10.0.0.2, 10.0.0.9, 192.0.2.1 }; }
set nets4 { type ipv4_addr; flags interval; elements = { 10.0.0.0-10.0.0.1, 10.0.0.2-10.0.0.7, 10.0.1.0/24, 192.0.2.0/24, 224.0.0.0/3 }; }
set nets6 { type ipv6_addr; flags interval; elements = { 2001:db8::/32, fd00:0::/64, fd00:1::2-fd00:1::8, fe80::/10 }; }
set empty4 { type ipv4_addr; flags interval; }
set pairs4 { type ipv4_addr . inet_service; flags interval; elements = { 10.0.0.0/24 . 1000-1002, 10.0.1.2 . 1001 }; }
set pairs6 { type ipv6_addr . inet_service; elements = { fd00:1::2 . 1001, fd00:0::2 . 1003 }; }
set services { type inet_service; flags interval; elements = { 1001, 1003-1004, 65535 }; }
map to { type inet_service : verdict; flags interval; elements = { 1000-1001 : accept, 1003 : drop, 1004-1005 : continue }; }
";
const STATELESS: [&str; 27] = [
    "iifname \"r0\"",
    "iifname \"r*\"",
    "iifname != { \"r0\", \"lo\" }",
    "iifname { \"r1\", \"r2\", \"d*\" }",
    "iif \"r1\"",
    "iif != \"r1\"",
    "oifname \"r1\"",
    "oif { \"r0\", \"lo\" }",
    "udp dport 1000-1002",
    "udp dport != 1003",
    "udp sport < 1002",
    "udp sport >= 1004",
    "udp dport @services",
    "udp dport != @services",
    "udp sport { 1001, 1003 }",
    "th dport != { 1000-1002, 1005 }",
    "fib daddr type local",
    "fib daddr type != { local, broadcast, multicast }",
    "fib daddr type { local, unicast }",
    "meta l4proto { tcp, icmp }",
    "meta l4proto != udp",
    "@th,0,8 3",
    "@th,16,12 62",
    "udp length > 700",
    "meta mark 0",
    "meta nfproto ipv4",
    "iifname . udp dport { \"r0\" . 1000-1002, \"r1\" . 1001 }",
];
const STATELESS_V4: [&str; 12] = [
    "ip saddr 10.0.0.2",
    "ip daddr != 10.0.0.0/24",
    "ip saddr 10.0.0.0/31",
    "ip saddr & 255.255.255.254 == 10.0.1.2",
    "ip daddr 10.0.0.1-10.0.0.200",
    "ip saddr @hosts4",
    "ip daddr != @hosts4",
    "ip saddr @nets4",
    "ip daddr != @nets4",
    "ip saddr @empty4",
    "ip saddr . udp dport @pairs4",
    "ip saddr . ip daddr { 10.0.0.2 . 10.0.1.2, 10.0.0.0/8 . 192.0.2.0/24 }",
];
const STATELESS_V6: [&str; 8] = [
    "ip6 saddr fd00:0::2",
    "ip6 daddr != fd00:0::/63",
    "ip6 saddr fd00:1::/65",
    "ip6 saddr @nets6",
    "ip6 daddr != @nets6",
    "ip6 daddr . udp dport @pairs6",
    "ip6 nexthdr udp",
    "ip6 nexthdr { tcp, icmpv6 }",
];
const STATELESS_ENDS: [&str; 22] = [
    "accept",
    "accept",
    "counter accept",
    "drop",
    "counter drop",
    "return",
    "counter",
    "jump CHAIN",
    "counter jump CHAIN",
    "jump CHAIN",
    "goto CHAIN",
    "notrack",
    "notrack counter accept",
    "reject",
    "limit rate 1/minute burst 2 packets accept",
    "udp dport vmap @to",
    "udp dport vmap { 1000-1002 : drop, 1003 : accept }",
    "udp dport vmap { 1000 : drop, 1001 : jump CHAIN, 1002 : goto CHAIN }",
    "iifname vmap { \"r0\" : jump CHAIN, \"r1\" : accept, \"lo\" : drop }",
    "meta l4proto . udp dport vmap { udp . 1001 : drop, tcp . 1002 : drop }",
    "ct state vmap { untracked : accept, invalid : drop }",
    "ct state established accept",
];

/// A ruleset in place of the last one, of which most can be decided without connections.
pub(crate) fn stateless(random: &mut Rng) -> String {
    let mut text = String::new();
    for table in 0..2 {
        for family in ["inet", "ip", "ip6"] {
            text += &format!("table {family} t{table}\ndelete table {family} t{table}\n");
        }
    }
    let family = ["inet", "inet", "ip", "ip6"][random.usize(0..4)];
    text += &format!("table {family} t0 {{\n{SETS}");
    // connections matter to some rulesets only
    let ends = STATELESS_ENDS.len() - 2 * random.usize(0..2);
    let most = random.usize(1..7);
    let rules = |random: &mut Rng, chain: usize| -> String {
        (0..random.usize(0..=most))
            .map(|_| stateless_rule(random, family, chain, ends))
            .collect()
    };
    for chain in (0..CHAINS).rev() {
        text += &format!("chain c{chain} {{\n{}}}\n", rules(random, chain + 1));
    }
    for (hook, priorities) in [
        ("prerouting", &[-300i32, -150][..]),
        ("forward", &[-10, 0]),
        ("postrouting", &[0]),
    ] {
        for priority in priorities {
            if random.bool() {
                continue;
            }
            let policy = ["accept", "accept", "drop"][random.usize(0..3)];
            text += &format!(
                "chain {hook}{} {{\ntype filter hook {hook} priority {priority}; policy {policy};\n{}}}\n",
                priority.unsigned_abs(),
                rules(random, 0)
            );
        }
    }
    text + "}\n"
}

fn stateless_rule(random: &mut Rng, family: &str, chain: usize, ends: usize) -> String {
    let mut words: Vec<&str> = (0..random.usize(0..3))
        .map(|_| match random.usize(0..5) {
            0 | 1 if family != "ip6" => STATELESS_V4[random.usize(0..STATELESS_V4.len())],
            2 if family != "ip" => STATELESS_V6[random.usize(0..STATELESS_V6.len())],
            _ => STATELESS[random.usize(0..STATELESS.len())],
        })
        .collect();
    words.push(STATELESS_ENDS[random.usize(0..ends)]);
    led(random, &words.join(" "), chain)
}

/// Leads a rule that jumps to one of the chains from `chain` on; nothing if there is none.
fn led(random: &mut Rng, text: &str, chain: usize) -> String {
    if !text.contains("CHAIN") {
        format!("{text}\n")
    } else if chain < CHAINS {
        text.replace("CHAIN", &format!("c{}", random.usize(chain..CHAINS))) + "\n"
    } else {
        String::new()
    }
}

const IPTABLES: [&str; 14] = [
    "-s 10.0.0.2",
    "! -s 10.0.0.0/24",
    "-d 10.0.1.0/31",
    "-i r0",
    "! -i r0",
    "-o r+",
    "-p udp -m udp --dport 1000:1002",
    "-p udp -m udp ! --dport 1003",
    "-p udp -m udp --sport 1004 --dport 1004:65535",
    "-p udp -m multiport --dports 1000,1002:1003",
    "-p udp -m multiport ! --sports 1000,1001,1005",
    "-p tcp -m tcp --dport 1001",
    "-p udp -m multiport --ports 1000",
    "-p udp",
];
const TARGETS: [&str; 8] = [
    "ACCEPT", "ACCEPT", "DROP", "RETURN", "c0", "c1", "REJECT", "NFLOG",
];

/// Rules for `iptables-nft-restore`.
pub(crate) fn iptables(random: &mut Rng) -> String {
    let mut text = "*filter\n".to_owned();
    for chain in ["c0", "c1"] {
        text += &format!(":{chain} - [0:0]\n");
    }
    text += &format!(
        ":FORWARD {} [0:0]\n",
        ["ACCEPT", "DROP"][random.usize(0..2)]
    );
    for (chain, targets) in [("c1", 4), ("c0", 4), ("FORWARD", TARGETS.len())] {
        for _ in 0..random.usize(0..5) {
            let condition = IPTABLES[random.usize(0..IPTABLES.len())];
            let target = TARGETS[random.usize(0..targets)];
            text += &format!("-A {chain} {condition} -m comment --comment some -j {target}\n");
        }
    }
    text + "COMMIT\n"
}
