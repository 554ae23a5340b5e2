//! Tables from the values of a packet's fields to sets of rules.

use std::ops::RangeInclusive;

use super::key::{DESTINATION, KEY, Key, PCP, PROTOCOL, SOURCE, TAGGED, TOS};
use super::rows::{Bits, Rows};
use super::rule::{Addresses, Rule, Ternary};

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

/// Which rows an octet of the key selects.
#[derive(Debug)]
pub(super) struct OctetTable {
    position: u8,
    column: Box<Column>,
}

impl OctetTable {
    /// Octets of one.
    pub(super) const SIZE: usize = size_of::<Self>() + size_of::<Column>();

    #[inline]
    pub(super) fn word(&self, key: &Key) -> u64 {
        self.column.words[self.octet(key)]
    }

    pub(super) fn row(&self, key: &Key) -> u32 {
        self.column.rows[self.octet(key)]
    }

    #[inline]
    fn octet(&self, key: &Key) -> usize {
        usize::from(key.octets[usize::from(self.position) % KEY])
    }
}

/// Which rows a port's values select: by the high octet, then the low one. Equal second halves
/// are shared, so that a few ranges stay within a few cache lines.
#[derive(Debug)]
pub(super) struct PortTable {
    /// Source 0, destination 1.
    which: usize,
    high: Box<[u16; 256]>,
    low: Vec<Column>,
    /// For packets without ports: first word and row.
    absent: (u64, u32),
}

impl PortTable {
    /// Octets of memory.
    pub(super) fn size(&self) -> usize {
        size_of_val(&*self.high) + size_of_val(&self.low[..])
    }

    #[inline]
    pub(super) fn word(&self, key: &Key) -> u64 {
        self.column(key)
            .map_or(self.absent.0, |(column, low)| column.words[low])
    }

    pub(super) fn row(&self, key: &Key) -> u32 {
        self.column(key)
            .map_or(self.absent.1, |(column, low)| column.rows[low])
    }

    #[inline]
    fn column(&self, key: &Key) -> Option<(&Column, usize)> {
        let [high, low] = key.port(self.which)?;
        let half = self.high[usize::from(high)];
        Some((&self.low[usize::from(half)], usize::from(low)))
    }
}

/// Sets the bits of the rules that `allows` accepts.
pub(super) fn select(rules: &[&Rule], mut bits: Bits, allows: impl Fn(&Rule) -> bool) -> Bits {
    for (number, rule) in rules.iter().enumerate() {
        bits[number / 64] |= u64::from(allows(rule)) << (number % 64);
    }
    bits
}

/// What a rule demands of one octet of the key. Ternary conditions fall apart into octets exactly.
pub(super) fn octet(rule: &Rule, position: usize) -> Ternary<u8> {
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
                    let address = either(position, source, destination);
                    (
                        address.value.to_be_bytes()[at],
                        address.mask.to_be_bytes()[at],
                    )
                }
                Addresses::V6 {
                    source,
                    destination,
                } => {
                    let address = either(position, source, destination);
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

/// The address that an octet of the key is of.
fn either<T>(position: usize, source: T, destination: T) -> T {
    if position < DESTINATION {
        source
    } else {
        destination
    }
}

/// Tables for the octets that some rule looks at; the others cost nothing.
pub(super) fn octet_tables(rules: &[&Rule], rows: &mut Rows) -> Vec<OctetTable> {
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
pub(super) fn port_table(
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
