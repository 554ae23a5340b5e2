//! Rules that the program follows where hooks are trusted.

mod layout;

use std::io;
use std::os::fd::AsFd;

use bora_contract::RULES;
use bora_ruleset::FIELDS;
use libbpf_rs::{MapCore, MapFlags};

use super::ask::run_on_context;
use super::error::ProgramError;
use super::program::Program;
use super::skeleton::types::{bora_rule_field, bora_rules};
use super::trust::Trust;
use layout::{Head, PAGE};

pub use layout::{RulePages, TooLarge};

/// What the program says of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RulesAnswer {
    /// It is forwarded.
    Forward,
    /// It is dropped.
    Drop,
    /// Linux decides.
    Linux,
}

impl Program {
    /// Follows these rules from now on. No hook is trusted afterwards. Programs that run meanwhile are waited for, which takes some
    /// milliseconds to some tens of them.
    ///
    /// # Errors
    /// What the kernel says; no rules are followed then.
    pub fn follow(&mut self, pages: &RulePages) -> Result<(), ProgramError> {
        self.trust(&Trust::default());
        self.set_heads([Head::default(); 2]);
        self.grace_periods()?.wait()?;
        let map = &self.skeleton.maps.rule_pages;
        for (number, page) in (0u32..).zip(pages.octets.chunks(PAGE)) {
            map.update(&number.to_ne_bytes(), page, MapFlags::ANY)?;
        }
        let zeros = vec![[0; 16].to_vec(); libbpf_rs::num_possible_cpus()?];
        let counters = &self.skeleton.maps.rule_counters;
        for entry in 0..2 * RULES as u32 {
            if counter(counters, entry)? != (0, 0) {
                counters.update_percpu(&entry.to_ne_bytes(), &zeros, MapFlags::ANY)?;
            }
        }
        self.set_heads(pages.heads);
        Ok(())
    }

    fn set_heads(&mut self, heads: [Head; 2]) {
        if let Some(bss) = self.skeleton.maps.bss_data.as_deref_mut() {
            bss.rules = heads.map(|head| bora_rules {
                base_count: head.base_count,
                actions: head.actions,
                bases: head.bases,
                fields: head.fields.map(|tree| bora_rule_field {
                    nodes: tree.nodes,
                    keys: tree.keys,
                    rows: tree.rows,
                }),
            });
        }
    }

    /// Packets and octets that an entry of the program of IPv4 or of IPv6 has matched, if its rule counts.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn rule_counter(&self, v6: bool, entry: usize) -> Result<(u64, u64), ProgramError> {
        let key = entry as u32 + if v6 { RULES as u32 } else { 0 };
        Ok(counter(&self.skeleton.maps.rule_counters, key)?)
    }

    /// Has the program follow its rules for a packet whose fields have these values, and says which entries it meets. `None` instead of an
    /// output: it is not known yet.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn ask_rules(
        &self,
        v6: bool,
        values: &[u128; FIELDS],
    ) -> io::Result<(RulesAnswer, Vec<usize>)> {
        let mut octets = [0; 200]; // struct bora_rules_question
        for (at, value) in values[..2].iter().enumerate() {
            octets[16 * at..][..8].copy_from_slice(&((value >> 64) as u64).to_ne_bytes());
            octets[16 * at + 8..][..8].copy_from_slice(&(*value as u64).to_ne_bytes());
        }
        for (at, value) in values[2..].iter().enumerate() {
            octets[32 + 4 * at..][..4].copy_from_slice(&(*value as u32).to_ne_bytes());
        }
        octets[52..56].copy_from_slice(&u32::from(v6).to_ne_bytes());
        let said = run_on_context(self.skeleton.progs.ask_rules.as_fd(), &mut octets)?;
        let steps = u32::from_ne_bytes([octets[56], octets[57], octets[58], octets[59]]);
        let (path, _) = octets[60..].as_chunks::<2>();
        let path = path.iter().take(steps as usize);
        let path = path
            .map(|entry| u16::from_ne_bytes(*entry).into())
            .collect();
        Ok((
            match said {
                0 => RulesAnswer::Forward,
                1 => RulesAnswer::Drop,
                _ => RulesAnswer::Linux,
            },
            path,
        ))
    }
}

/// The sum over CPUs.
fn counter(map: &impl MapCore, key: u32) -> libbpf_rs::Result<(u64, u64)> {
    let values = map.lookup_percpu(&key.to_ne_bytes(), MapFlags::ANY)?;
    let mut sum = (0, 0);
    for value in values.iter().flatten() {
        if let ([packets, octets], _) = value.as_chunks::<8>() {
            sum.0 += u64::from_ne_bytes(*packets);
            sum.1 += u64::from_ne_bytes(*octets);
        }
    }
    Ok(sum)
}
