//! The registers of a rule.

use crate::bits::{Byte, Truth, class, equals, less};
use crate::expression::{Bitwise, Comparison, REGISTERS, Verdict};
use crate::model::Set;
use crate::packet::Hint;
use crate::report::Class;

/// An octet of which it is only known what it depends on.
pub(crate) fn unknown(class: Class) -> Byte {
    match class {
        Class::Constant => Byte::CONSTANT,
        Class::Varying => Byte::VARYING,
    }
}

/// What a set says of a key.
pub(crate) struct Found {
    pub(crate) truth: Truth,
    /// What decides which element it is.
    pub(crate) class: Class,
    /// Verdicts of the elements that it may be; `None` if it may be any.
    pub(crate) verdicts: Option<Vec<Verdict>>,
}

pub(crate) struct Registers {
    pub(crate) bytes: [Byte; REGISTERS],
    /// What the value that begins at a slot of four octets is not.
    hints: [Option<Hint>; REGISTERS / 4],
}

impl Default for Registers {
    fn default() -> Self {
        Self {
            bytes: [Byte::VARYING; REGISTERS],
            hints: [None; REGISTERS / 4],
        }
    }
}

impl Registers {
    pub(crate) fn slot(&self, from: usize) -> [Byte; 4] {
        std::array::from_fn(|at| self.bytes.get(from + at).copied().unwrap_or(Byte::VARYING))
    }

    pub(crate) fn store(&mut self, to: usize, value: &[Byte], hint: Option<Hint>) {
        let end = (to + value.len()).min(REGISTERS);
        self.bytes[to..end].copy_from_slice(&value[..end - to]);
        for slot in to / 4..end.div_ceil(4) {
            self.hints[slot] = None;
        }
        self.hints[to / 4] = hint;
    }

    /// A constant; what is left of its last slot is 0, as in struct nft_data.
    pub(crate) fn constant(&mut self, to: usize, value: &[u8]) {
        let mut bytes: Vec<Byte> = value.iter().map(|&byte| Byte::known(byte)).collect();
        bytes.resize(value.len().next_multiple_of(4).max(4), Byte::known(0));
        self.store(to, &bytes, None);
    }

    /// Whether the value that begins at `from` equals a constant.
    fn equals(&self, from: usize, data: &[u8]) -> Truth {
        let slots = (from / 4..).take(data.len().div_ceil(4));
        let mut hints = slots.filter_map(|slot| Some((slot * 4 - from, (*self.hints.get(slot)?)?)));
        if hints.any(|(at, hint)| hint.excludes(&data[at..])) {
            return Truth::Never;
        }
        match self.bytes.get(from..from + data.len()) {
            Some(bytes) => equals(bytes, data),
            None => Truth::VARYING,
        }
    }

    pub(crate) fn compare(&self, from: usize, how: Comparison, with: &[u8]) -> Truth {
        let bytes = &self.bytes[from..from + with.len()];
        match how {
            Comparison::Equal => self.equals(from, with),
            Comparison::NotEqual => self.equals(from, with).inverted_if(true),
            Comparison::Less => less(bytes, with, false),
            Comparison::LessOrEqual => less(bytes, with, true),
            Comparison::Greater => less(bytes, with, true).inverted_if(true),
            Comparison::GreaterOrEqual => less(bytes, with, false).inverted_if(true),
        }
    }

    pub(crate) fn bitwise(&mut self, from: usize, to: usize, len: usize, operation: &Bitwise) {
        let value = &self.bytes[from..from + len];
        let made: Vec<Byte> = match operation {
            Bitwise::Mask { mask, xor } => {
                let masks = mask.iter().zip(xor);
                value
                    .iter()
                    .zip(masks)
                    .map(|(byte, (&mask, &xor))| byte.masked(mask, xor))
                    .collect()
            }
            // it may depend on a second register
            Bitwise::Other => vec![unknown(class(&self.bytes)); len],
        };
        self.store(to, &made, None);
    }

    pub(crate) fn byteorder(&mut self, from: usize, to: usize, len: usize, size: usize) {
        let mut value = self.bytes[from..from + len].to_vec();
        if cfg!(target_endian = "little") {
            // what is left is no whole number, and stays as it is
            value.chunks_exact_mut(size).for_each(<[Byte]>::reverse);
        }
        self.store(to, &value, None);
    }

    /// The octets that are looked up.
    pub(crate) fn key(&self, from: usize, set: &Set) -> &[Byte] {
        let elements = set.elements.iter().flatten();
        let len = elements
            .filter_map(|it| it.key.as_ref())
            .map(Vec::len)
            .max();
        let len = len.filter(|_| !set.interval).unwrap_or(set.key_len).max(1);
        &self.bytes[from..(from + len).min(REGISTERS)]
    }

    pub(crate) fn find(&self, from: usize, set: &Set) -> Found {
        let own = if set.dynamic {
            Class::Varying
        } else {
            Class::Constant
        };
        let class = class(self.key(from, set)).max(own);
        let any = Found {
            truth: if set.catches_all {
                Truth::Surely
            } else {
                Truth::Perhaps(class)
            },
            class,
            verdicts: None,
        };
        let Some(elements) = set
            .elements
            .as_ref()
            .filter(|_| !set.interval && !set.dynamic)
        else {
            return any;
        };
        let mut candidates = Vec::new();
        for element in elements {
            let Some(key) = &element.key else { continue };
            match self.equals(from, key) {
                Truth::Surely => {
                    return Found {
                        truth: Truth::Surely,
                        class,
                        verdicts: Some(element.verdict.iter().cloned().collect()),
                    };
                }
                Truth::Perhaps(_) => candidates.push(element),
                Truth::Never => {}
            }
        }
        let others = elements.iter().filter(|it| it.key.is_none());
        let truth = match candidates.len() {
            0 => Truth::of(set.catches_all),
            _ => any.truth,
        };
        let mut verdicts: Vec<Verdict> = candidates
            .into_iter()
            .chain(others)
            .filter_map(|it| it.verdict.clone())
            .collect();
        verdicts.sort();
        verdicts.dedup();
        Found {
            truth,
            class,
            verdicts: Some(verdicts),
        }
    }
}
