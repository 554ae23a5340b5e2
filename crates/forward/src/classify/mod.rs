//! Between parse and look-up: class, way out, or drop by ordered rules.
//!
//! Few rules are bit vectors (`index.rs`; Lakshman and Stiliadis, SIGCOMM 1998) with a summary word for each 64 words
//! (Baboescu and Varghese's aggregated bit vectors, SIGCOMM 2001): each octet of the header selects the set of rules it
//! allows, and the first bit of the intersection is the answer. The work is a load and an AND for each octet that any
//! rule looks at, the same for 1 and 64 rules, and does not depend on how rules nest or overlap. Ternary conditions
//! fall apart into octets exactly, so no rule is multiplied; ranges only touch the port tables. `benches/stages.rs`
//! compares it with a scan.
//!
//! A row of the vectors has a bit for each rule, so with thousands of rules both look-ups and memory would grow with
//! their number. Many rules are trees (`tree.rs`). `make bench-acl` compares both with other classifiers.

mod index;
mod key;
mod rows;
mod rule;
mod table;
mod tree;

use crate::batch::Batch;
use crate::class::{Class, Planes};
use crate::{Context, Family, Reason, Verdict};
use bora_contract::Counter;
use bora_fib::PortId;
use index::Index;
use key::{GROUP, Key, Keys, NO_RULE};
pub use rule::{Action, Addresses, MAX_RULES, Rule, RuleError, Ternary};
use tree::Trees;

/// What a rule has matched; one for each rule and worker, in the order of the rules.
#[derive(Debug, Default)]
pub struct RuleCounters {
    /// Packets.
    pub packets: Counter,
    /// Octets from the destination MAC address to the end of the frame, without FCS.
    pub octets: Counter,
}

/// From so many rules of an IP version on, trees are faster than bit vectors (`make bench-acl`).
const MANY: usize = 128;

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
    actions: Vec<Action>,
    v4: Matcher,
    v6: Matcher,
    dscp: Planes,
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
    /// Compiles the rules; takes time and memory in proportion to their number (100 000 rules: half a second and 30 MB), so it
    /// belongs to the control side.
    ///
    /// # Errors
    /// The first [`RuleError`] found.
    pub fn compile(&self) -> Result<Classifier, RuleError> {
        rule::check(&self.rules)?;
        Ok(self.compile_from(MANY))
    }

    /// Compiles to trees from so many rules of an IP version on, for benchmarks and tests. The rules must be good.
    #[doc(hidden)]
    pub fn compile_from(&self, many: usize) -> Classifier {
        Classifier {
            actions: self.rules.iter().map(|rule| rule.action).collect(),
            v4: Matcher::compile(Family::V4, &self.rules, many),
            v6: Matcher::compile(Family::V6, &self.rules, many),
            dscp: Planes::new(&self.dscp),
        }
    }
}

/// The compiled rules of one IP version.
#[derive(Debug)]
enum Matcher {
    Nothing,
    Vectors(Index),
    Trees(Trees),
}

impl Matcher {
    fn compile(family: Family, rules: &[Rule], many: usize) -> Self {
        let of_family = |(_, rule): &(usize, &Rule)| match rule.addresses {
            Addresses::Any => true,
            Addresses::V4 { .. } => family == Family::V4,
            Addresses::V6 { .. } => family == Family::V6,
        };
        let rules: Vec<(usize, &Rule)> = rules.iter().enumerate().filter(of_family).collect();
        match rules.len() {
            0 => Self::Nothing,
            few if few < many => Self::Vectors(Index::compile(&rules)),
            _ => Self::Trees(Trees::compile(family, &rules)),
        }
    }

    /// The first rule of each wanted key, as a bit of its place, or [`NO_RULE`].
    #[inline]
    fn find(&self, keys: &Keys, input: PortId, found: &mut [u32; GROUP]) -> bool {
        match self {
            Self::Nothing => false,
            Self::Vectors(index) => index.find(keys, input, found),
            Self::Trees(trees) => {
                trees.find(keys, found);
                true
            }
        }
    }
}

impl Default for Classifier {
    /// No rules.
    fn default() -> Self {
        Self {
            actions: Vec::new(),
            v4: Matcher::Nothing,
            v6: Matcher::Nothing,
            dscp: Planes::new(&DEFAULT_DSCP),
        }
    }
}

impl Classifier {
    /// The classes of packets that no rule puts into another one.
    pub(crate) fn dscp(&self) -> &Planes {
        &self.dscp
    }

    /// Octets that look-ups use, for benchmarks.
    #[doc(hidden)]
    pub fn size(&self) -> usize {
        let size = |matcher: &Matcher| match matcher {
            Matcher::Nothing => 0,
            Matcher::Vectors(index) => index.size(),
            Matcher::Trees(trees) => trees.size(),
        };
        size(&self.v4) + size(&self.v6) + size_of_val(&self.actions[..])
    }

    /// How many rules it has: the length of the array of [`RuleCounters`] it wants.
    pub fn rules(&self) -> usize {
        self.actions.len()
    }
}

/// Carries out the first rule that matches each pending packet. `counters` has an entry for each rule; a match
/// beyond its end is not counted.
pub fn classify(batch: &mut Batch, context: &Context<'_>, counters: &[RuleCounters]) {
    let classifier = context.classifier;
    for (family, matcher) in [(Family::V4, &classifier.v4), (Family::V6, &classifier.v6)] {
        if !matches!(matcher, Matcher::Nothing) {
            match_family(batch, context, (family, matcher), counters);
        }
    }
}

fn match_family(
    batch: &mut Batch,
    context: &Context<'_>,
    (family, matcher): (Family, &Matcher),
    counters: &[RuleCounters],
) {
    let is_device = context.ingress.is_device();
    let mut keys = Keys {
        keys: [Key::of(context.ingress.port); GROUP],
        wanted: 0,
    };
    let mut found = [NO_RULE; GROUP];
    let groups = batch.packets.chunks(GROUP);
    for (number, (packets, metas)) in groups.zip(batch.meta.chunks_mut(GROUP)).enumerate() {
        keys.wanted = 0;
        let places = keys.keys.iter_mut().zip(packets.iter().zip(&*metas));
        for (place, (key, (packet, meta))) in places.enumerate() {
            if meta.is_pending() && meta.family() == family {
                key::fill(key, context.region.octets(packet), family);
                if is_device {
                    key.octets[key::PCP] = packet.mark();
                }
                keys.wanted |= 1 << place;
            }
        }
        if !matcher.find(&keys, context.ingress.port, &mut found) {
            continue;
        }
        let places = found.iter().zip(packets.iter().zip(metas));
        for (at, (&rule, (packet, meta))) in places.enumerate() {
            if rule == NO_RULE {
                continue;
            }
            let rule = rule as usize;
            if let Some(counters) = counters.get(rule) {
                counters.packets.add(1);
                counters.octets.add(packet.length() as u64);
            }
            match context.classifier.actions[rule] {
                Action::Drop => meta.decide(Verdict::Drop(Reason::Rule)),
                Action::Pass { class, output } => {
                    *meta = meta.in_class(class.unwrap_or(meta.class()));
                    let place = number * GROUP + at;
                    batch.by_rule.extend(output.map(|output| (place, output)));
                }
            }
        }
    }
}
