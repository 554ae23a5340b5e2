//! The rules.

use bora_forward::RuleCounters;
use serde::Serialize;

use super::{Report, answer, table};
use crate::config::{File, RuleSection};
use crate::data_plane::DataPlane;
use crate::engine::Engine;

pub(super) const REPORT: Report = Report::new(
    "rules",
    "Rules: what each one has matched",
    |router, _| answer(report(&router.plane, router.in_force.file())),
    |json, _| Ok(table::of_rows_or("no rules", COLUMNS, &json)),
);

const COLUMNS: &[(&str, &str)] = &[
    ("OF", "of"),
    ("RULE", "number"),
    ("NAME", "name"),
    ("PACKETS", "packets"),
    ("OCTETS", "octets"),
    ("WHAT", "rule"),
    ("MATCHES NOTHING", "why_nothing"),
];

/// What a rule has matched since the rules were last changed.
#[derive(Debug, Serialize)]
struct RuleReport {
    /// `bora.toml`, or `nftables` for rules that Bora follows: what they match in Linux, nftables counts itself.
    of: &'static str,
    /// Number, from 1; the handle of a rule of nftables (`nft -a list ruleset`).
    number: u64,
    /// Its name, if it has one; family, table and chain of a rule of nftables.
    name: String,
    /// Conditions and action.
    rule: String,
    /// Packets.
    packets: u64,
    /// Octets from the destination MAC address to the end of the frame, without FCS; of a rule of nftables from the IP header on.
    octets: u64,
    /// Why it can match nothing now, if so.
    why_nothing: Option<String>,
}

fn report(plane: &DataPlane, config: &File) -> Vec<RuleReport> {
    let counted = plane.engine().map(|engine| counted(engine, &config.rules));
    let rules = config.rules.iter().enumerate();
    let rules = rules.map(|(index, rule)| {
        let counted = counted.as_ref().map(|counted| counted[index]);
        let (packets, octets) = counted.unwrap_or_default();
        RuleReport {
            of: "bora.toml",
            number: index as u64 + 1,
            name: rule.name.clone().unwrap_or_default(),
            rule: rule.to_string(),
            packets,
            octets,
            why_nothing: rule
                .in_port
                .as_ref()
                .and_then(|name| why_no_input(plane, name)),
        }
    });
    let nftables = plane.express().rule_counters().into_iter();
    let nftables = nftables.map(|(place, counted)| RuleReport {
        of: "nftables",
        number: place.rule.map_or(0, |(_, handle)| handle),
        name: place.chain_title(),
        rule: place.text,
        packets: counted.packets,
        octets: counted.octets,
        why_nothing: None,
    });
    rules.chain(nftables).collect()
}

/// Packets and octets that each rule has matched since the rules were last changed.
pub(crate) fn counted(engine: &Engine, rules: &[RuleSection]) -> Vec<(u64, u64)> {
    let mut next = 0;
    let one = |rule: &RuleSection| {
        let counters = next..next + rule.count();
        next = counters.end;
        let sum = |of: fn(&RuleCounters) -> u64| {
            let workers = engine.counters();
            let workers = workers.filter_map(|worker| worker.rules.get(counters.clone()));
            workers.flat_map(|rules| rules.iter().map(of)).sum()
        };
        (
            sum(|rule| rule.packets.get()),
            sum(|rule| rule.octets.get()),
        )
    };
    rules.iter().map(one).collect()
}

/// Why no packet comes in by an interface of this name.
fn why_no_input(plane: &DataPlane, name: &str) -> Option<String> {
    if plane.names().iter().any(|(_, known)| *known == name) {
        return None;
    }
    let mut links = plane.mirror().links().values();
    let mut left_alone = plane.devices().left_alone().iter();
    let why = left_alone.find(|one| one.name == name).map(|one| &one.why);
    Some(match why {
        Some(why) => format!("{name} is left to Linux: {why}"),
        None if links.any(|link| link.name == name) => format!("{name} is no device on the ports"),
        None => format!("{name} does not exist"),
    })
}
