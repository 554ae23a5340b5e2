//! Rounds of random changes; after each the FIB must agree with the kernel.

mod common;

use std::collections::BTreeMap;
use std::io::Write;
use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bora_fib::FibConfig;
use bora_mirror::{Mirror, MirrorConfig};

use common::{Router, ports, with_router};

/// xorshift64, from a fixed seed, so that a failure repeats.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }

    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// One of a few nested prefixes, so that changes hit the same ones.
fn prefix(random: &mut Random, v6: bool) -> String {
    let (a, b) = (random.below(3), random.below(3));
    match (v6, random.below(4)) {
        (false, 0) => format!("10.{}.0.0/16", 20 + a),
        (false, 1) => format!("10.{}.{b}.0/24", 20 + a),
        (false, 2) => format!("10.0.0.{}/32", 2 + a),
        (false, _) => format!("10.0.{}.128/25", a % 2),
        (true, 0) => format!("2001:db8:2{a}::/48"),
        (true, 1) => format!("2001:db8:2{a}:{b}::/64"),
        (true, 2) => format!("2001:db8::{}/128", 2 + a),
        (true, _) => format!("2001:db8:{}::/80", a % 2),
    }
}

fn gateway(random: &mut Random, v6: bool) -> String {
    let (net, host) = (random.below(2), 2 + random.below(4));
    if v6 {
        format!("2001:db8:{net}::{host}")
    } else {
        format!("10.0.{net}.{host}")
    }
}

fn way(random: &mut Random, v6: bool) -> String {
    match random.below(6) {
        0 => {
            let mut one = || {
                let via = gateway(random, v6);
                format!(" nexthop via {via} weight {}", 1 + random.below(3))
            };
            one() + &one()
        }
        1 => format!("nhid {}", 1 + random.below(3)),
        2 => format!("dev r{}", random.below(2)),
        _ => format!("via {}", gateway(random, v6)),
    }
}

/// One command. Many fail, which does no harm: the FIB is compared with what the kernel made of
/// them.
fn command(random: &mut Random, links: bool) -> String {
    let v6 = random.below(2) == 1;
    match random.below(if links { 20 } else { 19 }) {
        0..=9 => {
            let verb = random.of(&["add", "replace", "append", "prepend"]);
            let kind = random.below(12);
            let to = prefix(random, v6);
            let metric = 10 + random.below(2);
            if kind < 2 {
                let kind = random.of(&["blackhole", "unreachable", "prohibit"]);
                format!("route {verb} {kind} {to} metric {metric}")
            } else {
                // the paths of an IPv6 route may each have their own, and events tell only one
                let mtu = random.of(&["", "", "mtu 1300", "mtu 1400"]);
                let mtu = if v6 { "" } else { mtu };
                format!(
                    "route {verb} {to} metric {metric} {mtu} {}",
                    way(random, v6)
                )
            }
        }
        10..=14 => {
            let to = prefix(random, v6);
            if random.below(2) == 0 {
                format!("route del {to}")
            } else {
                format!("route del {to} {}", way(random, v6))
            }
        }
        15 => {
            let (to, device) = (gateway(random, v6), random.below(2));
            let last = random.below(256);
            format!("neigh replace {to} lladdr 02:0:0:0:0:{last:x} dev r{device} nud permanent")
        }
        16 => format!("neigh del {} dev r{}", gateway(random, v6), random.below(2)),
        17 => {
            let (id, device) = (1 + random.below(2), random.below(2));
            format!(
                "nexthop replace id {id} via 10.0.{device}.{} dev r{device}",
                2 + random.below(3)
            )
        }
        18 => random
            .of(&["nexthop replace id 3 group 1/2", "nexthop del id 2"])
            .to_owned(),
        _ => {
            let device = random.below(2);
            let up = if random.below(3) == 0 { "down" } else { "up" };
            match random.below(3) {
                0 => format!("link set r{device} {up}"),
                1 => format!("addr replace 10.0.{device}.1/24 dev r{device}"),
                _ => format!("addr replace 2001:db8:{device}::1/64 dev r{device} nodad"),
            }
        }
    }
}

fn batch(commands: &[String]) {
    let mut ip = Command::new("ip")
        .args(["-force", "-batch", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = ip.stdin.take().unwrap();
    // `ip` may stop at a failing command; the comparison takes what it did until then
    let _ = input.write_all(commands.join("\n").as_bytes());
    drop(input);
    ip.wait().unwrap();
}

/// Takes the changes of path MTUs.
fn follow(mtus: &mut BTreeMap<(IpAddr, u8), u32>, mirror: &mut Mirror) {
    for (net, mtu) in mirror.take_mtu_changes() {
        match mtu {
            Some(mtu) => mtus.insert(net, mtu),
            None => mtus.remove(&net),
        };
    }
}

/// Random changes; what the mirror then has by following them must be what it would read from Linux.
fn churn(seed: u64, rounds: usize, links: bool) {
    with_router(move |router: &mut Router| {
        let mut random = Random(seed);
        let start = router.mirror.status().events;
        let mut mtus = BTreeMap::new();
        for round in 0..rounds {
            let size = 1 + random.below(120);
            let commands: Vec<String> = (0..size).map(|_| command(&mut random, links)).collect();
            batch(&commands);
            router.mirror.poll(Duration::ZERO).unwrap();
            let settled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                if round % 5 == 4 {
                    router.check()
                } else {
                    router.agree()
                }
            }));
            if let Err(panic) = settled {
                eprintln!("seed {seed} round {round}:\n{}", commands.join("\n"));
                std::panic::resume_unwind(panic);
            }
            follow(&mut mtus, &mut router.mirror);
        }
        let (fib, _) = bora_fib::new(FibConfig::default()).unwrap();
        let mut fresh = Mirror::open(MirrorConfig::default(), fib).unwrap();
        fresh.set_ports(ports(&fresh, &["r0", "r1"])).unwrap();
        let mut fresh_mtus = BTreeMap::new();
        follow(&mut fresh_mtus, &mut fresh);
        assert_eq!(mtus, fresh_mtus, "what was followed is not what there is");
        let own = |mirror: &Mirror| mirror.local_addresses().prefixes.clone();
        assert_eq!(own(&router.mirror), own(&fresh));
        let events = router.mirror.status().events - start;
        assert!(
            events > 5 * rounds as u64,
            "{events} events: the commands change hardly anything"
        );
    });
}

/// What changes while the tables are compared is no difference.
#[test]
fn a_verification_during_changes_finds_no_difference() {
    with_router(|router: &mut Router| {
        let enter = router.net.enter();
        let done = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&done);
        let flap = std::thread::spawn(move || {
            enter();
            let commands: Vec<String> = (0..4000)
                .map(|n| {
                    format!(
                        "route replace 10.{}.{}.0/24 via 10.0.{}.2",
                        30 + n % 3,
                        n % 200,
                        n % 2
                    )
                })
                .collect();
            while !stop.load(Relaxed) {
                batch(&commands);
                batch(&["route flush root 10.30.0.0/15".into()]);
            }
        });
        let (mut compared, start) = (0, Instant::now());
        while compared < 20 && start.elapsed() < Duration::from_secs(10) {
            router.mirror.poll(Duration::ZERO).unwrap();
            // that changes overtook it is a true answer, too
            if let Ok(found) = router.mirror.verify() {
                assert_eq!(found, [], "after {compared} comparisons");
                compared += 1;
            }
        }
        done.store(true, Relaxed);
        flap.join().unwrap();
        router.agree();
    });
}

/// Rounds for each seed. `CHURN_SEEDS=100` runs more seeds.
const ROUNDS: usize = 15;

fn seeds(first: u64) -> std::ops::Range<u64> {
    let count = std::env::var("CHURN_SEEDS")
        .ok()
        .and_then(|count| count.parse().ok());
    first..first + count.unwrap_or(2)
}

#[test]
fn routes_and_neighbours() {
    seeds(0x5eed_1000).for_each(|seed| churn(seed, ROUNDS, false));
}

#[test]
fn links_and_addresses_too() {
    seeds(0x5eed_2000).for_each(|seed| churn(seed, ROUNDS, true));
}
