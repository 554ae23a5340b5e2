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
    /// What programs before the current ones have counted.
    before: BTreeMap<Place, Counted>,
}

impl FollowedRules {
    /// Compiles the rules if they or the interfaces are others than before; returns what the program has to follow from now on, and begins
    /// to count anew, if that is something else. `counted`: what the program has counted by each entry so far.
    pub(crate) fn compile(
        &mut self,
        guard: &GuardReport,
        interfaces: Vec<Interface>,
        counted: impl Fn(bool, usize) -> Counted,
    ) -> Option<RulePages> {
        let none = Firewall::default();
        let rules = guard.firewall.as_ref().unwrap_or(&none);
        let source = (rules.edition, interfaces);
        if source == self.source {
            return None;
        }
        let began = Instant::now();
        self.source = source;
        self.why_not = Default::default();
        let mut programs: [Program; 2] = Default::default();
        for at in (0..2).filter(|&at| rules.compiles[at]) {
            let tracked = rules.transit[at].looks_at_conntrack;
            match rules.ruleset.compile(at == 1, tracked, &self.source.1) {
                Ok(program) => programs[at] = program,
                Err(why) => self.why_not[at] = Some(why.to_string()),
            }
        }
        let pages = match RulePages::new([&programs[0], &programs[1]]) {
            Ok(pages) => pages,
            Err(why) => {
                programs = Default::default();
                self.why_not = [Some(why.to_string()), Some(why.to_string())];
                RulePages::default()
            }
        };
        // rules that are as before go on counting
        if programs == self.programs {
            return None;
        }
        self.before = self.totals(counted);
        self.programs = programs;
        let entries = self.programs.iter().flat_map(|it| &it.entries);
        let places: BTreeSet<&Place> = entries.filter_map(|it| it.place.as_ref()).collect();
        self.before.retain(|place, _| places.contains(place));
        let (octets, took) = (pages.octets(), began.elapsed());
        log::debug!("rules of nftables compiled: {octets} octets, {took:?}");
        Some(pages)
    }

    /// They cannot be followed.
    pub(crate) fn refused(&mut self, why: String) {
        self.programs = Default::default();
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

    /// What becomes of the rules, in words. `held`: IP versions that are Linux's all the same.
    pub(crate) fn told(&self, held: [bool; 2]) -> Vec<String> {
        let mut lines = Vec::new();
        for (at, family) in FAMILIES.iter().enumerate() {
            let (program, why_not) = (&self.programs[at], &self.why_not[at]);
            if let Some(why) = why_not {
                lines.push(format!("{family}: nftables' rules are Linux's: {why}"));
            }
            if program.starts.is_empty() || held[at] {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bora_ruleset::Ruleset;

    use super::*;

    /// A table `t` of family inet with a forward chain of one rule, `counter`, of this handle.
    fn guard(edition: u64, handle: u8) -> GuardReport {
        let chain = [
            &[
                1, 0, 0, 0, 6, 0, 1, 0, b't', 0, 0, 0, 6, 0, 3, 0, b'f', 0, 0, 0,
            ][..], // NFTA_CHAIN_TABLE, NAME
            &[
                20, 0, 4, 128, 8, 0, 1, 0, 0, 0, 0, 2, 8, 0, 2, 0, 0, 0, 0, 0,
            ], // NFTA_CHAIN_HOOK: forward
            &[11, 0, 7, 0, b'f', b'i', b'l', b't', b'e', b'r', 0, 0], // NFTA_CHAIN_TYPE
        ];
        let rule = [
            &[
                1, 0, 0, 0, 6, 0, 1, 0, b't', 0, 0, 0, 6, 0, 2, 0, b'f', 0, 0, 0,
            ][..], // NFTA_RULE_TABLE, CHAIN
            &[12, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, handle], // NFTA_RULE_HANDLE
            &[
                20, 0, 4, 128, 16, 0, 1, 128, 12, 0, 1, 0, b'c', b'o', b'u', b'n', b't', b'e',
                b'r', 0,
            ],
        ];
        let mut ruleset = Ruleset::default();
        ruleset.read((10 << 8) | 3, &chain.concat()).unwrap();
        ruleset.read((10 << 8) | 6, &rule.concat()).unwrap();
        GuardReport {
            firewall: Some(Firewall {
                edition,
                compiles: [true, false],
                ruleset: Arc::new(ruleset),
                ..Firewall::default()
            }),
            ..GuardReport::default()
        }
    }

    #[test]
    fn nothing_is_counted_twice_when_rules_are_read_again() {
        let mut rules = FollowedRules::default();
        let five = |_, _| Counted {
            packets: 5,
            octets: 500,
        };
        let packets = |rules: &FollowedRules| -> u64 {
            rules.totals(five).values().map(|one| one.packets).sum()
        };
        let mut follow = |edition, handle| {
            let pages = rules.compile(&guard(edition, handle), Vec::new(), five);
            (pages.is_some(), packets(&rules))
        };
        assert_eq!(follow(1, 7), (true, 5));
        assert_eq!(follow(2, 7), (false, 5), "something else has changed");
        assert_eq!(
            follow(3, 8),
            (true, 5),
            "what the old rule has counted is gone"
        );
    }
}
