//! The rules of nftables that the program follows by itself, because they need no connection.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use bora_mirror::{Firewall, GuardReport};
use bora_ruleset::{Action, Interface, Place, Program};
use bora_xdp::RulePages;

const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];
/// Most rules that are named.
const NAMED: usize = 3;

/// Packets and octets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) packets: u64,
    pub(crate) octets: u64,
}

/// Rules as programs, and what they have counted.
#[derive(Default)]
pub(crate) struct FollowedRules {
    /// What was compiled: the edition of the rules, and the interfaces.
    source: (u64, Vec<Interface>),
    programs: [Program; 2],
    /// Why rules are not followed, IPv4 and IPv6.
    why_not: [Option<String>; 2],
    pages: RulePages,
    /// What programs before the current ones have counted.
    before: BTreeMap<Place, Counted>,
}

impl FollowedRules {
    /// Compiles the rules if they or the interfaces are others than before; `true` if the program has to follow other pages.
    /// `counted`: what the program has counted by each entry so far.
    pub(crate) fn compile(
        &mut self,
        guard: &GuardReport,
        interfaces: Vec<Interface>,
        counted: impl Fn(bool, usize) -> Counted,
    ) -> bool {
        let none = Firewall::default();
        let rules = guard.firewall.as_ref().unwrap_or(&none);
        let source = (rules.edition, interfaces);
        if source == self.source {
            return false;
        }
        let began = Instant::now();
        self.before = self.totals(counted);
        self.source = source;
        self.programs = Default::default();
        self.why_not = Default::default();
        for at in (0..2).filter(|&at| rules.compiles[at]) {
            let tracked = rules.transit[at].looks_at_conntrack;
            match rules.ruleset.compile(at == 1, tracked, &self.source.1) {
                Ok(program) => self.programs[at] = program,
                Err(why) => self.why_not[at] = Some(why.to_string()),
            }
        }
        let before = std::mem::take(&mut self.pages);
        match RulePages::new([&self.programs[0], &self.programs[1]]) {
            Ok(pages) => self.pages = pages,
            Err(why) => self.refused(why.to_string()),
        }
        let entries = self.programs.iter().flat_map(|it| &it.entries);
        let places: BTreeSet<&Place> = entries.filter_map(|it| it.place.as_ref()).collect();
        self.before.retain(|place, _| places.contains(place));
        let changed = self.pages != before;
        if changed {
            let (octets, took) = (self.pages.octets(), began.elapsed());
            log::debug!("rules of nftables compiled: {octets} octets, {took:?}");
        }
        changed
    }

    /// What the program has to follow.
    pub(crate) fn pages(&self) -> &RulePages {
        &self.pages
    }

    /// They cannot be followed.
    pub(crate) fn refused(&mut self, why: String) {
        self.programs = Default::default();
        self.pages = RulePages::default();
        self.why_not = [Some(why.clone()), Some(why)];
    }

    /// Whether the rules of an IP version are followed.
    pub(crate) fn has(&self, v6: bool) -> bool {
        !self.programs[usize::from(v6)].starts.is_empty()
    }

    /// What each rule that counts has counted in the program.
    pub(crate) fn totals(
        &self,
        counted: impl Fn(bool, usize) -> Counted,
    ) -> BTreeMap<Place, Counted> {
        let mut totals = self.before.clone();
        for (v6, program) in [false, true].into_iter().zip(&self.programs) {
            let entries = program.entries.iter().enumerate();
            for (number, entry) in entries.filter(|(_, entry)| entry.counts) {
                let Some(place) = &entry.place else { continue };
                let new = counted(v6, number);
                let total = totals.entry(place.clone()).or_default();
                total.packets += new.packets;
                total.octets += new.octets;
            }
        }
        totals
    }

    /// What becomes of the rules, in words.
    pub(crate) fn told(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (family, (program, why_not)) in
            FAMILIES.iter().zip(self.programs.iter().zip(&self.why_not))
        {
            if let Some(why) = why_not {
                lines.push(format!("{family}: nftables' rules are Linux's: {why}"));
            }
            if program.starts.is_empty() {
                continue;
            }
            lines.push(format!("{family}: Bora follows nftables' rules itself"));
            let entries = program.entries.iter();
            let linux = entries.filter(|entry| entry.action == Action::Linux);
            let mut places: Vec<&Place> = linux.filter_map(|entry| entry.place.as_ref()).collect();
            places.dedup();
            let named = places.iter().take(NAMED);
            lines.extend(named.map(|place| {
                format!("{family}: Linux decides about packets that come to {place}")
            }));
            if places.len() > NAMED {
                let more = places.len() - NAMED;
                lines.push(format!(
                    "{family}: and about those that come to {more} more rules"
                ));
            }
            if program.starts.iter().any(|start| start.untracked) {
                lines.push(format!("{family}: Linux decides about packets that no rule has kept from conntrack (`notrack`)"));
            }
        }
        lines
    }
}
