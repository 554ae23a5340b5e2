//! Bit vectors: a table per octet of the key says which rules that octet's value allows.

use bora_fib::PortId;

use super::key::{GROUP, KEY, Key, Keys, NO_RULE};
use super::rows::Rows;
use super::rule::Rule;
use super::table::{OctetTable, PortTable, octet_tables, port_table, select};

/// The compiled rules of one IP version.
#[derive(Debug)]
pub(super) struct Index {
    /// Bit number to rule number.
    rules: Vec<u32>,
    octets: Vec<OctetTable>,
    ports: Vec<PortTable>,
    /// Rows of the ports that a rule names, and of all others.
    in_ports: Vec<(PortId, u32)>,
    in_other: u32,
    rows: Rows,
}

impl Index {
    pub(super) fn compile(rules: &[(usize, &Rule)]) -> Self {
        let (numbers, rules): (Vec<u32>, Vec<&Rule>) = rules
            .iter()
            .map(|&(number, rule)| (number as u32, rule))
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

    /// Octets of memory.
    pub(super) fn size(&self) -> usize {
        let ports = self.ports.iter().map(PortTable::size);
        let octets = self.octets.len() * OctetTable::SIZE;
        octets + ports.sum::<usize>() + size_of_val(&self.rows.cells[..])
    }

    /// The first rule of each wanted key in its place of `found`, or [`NO_RULE`]; false if there is none at all.
    #[inline]
    pub(super) fn find(&self, keys: &Keys, input: PortId, found: &mut [u32; GROUP]) -> bool {
        let (open, start) = self.start(input);
        let mut candidates: [u64; GROUP] =
            std::array::from_fn(|place| (keys.wanted >> place & 1).wrapping_neg() & open);
        if !self.narrow(&keys.keys, &mut candidates) {
            return false;
        }
        for ((found, &candidates), key) in found.iter_mut().zip(&candidates).zip(&keys.keys) {
            *found = match candidates {
                0 => NO_RULE,
                _ => self.first(candidates, start, key).unwrap_or(NO_RULE),
            };
        }
        true
    }

    /// The candidates before any octet is looked at: word and row.
    fn start(&self, in_port: PortId) -> (u64, u32) {
        let named = self.in_ports.iter().find(|(port, _)| *port == in_port);
        let row = named.map_or(self.in_other, |&(_, row)| row);
        (self.rows.cells[row as usize], row)
    }

    /// Removes from each packet's candidates the rules that its key excludes; false if no packet has any left.
    #[inline]
    fn narrow(&self, keys: &[Key; GROUP], candidates: &mut [u64; GROUP]) -> bool {
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
    fn first(&self, candidates: u64, start: u32, key: &Key) -> Option<u32> {
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
