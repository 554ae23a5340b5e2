//! What a packet must have for a rule to match.

use crate::compile::ranges::Ranges;

/// What a compiled rule looks at. It can be an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// The source address.
    Source,
    /// The destination address.
    Destination,
    /// The protocol above IP.
    Protocol,
    /// The first two octets behind the IP header, as a number: the source port, or type and code of ICMP.
    FirstWord,
    /// The next two octets: the destination port.
    SecondWord,
    /// The number of the interface that the packet came in by.
    Input,
    /// The number of the interface that it leaves by.
    Output,
}

/// Number of fields.
pub const FIELDS: usize = 7;
/// What [`Field::FirstWord`] and [`Field::SecondWord`] are where a fragment has no such header.
pub const NO_WORD: u128 = 1 << 16;

impl Field {
    /// All, in the order of their indices.
    pub const ALL: [Self; FIELDS] = [
        Self::Source,
        Self::Destination,
        Self::Protocol,
        Self::FirstWord,
        Self::SecondWord,
        Self::Input,
        Self::Output,
    ];

    /// Octets of its value in a packet; 0 of an interface's number, which is in no packet.
    pub(super) fn octets(self, v6: bool) -> usize {
        match self {
            Self::Source | Self::Destination if v6 => 16,
            Self::Source | Self::Destination => 4,
            Self::Protocol => 1,
            Self::FirstWord | Self::SecondWord => 2,
            Self::Input | Self::Output => 0,
        }
    }

    /// The largest value that a packet can have there.
    pub(super) fn most(self, v6: bool) -> u128 {
        match self.octets(v6) {
            0 => u128::from(u32::MAX),
            octets => u128::MAX >> (128 - 8 * octets),
        }
    }
}

/// Conditions that all must hold: values of fields; any where there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions([Option<Ranges>; FIELDS]);

impl Conditions {
    /// Adds one: a field must have one of these values, too.
    pub fn add(&mut self, field: Field, ranges: &Ranges) {
        let known = &mut self.0[field as usize];
        *known = Some(match known {
            Some(known) => known.and(ranges),
            None => ranges.clone(),
        });
    }

    /// Whether no packet meets them.
    pub(super) fn are_impossible(&self) -> bool {
        self.0.iter().flatten().any(Ranges::is_empty)
    }

    /// The values that a field must have; `None`: any.
    pub fn of(&self, field: Field) -> Option<&Ranges> {
        self.0[field as usize].as_ref()
    }

    /// Whether values of all fields meet them.
    pub fn hold(&self, values: &[u128; FIELDS]) -> bool {
        let mut pairs = self.0.iter().zip(values);
        pairs.all(|(ranges, &value)| ranges.as_ref().is_none_or(|ranges| ranges.has(value)))
    }
}
