//! Bora's classifier: the stage `classify`, on packets that were parsed.

use anyhow::Context as _;
use bora_buffer::{MAX_BATCH, Packet, Pool, Region, SharedFrames};
use bora_fib::{FibConfig, FibReader, FibWriter, PortId};
use bora_forward::classify::{Addresses, DEFAULT_DSCP, Rule, RuleSet, Structure, Ternary};
use bora_forward::{
    Batch, Classifier, Context, Devices, FlowHash, Ingress, Inputs, Policies, RuleCounters,
    Tunnelling, classify, parse,
};
use bora_wire::MacAddr;

use super::{Header, Subject, rules};

const OURS: MacAddr = MacAddr([2; 6]);
/// Octets of a packet.
pub(super) const LENGTH: usize = 74;

/// Bora with its rules.
pub struct Bora {
    name: &'static str,
    classifier: Classifier,
    counters: Vec<RuleCounters>,
    region: Region,
    batches: Vec<Batch>,
    policies: Policies,
    devices: Devices,
    tunnelling: Tunnelling,
    inputs: Inputs,
    fib: FibReader,
    _writer: FibWriter,
}

fn rule(rule: &rules::Rule) -> Rule {
    let ternary = |(value, length): (u32, u8)| Ternary {
        value,
        mask: rules::mask(length),
    };
    let ports =
        |(first, last): (u16, u16)| ((first, last) != (0, u16::MAX)).then_some(first..=last);
    Rule {
        addresses: Addresses::V4 {
            source: ternary(rule.source),
            destination: ternary(rule.destination),
        },
        protocol: rule.protocol.map_or(Ternary::default(), Ternary::exact),
        source_ports: ports(rule.source_ports),
        destination_ports: ports(rule.destination_ports),
        ..Rule::default()
    }
}

/// The rules, compiled for workers.
pub fn compile(set: &[rules::Rule], structure: Structure) -> anyhow::Result<Classifier> {
    let set = RuleSet {
        rules: set.iter().map(rule).collect(),
        dscp: DEFAULT_DSCP,
    };
    Ok(match structure {
        Structure::Best => set.compile()?,
        _ => set.compile_to(structure),
    })
}

/// RFC 1071's sum.
fn checksum(octets: &[u8]) -> u16 {
    let words = octets.chunks_exact(2);
    let words = words.map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

fn counters(rules: usize) -> Vec<RuleCounters> {
    std::iter::repeat_with(RuleCounters::default)
        .take(rules)
        .collect()
}

/// Packets with these headers, in frames of a region whose pages are huge ones if there are any.
pub(super) fn frames(headers: &[Header]) -> anyhow::Result<(Region, Vec<Packet>)> {
    let region = Region::new(headers.len() as u32, 2048)?;
    let mut pool = Pool::new(SharedFrames::of_new_region(&region), headers.len());
    let mut packets = Vec::new();
    for header in headers {
        let frame = pool.take().context("no frame")?;
        let packet = frame.into_packet_spread(&region, LENGTH);
        let mut packet = packet.ok().context("no packet")?;
        let octets = region.octets_mut(&mut packet);
        octets.fill(0);
        octets[..6].copy_from_slice(&OURS.0);
        octets[12] = 8;
        octets[14..14 + header.len()].copy_from_slice(header);
        let check = !checksum(&octets[14..34]);
        octets[24..26].copy_from_slice(&check.to_be_bytes());
        packets.push(packet);
    }
    Ok((region, packets))
}

impl Bora {
    /// Takes the packets in batches, parsed.
    ///
    /// # Errors
    /// There is too little memory.
    pub fn new(
        name: &'static str,
        classifier: Classifier,
        headers: &[Header],
    ) -> anyhow::Result<Self> {
        let (region, packets) = frames(headers)?;
        let (writer, handle) = bora_fib::new(FibConfig::default())?;
        let mut bora = Self {
            name,
            counters: counters(classifier.rules()),
            classifier,
            region,
            batches: Vec::new(),
            policies: Policies::default(),
            devices: Devices::default(),
            tunnelling: Tunnelling::default(),
            inputs: Inputs::new([&Ingress::new(PortId(0), OURS)], &Devices::default()),
            fib: handle.reader()?,
            _writer: writer,
        };
        let mut packets = packets.into_iter();
        while packets.len() > 0 {
            let mut batch = Batch::new();
            batch.packets.extend(packets.by_ref().take(MAX_BATCH));
            batch.came_by(PortId(0));
            parse(&mut batch, &bora.context());
            bora.batches.push(batch);
        }
        Ok(bora)
    }

    fn context(&self) -> Context<'_> {
        Context {
            region: &self.region,
            fib: &self.fib,
            inputs: &self.inputs,
            devices: &self.devices,
            min_frames: &[],
            classifier: &self.classifier,
            policies: &self.policies,
            hash4: FlowHash::default(),
            hash6: FlowHash::default(),
            tunnelling: &self.tunnelling,
        }
    }
}

impl Subject for Bora {
    fn name(&self) -> &'static str {
        self.name
    }

    fn classify(&mut self) {
        let mut batches = std::mem::take(&mut self.batches);
        let context = self.context();
        for batch in &mut batches {
            classify(batch, &context, &self.counters);
        }
        self.batches = batches;
    }

    fn answers(&mut self) -> Vec<Option<usize>> {
        let mut batches = std::mem::take(&mut self.batches);
        let mut answers = Vec::new();
        let counters = counters(self.counters.len());
        let context = self.context();
        for batch in &mut batches {
            for packet in std::mem::take(&mut batch.packets) {
                let mut alone = Batch::new();
                alone.packets.push(packet);
                alone.came_by(PortId(0));
                parse(&mut alone, &context);
                classify(&mut alone, &context, &counters);
                let answer = counters.iter().position(|rule| rule.packets.get() > 0);
                if let Some(answer) = answer {
                    counters[answer].packets.set(0);
                }
                answers.push(answer);
                batch.packets.append(&mut alone.packets);
            }
        }
        self.batches = batches;
        answers
    }

    fn memory(&self) -> u64 {
        self.classifier.size() as u64
    }
}
