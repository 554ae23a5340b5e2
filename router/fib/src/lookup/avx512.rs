//! Look-ups with AVX-512, up to 64 keys at a time.
//!
//! A step takes all its keys through one stage before the next one, so that their cache misses
//! overlap.

// stages walk several arrays of groups in parallel
#![allow(clippy::needless_range_loop)]

use std::arch::x86_64::*;
use std::sync::atomic::AtomicU16;

use super::{View, popcnt, scalar};
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
            steps4(view, tree, steps, steps_out);
        } else if whole > 0 {
            rest4(view, tree, steps, steps_out);
        }
        if keys.len() > whole {
            rest4(view, tree, &keys[whole..], &mut out[whole..]);
        }
    }
}

/// Looks up whole steps of keys, at least one. The roots of a step are read before the nodes of the one
/// before, so that their cache misses overlap.
///
/// # Safety
/// Needs the features of [`Available`], and `keys` as long as `out`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
unsafe fn steps4(view: View, tree: &Tree, keys: &[u32], out: &mut [NextHopId]) {
    let last = keys.len() / STEP - 1;
    // SAFETY: the features are the caller's.
    let mut ahead = unsafe { roots4::<4>(view, &keys[..STEP]) };
    for (index, out) in out.chunks_exact_mut(STEP).enumerate() {
        let now = ahead;
        let at = index * STEP;
        // SAFETY: the features are the caller's, and the words are of `view`.
        let deeper = unsafe {
            if index < last {
                ahead = roots4(view, &keys[at + STEP..at + 2 * STEP]);
            }
            nodes4::<4, true>(view, now, out)
        };
        if deeper != 0 {
            scalar::lookup4_some(tree, &keys[at..at + STEP], out, deeper);
        }
    }
}

/// Looks up at most [`STEP`] keys.
///
/// # Safety
/// As [`step4`].
unsafe fn rest4(view: View, tree: &Tree, keys: &[u32], out: &mut [NextHopId]) {
    // SAFETY: the features and the lengths are the caller's.
    let deeper = unsafe { step4(view, keys, out) };
    if deeper != 0 {
        scalar::lookup4_some(tree, keys, out, deeper);
    }
}

/// Looks up at most [`STEP`] keys; returns a bit for each key that needs another step, because its
/// entry is [`FAR`].
///
/// # Safety
/// Needs the features of [`Available`], and `keys` as long as `out`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
unsafe fn step4(view: View, keys: &[u32], out: &mut [NextHopId]) -> u64 {
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

/// Keys of a step, and the words of the root for them.
#[derive(Clone, Copy)]
struct Words<const GROUPS: usize> {
    key: [__m512i; GROUPS],
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
    let (mut key, mut word) = ([zero; GROUPS], [zero; GROUPS]);
    for group in 0..GROUPS {
        let live = lanes(keys.len(), group, GROUP) as u16;
        // SAFETY: only the lanes that have a key are loaded; root indices have 18 bits, the
        // length of the root.
        unsafe {
            let from = keys.as_ptr().wrapping_add(GROUP * group);
            key[group] = _mm512_maskz_loadu_epi32(live, from.cast());
            let slot = _mm512_srli_epi32::<14>(key[group]);
            word[group] = _mm512_mask_i32gather_epi32::<4>(zero, live, slot, view.root);
        }
    }
    Words { key, word }
}

/// Finds what the words lead to; returns a bit for each key whose entry is [`FAR`]. `COPY` is for each
/// caller another, so that the compiler inlines both: words in memory cost half a nanosecond a key.
///
/// # Safety
/// Needs the features of [`Available`]; the words must be of `view`, and as many as `out` is long.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
#[inline]
unsafe fn nodes4<const GROUPS: usize, const COPY: bool>(
    view: View,
    Words { key, word }: Words<GROUPS>,
    out: &mut [NextHopId],
) -> u64 {
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
        let slot = _mm512_and_si512(_mm512_srli_epi32::<8>(key[group]), _mm512_set1_epi32(63));
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
        let leaf = _mm512_mask_and_epi32(leaf, inner, leaf, _mm512_set1_epi32(0xffff));
        let far = _mm512_mask_test_epi32_mask(inner, leaf, _mm512_set1_epi32(1 << 15));
        deeper |= u64::from(far) << (GROUP * group);
        let id = next_hop(leaf, view.inherit);
        let live = lanes(out.len(), group, GROUP) as u16;
        // SAFETY: only the lanes that have a place in `out` are stored.
        unsafe {
            let out = out.as_mut_ptr().wrapping_add(GROUP * group);
            _mm512_mask_storeu_epi32(out.cast(), live, id);
        }
    }
    deeper
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
        let outside = unsafe {
            match keys.len() {
                STEP => step6::<8>(view, keys, out),
                33.. => step6::<8>(view, keys, out),
                17.. => step6::<4>(view, keys, out),
                9.. => step6::<2>(view, keys, out),
                _ => step6::<1>(view, keys, out),
            }
        };
        if outside != 0 {
            scalar::lookup6_some(tree, keys, out, outside);
        }
    }
}

/// Looks up at most `8 * GROUPS` keys; returns a bit for each key outside 2000::/3, which it does
/// not look up.
///
/// # Safety
/// Needs the features of [`Available`], and `keys` as long as `out`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
#[inline]
unsafe fn step6<const GROUPS: usize>(view: View, keys: &[[u8; 16]], out: &mut [NextHopId]) -> u64 {
    let zero = _mm512_setzero_si512();
    let mut key = [zero; GROUPS];
    let mut word = [_mm256_setzero_si256(); GROUPS];
    let mut inner = [0u8; GROUPS];
    let mut outside = 0;
    for group in 0..GROUPS {
        let live = lanes(keys.len(), group, 8) as u8;
        // SAFETY: `halves` loads only lanes that have a key; root indices have 21 bits, the
        // length of the root.
        unsafe {
            key[group] = halves::<0>(keys, group);
            let first = _mm512_srli_epi64::<61>(key[group]);
            let inside = _mm512_mask_cmpeq_epi64_mask(live, first, _mm512_set1_epi64(1));
            outside |= u64::from(live & !inside) << (8 * group);
            let slot = _mm512_srli_epi64::<40>(key[group]);
            let slot = _mm512_and_si512(slot, _mm512_set1_epi64(0x1f_ffff));
            let slot = _mm512_cvtepi64_epi32(slot);
            let none = _mm256_setzero_si256();
            word[group] = _mm256_mmask_i32gather_epi32::<4>(none, inside, slot, view.root);
        }
        inner[group] = _mm256_movepi32_mask(word[group]);
    }
    let mut bit = 24;
    while inner.iter().any(|&lanes| lanes != 0) {
        if bit == 60 || bit == 120 {
            // the next 60 bits; lanes without a key hold zeros
            for (group, key) in key.iter_mut().enumerate() {
                // SAFETY: as for the first half.
                let low = unsafe { halves::<1>(keys, group) };
                let high = _mm512_slli_epi64::<60>(*key);
                *key = match bit {
                    60 => _mm512_or_si512(high, _mm512_srli_epi64::<4>(low)),
                    _ => _mm512_slli_epi64::<56>(low),
                };
            }
        }
        let shift = _mm_cvtsi32_si128(58 - bit % 60);
        // SAFETY: the features are the caller's, the lanes of `inner` hold nodes.
        unsafe { stage6(view, &key, &mut word, &mut inner, shift) };
        bit += 6;
    }
    for group in 0..GROUPS {
        let none = _mm256_testn_epi32_mask(word[group], word[group]);
        let id = _mm256_sub_epi32(word[group], _mm256_set1_epi32(1));
        let id = _mm256_mask_mov_epi32(id, none, _mm256_set1_epi32(view.inherit));
        let live = lanes(keys.len(), group, 8) as u8;
        // SAFETY: only the lanes that have a key are stored, and `out` has a place for each.
        unsafe {
            let out = out.as_mut_ptr().wrapping_add(8 * group);
            _mm256_mask_storeu_epi32(out.cast(), live, id);
        }
    }
    outside
}

/// Goes one node further, in the lanes that hold nodes.
///
/// # Safety
/// Needs the features of [`Available`]; the words of `inner` lanes hold nodes of `view`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
#[inline]
unsafe fn stage6<const GROUPS: usize>(
    view: View,
    key: &[__m512i; GROUPS],
    word: &mut [__m256i; GROUPS],
    inner: &mut [u8; GROUPS],
    shift: __m128i,
) {
    let mut bitmap = [_mm512_setzero_si512(); GROUPS];
    let offset = _mm256_set1_epi32(i32::MAX);
    for group in 0..GROUPS {
        let node = _mm256_and_si256(word[group], offset);
        let (none, nodes) = (_mm512_setzero_si512(), view.nodes.cast());
        // SAFETY: an inner lane's word holds the offset of a node, in units of 8 octets, which
        // readers may use until their next quiescent point.
        bitmap[group] =
            unsafe { _mm512_mask_i32gather_epi64::<8>(none, inner[group], node, nodes) };
    }
    for group in 0..GROUPS {
        let slot = _mm512_and_si512(_mm512_srl_epi64(key[group], shift), _mm512_set1_epi64(63));
        let entry = _mm256_slli_epi32::<1>(word[group]);
        let entry = _mm256_add_epi32(entry, rank(bitmap[group], slot));
        let entry = _mm256_add_epi32(entry, _mm256_set1_epi32(1));
        let nodes = view.nodes.cast();
        // SAFETY: the rank of a slot is at least 1 and at most the number of the node's entries,
        // which are 4 octets each behind 8 of bitmap.
        word[group] =
            unsafe { _mm256_mmask_i32gather_epi32::<4>(word[group], inner[group], entry, nodes) };
        inner[group] = _mm256_movepi32_mask(word[group]);
    }
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
