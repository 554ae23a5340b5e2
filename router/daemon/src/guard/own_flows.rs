//! When Bora itself offers a flowtable to the established flows that pass Linux's chains: the table `bora`.

use std::io;

use bora_mirror::{Firewall, FlowOffload, GuardReport};
use bora_ruleset::{Answer, Hook as Place, Transit};

use super::hooks::Hooks;
use crate::config::FlowChoice;

/// Most rules that are named.
const NAMED: usize = 3;
const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];

/// Whether a flowtable is to be offered, and why not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) wanted: Option<FlowOffload>,
    pub(crate) why_not: Vec<String>,
    /// Why Bora could not forward by the table, which had been made.
    useless: Option<String>,
    /// The table that Linux has refused, and why.
    refused: Option<(FlowOffload, String)>,
}

impl Decision {
    /// `devices`: the interfaces that the table would be for. `off`: those by which Linux does not forward IPv4, and IPv6; its
    /// function for the table would not ask.
    pub(crate) fn new(
        guard: &GuardReport,
        hooks: &Hooks,
        choice: FlowChoice,
        devices: Vec<String>,
        off: [Vec<String>; 2],
    ) -> Self {
        let held = hooks.held_by_chains(guard);
        if held == [false; 2] || guard.flowtables.iter().any(|table| !table.own) {
            return Self::default();
        }
        let why_not = |why: &str| Self {
            why_not: vec![why.into()],
            ..Self::default()
        };
        let Some(rules) = &guard.firewall else {
            return why_not("netfilter's rules could not all be read");
        };
        if choice == FlowChoice::Off {
            return why_not("`firewall.flows` is \"off\"");
        }
        let mut decision = Self::default();
        let (mut versions, mut edition, mut marks) = ([false; 2], None, false);
        for v6 in (0..2).filter(|&v6| held[v6]) {
            let off = off[v6].iter();
            let off = off.map(|name| format!("forwarding is off on {name}"));
            let mut obstacles: Vec<_> = off.collect();
            obstacles.extend(self::obstacles(rules, hooks, choice, v6));
            versions[v6] = obstacles.is_empty();
            let established = &rules.transit[v6].established;
            let sets_marks = !established.marks.is_empty();
            if versions[v6] && (sets_marks || established.answer() != Answer::Unconditional) {
                edition = Some(rules.edition);
            }
            marks |= versions[v6] && sets_marks;
            let named = obstacles.into_iter().take(NAMED);
            let lines = named.map(|why| format!("{}: {why}", FAMILIES[v6]));
            decision.why_not.extend(lines);
        }
        decision.wanted = (versions != [false; 2]).then_some(FlowOffload {
            devices,
            versions,
            edition,
            marks,
        });
        decision
    }

    /// Wants no table where one has been of no use before, nor one that Linux has just refused. `forwards`: whether the program
    /// forwards by flowtables, or why not.
    pub(crate) fn follow(&mut self, forwards: Option<&Result<(), String>>, before: &Self) {
        self.useless = match forwards {
            Some(Err(why)) if before.wanted.is_some() => Some(why.clone()),
            _ => before.useless.clone(),
        };
        self.refused = before.refused.clone();
        let refused = self.refused.iter();
        let refused = refused.filter(|(refused, _)| self.wanted.as_ref() == Some(refused));
        let mut why = refused.map(|(_, why)| why).chain(&self.useless);
        if let (Some(_), Some(why)) = (&self.wanted, why.next()) {
            (self.wanted, self.why_not) = (None, vec![why.clone()]);
        }
    }

    /// Notes what has become of the table.
    pub(crate) fn made(&mut self, result: io::Result<bool>) {
        if let Err(error) = result {
            let why = format!("Linux refuses the table bora of nftables: {error}");
            self.why_not = vec![why.clone()];
            self.refused = self.wanted.take().map(|wanted| (wanted, why));
        }
    }

    /// Logs what is other than before.
    pub(crate) fn log(&self, before: &Self) {
        match (self.told(), before.told()) {
            (Some(text), told) if told.as_ref() != Some(&text) => log::info!("{text}"),
            (None, Some(_)) => log::info!("established flows pass netfilter's chains again"),
            _ => {}
        }
        let new = self.why_not.iter();
        for why in new.filter(|why| !before.why_not.contains(why)) {
            log::info!("no flowtable for established flows: {why}");
        }
    }

    /// What the table does, in words.
    pub(crate) fn told(&self) -> Option<String> {
        let offered = self.wanted.as_ref()?;
        let versions = FAMILIES.iter().zip(offered.versions);
        let versions: Vec<_> = versions
            .filter_map(|(name, is)| is.then_some(*name))
            .collect();
        Some(format!(
            "established flows of TCP and UDP over {} pass netfilter's chains no more: Bora offers them the table {} \
             (`firewall.flows`)",
            versions.join(" and "),
            offered.title()
        ))
    }
}

/// What stands in the way of an IP version.
fn obstacles(rules: &Firewall, hooks: &Hooks, choice: FlowChoice, v6: usize) -> Vec<String> {
    let transit = &rules.transit[v6];
    if !transit.looks_at_conntrack {
        return vec!["no rule looks at connections".into()];
    }
    if choice == FlowChoice::Always {
        return Vec::new();
    }
    let unknown = hooks.unknown(v6 == 1).into_iter();
    let unknown = unknown.map(|function| format!("{function} must see every packet"));
    unknown.chain(in_rules(transit)).collect()
}

/// Whether the rules accept some established flows and others not, but all packets of a flow and direction or none, before the
/// chain of Bora's table.
fn is_of_flows(transit: &Transit) -> bool {
    let established = &transit.established;
    let mut obstacles = established.obstacles.iter();
    established.answer() == Answer::Constant
        && !established.fib
        && obstacles.all(|it| transit.chains[it.base].hook <= Place::Forward)
}

/// Rules that may treat packets of one established flow differently, or that do more than count.
fn in_rules(transit: &Transit) -> impl Iterator<Item = String> {
    let established = &transit.established;
    let deciding = established.obstacles.iter();
    let deciding = deciding.filter(|_| !is_of_flows(transit));
    let deciding = deciding.map(|it| format!("{it} must see every packet"));
    let setting = established.priorities.iter();
    deciding.chain(setting.map(|it| format!("{it} gives every packet a priority")))
}

#[cfg(test)]
mod tests {
    use bora_mirror::{Flowtable, Reason, ReasonKind};
    use bora_ruleset::{ChainReport, Class, Family, Kind, Obstacle};

    use super::*;

    fn place(text: &str) -> bora_ruleset::Place {
        bora_ruleset::Place {
            family: Family::Inet,
            table: "t".into(),
            legacy: false,
            chain: "forward".into(),
            rule: Some((2, 7)),
            text: text.into(),
        }
    }

    /// Chains that follow connections and accept every packet of established flows.
    fn stateful() -> GuardReport {
        let reasons = vec![Reason {
            kind: ReasonKind::Netfilter,
            text: "a chain".into(),
        }];
        let transit = Transit {
            looks_at_conntrack: true,
            ..Transit::default()
        };
        GuardReport {
            v4: reasons.clone(),
            v6: reasons,
            firewall: Some(Firewall {
                generation: 1,
                edition: 1,
                transit: [transit.clone(), transit],
                ..Firewall::default()
            }),
            ..GuardReport::default()
        }
    }

    fn decide(guard: &GuardReport, choice: FlowChoice) -> Decision {
        Decision::new(
            guard,
            &Hooks::default(),
            choice,
            vec!["r0".into()],
            Default::default(),
        )
    }

    #[test]
    fn forwarding_that_is_off_is_an_obstacle_of_its_ip_version() {
        let off = [vec![], vec!["r1".into()]];
        let hooks = Hooks::default();
        let decision = Decision::new(&stateful(), &hooks, FlowChoice::Always, Vec::new(), off);
        assert_eq!(offered(&decision), [true, false]);
        assert_eq!(decision.why_not, ["IPv6: forwarding is off on r1"]);
    }

    fn offered(decision: &Decision) -> [bool; 2] {
        let wanted = decision.wanted.as_ref();
        wanted.map_or([false; 2], |wanted| wanted.versions)
    }

    #[test]
    fn offered_where_rules_accept_every_packet_of_established_flows() {
        let decision = decide(&stateful(), FlowChoice::Proved);
        assert_eq!(offered(&decision), [true; 2]);
        assert!(decision.why_not.is_empty());
        assert_eq!(offered(&decide(&stateful(), FlowChoice::Off)), [false; 2]);
        let none = decide(&GuardReport::default(), FlowChoice::Always);
        assert_eq!(none, Decision::default(), "no chain holds anything");
    }

    #[test]
    fn an_obstacle_concerns_its_ip_version_and_is_named() {
        let mut guard = stateful();
        let rules = guard.firewall.as_mut().unwrap();
        let established = &mut rules.transit[0].established;
        established.obstacles.push(Obstacle {
            place: place("limit"),
            class: Class::Varying,
            base: 0,
        });
        let decision = decide(&guard, FlowChoice::Proved);
        assert_eq!(offered(&decision), [false, true]);
        let expected = "IPv4: rule 2 of chain inet t forward (limit) must see every packet";
        assert_eq!(decision.why_not, [expected]);
        assert_eq!(offered(&decide(&guard, FlowChoice::Always)), [true; 2]);
    }

    #[test]
    fn rules_that_tell_flows_apart_count_for_their_edition() {
        let mut guard = stateful();
        let rules = guard.firewall.as_mut().unwrap();
        rules.edition = 7;
        for hook in [Place::Forward, Place::Postrouting] {
            let transit = &mut rules.transit[0];
            transit.chains.push(ChainReport {
                family: Family::Inet,
                table: "t".into(),
                legacy: false,
                name: "c".into(),
                hook,
                priority: 0,
                kind: Kind::Filter,
                devices: Vec::new(),
                leaves_alone: false,
            });
        }
        for (base, expected) in [(0, [true, true]), (1, [false, true])] {
            let mut guard = guard.clone();
            let transit = &mut guard.firewall.as_mut().unwrap().transit[0];
            transit.established.obstacles.push(Obstacle {
                place: place("drop"),
                class: Class::Constant,
                base,
            });
            let decision = decide(&guard, FlowChoice::Proved);
            assert_eq!(offered(&decision), expected);
            assert_eq!(decision.wanted.unwrap().edition.is_some(), expected[0]);
        }
    }

    #[test]
    fn rules_that_set_marks_count_for_their_edition() {
        let mut guard = stateful();
        let rules = guard.firewall.as_mut().unwrap();
        let marks = &mut rules.transit[1].established.marks;
        marks.push(place("meta mark set ct mark"));
        let wanted = decide(&guard, FlowChoice::Proved).wanted.unwrap();
        assert_eq!(wanted.versions, [true; 2]);
        assert!(wanted.marks && wanted.edition.is_some());
    }

    #[test]
    fn not_offered_without_a_proof() {
        let changes: [fn(&mut GuardReport); 4] = [
            |guard| guard.firewall = None,
            |guard| {
                for transit in &mut guard.firewall.as_mut().unwrap().transit {
                    let priorities = &mut transit.established.priorities;
                    priorities.push(place("meta priority set"));
                }
            },
            |guard| {
                for transit in &mut guard.firewall.as_mut().unwrap().transit {
                    transit.looks_at_conntrack = false;
                }
            },
            |guard| guard.flowtables.push(Flowtable::default()),
        ];
        for (number, change) in changes.iter().enumerate() {
            let mut guard = stateful();
            change(&mut guard);
            let decision = decide(&guard, FlowChoice::Proved);
            assert_eq!(decision.wanted, None, "{number}");
        }
    }

    #[test]
    fn what_was_of_no_use_is_not_tried_again() {
        let mut first = decide(&stateful(), FlowChoice::Proved);
        first.follow(None, &Decision::default());
        assert!(first.wanted.is_some());
        let mut second = decide(&stateful(), FlowChoice::Proved);
        second.follow(Some(&Err("no such function".into())), &first);
        let mut third = decide(&stateful(), FlowChoice::Proved);
        third.follow(None, &second);
        for decision in [second, third] {
            assert_eq!(decision.wanted, None);
            assert_eq!(decision.why_not, ["no such function"]);
        }
    }

    #[test]
    fn a_refused_table_is_told_and_not_tried_again() {
        let mut decision = decide(&stateful(), FlowChoice::Proved);
        decision.made(Err(io::ErrorKind::Unsupported.into()));
        assert_eq!(decision.wanted, None);
        assert!(decision.why_not[0].contains("table bora"));
        let mut again = decide(&stateful(), FlowChoice::Proved);
        again.follow(None, &decision);
        assert_eq!(
            (again.wanted, again.why_not),
            (None, decision.why_not.clone())
        );
        let devices = vec!["r0".into(), "r1".into()];
        let mut other = Decision::new(
            &stateful(),
            &Hooks::default(),
            FlowChoice::Proved,
            devices,
            Default::default(),
        );
        other.follow(None, &decision);
        assert!(other.wanted.is_some(), "it may be possible for other ports");
    }
}
