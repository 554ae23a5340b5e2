//! The compiled classifier does what reading the rules in order does.

mod support;

use bora_fib::{Adjacency, FibConfig, FibReader, FibWriter, NextHop, PortId, Prefix4};
use bora_forward::classify::{
    Action, Addresses, DEFAULT_DSCP, MAX_RULES, Rule, RuleError, RuleSet, Structure, Ternary,
};
use bora_forward::{
    Batch, Class, Classifier, Context, Devices, FlowHash, Ingress, Inputs, Meta, Reason,
    RuleCounters, Verdict, classify, parse, run,
};
use proptest::prelude::*;
use support::headers::{self, Headers, OURS};
use support::{Memory, Random};

struct Bench {
    memory: Memory,
    writer: FibWriter,
    fib: FibReader,
    ingress: Ingress,
}

impl Bench {
    fn new() -> Self {
        let (writer, handle) = bora_fib::new(FibConfig::default()).unwrap();
        let ingress = Ingress::new(PortId(0), OURS);
        Self {
            memory: Memory::new(512),
            writer,
            fib: handle.reader().unwrap(),
            ingress,
        }
    }

    fn run(
        &mut self,
        frames: &[Vec<u8>],
        classifier: &Classifier,
        stages: impl FnOnce(&mut Batch, &Context<'_>),
    ) -> Vec<Meta> {
        let mut batch = Batch::new();
        for frame in frames {
            batch.packets.push(self.memory.frame(frame));
        }
        batch.came_by(self.ingress.port);
        let inputs = Inputs::new([&self.ingress], &Devices::default());
        let context = Context {
            region: &self.memory.region,
            fib: &self.fib,
            inputs: &inputs,
            devices: &bora_forward::Devices::default(),
            min_frames: &[],
            classifier,
            policies: &bora_forward::Policies::default(),
            hash4: FlowHash::default(),
            hash6: FlowHash::default(),
            tunnelling: &bora_forward::Tunnelling::default(),
        };
        stages(&mut batch, &context);
        for packet in batch.packets.drain(..) {
            self.memory.give(packet);
        }
        batch.meta
    }

    fn classify(
        &mut self,
        frames: &[Vec<u8>],
        classifier: &Classifier,
        counters: &[RuleCounters],
    ) -> Vec<Meta> {
        self.run(frames, classifier, |batch, context| {
            parse(batch, context);
            classify(batch, context, counters);
        })
    }

    fn forward_by(&mut self, port: u16) -> bora_fib::NextHopId {
        let adjacency = Adjacency {
            port: PortId(port),
            mtu: 1500,
            l2: [port as u8; 14],
            unconfirmed: None,
        };
        self.writer
            .add_next_hop(NextHop::Forward(adjacency))
            .unwrap()
    }
}

fn compile(rules: Vec<Rule>) -> Classifier {
    let dscp = DEFAULT_DSCP;
    RuleSet { rules, dscp }.compile().unwrap()
}

fn agrees_with_a_scan(rules: usize, seed: u64) {
    let random = &mut Random(seed | 1);
    let rules: Vec<Rule> = (0..rules).map(|_| headers::rule(random)).collect();
    let count = 1 + random.below(256);
    let packets: Vec<Headers> = (0..count).map(|_| Headers::random(random)).collect();
    all_agree(&rules, &packets, random);
}

/// Both structures, and what is chosen of them.
fn all_agree(rules: &[Rule], packets: &[Headers], random: &mut Random) {
    let mut bench = Bench::new();
    bench.ingress.port = PortId(random.below(3) as u16);
    let frames: Vec<Vec<u8>> = packets.iter().map(Headers::frame).collect();
    let set = RuleSet {
        rules: rules.to_vec(),
        dscp: DEFAULT_DSCP,
    };
    let chosen = set.compile().unwrap();
    for classifier in [
        set.compile_to(Structure::Scan),
        set.compile_to(Structure::Trees),
        chosen,
    ] {
        agrees(&mut bench, &classifier, rules, (packets, &frames));
    }
}

/// Rules that look at some fields only, a bit of `fields` for each.
fn some_fields_agree(rules: usize, fields: u8, seed: u64) {
    let random = &mut Random(seed | 1);
    let mut rules: Vec<Rule> = (0..rules).map(|_| headers::rule(random)).collect();
    for rule in &mut rules {
        let has = |bit: u8| fields >> bit & 1 != 0;
        match &mut rule.addresses {
            Addresses::Any => {}
            Addresses::V4 {
                source,
                destination,
            } => {
                source.mask *= u32::from(has(0));
                destination.mask *= u32::from(has(1));
            }
            Addresses::V6 {
                source,
                destination,
            } => {
                source.mask *= u128::from(has(0));
                destination.mask *= u128::from(has(1));
            }
        }
        rule.source_ports = rule.source_ports.take().filter(|_| has(2));
        rule.destination_ports = rule.destination_ports.take().filter(|_| has(3));
        rule.in_port = rule.in_port.filter(|_| has(4));
        if !has(5) {
            (rule.tos, rule.protocol) = (Ternary::default(), Ternary::default());
        }
    }
    let packets: Vec<Headers> = (0..150).map(|_| Headers::random(random)).collect();
    all_agree(&rules, &packets, random);
}

/// IPv4 addresses that are far apart, so that nodes have many children.
fn scattered_rules_agree(rules: usize, seed: u64) {
    let random = &mut Random(seed | 1);
    let side = |random: &mut Random| Ternary {
        value: 0x0a00_0000 | random.below(1 << 24) as u32,
        mask: random.pick(&[0, 0xffff_0000, 0xffff_ff00, u32::MAX, u32::MAX, 0xff00_00ff]),
    };
    let mut some = |_| Rule {
        addresses: Addresses::V4 {
            source: side(random),
            destination: side(random),
        },
        ..headers::rule(random)
    };
    let rules: Vec<Rule> = (0..rules).map(&mut some).collect();
    let packet = |_| {
        let rule = &rules[random.below(rules.len() as u64) as usize];
        let mut packet = Headers::random(random);
        let Addresses::V4 {
            source,
            destination,
        } = rule.addresses
        else {
            return packet;
        };
        let mut inside = |side: Ternary<u32>| {
            let other = 0x0a00_0000 | random.below(1 << 24) as u32;
            u128::from(side.value & side.mask | other & !side.mask)
        };
        packet.v6 = false;
        (packet.source, packet.destination) = (inside(source), inside(destination));
        packet
    };
    let packets: Vec<Headers> = (0..256).map(packet).collect();
    all_agree(&rules, &packets, random);
}

fn agrees(
    bench: &mut Bench,
    classifier: &Classifier,
    rules: &[Rule],
    (packets, frames): (&[Headers], &[Vec<u8>]),
) {
    let mut expected = vec![(0, 0); rules.len()];
    let counters: Vec<_> = rules.iter().map(|_| RuleCounters::default()).collect();
    let metas = bench.classify(frames, classifier, &counters);
    for ((packet, frame), meta) in packets.iter().zip(frames).zip(&metas) {
        let by_dscp = DEFAULT_DSCP[usize::from(packet.tos >> 2)];
        let rule = headers::scan(rules, packet, bench.ingress.port);
        if let Some(rule) = rule {
            expected[rule].0 += 1;
            expected[rule].1 += frame.len() as u64;
        }
        let (verdict, class) = match rule.map(|rule| rules[rule].action) {
            None => (Verdict::Pending, by_dscp),
            Some(Action::Drop) => (Verdict::Drop(Reason::Rule), by_dscp),
            Some(Action::Pass { class, .. }) => (Verdict::Pending, class.unwrap_or(by_dscp)),
        };
        assert_eq!(
            (meta.verdict(), meta.class()),
            (verdict, class),
            "{packet:?}"
        );
    }
    let counted: Vec<_> = counters
        .iter()
        .map(|rule| (rule.packets.get(), rule.octets.get()))
        .collect();
    assert_eq!(counted, expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn few_rules_agree_with_a_scan(rules in 0usize..200, seed: u64) {
        agrees_with_a_scan(rules, seed);
    }

    #[test]
    fn rules_of_some_fields_agree_with_a_scan(rules in 1usize..200, fields in 0u8..64, seed: u64) {
        some_fields_agree(rules, fields, seed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn a_thousand_rules_agree_with_a_scan(rules in 900usize..1100, seed: u64) {
        agrees_with_a_scan(rules, seed);
    }

    #[test]
    fn scattered_rules_agree_with_a_scan(rules in 300usize..3000, seed: u64) {
        scattered_rules_agree(rules, seed);
    }
}

fn packet(tos: u8) -> Headers {
    Headers {
        v6: false,
        source: 0x0a00_0102,
        destination: 0x0a00_0202,
        tos,
        protocol: 17,
        ports: [1024, 53],
        later_fragment: false,
    }
}

#[test]
fn without_rules_the_code_point_decides() {
    let mut bench = Bench::new();
    let frames: Vec<_> = (0..64).map(|dscp| packet(dscp << 2 | 1).frame()).collect();
    let metas = bench.classify(&frames, &RuleSet::default().compile().unwrap(), &[]);
    for (dscp, meta) in metas.iter().enumerate() {
        let high = [46, 48, 56].contains(&dscp);
        assert_eq!(meta.class() == Class::HIGH, high, "DSCP {dscp}");
    }
}

#[test]
fn what_linux_sends_has_the_class_of_its_code_point() {
    let classifier = RuleSet::default().compile().unwrap();
    let class = |frame: &[u8]| classifier.class_of_linux(frame);
    let bulk = packet(0).frame();
    assert_eq!(class(&bulk), Some(Class::BEST_EFFORT));
    assert_eq!(class(&packet(0xc0).frame()), Some(Class::HIGH), "CS6");
    let tagged = [&bulk[..12], &[0x81, 0, 0, 7], &bulk[12..]].concat();
    assert_eq!(class(&tagged), Some(Class::BEST_EFFORT));
    let mut arp = bulk.clone();
    arp[12..14].copy_from_slice(&[0x08, 0x06]);
    assert_eq!(class(&arp), None);
    let mut solicitation = behind_options(0, 0);
    (solicitation[14 + 6], solicitation[14 + 7]) = (58, 255);
    assert_eq!(class(&solicitation), None);
    solicitation[14 + 7] = 64; // a ping
    assert_eq!(class(&solicitation), Some(Class::BEST_EFFORT));
    assert_eq!(class(&bulk[..20]), None, "nothing that could be read");
    // the map of the configuration counts
    let mut dscp = DEFAULT_DSCP;
    (dscp[0], dscp[48]) = (Class(2), Class(5));
    let rules = Vec::new();
    let other = RuleSet { rules, dscp }.compile().unwrap();
    assert_eq!(other.class_of_linux(&bulk), Some(Class(2)));
    assert_eq!(other.class_of_linux(&packet(0xc0).frame()), Some(Class(5)));
}

#[test]
fn a_rule_may_choose_the_way_out() {
    let mut bench = Bench::new();
    let (routed, steered) = (bench.forward_by(1), bench.forward_by(2));
    bench
        .writer
        .insert4(Prefix4::masked(0x0a00_0200, 24), routed)
        .unwrap();
    let rule = Rule {
        destination_ports: Some(53..=53),
        action: Action::Pass {
            class: None,
            output: Some(steered),
        },
        ..Rule::default()
    };
    let classifier = compile(vec![rule]);
    let mut other = packet(0);
    other.ports[1] = 80;
    let counters = [RuleCounters::default()];
    let frames = [packet(0).frame(), other.frame()];
    let metas = bench.run(&frames, &classifier, |batch, context| {
        run(batch, context, &counters, |_| {});
    });
    assert_eq!(metas[0].verdict(), Verdict::Forward(PortId(2)));
    assert_eq!(metas[1].verdict(), Verdict::Forward(PortId(1)));
    assert_eq!(
        (counters[0].packets.get(), counters[0].octets.get()),
        (1, 46)
    );
}

#[test]
fn extension_headers_hide_no_ports() {
    let mut bench = Bench::new();
    let mut hidden = packet(0);
    (hidden.v6, hidden.source, hidden.destination) = (true, 0x2001 << 112 | 1, 0x2001 << 112 | 2);
    let rule = Rule {
        protocol: Ternary::exact(17),
        destination_ports: Some(0..=53),
        action: Action::Drop,
        ..Rule::default()
    };
    let frames = [hidden.frame()]; // behind a fragment header
    let metas = bench.classify(&frames, &compile(vec![rule]), &[]);
    assert_eq!(metas[0].verdict(), Verdict::Drop(Reason::Rule));
}

/// An IPv6 packet to UDP port 53 behind this many destination options headers; `cut` octets are missing at its end.
fn behind_options(headers: usize, cut: usize) -> Vec<u8> {
    let mut octets = vec![0x60, 0, 0, 0, 0, 0, if headers > 0 { 60 } else { 17 }, 64];
    for end in [1, 2] {
        octets.extend((0x2001_0db8_u128 << 96 | end).to_be_bytes());
    }
    for left in (0..headers).rev() {
        octets.extend([if left > 0 { 60 } else { 17 }, 0, 1, 4, 0, 0, 0, 0]);
    }
    octets.extend([4, 0, 0, 53, 0, 8, 0, 0]);
    octets.truncate(octets.len() - cut);
    let length = (octets.len() - 40) as u16;
    octets[4..6].copy_from_slice(&length.to_be_bytes());
    [&OURS.0[..], &[0; 6], &[0x86, 0xdd], &octets].concat()
}

/// The first fragment of an IPv4 packet to UDP port 53, with this many octets behind its header.
fn first_fragment(octets: usize) -> Vec<u8> {
    let mut frame = packet(0).frame();
    let mut ip = bora_wire::ipv4::Packet::new_unchecked(&mut frame[14..]);
    ip.set_fragment(true, false, 0);
    frame[16..18].copy_from_slice(&(20 + octets as u16).to_be_bytes());
    bora_wire::ipv4::Packet::new_unchecked(&mut frame[14..]).fill_checksum();
    frame
}

#[test]
fn what_hides_its_ports_passes_no_rule_that_looks_at_them() {
    let mut bench = Bench::new();
    let ports = Rule {
        destination_ports: Some(53..=53),
        action: Action::Drop,
        ..Rule::default()
    };
    let protocol = Rule {
        protocol: Ternary::exact(17),
        action: Action::Drop,
        ..Rule::default()
    };
    let mut frames: Vec<_> = (0..13).map(|headers| behind_options(headers, 0)).collect();
    // cut off: in the ports, before the upper layer, in an extension header
    frames.extend([5, 8, 12].map(|cut| behind_options(2, cut)));
    for rule in [&ports, &protocol] {
        let classifier = compile(vec![rule.clone()]);
        let metas = bench.classify(&frames, &classifier, &[]);
        for (number, meta) in metas.iter().enumerate() {
            let reason = match number {
                0..=8 => Reason::Rule,
                _ => Reason::HiddenUpperLayer,
            };
            assert_eq!(meta.verdict(), Verdict::Drop(reason), "{number} {rule:?}");
        }
    }
    let short = [first_fragment(0), first_fragment(3), first_fragment(4)];
    let metas = bench.classify(&short, &compile(vec![ports]), &[]);
    let reasons = [0, 1, 2].map(|at: usize| metas[at].verdict());
    let hidden = Verdict::Drop(Reason::HiddenUpperLayer);
    assert_eq!(reasons, [hidden, hidden, Verdict::Drop(Reason::Rule)]);
}

#[test]
fn who_looks_at_no_protocol_drops_nothing_hidden() {
    let mut bench = Bench::new();
    let by_address = Rule {
        tos: Ternary::exact(0),
        in_port: Some(PortId(0)),
        ..Rule::default()
    };
    let only_v4 = Rule {
        addresses: Addresses::V4 {
            source: Ternary::default(),
            destination: Ternary::default(),
        },
        protocol: Ternary::exact(17),
        action: Action::Drop,
        ..Rule::default()
    };
    let counters = [RuleCounters::default(), RuleCounters::default()];
    let metas = bench.classify(
        &[behind_options(12, 0)],
        &compile(vec![only_v4, by_address]),
        &counters,
    );
    assert_eq!(metas[0].verdict(), Verdict::Pending);
    assert_eq!(counters[1].packets.get(), 1);
}

#[test]
fn impossible_rules_are_refused() {
    let refused = |rule: Rule| {
        let rules = vec![Rule::default(), rule];
        let dscp = DEFAULT_DSCP;
        RuleSet { rules, dscp }.compile().unwrap_err()
    };
    #[allow(clippy::reversed_empty_ranges)]
    let ports = Rule {
        source_ports: Some(2..=1),
        ..Rule::default()
    };
    assert_eq!(refused(ports), RuleError::EmptyPorts { rule: 1 });
    let pcp = Rule {
        pcp: Some(Ternary::exact(8)),
        ..Rule::default()
    };
    assert_eq!(refused(pcp), RuleError::Pcp { rule: 1 });
    let class = Rule {
        addresses: Addresses::Any,
        action: Action::Pass {
            class: Some(Class(8)),
            output: None,
        },
        ..Rule::default()
    };
    let error = refused(class);
    assert_eq!(error.to_string(), "rule 1: class 8 is beyond 7");
    let rules = vec![Rule::default(); MAX_RULES + 1];
    let dscp = DEFAULT_DSCP;
    assert!(RuleSet { rules, dscp }.compile().is_err());
}

#[test]
fn a_tag_s_priority_is_the_outermost_one() {
    let mut bench = Bench::new();
    let untagged = packet(0).frame();
    let tagged = |pcp: u8| {
        let tag = [0x88, 0xa8, pcp << 5, 7, 0x81, 0x00, 0xe0, 8];
        [&untagged[..12], &tag, &untagged[12..]].concat()
    };
    let pcp = Ternary { value: 4, mask: 6 };
    let rule = Rule {
        pcp: Some(pcp),
        destination_ports: Some(53..=53),
        action: Action::Drop,
        ..Rule::default()
    };
    let classifier = compile(vec![rule]);
    let frames = [untagged.clone(), tagged(3), tagged(4), tagged(5), tagged(6)];
    let metas = bench.run(&frames, &classifier, |batch, context| {
        batch.meta.resize(frames.len(), Meta::default());
        classify(batch, context, &[]);
    });
    let dropped: Vec<bool> = metas
        .iter()
        .map(|meta| meta.verdict() == Verdict::Drop(Reason::Rule))
        .collect();
    assert_eq!(dropped, [false, false, true, true, false]);
}
