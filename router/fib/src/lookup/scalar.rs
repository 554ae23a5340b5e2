//! Look-ups with ordinary instructions, for any CPU.
//!
//! Keys go through the stages together, and no branch depends on what is found, so that cache
//! misses overlap and no branch is mispredicted.

use std::hint::select_unpredictable;
use std::sync::atomic::{AtomicU16, Ordering};

use super::FIRST6;
use crate::nexthop::NextHopId;
use crate::node::{FAR, NODE, STRIDE, narrow_slot, wide_slot, wide_step};
use crate::tree::Tree;

/// Keys of a step.
const STEP: usize = 64;

#[inline(always)]
pub(crate) fn lookup4(tree: &Tree, keys: &[u32], out: &mut [NextHopId]) {
    let root = tree.root.words32();
    let inherit = tree.inherit().load(Ordering::Acquire);
    for (keys, out) in keys.chunks(STEP).zip(out.chunks_mut(STEP)) {
        let mut words = [0; STEP];
        for (&key, word) in keys.iter().zip(&mut words) {
            *word = root[key as usize >> 14].load(Ordering::Acquire);
        }
        let mut deeper = false;
        for ((&key, word), out) in keys.iter().zip(&mut words).zip(&mut *out) {
            // for a leaf this reads node 0, and ignores the result
            let inner = (*word as i32 >> 31) as u32;
            let found = narrow_slot(&tree.nodes, *word & inner & !NODE, key >> 8 & 63);
            *word = select_unpredictable(inner != 0, found, *word);
            deeper |= *word & NODE != 0;
            *out = id(*word, inherit);
        }
        if deeper {
            for ((&key, word), out) in keys.iter().zip(words).zip(out) {
                *out = id(deeper4(tree, word, key << 24), inherit);
            }
        }
    }
}

/// Loads DIR-24-8 entries; returns whether one of them leads to the tree.
#[inline(always)]
pub(super) fn dir24(
    entries: &[AtomicU16],
    inherit: u32,
    keys: &[u32],
    out: &mut [NextHopId],
) -> bool {
    let mut deeper = 0;
    for (&key, out) in keys.iter().zip(&mut *out) {
        let entry = entries[key as usize >> 8].load(Ordering::Acquire);
        deeper |= entry & FAR;
        *out = id(entry.into(), inherit);
    }
    deeper != 0
}

/// The leaf behind a word; `rest` holds the bits its node decides first.
#[inline(always)]
fn deeper4(tree: &Tree, mut word: u32, mut rest: u32) -> u32 {
    while word & NODE != 0 {
        word = narrow_slot(&tree.nodes, word & !NODE, rest >> 26);
        rest <<= STRIDE;
    }
    word
}

#[inline(always)]
pub(crate) fn lookup6(tree: &Tree, keys: &[[u8; 16]], out: &mut [NextHopId]) {
    let root = tree.root.words32();
    let inherit = tree.inherit().load(Ordering::Acquire);
    let default = tree.default().load(Ordering::Acquire);
    let outside = tree.outside().load(Ordering::Acquire);
    for (keys, out) in keys.chunks(STEP).zip(out.chunks_mut(STEP)) {
        // the keys that are not done: how many, which, and their next bits
        let (mut count, mut left, mut rest) = (0, [0u8; STEP], [0u64; STEP]);
        for (index, key) in keys.iter().enumerate() {
            let first = (u128::from_be_bytes(*key) >> 64) as u64;
            let inside = first >> 61 == 1;
            // outside, this reads a word of the root and ignores it
            let word = root[(first << 3 >> 43) as usize].load(Ordering::Acquire);
            let word = select_unpredictable(inside, word, outside);
            rest[index] = select_unpredictable(inside, first << 24, first);
            left[count] = index as u8;
            count += (word >> 31) as usize;
            out[index] = NextHopId(word);
        }
        // nearly no prefix is longer
        for _ in 0..FIRST6 / STRIDE {
            let asked = std::mem::take(&mut count);
            for at in 0..asked {
                let index = usize::from(left[at]) % STEP;
                let slot = (rest[index] >> 58) as u32;
                rest[index] <<= STRIDE;
                let (word, is_path) = wide_slot(&tree.nodes, out[index].0 & !NODE, slot);
                out[index] = NextHopId(word | u32::from(is_path) << 31);
                left[count] = index as u8;
                count += (word >> 31) as usize & usize::from(!is_path);
            }
        }
        for (key, out) in keys.iter().zip(out) {
            let key = u128::from_be_bytes(*key);
            let leaf = if out.0 & NODE == 0 {
                out.0
            } else {
                one6(tree, key)
            };
            *out = id(
                leaf,
                select_unpredictable(key >> 125 == 1, inherit, default),
            );
        }
    }
}

/// The leaf of an address in the main table.
#[inline(always)]
fn one6(tree: &Tree, key: u128) -> u32 {
    if key >> 125 == 1 {
        let word = tree.root.words32()[(key << 3 >> 107) as usize].load(Ordering::Acquire);
        leaf6(tree, word, key << 24)
    } else {
        leaf6(tree, tree.outside().load(Ordering::Acquire), key)
    }
}

/// The leaf behind a word; `rest` holds the bits its node decides first.
#[inline(always)]
fn leaf6(tree: &Tree, mut word: u32, mut rest: u128) -> u32 {
    while word & NODE != 0 {
        word = wide_step(&tree.nodes, word & !NODE, &mut rest);
    }
    word
}

/// The next hop of an IPv4 address in a further table; `None` if the table has no prefix for it.
#[inline]
pub(crate) fn further4(tree: &Tree, number: usize, key: u32) -> Option<NextHopId> {
    let word = tree.top(number).load(Ordering::Acquire);
    or_default(tree, number, deeper4(tree, word, key))
}

/// The next hop of an IPv6 address in a further table; `None` if the table has no prefix for it.
#[inline]
pub(crate) fn further6(tree: &Tree, number: usize, key: u128) -> Option<NextHopId> {
    let word = tree.top(number).load(Ordering::Acquire);
    or_default(tree, number, leaf6(tree, word, key))
}

/// Two next hops for an IPv4 address in a further table: that of the longest prefix but the one of length 0,
/// and that of length 0.
#[inline]
pub(crate) fn longer4(tree: &Tree, number: usize, key: u32) -> [Option<NextHopId>; 2] {
    let word = tree.top(number).load(Ordering::Acquire);
    let default = tree.further_default(number).load(Ordering::Acquire);
    [deeper4(tree, word, key), default].map(known)
}

/// What [`longer4`] says, for an IPv6 address.
#[inline]
pub(crate) fn longer6(tree: &Tree, number: usize, key: u128) -> [Option<NextHopId>; 2] {
    let word = tree.top(number).load(Ordering::Acquire);
    let default = tree.further_default(number).load(Ordering::Acquire);
    [leaf6(tree, word, key), default].map(known)
}

/// What [`longer4`] says, for the main table.
#[inline]
pub(crate) fn main_longer4(tree: &Tree, key: u32) -> [Option<NextHopId>; 2] {
    let word = tree.root.words32()[key as usize >> 14].load(Ordering::Acquire);
    let leaf = deeper4(tree, word, key << 18);
    let default = tree.inherit().load(Ordering::Acquire);
    [
        known(leaf),
        Some(NextHopId(default)).filter(|&id| id != NextHopId::NO_ROUTE),
    ]
}

/// What [`main_longer4`] says, for an IPv6 address, if no prefix of length 1 to 3 covers 2000::/3.
#[inline]
pub(crate) fn main_longer6(tree: &Tree, key: u128) -> [Option<NextHopId>; 2] {
    let default = tree.default().load(Ordering::Acquire);
    [
        known(one6(tree, key)),
        Some(NextHopId(default)).filter(|&id| id != NextHopId::NO_ROUTE),
    ]
}

fn known(leaf: u32) -> Option<NextHopId> {
    leaf.checked_sub(1).map(NextHopId)
}

#[inline(always)]
fn or_default(tree: &Tree, number: usize, leaf: u32) -> Option<NextHopId> {
    let leaf = match leaf {
        0 => tree.further_default(number).load(Ordering::Acquire),
        leaf => leaf,
    };
    known(leaf)
}

/// The next hop of a leaf.
#[inline(always)]
pub(super) fn id(leaf: u32, inherit: u32) -> NextHopId {
    NextHopId(select_unpredictable(
        leaf == 0,
        inherit,
        leaf.wrapping_sub(1),
    ))
}
