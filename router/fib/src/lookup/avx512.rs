//! Look-ups with AVX-512, up to 64 keys at a time.
//!
//! A step takes all its keys through one stage before the next one, so that their cache misses
//! overlap.

// stages walk several arrays of groups in parallel
#![allow(clippy::needless_range_loop)]

use std::arch::x86_64::*;
use std::sync::atomic::AtomicU16;

use super::{FIRST6, View, popcnt};
use crate::nexthop::NextHopId;
use crate::tree::Tree;

/// Keys of a step.
const STEP: usize = 64;
/// IPv4 keys of a vector.
const GROUP: usize = 16;
/// Up to this many keys, scalar look-ups are faster.
const FEW4: usize = 8;
const FEW6: usize = 4;

/// Proof that the CPU has what this file needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Available(popcnt::Available);

impl Available {
    pub(super) fn detect() -> Option<Self> {
        let found = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vpopcntdq");
        popcnt::Available::detect().filter(|_| found).map(Self)
    }
}

pub(super) fn lookup4(cpu: Available, tree: &Tree, keys: &[u32], out: &mut [NextHopId]) {
    if keys.len() <= FEW4 {
        return popcnt::lookup4(cpu.0, tree, keys, out);
    }
    assert_eq!(keys.len(), out.len());
    let view = View::new(tree);
    let whole = keys.len() / STEP * STEP;
    let (steps, steps_out) = (&keys[..whole], &mut out[..whole]);
    // SAFETY: `Available` says that the CPU has the features; the slices are equally long.
    unsafe {
        if whole > STEP {
            steps4(view, steps, steps_out);
        } else if whole > 0 {
            step4(view, steps, steps_out);
        }
        if keys.len() > whole {
            step4(view, &keys[whole..], &mut out[whole..]);
        }
    }
}

/// Looks up whole steps of keys, at least one. The roots of a step are read before the nodes of the one
/// before, so that their cache misses overlap.
///
/// # Safety
/// Needs the features of [`Available`], and `keys` as long as `out`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
unsafe fn steps4(view: View, keys: &[u32], out: &mut [NextHopId]) {
    let last = keys.len() / STEP - 1;
    // SAFETY: the features are the caller's.
    let mut ahead = unsafe { roots4::<4>(view, &keys[..STEP]) };
    for (index, out) in out.chunks_exact_mut(STEP).enumerate() {
        let now = ahead;
        let at = index * STEP;
        // SAFETY: the features are the caller's, and the words are of `view`.
        unsafe {
            if index < last {
                ahead = roots4(view, &keys[at + STEP..at + 2 * STEP]);
            }
            nodes4::<4, true>(view, now, out);
        }
    }
}

/// Looks up at most [`STEP`] keys.
///
/// # Safety
/// Needs the features of [`Available`], and `keys` as long as `out`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
unsafe fn step4(view: View, keys: &[u32], out: &mut [NextHopId]) {
    // SAFETY: the features and the lengths are the caller's.
    unsafe {
        match keys.len() {
            49.. => nodes4::<4, false>(view, roots4(view, keys), out),
            33.. => nodes4::<3, false>(view, roots4(view, keys), out),
            17.. => nodes4::<2, false>(view, roots4(view, keys), out),
            _ => nodes4::<1, false>(view, roots4(view, keys), out),
        }
    }
}

/// Loads DIR-24-8 entries, 2 octets for each /24; returns whether one of them is `far`.
pub(super) fn dir24(
    _: Available,
    entries: &[AtomicU16],
    (inherit, far): (u32, u16),
    keys: &[u32],
    out: &mut [NextHopId],
) -> bool {
    assert_eq!(keys.len(), out.len());
    // one entry more, so that a 32-bit load of the last one stays inside
    assert!(entries.len() > 1 << 24);
    let mut found = 0;
    for (keys, out) in keys.chunks(16).zip(out.chunks_mut(16)) {
        // SAFETY: `Available` says that the CPU has the features; there is an entry for each of
        // the 2^24 indices and one behind; the chunks are equally long.
        found |= unsafe { step24(entries.as_ptr().cast(), (inherit, far), keys, out) };
    }
    found != 0
}

/// Looks up at most 16 keys; returns the lanes that found `far`.
///
/// # Safety
/// Needs the features of [`Available`], 2^24 + 1 entries, and `keys` as long as `out`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
#[inline]
unsafe fn step24(
    entries: *const i32,
    (inherit, far): (u32, u16),
    keys: &[u32],
    out: &mut [NextHopId],
) -> u16 {
    let live = lanes(keys.len(), 0, 16) as u16;
    let zero = _mm512_setzero_si512();
    // SAFETY: only the lanes that have a key are loaded and stored; indices have 24 bits.
    unsafe {
        let key = _mm512_maskz_loadu_epi32(live, keys.as_ptr().cast());
        let slot = _mm512_srli_epi32::<8>(key);
        let leaf = _mm512_mask_i32gather_epi32::<2>(zero, live, slot, entries);
        let leaf = _mm512_and_si512(leaf, _mm512_set1_epi32(0xffff));
        let id = next_hop(leaf, inherit as i32);
        _mm512_mask_storeu_epi32(out.as_mut_ptr().cast(), live, id);
        _mm512_cmpeq_epi32_mask(leaf, _mm512_set1_epi32(far.into()))
    }
}

/// The next hops that leaves stand for.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
#[inline]
fn next_hop(leaf: __m512i, inherit: i32) -> __m512i {
    let id = _mm512_sub_epi32(leaf, _mm512_set1_epi32(1));
    let none = _mm512_testn_epi32_mask(leaf, leaf);
    _mm512_mask_mov_epi32(id, none, _mm512_set1_epi32(inherit))
}

/// The lanes of a group that have a key, with `len` keys in groups of `size`.
#[inline]
fn lanes(len: usize, group: usize, size: usize) -> u32 {
    let count = len.saturating_sub(group * size).min(size);
    ((1u64 << count) - 1) as u32
}

/// Keys of a step behind the root's bits, and the words that these led to.
#[derive(Clone, Copy)]
struct Words<const GROUPS: usize> {
    rest: [__m512i; GROUPS],
    word: [__m512i; GROUPS],
}

/// Reads the root for at most `16 * GROUPS` keys.
///
/// # Safety
/// Needs the features of [`Available`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
#[inline]
unsafe fn roots4<const GROUPS: usize>(view: View, keys: &[u32]) -> Words<GROUPS> {
    let zero = _mm512_setzero_si512();
    let (mut rest, mut word) = ([zero; GROUPS], [zero; GROUPS]);
    for group in 0..GROUPS {
        let live = lanes(keys.len(), group, GROUP) as u16;
        // SAFETY: only the lanes that have a key are loaded; root indices have 18 bits, the
        // length of the root.
        unsafe {
            let from = keys.as_ptr().wrapping_add(GROUP * group);
            let key = _mm512_maskz_loadu_epi32(live, from.cast());
            let slot = _mm512_srli_epi32::<14>(key);
            word[group] = _mm512_mask_i32gather_epi32::<4>(zero, live, slot, view.root);
            rest[group] = _mm512_slli_epi32::<18>(key);
        }
    }
    Words { rest, word }
}

/// Finds what the words lead to. `COPY` is for each caller another, so that the compiler inlines both: words in memory
/// cost half a nanosecond a key.
///
/// # Safety
/// Needs the features of [`Available`]; the words must be of `view`, and as many as `out` is long.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
#[inline]
unsafe fn nodes4<const GROUPS: usize, const COPY: bool>(
    view: View,
    mut words: Words<GROUPS>,
    out: &mut [NextHopId],
) {
    // SAFETY: the features are the caller's, words come from the root or from nodes.
    while unsafe { stage4(view, &mut words) } {
        words.rest = words.rest.map(|rest| _mm512_slli_epi32::<6>(rest));
    }
    for group in 0..GROUPS {
        let id = next_hop(words.word[group], view.inherit);
        let live = lanes(out.len(), group, GROUP) as u16;
        // SAFETY: only the lanes that have a place in `out` are stored.
        unsafe {
            let out = out.as_mut_ptr().wrapping_add(GROUP * group);
            _mm512_mask_storeu_epi32(out.cast(), live, id);
        }
    }
}

/// Goes one node further, in the lanes that hold nodes; returns whether any lane holds one then.
///
/// # Safety
/// Needs the features of [`Available`]; words with the top bit set must hold nodes of `view`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
#[inline]
unsafe fn stage4<const GROUPS: usize>(view: View, words: &mut Words<GROUPS>) -> bool {
    let Words { rest, word } = words;
    let zero = _mm512_setzero_si512();
    let nodes = view.nodes.cast();
    let mut bitmap = [[zero; 2]; GROUPS];
    for group in 0..GROUPS {
        let inner = _mm512_movepi32_mask(word[group]);
        let offset = _mm512_and_si512(word[group], _mm512_set1_epi32(i32::MAX));
        let low = _mm512_castsi512_si256(offset);
        let high = _mm512_extracti64x4_epi64::<1>(offset);
        // SAFETY: a word with the top bit set holds the offset of a node, in units of 8 octets,
        // which readers may use until their next quiescent point.
        unsafe {
            bitmap[group] = [
                _mm512_mask_i32gather_epi64::<8>(zero, inner as u8, low, nodes),
                _mm512_mask_i32gather_epi64::<8>(zero, (inner >> 8) as u8, high, nodes),
            ];
        }
    }
    let mut deeper = 0;
    for group in 0..GROUPS {
        let inner = _mm512_movepi32_mask(word[group]);
        let slot = _mm512_srli_epi32::<26>(rest[group]);
        let low = rank(
            bitmap[group][0],
            _mm512_cvtepu32_epi64(_mm512_castsi512_si256(slot)),
        );
        let high = _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64::<1>(slot));
        let high = rank(bitmap[group][1], high);
        let rank = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high);
        // the shift removes the word's top bit
        let entry = _mm512_add_epi32(_mm512_slli_epi32::<2>(word[group]), rank);
        let entry = _mm512_add_epi32(entry, _mm512_set1_epi32(3));
        // SAFETY: the rank of a slot is at least 1 and at most the number of the node's entries,
        // which are 2 octets each behind 8 of bitmap; a page follows the last node.
        let leaf =
            unsafe { _mm512_mask_i32gather_epi32::<2>(word[group], inner, entry, nodes.cast()) };
        // leaves of the root are whole words
        let mut leaf = _mm512_mask_and_epi32(leaf, inner, leaf, _mm512_set1_epi32(0xffff));
        let far = _mm512_mask_test_epi32_mask(inner, leaf, _mm512_set1_epi32(1 << 15));
        if far != 0 {
            let behind = _mm512_and_si512(leaf, _mm512_set1_epi32(i16::MAX.into()));
            let behind = _mm512_add_epi32(_mm512_slli_epi32::<1>(word[group]), behind);
            // SAFETY: such an entry says which of the node's words of 4 octets is meant.
            leaf = unsafe { _mm512_mask_i32gather_epi32::<4>(leaf, far, behind, nodes.cast()) };
            deeper |= _mm512_movepi32_mask(leaf);
        }
        word[group] = leaf;
    }
    deeper != 0
}

/// For each of eight nodes, the number of runs up to a slot.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
#[inline]
fn rank(bitmap: __m512i, slot: __m512i) -> __m256i {
    let later = _mm512_sllv_epi64(_mm512_set1_epi64(-2), slot);
    _mm512_cvtepi64_epi32(_mm512_popcnt_epi64(_mm512_andnot_si512(later, bitmap)))
}

pub(super) fn lookup6(cpu: Available, tree: &Tree, keys: &[[u8; 16]], out: &mut [NextHopId]) {
    if keys.len() <= FEW6 {
        return popcnt::lookup6(cpu.0, tree, keys, out);
    }
    assert_eq!(keys.len(), out.len());
    let view = View::new(tree);
    for (keys, out) in keys.chunks(STEP).zip(out.chunks_mut(STEP)) {
        // SAFETY: `Available` says that the CPU has the features; the chunks are equally long.
        unsafe {
            match keys.len() {
                STEP => step6::<8>(view, keys, out),
                33.. => step6::<8>(view, keys, out),
                17.. => step6::<4>(view, keys, out),
                9.. => step6::<2>(view, keys, out),
                _ => step6::<1>(view, keys, out),
            }
        }
    }
}

/// Eight keys on their way to their next hops.
#[derive(Clone, Copy)]
struct Keys {
    /// The bits that nodes have not decided, left-aligned.
    high: __m512i,
    word: __m256i,
    /// The lanes in 2000::/3, and those whose words lead to nodes.
    inside: u8,
    inner: u8,
}

/// Looks up at most `8 * GROUPS` keys.
///
/// # Safety
/// Needs the features of [`Available`], and `keys` as long as `out`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
#[inline]
unsafe fn step6<const GROUPS: usize>(view: View, keys: &[[u8; 16]], out: &mut [NextHopId]) {
    let mut group = [Keys {
        high: _mm512_setzero_si512(),
        word: _mm256_setzero_si256(),
        inside: 0,
        inner: 0,
    }; GROUPS];
    for (at, group) in group.iter_mut().enumerate() {
        let live = lanes(keys.len(), at, 8) as u8;
        // SAFETY: only lanes that have a key are loaded.
        let key = unsafe { halves::<0>(keys, at) };
        let inside = _mm512_cmpeq_epi64_mask(_mm512_srli_epi64::<61>(key), _mm512_set1_epi64(1));
        let slot = _mm512_srli_epi64::<40>(key);
        let slot = _mm512_and_si512(slot, _mm512_set1_epi64(0x1f_ffff));
        let slot = _mm512_cvtepi64_epi32(slot);
        let outside = _mm256_maskz_set1_epi32(live, view.outside);
        // SAFETY: root indices have 21 bits, the length of the root.
        let word = unsafe { _mm256_mmask_i32gather_epi32::<4>(outside, inside, slot, view.root) };
        *group = Keys {
            high: _mm512_mask_slli_epi64::<24>(key, inside, key),
            word,
            inside,
            inner: _mm256_movepi32_mask(word),
        };
    }
    let mut bits = 0;
    while group.iter().any(|group| group.inner != 0) {
        // SAFETY: the features are the caller's, words come from the root or from nodes.
        let head = group.map(|group| unsafe { head6(view, group) });
        if bits == FIRST6.into() || head.iter().any(|&head| paths(head) != 0) {
            // SAFETY: as before.
            unsafe { rest6(view, keys, bits, &mut group) };
            break;
        }
        for (group, head) in group.iter_mut().zip(head) {
            let entry = entry6(head, group.high);
            // SAFETY: as before, and the entry is one of the node.
            unsafe { follow6(view, group, entry) };
            group.high = _mm512_slli_epi64::<6>(group.high);
        }
        bits += 6;
    }
    for (at, Keys { word, inside, .. }) in group.into_iter().enumerate() {
        let default = _mm256_set1_epi32(view.default);
        let default = _mm256_mask_set1_epi32(default, inside, view.inherit);
        let none = _mm256_testn_epi32_mask(word, word);
        let id = _mm256_sub_epi32(word, _mm256_set1_epi32(1));
        let id = _mm256_mask_mov_epi32(id, none, default);
        let live = lanes(keys.len(), at, 8) as u8;
        // SAFETY: only the lanes that have a key are stored, and `out` has a place for each.
        unsafe {
            let out = out.as_mut_ptr().wrapping_add(8 * at);
            _mm256_mask_storeu_epi32(out.cast(), live, id);
        }
    }
}

/// Goes on to the end after some nodes of 6 bits, which `bits` counts. `high` holds what the first halves have left.
///
/// # Safety
/// Needs the features of [`Available`]; words of `inner` lanes must hold nodes of `view`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
unsafe fn rest6<const GROUPS: usize>(
    view: View,
    keys: &[[u8; 16]],
    bits: i64,
    group: &mut [Keys; GROUPS],
) {
    let mut low = [_mm512_setzero_si512(); GROUPS];
    for (at, (group, low)) in group.iter_mut().zip(&mut low).enumerate() {
        let taken = _mm512_set1_epi64(bits);
        let taken = _mm512_mask_set1_epi64(taken, group.inside, bits + 24);
        // SAFETY: only lanes that have a key are loaded.
        let key = unsafe { halves::<1>(keys, at) };
        *low = _mm512_sllv_epi64(key, taken);
        let next = _mm512_srlv_epi64(key, other_bits(taken));
        group.high = _mm512_or_si512(group.high, next);
    }
    while group.iter().any(|group| group.inner != 0) {
        for (group, low) in group.iter_mut().zip(&mut low) {
            // SAFETY: the features are the caller's, words come from the root or from nodes.
            let head = unsafe { head6(view, *group) };
            let mut entry = entry6(head, group.high);
            let mut taken = _mm512_set1_epi64(6);
            if paths(head) != 0 {
                // SAFETY: as before.
                unsafe { path6(view, *group, head, &mut entry, &mut taken) };
            }
            // SAFETY: as before, and the entry is one of the node.
            unsafe { follow6(view, group, entry) };
            let next = _mm512_srlv_epi64(*low, other_bits(taken));
            group.high = _mm512_or_si512(_mm512_sllv_epi64(group.high, taken), next);
            *low = _mm512_sllv_epi64(*low, taken);
        }
    }
}

/// The bits of 64 that these are not.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
#[inline]
fn other_bits(bits: __m512i) -> __m512i {
    _mm512_sub_epi64(_mm512_set1_epi64(64), bits)
}

/// The bitmaps of nodes, or heads of paths; 1 in lanes without a node.
///
/// # Safety
/// Needs the features of [`Available`]; words of `inner` lanes must hold nodes of `view`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
#[inline]
unsafe fn head6(view: View, keys: Keys) -> __m512i {
    let node = _mm256_and_si256(keys.word, _mm256_set1_epi32(i32::MAX));
    let (none, nodes) = (_mm512_set1_epi64(1), view.nodes.cast());
    // SAFETY: an inner lane's word holds the offset of a node, in units of 8 octets, which
    // readers may use until their next quiescent point.
    unsafe { _mm512_mask_i32gather_epi64::<8>(none, keys.inner, node, nodes) }
}

/// The lanes whose heads are those of paths: bit 0 is clear.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
#[inline]
fn paths(head: __m512i) -> u8 {
    _mm512_testn_epi64_mask(head, _mm512_set1_epi64(1))
}

/// The words of nodes, in units of 4 octets from their start, for the next bits of keys.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
#[inline]
fn entry6(head: __m512i, high: __m512i) -> __m256i {
    let slot = _mm512_srli_epi64::<58>(high);
    _mm256_add_epi32(rank(head, slot), _mm256_set1_epi32(1))
}

/// Corrects entry and number of bits in the lanes of paths.
///
/// # Safety
/// Needs the features of [`Available`]; the heads must be those of the keys' nodes in `view`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
#[inline]
unsafe fn path6(view: View, keys: Keys, head: __m512i, entry: &mut __m256i, taken: &mut __m512i) {
    let (path, high) = (paths(head), keys.high);
    let node = _mm256_and_si256(keys.word, _mm256_set1_epi32(i32::MAX));
    let nodes = view.nodes.wrapping_add(8).cast();
    // SAFETY: a path's bits are the 8 octets behind its head.
    let want = unsafe { _mm512_mask_i32gather_epi64::<8>(high, path, node, nodes) };
    let len = _mm512_srli_epi64::<1>(head);
    let differs = _mm512_srlv_epi64(_mm512_xor_si512(high, want), other_bits(len));
    let differs = path & _mm512_test_epi64_mask(differs, differs);
    // word 4 is that of equal bits, word 5 that of others
    *entry = _mm256_mask_set1_epi32(*entry, path, 4);
    *entry = _mm256_mask_set1_epi32(*entry, differs, 5);
    *taken = _mm512_mask_mov_epi64(*taken, path, len);
}

/// Reads these words of nodes, in the lanes that hold nodes.
///
/// # Safety
/// Needs the features of [`Available`]; the entries must be words of the keys' nodes in `view`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
#[inline]
unsafe fn follow6(view: View, keys: &mut Keys, entry: __m256i) {
    // the shift removes the word's top bit
    let entry = _mm256_add_epi32(_mm256_slli_epi32::<1>(keys.word), entry);
    let nodes = view.nodes.cast();
    // SAFETY: the rank of a slot is at least 1 and at most the number of the node's entries,
    // which are 4 octets each behind 8 of bitmap; a path's two words are behind 16 octets.
    keys.word = unsafe { _mm256_mmask_i32gather_epi32::<4>(keys.word, keys.inner, entry, nodes) };
    keys.inner = _mm256_movepi32_mask(keys.word);
}

/// The first (0) or second (1) halves of eight keys in host order; zero where there is no key.
///
/// # Safety
/// Needs the features of [`Available`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
#[inline]
unsafe fn halves<const HALF: i64>(keys: &[[u8; 16]], group: usize) -> __m512i {
    let words = 2 * lanes(keys.len(), group, 8).count_ones();
    let live = ((1u32 << words) - 1) as u16;
    let from: *const i64 = keys.as_ptr().wrapping_add(8 * group).cast();
    // SAFETY: only the words of keys that are there are loaded.
    let (first, second) = unsafe {
        (
            _mm512_maskz_loadu_epi64(live as u8, from),
            _mm512_maskz_loadu_epi64((live >> 8) as u8, from.wrapping_add(8)),
        )
    };
    let pick = _mm512_add_epi64(
        _mm512_set_epi64(14, 12, 10, 8, 6, 4, 2, 0),
        _mm512_set1_epi64(HALF),
    );
    let picked = _mm512_permutex2var_epi64(first, pick, second);
    let swap = _mm_set_epi8(8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
    _mm512_shuffle_epi8(picked, _mm512_broadcast_i32x4(swap))
}
