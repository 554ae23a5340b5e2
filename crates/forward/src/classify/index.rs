//! Bit vectors: a table per octet of the key says which rules that octet's value allows.

use bora_fib::PortId;

use super::key::{KEY, Key};
use super::rows::Rows;
use super::rule::{Addresses, Rule};
use super::table::{OctetTable, PortTable, octet_tables, port_table, select};
use crate::Family;

/// Packets that are matched together.
pub(super) const GROUP: usize = 64;

/// The compiled rules of one IP version.
#[derive(Debug)]
pub(super) struct Index {
    /// Bit number to rule number.
    rules: Vec<u16>,
    octets: Vec<OctetTable>,
    ports: Vec<PortTable>,
    /// Rows of the ports that a rule names, and of all others.
    in_ports: Vec<(PortId, u32)>,
    in_other: u32,
    rows: Rows,
}

impl Index {
    pub(super) fn compile(family: Family, rules: &[Rule]) -> Self {
        let of_family = |(_, rule): &(usize, &Rule)| match rule.addresses {
            Addresses::Any => true,
            Addresses::V4 { .. } => family == Family::V4,
            Addresses::V6 { .. } => family == Family::V6,
        };
        let (numbers, rules): (Vec<u16>, Vec<&Rule>) = rules
            .iter()
            .enumerate()
            .filter(of_family)
            .map(|(number, rule)| (number as u16, rule))
            .unzip();
        let mut rows = Rows::new(rules.len());
        let octets = octet_tables(&rules, &mut rows);
        let ports = [
            port_table(0, &rules, |rule| rule.source_ports.as_ref(), &mut rows),
            port_table(1, &rules, |rule| rule.destination_ports.as_ref(), &mut rows),
        ];
        let mut named: Vec<PortId> = rules.iter().filter_map(|rule| rule.in_port).collect();
        named.sort_unstable();
        named.dedup();
        let mut allows = |port| {
            let allows = |rule: &Rule| rule.in_port.is_none_or(|wanted| Some(wanted) == port);
            let bits = select(&rules, rows.none(), allows);
            rows.add(bits)
        };
        let in_other = allows(None);
        let in_ports = named
            .into_iter()
            .map(|port| (port, allows(Some(port))))
            .collect();
        rows.seal();
        Self {
            rules: numbers,
            octets,
            ports: ports.into_iter().flatten().collect(),
            in_ports,
            in_other,
            rows,
        }
    }

    /// Whether nothing can match.
    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The candidates before any octet is looked at: word and row.
    pub(super) fn start(&self, in_port: PortId) -> (u64, u32) {
        let named = self.in_ports.iter().find(|(port, _)| *port == in_port);
        let row = named.map_or(self.in_other, |&(_, row)| row);
        (self.rows.cells[row as usize], row)
    }

    /// Removes from each packet's candidates the rules that its key excludes; false if no packet has any left.
    #[inline]
    pub(super) fn narrow(&self, keys: &[Key; GROUP], candidates: &mut [u64; GROUP]) -> bool {
        // table by table, so that the loads of different packets do not wait for each other
        for table in &self.octets {
            let mut left = 0;
            for (candidates, key) in candidates.iter_mut().zip(keys) {
                *candidates &= table.word(key);
                left |= *candidates;
            }
            if left == 0 {
                return false;
            }
        }
        for table in &self.ports {
            for (candidates, key) in candidates.iter_mut().zip(keys) {
                *candidates &= table.word(key);
            }
        }
        candidates.iter().any(|&candidates| candidates != 0)
    }

    /// The first rule of the candidates, which are not 0.
    #[inline]
    pub(super) fn first(&self, candidates: u64, start: u32, key: &Key) -> Option<u16> {
        let bit = if self.rows.summarised() {
            self.first_of(candidates, start, key)
        } else {
            first_bit(candidates)
        };
        bit.map(|bit| self.rules[bit])
    }

    /// The first rule in the words that a summary marks.
    fn first_of(&self, mut summary: u64, start: u32, key: &Key) -> Option<usize> {
        let mut rows = [start; KEY];
        let mut count = 1;
        let octets = self.octets.iter();
        let octets = octets.map(|table| table.row(key));
        let ports = self.ports.iter().map(|table| table.row(key));
        for (slot, row) in rows[1..].iter_mut().zip(octets.chain(ports)) {
            *slot = row;
            count += 1;
        }
        while let Some(word) = first_bit(summary) {
            let at = |&row: &u32| self.rows.cells[row as usize + 1 + word];
            let matching = rows[..count].iter().map(at).fold(!0, |all, one| all & one);
            if let Some(bit) = first_bit(matching) {
                return Some(word * 64 + bit);
            }
            summary &= summary - 1;
        }
        None
    }
}

#[inline]
fn first_bit(word: u64) -> Option<usize> {
    (word != 0).then(|| word.trailing_zeros() as usize)
}
