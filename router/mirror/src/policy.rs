//! Policy routing and VRFs: which rules Linux has, and which tables they use.

use std::collections::BTreeSet;

use bora_fib::{Prefix6, TableId};

use crate::message::RuleAction;
use crate::mirror::Mirror;
use crate::model::Model;
use crate::nexthops::SharedHops;
use crate::rib::{MERGED, Prefix};
use crate::rules::Rules;
use crate::world::World;

impl World {
    /// The tables beside local, main and default that the rules of a version lead to.
    fn wanted_tables(&self, v6: bool) -> BTreeSet<u32> {
        let rules = &self.rules[usize::from(v6)].list;
        let mut wanted = BTreeSet::new();
        for rule in rules {
            match rule.action {
                RuleAction::Table(_) if rule.l3mdev => {
                    wanted.extend(self.links.values().filter_map(|link| link.vrf_table));
                }
                RuleAction::Table(table) => drop(wanted.insert(table)),
                _ => {}
            }
        }
        let merged: &[u32] = if v6 {
            &[0, 254, 255]
        } else {
            &[0, 253, 254, 255]
        };
        wanted.retain(|table| !merged.contains(table));
        wanted
    }
}

impl Model {
    /// Sets the rules of IPv4 and IPv6.
    pub(crate) fn set_rules(&mut self, rules: [Rules; 2]) {
        if self.world.rules == rules {
            return;
        }
        self.world.rules = rules;
        self.policy_generation += 1;
        self.follow_tables();
    }

    /// Mirrors the tables that rules and VRFs use.
    pub(crate) fn follow_tables(&mut self) {
        let wanted = [false, true].map(|v6| self.world.wanted_tables(v6));
        if wanted == self.world.further {
            return;
        }
        let more = (0..2).any(|family| !wanted[family].is_subset(&self.world.further[family]));
        self.v4.set_further(&mut self.hops, &wanted[0]);
        self.v6.set_further(&mut self.hops, &wanted[1]);
        self.world.further = wanted;
        self.policy_generation += 1;
        if more {
            self.stale.routes = true;
            self.stale.reason = "rules or VRFs use another table";
        }
    }

    /// All routes have been read.
    pub(crate) fn note_loaded(&mut self) {
        let v4 = self
            .v4
            .further
            .values_mut()
            .map(|further| &mut further.loaded);
        let v6 = self
            .v6
            .further
            .values_mut()
            .map(|further| &mut further.loaded);
        for loaded in v4.chain(v6).filter(|loaded| !**loaded) {
            *loaded = true;
            self.policy_generation += 1;
        }
    }
}

impl Mirror {
    /// Grows with every change of rules or of the tables that they use.
    pub fn policy_generation(&self) -> u64 {
        self.model.policy_generation
    }

    /// The rules of an IP version.
    pub fn rules(&self, v6: bool) -> &Rules {
        &self.model.world.rules[usize::from(v6)]
    }

    /// A further table of the FIB by Linux's number; `None` if it is not mirrored, or not yet read.
    pub fn further_table(&self, v6: bool, number: u32) -> Option<TableId> {
        let Model { v4, v6: six, .. } = &self.model;
        if v6 {
            let table = six.further.get(&number)?;
            table.loaded.then_some(table.fib)
        } else {
            let table = v4.further.get(&number)?;
            table.loaded.then_some(table.fib)
        }
    }

    /// Prefixes of each further table in the FIB: Linux's number, IPv4, IPv6.
    pub fn further_tables(&self) -> Vec<(u32, usize, usize)> {
        let Model { v4, v6, hops, .. } = &self.model;
        let numbers: BTreeSet<u32> = v4
            .further
            .keys()
            .chain(v6.further.keys())
            .copied()
            .collect();
        let four = |number: u32| Some(hops.fib.len4_in(v4.further.get(&number)?.fib));
        let six = |number: u32| Some(hops.fib.len6_in(v6.further.get(&number)?.fib));
        let of = |number| (number, four(number).unwrap_or(0), six(number).unwrap_or(0));
        numbers.into_iter().map(of).collect()
    }

    /// The next hops of routes that lead nowhere.
    pub fn shared_hops(&self) -> SharedHops {
        self.model.hops.shared
    }

    /// Whether the FIB's main table is what a look-up in Linux's table `main` alone gives for all addresses
    /// that are not the router's own: nothing is in the table `default`, and `local` has only own addresses.
    pub fn main_is_alone(&self, v6: bool) -> bool {
        let Model { v4, v6: six, .. } = &self.model;
        if v6 {
            six.rib.in_default().is_empty() && six.odd_local.is_empty()
        } else {
            v4.rib.in_default().is_empty() && v4.odd_local.is_empty()
        }
    }

    /// Whether the FIB's main table can tell its route of length 0 from others; for `suppress_prefixlength
    /// 0`.
    pub fn main_tells_default(&self, v6: bool) -> bool {
        let shorter = [(0, 1), (0, 2), (1 << 125, 3)];
        let prefix = |(address, length)| Prefix6::masked(address, length);
        let there = |place| prefix(place).fib_get(self.fib(), TableId::MAIN).is_some();
        !v6 || !shorter.into_iter().any(there)
    }

    /// Whether routes of further tables have MTUs of their own; IPv4, IPv6.
    pub fn further_mtus(&self) -> [bool; 2] {
        let Model { v4, v6, .. } = &self.model;
        let last = [
            v4.mtus.last_key_value().map(|((tree, _), _)| *tree),
            v6.mtus.last_key_value().map(|((tree, _), _)| *tree),
        ];
        last.map(|tree| tree.is_some_and(|tree| tree != MERGED))
    }
}
