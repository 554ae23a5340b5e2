//! Look-ups one key at a time, for any CPU.

use std::sync::atomic::Ordering;

use crate::nexthop::NextHopId;
use crate::node::{NODE, narrow_slot, wide_slot};
use crate::publish::Tree;

pub(crate) fn lookup4(tree: &Tree, keys: &[u32], out: &mut [NextHopId]) {
    let root = tree.root.words32();
    // two passes, so that the cache misses of the first overlap
    for (&key, out) in keys.iter().zip(&mut *out) {
        *out = NextHopId(root[key as usize >> 14].load(Ordering::Acquire));
    }
    let inherit = tree.inherit.load(Ordering::Acquire);
    for (&key, out) in keys.iter().zip(out) {
        *out = id(descend4(tree, out.0, key), inherit);
    }
}

/// The leaf behind a root word.
#[inline]
fn descend4(tree: &Tree, mut word: u32, key: u32) -> u32 {
    let mut rest = key << 18;
    while word & NODE != 0 {
        word = narrow_slot(&tree.nodes, word & !NODE, rest >> 26);
        rest <<= 6;
    }
    word
}

pub(crate) fn lookup6(tree: &Tree, keys: &[[u8; 16]], out: &mut [NextHopId]) {
    for (key, out) in keys.iter().zip(out) {
        *out = one6(tree, u128::from_be_bytes(*key));
    }
}

pub(crate) fn one6(tree: &Tree, key: u128) -> NextHopId {
    if key >> 125 == 1 {
        let slot = (key << 3 >> 107) as usize;
        let word = tree.root.words32()[slot].load(Ordering::Acquire);
        let inherit = tree.inherit.load(Ordering::Acquire);
        id(descend6(tree, word, key << 24), inherit)
    } else {
        let word = tree.outside.load(Ordering::Acquire);
        let default = tree.default.load(Ordering::Acquire);
        id(descend6(tree, word, key), default)
    }
}

/// The leaf behind a word; `rest` holds the bits its node decides first.
#[inline]
fn descend6(tree: &Tree, mut word: u32, mut rest: u128) -> u32 {
    while word & NODE != 0 {
        word = wide_slot(&tree.nodes, word & !NODE, (rest >> 122) as u32);
        rest <<= 6;
    }
    word
}

/// The next hop a leaf stands for.
#[inline]
fn id(leaf: u32, inherit: u32) -> NextHopId {
    NextHopId(if leaf == 0 { inherit } else { leaf - 1 })
}

/// Looks up the keys whose bit is set.
#[cfg(target_arch = "x86_64")]
#[cold]
pub(super) fn lookup4_some(tree: &Tree, keys: &[u32], out: &mut [NextHopId], some: u64) {
    let bit = |index: usize| some >> index & 1 == 1;
    let chosen = (0..keys.len().min(64)).filter(|&index| bit(index));
    for index in chosen {
        lookup4(tree, &keys[index..=index], &mut out[index..=index]);
    }
}

/// Looks up the keys whose bit is set.
#[cfg(target_arch = "x86_64")]
#[cold]
pub(super) fn lookup6_some(tree: &Tree, keys: &[[u8; 16]], out: &mut [NextHopId], some: u64) {
    let bit = |index: usize| some >> index & 1 == 1;
    let chosen = (0..keys.len().min(64)).filter(|&index| bit(index));
    for index in chosen {
        out[index] = one6(tree, u128::from_be_bytes(keys[index]));
    }
}
