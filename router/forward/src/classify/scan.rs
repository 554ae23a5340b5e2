//! Few rules: each is compared with all packets of a group at once.

use super::entry::{Entry, Wanted};
use super::key::{GROUP, Keys, NO_RULE, PLACES, Words};

/// What a look-up takes for each condition and each rule, in the unit of [`super::build`].
const CONDITION: f64 = 0.12;
const RULE: f64 = 0.07;

/// What a look-up in these rules takes.
pub(super) fn cost(entries: &[Entry]) -> f64 {
    let conditions = entries.iter().map(|entry| entry.conditions().count());
    CONDITION * conditions.sum::<usize>() as f64 + RULE * entries.len() as f64
}

/// The compiled rules of one IP version.
#[derive(Debug)]
pub(super) struct Scan {
    rules: Vec<One>,
    conditions: Vec<(u8, Wanted)>,
}

/// A rule.
#[derive(Debug)]
struct One {
    number: u32,
    /// Its first condition; the others follow, up to those of the next rule.
    begin: u32,
}

impl Scan {
    pub(super) fn compile(entries: &[Entry]) -> Self {
        let (mut rules, mut conditions) = (Vec::new(), Vec::new());
        for entry in entries {
            rules.push(One {
                number: entry.number,
                begin: conditions.len() as u32,
            });
            let more = entry.conditions();
            conditions.extend(more.map(|(word, wanted)| (word as u8, wanted)));
        }
        Self { rules, conditions }
    }

    /// Octets of memory.
    pub(super) fn size(&self) -> usize {
        size_of_val(&self.rules[..]) + size_of_val(&self.conditions[..])
    }

    /// The first rule of each key, or [`NO_RULE`].
    #[inline(always)]
    pub(super) fn find(&self, keys: &Keys, found: &mut Words) {
        *found = [NO_RULE; GROUP];
        // the last rule first, so that earlier ones replace it
        let mut end = self.conditions.len();
        for rule in self.rules.iter().rev() {
            let begin = rule.begin as usize;
            let mut wrong = [0; GROUP];
            if let [first, rest @ ..] = &self.conditions[begin..end] {
                compare(keys, first, |at, is_wrong| wrong[at] = is_wrong);
                for condition in rest {
                    compare(keys, condition, |at, is_wrong| wrong[at] |= is_wrong);
                }
            }
            let number = rule.number;
            for (found, &wrong) in found.iter_mut().zip(&wrong) {
                *found = if wrong == 0 { number } else { *found };
            }
            end = begin;
        }
    }
}

/// Says of each packet whether its word is what a rule wants: then it is 0.
#[inline(always)]
fn compare(keys: &Keys, (word, wanted): &(u8, Wanted), mut put: impl FnMut(usize, u32)) {
    let words = &keys.words[usize::from(*word) % PLACES];
    match *wanted {
        Wanted::Bits(bits) => {
            for (at, word) in words.iter().enumerate() {
                put(at, (word ^ bits.value) & bits.mask);
            }
        }
        Wanted::Range(first, span) => {
            for (at, word) in words.iter().enumerate() {
                put(at, word.wrapping_sub(first).max(span) ^ span);
            }
        }
    }
}
