//! Registers of which it is known where each octet comes from.

use super::Interface;
use super::conditions::Field;
use super::ranges::Ranges;
use crate::expression::{Bitwise, Comparison, REGISTERS};

/// Where an octet of a register comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Octet {
    /// A constant.
    Known(u8),
    /// Bits of an octet of a field; its first octet is number 0.
    Field(Field, usize, u8),
    /// An octet of an interface's name.
    Name(Field, usize),
    /// An octet of an interface's index, as it is in memory.
    Index(Field, usize),
    /// An octet of the type of the destination (RTN_*), as it is in memory. It is no address of the router itself.
    Type(usize),
    /// Anything else.
    Unknown,
}

/// What a comparison needs.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// It may hold or not.
    Unknown,
    /// Values of fields; none: it always holds.
    Values(Vec<(Field, Ranges)>),
    /// It never holds.
    Never,
}

impl Needs {
    fn when(holds: bool) -> Self {
        match holds {
            true => Self::Values(Vec::new()),
            false => Self::Never,
        }
    }
}

/// The registers, and what is needed to compare them.
pub(super) struct Registers<'a> {
    pub(super) octets: [Octet; REGISTERS],
    pub(super) v6: bool,
    pub(super) interfaces: &'a [Interface],
}

/// A value in registers, if it is one of these.
enum Value {
    Known(Vec<u8>),
    /// The first octets of a field.
    Field(Field),
    /// An interface's name or index.
    Interface(Field, Vec<(u32, Vec<u8>)>),
    /// The type of the destination.
    Type,
}

/// Types that no destination has in transit: RTN_LOCAL, RTN_BROADCAST, RTN_MULTICAST.
const NOT_IN_TRANSIT: [u32; 3] = [2, 3, 5];

impl Registers<'_> {
    /// Stores a value, and fills the rest of its last register with zeros.
    pub(super) fn store(&mut self, to: usize, octets: &[Octet]) {
        let room = octets.len().next_multiple_of(4);
        for at in 0..room.min(REGISTERS - to) {
            self.octets[to + at] = octets.get(at).copied().unwrap_or(Octet::Known(0));
        }
    }

    pub(super) fn bitwise(&mut self, from: usize, to: usize, len: usize, operation: &Bitwise) {
        let value = &self.octets[from..from + len];
        let made: Vec<Octet> = match operation {
            Bitwise::Mask { mask, xor } => (value.iter().zip(mask).zip(xor))
                .map(|((octet, mask), xor)| match *octet {
                    Octet::Known(octet) => Octet::Known((octet & mask) ^ xor),
                    Octet::Field(field, at, bits) if *xor == 0 => {
                        Octet::Field(field, at, bits & mask)
                    }
                    _ if *mask == 0 => Octet::Known(*xor),
                    _ => Octet::Unknown,
                })
                .collect(),
            Bitwise::Other => vec![Octet::Unknown; len],
        };
        self.store(to, &made);
    }

    pub(super) fn byteorder(&mut self, from: usize, to: usize, len: usize, size: usize) {
        let mut value = self.octets[from..from + len].to_vec();
        if cfg!(target_endian = "little") {
            // what is left is no whole number, and stays as it is
            value.chunks_exact_mut(size).for_each(<[Octet]>::reverse);
        }
        self.store(to, &value);
    }

    /// The value of these registers, if its octets are unchanged and in order.
    fn value(&self, from: usize, len: usize) -> Option<Value> {
        let octets = self.octets.get(from..from + len)?;
        let known: Vec<u8> = octets
            .iter()
            .map_while(|octet| match *octet {
                Octet::Known(octet) => Some(octet),
                _ => None,
            })
            .collect();
        if known.len() == len {
            return Some(Value::Known(known));
        }
        let in_order = |own: fn(Field, usize) -> Octet, field| {
            let mut pairs = octets.iter().enumerate();
            pairs.all(|(at, &octet)| octet == own(field, at))
        };
        match *octets.first()? {
            Octet::Field(field, ..) => {
                let width = field.octets(self.v6);
                let rest = octets.get(width..).unwrap_or_default();
                let own = |(at, &octet): (usize, &Octet)| octet == Octet::Field(field, at, 0xff);
                let whole = octets.iter().take(width).enumerate().all(own);
                let padded = rest.iter().all(|&octet| octet == Octet::Known(0));
                (whole && padded).then_some(Value::Field(field))
            }
            Octet::Name(field, _) if in_order(Octet::Name, field) => {
                Some(self.interface(field, |it| it.name_octets()[..len].to_vec()))
            }
            Octet::Type(0) if len == 4 => Some(Value::Type),
            Octet::Index(field, _) if in_order(Octet::Index, field) => {
                Some(self.interface(field, |it| it.index.to_ne_bytes()[..len].to_vec()))
            }
            _ => None,
        }
    }

    fn interface(&self, field: Field, octets: impl Fn(&Interface) -> Vec<u8>) -> Value {
        let all = self.interfaces.iter().map(|it| (it.number, octets(it)));
        Value::Interface(field, all.collect())
    }

    /// Values of a field that begins with octets from `low` to `high`, which are equally long.
    fn span(&self, field: Field, low: &[u8], high: &[u8]) -> (u128, u128) {
        let width = field.octets(self.v6).min(low.len());
        let number = |octets: &[u8]| {
            let octets = octets[..width].iter();
            octets.fold(0, |number, &octet| number << 8 | u128::from(octet))
        };
        let rest = 8 * (field.octets(self.v6) - width);
        let shift = |number: u128| if rest == 128 { 0 } else { number << rest };
        (
            shift(number(low)),
            shift(number(high)) | (field.most(self.v6) & !(shift(u128::MAX))),
        )
    }

    /// What a value must have to be in one of these ranges of octets.
    pub(super) fn within(&self, from: usize, len: usize, ranges: &[(&[u8], &[u8])]) -> Needs {
        let inside = |octets: &[u8]| {
            let mut ranges = ranges.iter();
            ranges.any(|&(low, high)| low <= octets && octets <= high)
        };
        match self.value(from, len) {
            None => Needs::Unknown,
            Some(Value::Known(octets)) => Needs::when(inside(&octets)),
            Some(Value::Field(field)) => {
                // what is behind the field is zero
                let width = field.octets(self.v6).min(len);
                let spans = ranges
                    .iter()
                    .filter(|(low, _)| low[width..].iter().all(|&o| o == 0));
                let spans = spans.map(|(low, high)| self.span(field, low, high));
                Needs::Values(vec![(field, Ranges::union(spans.collect()))])
            }
            Some(Value::Type) => {
                let types = NOT_IN_TRANSIT.map(u32::to_ne_bytes);
                let never = |(low, high): &(&[u8], &[u8])| {
                    low == high && types.iter().any(|one| one[..] == **low)
                };
                match ranges.iter().all(never) {
                    true => Needs::Never,
                    false => Needs::Unknown,
                }
            }
            Some(Value::Interface(field, all)) => {
                let found = all.iter().filter(|(_, octets)| inside(octets));
                let found = found.map(|&(number, _)| (u128::from(number), u128::from(number)));
                Needs::Values(vec![(field, Ranges::union(found.collect()))])
            }
        }
    }

    /// What values must have to equal a constant: of several fields, or of their first bits.
    fn equal(&self, from: usize, with: &[u8]) -> Needs {
        let Some(octets) = self.octets.get(from..from + with.len()) else {
            return Needs::Unknown;
        };
        let mut needs = Vec::new();
        let mut at = 0;
        while at < octets.len() {
            let field = match octets[at] {
                Octet::Known(octet) if octet == with[at] => {
                    at += 1;
                    continue;
                }
                Octet::Known(_) => return Needs::Never,
                Octet::Name(..) | Octet::Index(..) => {
                    let same = |octet: &&Octet| matches!(octet, Octet::Name(..) | Octet::Index(..));
                    let len = octets[at..].iter().take_while(same).count().min(16);
                    let part = &with[at..at + len];
                    match self.within(from + at, len, &[(part, part)]) {
                        Needs::Values(values) => needs.extend(values),
                        other => return other,
                    }
                    at += len;
                    continue;
                }
                Octet::Type(0) if with.len() == 4 => {
                    return self.within(from, 4, &[(with, with)]);
                }
                Octet::Unknown | Octet::Type(_) => return Needs::Unknown,
                Octet::Field(field, ..) => field,
            };
            let own = |(number, octet): &(usize, &Octet)| matches!(octet, Octet::Field(other, of, _) if *other == field && of == number);
            let width = field.octets(self.v6);
            let part = octets[at..].iter().enumerate().take(width).take_while(own);
            let masks: Vec<u8> = part
                .map(|(_, octet)| match octet {
                    Octet::Field(_, _, mask) => *mask,
                    _ => 0,
                })
                .collect();
            if masks.is_empty() {
                return Needs::Unknown;
            }
            match self.prefix(field, &masks, &with[at..]) {
                Needs::Values(values) => needs.extend(values),
                other => return other,
            }
            at += masks.len();
        }
        Needs::Values(needs)
    }

    /// What the first octets of a field must have to equal a constant under masks.
    fn prefix(&self, field: Field, masks: &[u8], with: &[u8]) -> Needs {
        let mut pairs = masks.iter().zip(with);
        if pairs.any(|(mask, octet)| octet & !mask != 0) {
            return Needs::Never;
        }
        let cut = masks.iter().position(|&mask| mask != 0xff);
        let (cut, behind) = (cut.unwrap_or(masks.len()), cut.map_or(0, |cut| cut + 1));
        let ends_there = masks
            .get(cut)
            .is_none_or(|mask| mask.leading_ones() == 8 - mask.trailing_zeros());
        if !ends_there || masks.iter().skip(behind.max(cut)).any(|&mask| mask != 0) {
            return Needs::Unknown;
        }
        let high: Vec<u8> = masks
            .iter()
            .zip(with)
            .map(|(mask, octet)| octet | !mask)
            .collect();
        let (low, high) = self.span(field, &with[..masks.len()], &high);
        Needs::Values(vec![(field, Ranges::one(low, high))])
    }

    pub(super) fn compare(&self, from: usize, how: Comparison, with: &[u8]) -> Needs {
        let (zeros, ones) = (vec![0; with.len()], vec![0xff; with.len()]);
        let within = |low: &[u8], high: &[u8]| self.within(from, with.len(), &[(low, high)]);
        match how {
            Comparison::Equal => self.equal(from, with),
            Comparison::NotEqual => self.inverted(self.equal(from, with)),
            Comparison::LessOrEqual => within(&zeros, with),
            Comparison::GreaterOrEqual => within(with, &ones),
            Comparison::Less => self.inverted(within(with, &ones)),
            Comparison::Greater => self.inverted(within(&zeros, with)),
        }
    }

    /// What is needed for the opposite.
    pub(super) fn inverted(&self, needs: Needs) -> Needs {
        match needs {
            Needs::Unknown => Needs::Unknown,
            Needs::Never => Needs::Values(Vec::new()),
            Needs::Values(values) => match &values[..] {
                [] => Needs::Never,
                [(field, ranges)] => {
                    Needs::Values(vec![(*field, ranges.inverted(field.most(self.v6)))])
                }
                _ => Needs::Unknown,
            },
        }
    }

    /// Where the parts of a key are that consists of several values, and their lengths.
    pub(super) fn parts(&self, from: usize, len: usize) -> Option<Vec<(usize, usize)>> {
        let end = from + len;
        let mut parts = Vec::new();
        let mut at = from;
        while at < end {
            let len = match self.octets.get(at)? {
                Octet::Field(field, 0, _) => field.octets(self.v6).next_multiple_of(4),
                Octet::Name(_, 0) => 16,
                Octet::Index(_, 0) | Octet::Type(0) | Octet::Known(_) => 4,
                _ => return None,
            };
            parts.push((at, len.min(end - at)));
            at += len;
        }
        Some(parts)
    }
}
