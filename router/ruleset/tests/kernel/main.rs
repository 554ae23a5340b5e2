//! Linux is the oracle: random rulesets between two networks, and packets of established flows and others.

#[path = "../common/mod.rs"]
mod common;
mod network;
mod random;

use std::time::{Duration, Instant};

use bora_linux::netns;
use bora_ruleset::{Answer, Decision, Program, Question, Transit};
use network::{Flow, Network, Packet, exchange, values};

/// How long rulesets are tried.
const TIME: Duration = Duration::from_secs(20);
/// Packets of each flow and direction.
const PACKETS: usize = 4;

/// How often each answer was put to the proof.
#[derive(Debug, Default)]
struct Proved {
    rulesets: usize,
    refused: usize,
    alone: usize,
    unconditional: usize,
    constant: usize,
}

/// The environment's seed, or a random one; says which.
fn seed() -> u64 {
    let seed = std::env::var("BORA_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    eprintln!("BORA_SEED={seed}");
    seed
}

#[test]
fn linux_does_what_the_analysis_says() {
    if !common::is_root() {
        return;
    }
    let seed = seed();
    let network = Network::new("ruleset");
    let mut proved = Proved::default();
    let end = Instant::now() + TIME;
    let mut random = fastrand::Rng::with_seed(seed);
    while Instant::now() < end {
        let rules = random::ruleset(&mut random);
        let loaded = netns::in_named(network.router(), || {
            common::nft(&rules).map(|()| [common::analysis(false), common::analysis(true)])
        });
        proved.rulesets += 1;
        let transits = match loaded.unwrap() {
            Ok(transits) => transits,
            Err(said) => {
                proved.refused += 1;
                eprintln!("{}", said.lines().next().unwrap_or_default());
                continue;
            }
        };
        for (flows, transit) in network.flows.iter().zip(&transits) {
            if let Err(said) = prove(flows, transit, &mut random, &mut proved) {
                panic!(
                    "BORA_SEED={seed}\n{rules}\n{}\n{said}",
                    common::text(transit)
                );
            }
        }
    }
    eprintln!("{proved:?}");
    assert!(proved.refused * 2 < proved.rulesets, "{proved:?}");
    for count in [proved.alone, proved.unconditional, proved.constant] {
        assert!(count > 5, "{proved:?}");
    }
}

#[test]
fn linux_decides_as_programs_do() {
    decides("nft", |random| {
        let rules = random::stateless(random);
        (common::nft(&rules), rules)
    });
}

#[test]
fn linux_decides_as_programs_of_iptables_do() {
    decides("iptables", |random| {
        let rules = random::iptables(random);
        let restored = common::feed("iptables-nft-restore", &[], &rules);
        (restored, rules)
    });
}

/// Compares what arrives with what programs of rules say. `load`: loads random rules, and returns them.
fn decides(name: &str, load: impl Fn(&mut fastrand::Rng) -> (Result<(), String>, String) + Sync) {
    if !common::is_root() {
        return;
    }
    let seed = seed();
    let network = Network::new(name);
    let interfaces = network.interfaces();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut decided = Decided::default();
    let end = Instant::now() + TIME;
    while Instant::now() < end {
        let loaded = netns::in_named(network.router(), || {
            let (loaded, rules) = load(&mut random);
            (loaded.map(|()| common::ruleset(true)), rules)
        });
        let (Ok(mut ruleset), rules) = loaded.unwrap() else {
            decided.refused += 1; // nft finds contradictions
            continue;
        };
        // it looks at connections, but lets all packets pass
        ruleset.tables.retain(|key, _| key.name != "track");
        for (v6, flows) in [false, true].into_iter().zip(&network.flows) {
            let question = Question {
                v6,
                local_first: true,
            };
            let tracked = ruleset.analyse(question).looks_at_conntrack;
            let Ok(program) = ruleset.compile(v6, tracked, &interfaces) else {
                decided.left += 1;
                continue;
            };
            if let Err(said) = decide(flows, &program, &mut random, &mut decided) {
                panic!("BORA_SEED={seed}\n{rules}\n{said}\n{program:#?}");
            }
        }
    }
    eprintln!("{decided:?}");
    assert!(
        decided.forwarded > 100 && decided.dropped > 100,
        "{decided:?}"
    );
}

/// How often each answer of programs was put to the proof.
#[derive(Debug, Default)]
struct Decided {
    forwarded: usize,
    dropped: usize,
    left: usize,
    refused: usize,
}

/// Sends packets of all flows in both directions, and compares what arrives with what a program says.
fn decide(
    flows: &[Flow],
    program: &Program,
    random: &mut fastrand::Rng,
    decided: &mut Decided,
) -> Result<(), String> {
    let all: Vec<&Flow> = flows.iter().collect();
    let found = exchange(&all, random, 2, |_| true);
    for (flow, found) in flows.iter().zip(&found) {
        for (from, packets) in found.iter().enumerate() {
            let (decision, path) = program.decide(&values(flow, from));
            let expected = match decision {
                Decision::Linux => continue,
                Decision::Forward => true,
                Decision::Drop(_) => false,
            };
            match expected {
                true => decided.forwarded += 1,
                false => decided.dropped += 1,
            }
            if packets.iter().any(|packet| packet.arrived != expected) {
                return Err(format!(
                    "{flow} from {from}: {decision:?} by {path:?}, {packets:?}"
                ));
            }
        }
    }
    Ok(())
}

/// Sends packets of all flows in both directions, and compares what arrives with what the analysis says.
fn prove(
    flows: &[Flow],
    transit: &Transit,
    random: &mut fastrand::Rng,
    proved: &mut Proved,
) -> Result<(), String> {
    let all_alone = transit.chains.iter().all(|chain| chain.leaves_alone);
    let established = &transit.established;
    let answer = established.answer();
    let settled = answer == Answer::Constant && !established.marks_feed_back;
    proved.alone += usize::from(all_alone);
    proved.unconditional += usize::from(answer == Answer::Unconditional);
    proved.constant += usize::from(settled);
    let all = all_alone || answer == Answer::Unconditional;
    if !all && !settled {
        return Ok(());
    }
    let flows = flows.iter().filter(|flow| flow.established || all_alone);
    let flows: Vec<&Flow> = flows.collect();
    let good = |packets: &[Packet]| {
        let arrived = packets.iter().filter(|packet| packet.arrived).count();
        arrived == PACKETS || !all && arrived == 0
    };
    let found = exchange(&flows, random, PACKETS, good);
    match flows
        .iter()
        .zip(&found)
        .find(|(_, found)| !found.iter().all(|packets| good(packets)))
    {
        Some((flow, found)) => Err(format!("{flow}: {found:?}")),
        None => Ok(()),
    }
}
