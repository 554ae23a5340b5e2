//! Between parse and look-up: class, way out, or drop by ordered rules.
//!
//! Rules are compiled to bit vectors (Lakshman and Stiliadis, SIGCOMM 1998) with a summary word
//! for each 64 words (Baboescu and Varghese's aggregated bit vectors, SIGCOMM 2001): each octet of
//! the header selects the set of rules it allows, and the first bit of the intersection is the
//! answer. The work is a load and an AND for each octet that any rule looks at, the same for 1 and
//! 64 rules, plus as much for each block of 64 rules that the summaries leave open. It does not
//! depend on how rules nest or overlap, which tuple-space search does: rules with arbitrary masks
//! are as many tuples as rules. Ternary conditions fall apart into octets exactly, so no rule is
//! multiplied; ranges only touch the port tables. `benches/stages.rs` compares it with a scan.

mod index;
mod key;
mod rows;
mod rule;
mod table;

use crate::batch::Batch;
use crate::class::{Class, Planes};
use crate::{Context, Family, Reason, Verdict};
use index::{GROUP, Index};
use key::Key;
pub use rule::{Action, Addresses, MAX_RULES, Rule, RuleError, Ternary};

/// What a rule has matched; one for each rule and worker, in the order of the rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleHits {
    /// Packets.
    pub packets: u64,
    /// Octets from the destination MAC address to the end of the frame, without FCS.
    pub octets: u64,
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
    actions: Vec<Action>,
    v4: Index,
    v6: Index,
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
    /// Compiles the rules; takes time and memory in proportion to their number (1000 rules: some
    /// milliseconds), so it belongs to the control side.
    ///
    /// # Errors
    /// The first [`RuleError`] found.
    pub fn compile(&self) -> Result<Classifier, RuleError> {
        rule::check(&self.rules)?;
        Ok(Classifier {
            actions: self.rules.iter().map(|rule| rule.action).collect(),
            v4: Index::compile(Family::V4, &self.rules),
            v6: Index::compile(Family::V6, &self.rules),
            dscp: Planes::new(&self.dscp),
        })
    }
}

impl Default for Classifier {
    /// No rules.
    fn default() -> Self {
        Self {
            actions: Vec::new(),
            v4: Index::compile(Family::V4, &[]),
            v6: Index::compile(Family::V6, &[]),
            dscp: Planes::new(&DEFAULT_DSCP),
        }
    }
}

impl Classifier {
    /// The classes of packets that no rule puts into another one.
    pub(crate) fn dscp(&self) -> &Planes {
        &self.dscp
    }

    /// How many rules it has: the length of the array of [`RuleHits`] it wants.
    pub fn rules(&self) -> usize {
        self.actions.len()
    }
}

/// Carries out the first rule that matches each pending packet. `hits` has an entry for each rule; a match
/// beyond its end is not counted.
pub fn classify(batch: &mut Batch, context: &Context<'_>, hits: &mut [RuleHits]) {
    let classifier = context.classifier;
    for (family, index) in [(Family::V4, &classifier.v4), (Family::V6, &classifier.v6)] {
        if !index.is_empty() {
            match_family(batch, context, (family, index), hits);
        }
    }
}

fn match_family(
    batch: &mut Batch,
    context: &Context<'_>,
    (family, index): (Family, &Index),
    hits: &mut [RuleHits],
) {
    let is_device = context.ingress.is_device();
    let (open, start) = index.start(context.ingress.port);
    let mut keys = [Key::EMPTY; GROUP];
    let groups = batch.packets.chunks(GROUP);
    for (number, (packets, metas)) in groups.zip(batch.meta.chunks_mut(GROUP)).enumerate() {
        // a packet that is not concerned has no candidates, and its key does not matter
        let mut candidates = [0; GROUP];
        let places = keys.iter_mut().zip(&mut candidates);
        for ((key, candidates), (packet, meta)) in places.zip(packets.iter().zip(&*metas)) {
            if meta.is_pending() && meta.family() == family {
                key::fill(key, context.region.octets(packet), family);
                if is_device {
                    key.octets[key::PCP] = packet.mark();
                }
                *candidates = open;
            }
        }
        if !index.narrow(&keys, &mut candidates) {
            continue;
        }
        let places = keys.iter().zip(candidates).zip(packets.iter().zip(metas));
        for (at, ((key, candidates), (packet, meta))) in places.enumerate() {
            if candidates == 0 {
                continue;
            }
            let Some(rule) = index.first(candidates, start, key).map(usize::from) else {
                continue;
            };
            if let Some(hit) = hits.get_mut(rule) {
                hit.packets += 1;
                hit.octets += packet.length() as u64;
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
