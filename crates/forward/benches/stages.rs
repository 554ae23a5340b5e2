//! Nanoseconds a packet of classification, queueing and scheduling, batches of 64, caches warm:
//! `cargo bench -p bora-forward`. Each figure is the best and the median of the repetitions.

#[path = "../tests/support/mod.rs"]
mod support;

use std::hint::black_box;
use std::time::Instant;

use bora_fib::PortId;
use bora_forward::classify::{Action, Addresses, DEFAULT_DSCP, Rule, RuleSet, Ternary};
use bora_forward::schedule::{ClassConfig, OutputConfig, Shaping};
use bora_forward::{
    Batch, Class, Context, Exit, FlowHash, Ingress, Meta, RpFilter, RuleHits, Verdict, classify,
    enqueue, parse,
};
use support::headers::{self, Headers, OURS};
use support::{Memory, Random};

const BATCH: usize = 64;
const BATCHES: usize = 64;
const REPETITIONS: usize = 101;

/// Times `work`, which handles `packets` packets a call.
fn report(what: &str, packets: usize, mut work: impl FnMut()) {
    let mut times: Vec<f64> = (0..REPETITIONS)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_nanos() as f64 / packets as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let (best, median) = (times[0], times[REPETITIONS / 2]);
    println!("{what:<48} {best:7.1} best {median:7.1} median ns/packet");
}

/// Different hosts and ports of 10/8; none is of a rule below by accident.
fn traffic(random: &mut Random) -> Headers {
    Headers {
        v6: false,
        source: u128::from(0x0a00_0000 | random.below(1 << 24)),
        destination: u128::from(0x0a00_0000 | random.below(1 << 24)),
        tos: 0,
        protocol: random.pick(&[6, 17]),
        ports: [
            1024 + random.below(60_000) as u16,
            random.pick(&[53, 80, 443]),
        ],
        later_fragment: false,
    }
}

/// As access lists are: prefixes, a protocol, a port. They match about as rarely as such lists
/// do, so nearly all packets are compared with all rules.
fn access_list(random: &mut Random) -> Rule {
    let mut prefix = || {
        let length = random.pick(&[0, 8, 16, 24, 28, 32]);
        Ternary {
            value: 0x0a00_0000 | random.below(1 << 24) as u32,
            mask: u32::MAX.checked_shl(32 - length).unwrap_or(0),
        }
    };
    let (source, destination) = (prefix(), prefix());
    let port = 1 + random.below(1000) as u16;
    Rule {
        addresses: Addresses::V4 {
            source,
            destination,
        },
        protocol: Ternary::exact(random.pick(&[6, 17])),
        destination_ports: Some(port..=port + random.pick(&[0, 0, 10])),
        action: Action::COUNT,
        ..Rule::default()
    }
}

/// Every field, any mask, so that no table is left out and no summary helps.
fn worst(random: &mut Random) -> Rule {
    let mut any = || Ternary {
        value: random.next() as u32,
        mask: 0x1111_1111 << random.below(4) | 0x0100_0000,
    };
    let (source, destination) = (any(), any());
    Rule {
        addresses: Addresses::V4 {
            source,
            destination,
        },
        tos: Ternary { value: 4, mask: 4 },
        protocol: Ternary {
            value: 0,
            mask: 0x80,
        },
        source_ports: Some(random.below(30_000) as u16..=60_000),
        destination_ports: Some(0..=30_000 + random.below(30_000) as u16),
        ..Rule::default()
    }
}

fn classification(name: &str, count: usize, make: impl Fn(&mut Random) -> Rule) {
    let random = &mut Random(7);
    let rules: Vec<Rule> = (0..count).map(|_| make(random)).collect();
    let packets: Vec<Headers> = (0..BATCH * BATCHES).map(|_| traffic(random)).collect();
    let mut memory = Memory::new((BATCH * BATCHES) as u32);
    let (_writer, handle) = bora_fib::new(bora_fib::FibConfig::default()).unwrap();
    let fib = handle.reader().unwrap();
    let ingress = Ingress {
        port: PortId(0),
        mac: OURS,
        forward4: true,
        forward6: true,
        rp_filter: RpFilter::Off,
        partial_checksum: false,
        send_redirects4: false,
        gate: None,
    };
    let mut batches: Vec<Batch> = (0..BATCHES).map(|_| Batch::new()).collect();
    for (number, headers) in packets.iter().enumerate() {
        let packet = memory.frame(&headers.frame());
        batches[number / BATCH].packets.push(packet);
    }
    let context = Context {
        region: &memory.region,
        fib: &fib,
        ingress: &ingress,
        min_frames: &[],
        hash4: FlowHash::default(),
        hash6: FlowHash::default(),
    };
    let start = Instant::now();
    let dscp = DEFAULT_DSCP;
    let classifier = RuleSet {
        rules: rules.clone(),
        dscp,
    };
    let classifier = classifier.compile().unwrap();
    let compiled = start.elapsed();
    let mut hits = vec![RuleHits::default(); count];
    for batch in &mut batches {
        parse(batch, &context);
    }
    report(
        &format!("classify, {count} rules ({name})"),
        packets.len(),
        || {
            for batch in &mut batches {
                classify(batch, &context, &classifier, &mut hits);
            }
        },
    );
    let scanned = || {
        for packet in &packets {
            black_box(headers::scan(black_box(&rules), packet, PortId(0)));
        }
    };
    report("  the same by a scan", packets.len(), scanned);
    let hit: u64 = hits.iter().map(|hit| hit.packets).sum();
    let share = hit as f64 / (REPETITIONS * packets.len()) as f64;
    println!(
        "  compiled in {compiled:?}; {:.0} % of packets match",
        share * 100.0
    );
}

/// A batch to one output and out again.
fn queueing(name: &str, config: &OutputConfig) {
    let mut memory = Memory::new(BATCH as u32);
    let mut exits = [Exit::new(config).unwrap()];
    let mut batch = Batch::new();
    let mut out: Vec<_> = (0..BATCH).map(|_| memory.packet(60, 0)).collect();
    let meta = |number: usize| Meta {
        verdict: Verdict::Forward(PortId(0)),
        class: Class((number % 2) as u8),
        ..Meta::default()
    };
    batch.meta.extend((0..BATCH).map(meta));
    let mut now = 0;
    report(
        &format!("enqueue and pull ({name})"),
        BATCH * BATCHES,
        || {
            for _ in 0..BATCHES {
                batch.packets.append(&mut out);
                enqueue(&mut batch, &mut exits, |_, _| unreachable!());
                now += 1_000_000;
                let ready = exits[0].ready(now, u64::MAX, |_| unreachable!());
                assert_eq!(ready.len(), BATCH);
                out.append(ready);
            }
        },
    );
}

fn main() {
    for count in [0, 1, 64, 1000] {
        classification("access list", count, access_list);
    }
    for count in [1, 64, 1000] {
        classification("every octet, no help", count, worst);
    }
    queueing("two strict priorities", &OutputConfig::default());
    let shared = |shaping| OutputConfig {
        classes: vec![ClassConfig::strict(0); 2],
        shaping,
    };
    queueing("DRR of two", &shared(None));
    let shaping = Some(Shaping {
        rate: 100_000_000_000,
        burst: 1 << 20,
    });
    queueing("DRR of two, port shaped", &shared(shaping));
}
