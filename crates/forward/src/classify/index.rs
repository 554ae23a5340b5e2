//! Bit vectors: a table per octet of the key says which rules that octet's value allows.

use std::ops::RangeInclusive;

use bora_fib::PortId;

use super::key::{DESTINATION, KEY, Key, PCP, PROTOCOL, SOURCE, TAGGED, TOS};
use super::rows::{Bits, Rows};
use super::rule::{Addresses, Rule, Ternary};
use crate::batch::Family;

/// Packets that are matched together.
pub(super) const GROUP: usize = 64;

/// The rows that the 256 values of an octet select.
#[derive(Clone, Debug)]
struct Column {
    /// The first word of each row: the set itself or its summary. A copy, which saves a load.
    words: [u64; 256],
    /// Where the rows are.
    rows: [u32; 256],
}

impl Column {
    fn new(selected: [u32; 256], rows: &Rows) -> Self {
        Self {
            words: selected.map(|row| rows.cells[row as usize]),
            rows: selected,
        }
    }
}

#[derive(Debug)]
struct OctetTable {
    position: u8,
    column: Box<Column>,
}

/// Which rows a port's values select: by the high octet, then the low one. Equal second halves
/// are shared, so that a few ranges stay within a few cache lines.
#[derive(Debug)]
struct PortTable {
    /// Source 0, destination 1.
    which: usize,
    high: Box<[u16; 256]>,
    low: Vec<Column>,
    /// For packets without ports: first word and row.
    absent: (u64, u32),
}

impl PortTable {
    #[inline]
    fn word(&self, key: &Key) -> u64 {
        self.column(key)
            .map_or(self.absent.0, |(column, low)| column.words[low])
    }

    fn row(&self, key: &Key) -> u32 {
        self.column(key)
            .map_or(self.absent.1, |(column, low)| column.rows[low])
    }

    #[inline]
    fn column(&self, key: &Key) -> Option<(&Column, usize)> {
        let [high, low] = key.ports?[self.which].to_be_bytes();
        let half = self.high[usize::from(high)];
        Some((&self.low[usize::from(half)], usize::from(low)))
    }
}

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

    /// What is open before any octet was looked at: word and row.
    pub(super) fn start(&self, in_port: PortId) -> (u64, u32) {
        let named = self.in_ports.iter().find(|(port, _)| *port == in_port);
        let row = named.map_or(self.in_other, |&(_, row)| row);
        (self.rows.cells[row as usize], row)
    }

    /// Takes from each packet's candidates what its key rules out; false if no packet has any left.
    #[inline]
    pub(super) fn narrow(&self, keys: &[Key; GROUP], candidates: &mut [u64; GROUP]) -> bool {
        // table by table, so that the loads of different packets do not wait for each other
        for table in &self.octets {
            let position = usize::from(table.position) % KEY;
            let mut left = 0;
            for (candidates, key) in candidates.iter_mut().zip(keys) {
                *candidates &= table.column.words[usize::from(key.octets[position])];
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

    /// The first rule in the words a summary leaves open.
    fn first_of(&self, mut summary: u64, start: u32, key: &Key) -> Option<usize> {
        let mut rows = [start; KEY];
        let mut count = 1;
        let octets = self.octets.iter();
        let octets = octets
            .map(|table| table.column.rows[usize::from(key.octets[usize::from(table.position)])]);
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

/// Sets the bits of the rules that `allows` accepts.
fn select(rules: &[&Rule], mut bits: Bits, allows: impl Fn(&Rule) -> bool) -> Bits {
    for (number, rule) in rules.iter().enumerate() {
        bits[number / 64] |= u64::from(allows(rule)) << (number % 64);
    }
    bits
}

/// What a rule demands of one octet of the key. Ternary conditions fall apart into octets exactly.
fn octet(rule: &Rule, position: usize) -> Ternary<u8> {
    match position {
        TOS => rule.tos,
        PROTOCOL => rule.protocol,
        PCP => rule.pcp.map_or(Ternary::default(), |pcp| Ternary {
            value: pcp.value | TAGGED,
            mask: pcp.mask & 7 | TAGGED,
        }),
        _ => {
            let at = position % DESTINATION;
            let (value, mask) = match rule.addresses {
                Addresses::V4 {
                    source,
                    destination,
                } if at < 4 => {
                    let address = if position < DESTINATION {
                        source
                    } else {
                        destination
                    };
                    (
                        address.value.to_be_bytes()[at],
                        address.mask.to_be_bytes()[at],
                    )
                }
                Addresses::V6 {
                    source,
                    destination,
                } => {
                    let address = if position < DESTINATION {
                        source
                    } else {
                        destination
                    };
                    (
                        address.value.to_be_bytes()[at],
                        address.mask.to_be_bytes()[at],
                    )
                }
                Addresses::V4 { .. } | Addresses::Any => (0, 0),
            };
            Ternary { value, mask }
        }
    }
}

/// Tables for the octets that some rule looks at; the others cost nothing.
fn octet_tables(rules: &[&Rule], rows: &mut Rows) -> Vec<OctetTable> {
    let mut tables = Vec::new();
    for position in SOURCE..=PCP {
        let wanted: Vec<Ternary<u8>> = rules.iter().map(|rule| octet(rule, position)).collect();
        if wanted.iter().all(|wanted| wanted.mask == 0) {
            continue;
        }
        let mut selected = [0; 256];
        for (value, row) in (0..=255).zip(&mut selected) {
            let mut bits = rows.none();
            for (number, wanted) in wanted.iter().enumerate() {
                let allowed = (wanted.value ^ value) & wanted.mask == 0;
                bits[number / 64] |= u64::from(allowed) << (number % 64);
            }
            *row = rows.add(bits);
        }
        tables.push(OctetTable {
            position: position as u8,
            column: Box::new(Column::new(selected, rows)),
        });
    }
    tables
}

/// The table of one port field, if some rule looks at it.
fn port_table(
    which: usize,
    rules: &[&Rule],
    range: impl Fn(&Rule) -> Option<&RangeInclusive<u16>>,
    rows: &mut Rows,
) -> Option<PortTable> {
    // where the set of matching rules can change
    let mut edges: Vec<u32> = rules
        .iter()
        .filter_map(|rule| range(rule))
        .flat_map(|range| [u32::from(*range.start()), u32::from(*range.end()) + 1])
        .collect();
    if edges.is_empty() {
        return None;
    }
    edges.push(0);
    edges.sort_unstable();
    edges.dedup();
    let mut by_port = vec![0; 1 << 16];
    for (edge, &first) in edges.iter().enumerate() {
        let Ok(port) = u16::try_from(first) else {
            continue;
        };
        let allows = |rule: &Rule| range(rule).is_none_or(|range| range.contains(&port));
        let row = rows.add(select(rules, rows.none(), allows));
        let end = edges.get(edge + 1).map_or(1 << 16, |&end| end as usize);
        by_port[first as usize..end].fill(row);
    }
    let absent = rows.add(select(rules, rows.none(), |rule| range(rule).is_none()));
    let (mut high, mut low) = (Box::new([0; 256]), Vec::<Column>::new());
    let (halves, _) = by_port.as_chunks::<256>();
    for (high, half) in high.iter_mut().zip(halves) {
        let known = low.iter().position(|low| low.rows == *half);
        *high = known.unwrap_or_else(|| {
            low.push(Column::new(*half, rows));
            low.len() - 1
        }) as u16;
    }
    Some(PortTable {
        which,
        high,
        low,
        absent: (rows.cells[absent as usize], absent),
    })
}
