//! Between parse and look-up: class, way out, or drop by ordered rules.
//!
//! A few rules are compared with many packets at once (`scan.rs`); many rules are trees (`tree.rs`). Ternary conditions and ranges of
//! ports are conditions on words (`entry.rs`), so no rule is multiplied. `make bench-acl` compares both with other classifiers.

mod build;
mod entry;
mod key;
mod rule;
mod scan;
mod tree;

use std::collections::HashMap;

use crate::batch::Batch;
use crate::class::{Class, Planes};
use crate::input::is_device;
use crate::meta::{Change, Meta};
use crate::simd::{Loop, Simd};
use crate::{Context, Family, Reason, Verdict};
use bora_contract::Counter;
use bora_fib::NextHopId;
use bora_wire::ethernet::Frame;
use bora_wire::vlan::Untagged;
use bora_wire::{EtherType, Protocol, ipv4, ipv6, ndisc};
use entry::Entry;
use key::{Found, GROUP, HEADER, Keys, NO_RULE, Words};
pub use rule::{Action, Addresses, MAX_RULES, Rule, RuleError, Ternary};
use scan::Scan;
use tree::Trees;

/// What a rule has matched; one for each rule and worker, in the order of the rules.
#[derive(Debug, Default)]
pub struct RuleCounters {
    /// Packets.
    pub packets: Counter,
    /// Octets from the destination MAC address to the end of the frame, without FCS.
    pub octets: Counter,
}

/// What rules are compiled to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Structure {
    /// What takes less time.
    Best,
    /// All rules are compared.
    Scan,
    /// Trees.
    Trees,
}

/// The classes of the 64 differentiated services code points.
pub type DscpClasses = [Class; 64];

/// Two priorities: high are CS6 and CS7 (network control: routing protocols; RFC 4594 3.1, RFC
/// 2474 4.2.2.2) and EF (telephony; RFC 3246, RFC 4594 4.1).
pub const DEFAULT_DSCP: DscpClasses = {
    let mut classes = [Class::BEST_EFFORT; 64];
    classes[46] = Class::HIGH; // EF
    classes[48] = Class::HIGH; // CS6
    classes[56] = Class::HIGH; // CS7
    classes
};

/// A compiled rule set: read-only, shared by all workers.
#[derive(Debug)]
pub struct Classifier {
    /// Where the effect of each rule is.
    actions: Vec<u32>,
    /// Those that differ.
    effects: Vec<Effect>,
    v4: Matcher,
    v6: Matcher,
    /// Whether a rule for IPv4, and one for IPv6, looks at the protocol or at ports.
    upper_layer: [bool; 2],
    /// Whether a rule looks at more than addresses, so that packets are read beyond them.
    beyond_addresses: bool,
    dscp: Planes,
}

/// What an action does to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Effect {
    change: Change,
    output: Option<NextHopId>,
}

impl Effect {
    fn of(action: Action) -> Self {
        let (change, output) = match action {
            Action::Drop => (Change::verdict(Verdict::Drop(Reason::Rule)), None),
            Action::Pass { class, output } => (Change::class(class), output),
        };
        Self { change, output }
    }
}

/// Rules in order, and what goes for packets without one.
#[derive(Clone, Debug)]
pub struct RuleSet {
    /// First match wins.
    pub rules: Vec<Rule>,
    /// Class where no rule gives one.
    pub dscp: DscpClasses,
}

impl Default for RuleSet {
    fn default() -> Self {
        Self {
            rules: Vec::new(),
            dscp: DEFAULT_DSCP,
        }
    }
}

impl RuleSet {
    /// Compiles the rules; takes time and memory in proportion to their number (100 000 rules: about a second and 30 MB), so it
    /// belongs to the control side.
    ///
    /// # Errors
    /// The first [`RuleError`] found.
    pub fn compile(&self) -> Result<Classifier, RuleError> {
        rule::check(&self.rules)?;
        Ok(self.compile_to(Structure::Best))
    }

    /// Compiles to one structure, for benchmarks and tests. The rules must be good.
    #[doc(hidden)]
    pub fn compile_to(&self, structure: Structure) -> Classifier {
        let (mut effects, mut known) = (Vec::new(), HashMap::new());
        let actions = self.rules.iter().map(|rule| {
            let effect = Effect::of(rule.action);
            *known.entry(effect).or_insert_with(|| {
                effects.push(effect);
                effects.len() as u32 - 1
            })
        });
        let [v4, v6] = [Family::V4, Family::V6].map(|family| entries(family, &self.rules));
        let is_beyond = |entry: &Entry| entry.conditions().any(|(word, _)| word >= HEADER);
        Classifier {
            actions: actions.collect(),
            effects,
            upper_layer: [&v4, &v6].map(|entries| entries.iter().any(Entry::reads_upper_layer)),
            beyond_addresses: v4.iter().chain(&v6).any(is_beyond),
            v4: Matcher::compile(&v4, structure),
            v6: Matcher::compile(&v6, structure),
            dscp: Planes::new(&self.dscp),
        }
    }
}

/// The compiled rules of one IP version.
#[derive(Debug)]
enum Matcher {
    Nothing,
    Scan(Scan),
    Trees(Trees),
}

/// The rules that packets of an IP version may match.
fn entries(family: Family, rules: &[Rule]) -> Vec<Entry> {
    let of_family = |(_, rule): &(usize, &Rule)| match rule.addresses {
        Addresses::Any => true,
        Addresses::V4 { .. } => family == Family::V4,
        Addresses::V6 { .. } => family == Family::V6,
    };
    let rules = rules.iter().enumerate().filter(of_family);
    rules
        .map(|(number, rule)| Entry::new(number, rule))
        .collect()
}

impl Matcher {
    fn compile(entries: &[Entry], structure: Structure) -> Self {
        if entries.is_empty() {
            return Self::Nothing;
        }
        let scan = scan::cost(entries);
        if structure == Structure::Scan || structure == Structure::Best && scan < build::LEAST {
            return Self::Scan(Scan::compile(entries));
        }
        let (trees, cost) = build::trees(entries);
        match structure {
            Structure::Best if scan <= cost => Self::Scan(Scan::compile(entries)),
            _ => Self::Trees(Trees::new(trees)),
        }
    }

    /// The first rule of each wanted key, or [`NO_RULE`].
    #[inline(always)]
    fn find(&self, simd: Simd, keys: &Keys, found: &mut Found) {
        // each of them has a function, and so all registers, for itself
        match self {
            Self::Nothing => {}
            Self::Scan(scan) => simd.run(Find { scan, keys, found }),
            Self::Trees(trees) => simd.run(Descend { trees, keys, found }),
        }
    }
}

/// The look-up of a group of keys in a few rules.
struct Find<'a> {
    scan: &'a Scan,
    keys: &'a Keys,
    found: &'a mut Found,
}

impl Loop for Find<'_> {
    #[inline(always)]
    fn run(self) {
        self.scan.find(self.keys, &mut self.found.0);
    }
}

/// The look-up of a group of keys in many rules.
struct Descend<'a> {
    trees: &'a Trees,
    keys: &'a Keys,
    found: &'a mut Found,
}

impl Loop for Descend<'_> {
    #[inline(always)]
    fn run(self) {
        self.trees.find(self.keys, &mut self.found.0);
    }
}

impl Default for Classifier {
    /// No rules.
    fn default() -> Self {
        Self {
            actions: Vec::new(),
            effects: Vec::new(),
            v4: Matcher::Nothing,
            v6: Matcher::Nothing,
            upper_layer: [false; 2],
            beyond_addresses: false,
            dscp: Planes::new(&DEFAULT_DSCP),
        }
    }
}

impl Classifier {
    /// The classes of packets that no rule puts into another one.
    pub(crate) fn dscp(&self) -> &Planes {
        &self.dscp
    }

    /// The class of a frame that Linux itself sends: that of its code point, as of what is forwarded. `None` if it has to go
    /// before everything else, because links live by it: ARP, LACP and all else that is not IP, and neighbour discovery.
    pub fn class_of_linux(&self, frame: &[u8]) -> Option<Class> {
        let found = Untagged::find(&Frame::new_checked(frame).ok()?).ok()?;
        let packet = frame.get(found.offset..)?;
        let tos = match found.ethertype {
            EtherType::IPV4 => ipv4::Packet::new_checked(packet).ok()?.tos(),
            EtherType::IPV6 => {
                let packet = ipv6::Packet::new_checked(packet).ok()?;
                let may_be_discovery = packet.next_header() == Protocol::ICMPV6
                    && packet.hop_limit() == ndisc::HOP_LIMIT;
                (!may_be_discovery).then(|| packet.traffic_class())?
            }
            _ => return None,
        };
        Some(Class(self.dscp.class(tos.into()) as u8))
    }

    /// Octets that look-ups use, for benchmarks.
    #[doc(hidden)]
    pub fn size(&self) -> usize {
        let size = |matcher: &Matcher| match matcher {
            Matcher::Nothing => 0,
            Matcher::Scan(scan) => scan.size(),
            Matcher::Trees(trees) => trees.size(),
        };
        size(&self.v4)
            + size(&self.v6)
            + size_of_val(&self.actions[..])
            + size_of_val(&self.effects[..])
    }

    /// How many rules it has: the length of the array of [`RuleCounters`] it wants.
    pub fn rules(&self) -> usize {
        self.actions.len()
    }
}

/// Carries out the first rule that matches each pending packet. Where a rule looks at protocol or ports, packets that hide
/// theirs are dropped: whether the rule matches cannot be known. `counters` has an entry for each rule; a match
/// beyond its end is not counted.
pub fn classify(batch: &mut Batch, context: &Context<'_>, counters: &[RuleCounters]) {
    let classifier = context.classifier;
    for (family, matcher) in [(Family::V4, &classifier.v4), (Family::V6, &classifier.v6)] {
        if !matches!(matcher, Matcher::Nothing) {
            let simd = batch.simd;
            simd.run(Match {
                batch,
                context,
                of: (family, matcher),
                counters,
            });
        }
    }
}

/// The rules of an IP version, for its packets of a batch.
struct Match<'a> {
    batch: &'a mut Batch,
    context: &'a Context<'a>,
    of: (Family, &'a Matcher),
    counters: &'a [RuleCounters],
}

impl Loop for Match<'_> {
    #[inline(always)]
    fn run(self) {
        let Self { batch, context, .. } = self;
        let ((family, matcher), classifier) = (self.of, context.classifier);
        let upper_layer = classifier.upper_layer[family as usize];
        let mut keys = Keys::new(classifier.beyond_addresses);
        let may_be_marked = batch.input.is_none_or(is_device);
        let mut found = Found([NO_RULE; GROUP]);
        let groups = batch.packets.chunks(GROUP);
        for (number, (packets, metas)) in groups.zip(batch.meta.chunks_mut(GROUP)).enumerate() {
            keys.read((packets, metas), context.region, family, may_be_marked);
            if keys.wanted == 0 {
                continue;
            }
            let hidden = if upper_layer { keys.hidden } else { 0 };
            if hidden != 0 {
                drop_hidden(hidden, metas);
            }
            matcher.find(batch.simd, &keys, &mut found);
            let mut hits = hits(&found.0) & keys.wanted & !hidden;
            while hits != 0 {
                let at = hits.trailing_zeros() as usize;
                hits &= hits - 1;
                let rule = found.0[at] as usize;
                if let Some(counters) = self.counters.get(rule) {
                    counters.packets.add(1);
                    counters.octets.add(packets[at].length() as u64);
                }
                let effect = &classifier.effects[classifier.actions[rule] as usize];
                metas[at] = metas[at].changed(effect.change);
                if let Some(output) = effect.output {
                    batch.by_rule.push((number * GROUP + at, output));
                }
            }
        }
    }
}

/// Drops packets of a group that hide their protocol or ports.
#[cold]
fn drop_hidden(hidden: u64, metas: &mut [Meta]) {
    for (at, meta) in metas.iter_mut().enumerate() {
        if hidden >> at & 1 != 0 {
            meta.decide(Verdict::Drop(Reason::HiddenUpperLayer));
        }
    }
}

/// A bit for each packet that a rule was found for.
#[inline(always)]
fn hits(found: &Words) -> u64 {
    let mut hits = 0;
    for (at, &rule) in found.iter().enumerate() {
        hits |= u64::from(rule != NO_RULE) << at;
    }
    hits
}
