//! Look-ups with AVX2, 32 (IPv4) or 16 (IPv6) keys at a time.

// stages walk several arrays of groups in parallel
#![allow(clippy::needless_range_loop)]

use std::arch::x86_64::*;

use super::{View, popcnt, scalar};
use crate::nexthop::NextHopId;
use crate::tree::Tree;

/// IPv4 keys of a step, in groups of 8.
const STEP4: usize = 32;
/// IPv6 keys of a step, in groups of 4.
const STEP6: usize = 16;
/// Up to this many keys, scalar look-ups are faster.
const FEW4: usize = 15;
const FEW6: usize = 4;

/// Proof that the CPU has what this file needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Available(popcnt::Available);

impl Available {
    pub(super) fn detect() -> Option<Self> {
        let found = is_x86_feature_detected!("avx2");
        popcnt::Available::detect().filter(|_| found).map(Self)
    }
}

pub(super) fn lookup4(cpu: Available, tree: &Tree, keys: &[u32], out: &mut [NextHopId]) {
    if keys.len() <= FEW4 {
        return popcnt::lookup4(cpu.0, tree, keys, out);
    }
    let view = View::new(tree);
    for (keys, out) in keys.chunks(STEP4).zip(out.chunks_mut(STEP4)) {
        let (mut padded, mut found) = ([0; STEP4], [NextHopId::NO_ROUTE; STEP4]);
        padded[..keys.len()].copy_from_slice(keys);
        // SAFETY: `Available` says that the CPU has the feature.
        let deeper = unsafe { step4(view, &padded, &mut found) };
        out.copy_from_slice(&found[..keys.len()]);
        if deeper != 0 {
            scalar::lookup4_some(tree, keys, out, deeper);
        }
    }
}

/// Returns a bit for each key that needs another step, because its entry is [`FAR`].
///
/// # Safety
/// Needs AVX2; `view` must be that of a tree the caller may read.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn step4(view: View, keys: &[u32; STEP4], out: &mut [NextHopId; STEP4]) -> u64 {
    const GROUPS: usize = STEP4 / 8;
    let zero = _mm256_setzero_si256();
    let mut key = [zero; GROUPS];
    let mut word = [zero; GROUPS];
    for group in 0..GROUPS {
        // SAFETY: `keys` has 8 keys for each group; root indices have 18 bits, the length of the
        // root.
        unsafe {
            key[group] = _mm256_loadu_si256(keys.as_ptr().wrapping_add(8 * group).cast());
            word[group] =
                _mm256_i32gather_epi32::<4>(view.root, _mm256_srli_epi32::<14>(key[group]));
        }
    }
    let mut bitmap = [[zero; 2]; GROUPS];
    for group in 0..GROUPS {
        let offset = _mm256_and_si256(word[group], _mm256_set1_epi32(i32::MAX));
        let (low, high) = split(offset);
        let (lanes, nodes) = (split(word[group]), view.nodes.cast());
        let (lanes_low, lanes_high) = (
            _mm256_cvtepi32_epi64(lanes.0),
            _mm256_cvtepi32_epi64(lanes.1),
        );
        // SAFETY: a word with the top bit set holds the offset of a node, in units of 8 octets,
        // which readers may use until their next quiescent point.
        unsafe {
            bitmap[group] = [
                _mm256_mask_i32gather_epi64::<8>(zero, nodes, low, lanes_low),
                _mm256_mask_i32gather_epi64::<8>(zero, nodes, high, lanes_high),
            ];
        }
    }
    let mut deeper = 0;
    for group in 0..GROUPS {
        let slot = _mm256_and_si256(_mm256_srli_epi32::<8>(key[group]), _mm256_set1_epi32(63));
        let (low, high) = split(slot);
        let low = rank(bitmap[group][0], _mm256_cvtepu32_epi64(low));
        let high = rank(bitmap[group][1], _mm256_cvtepu32_epi64(high));
        let entry = _mm256_slli_epi32::<2>(word[group]);
        let entry = _mm256_add_epi32(entry, _mm256_set_m128i(high, low));
        let entry = _mm256_add_epi32(entry, _mm256_set1_epi32(3));
        let nodes = view.nodes.cast();
        // SAFETY: the rank of a slot is at least 1 and at most the number of the node's entries,
        // which are 2 octets each behind 8 of bitmap; a page follows the last node.
        let leaf =
            unsafe { _mm256_mask_i32gather_epi32::<2>(word[group], nodes, entry, word[group]) };
        // leaves of the root are whole words
        let inner = _mm256_srai_epi32::<31>(word[group]);
        let other_half = _mm256_and_si256(inner, _mm256_set1_epi32(!0xffff));
        let leaf = _mm256_andnot_si256(other_half, leaf);
        let far = _mm256_slli_epi32::<16>(_mm256_and_si256(inner, leaf));
        let far = _mm256_movemask_ps(_mm256_castsi256_ps(far));
        deeper |= (far as u64) << (8 * group);
        let none = _mm256_cmpeq_epi32(leaf, zero);
        let id = _mm256_sub_epi32(leaf, _mm256_set1_epi32(1));
        let id = _mm256_blendv_epi8(id, _mm256_set1_epi32(view.inherit), none);
        // SAFETY: `out` has 8 places for each group.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().wrapping_add(8 * group).cast(), id) };
    }
    deeper
}

/// The low and high four lanes.
#[target_feature(enable = "avx2")]
#[inline]
fn split(lanes: __m256i) -> (__m128i, __m128i) {
    (
        _mm256_castsi256_si128(lanes),
        _mm256_extracti128_si256::<1>(lanes),
    )
}

/// For each of four nodes, the number of runs up to a slot.
#[target_feature(enable = "avx2")]
#[inline]
fn rank(bitmap: __m256i, slot: __m256i) -> __m128i {
    let later = _mm256_sllv_epi64(_mm256_set1_epi64x(-2), slot);
    let bits = _mm256_andnot_si256(later, bitmap);
    // bits set in each nibble, then in each octet, then in each 8 octets
    let of_nibble = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,
    ));
    let nibble = _mm256_set1_epi8(15);
    let low = _mm256_shuffle_epi8(of_nibble, _mm256_and_si256(bits, nibble));
    let high = _mm256_and_si256(_mm256_srli_epi64::<4>(bits), nibble);
    let octets = _mm256_add_epi8(low, _mm256_shuffle_epi8(of_nibble, high));
    narrow(_mm256_sad_epu8(octets, _mm256_setzero_si256()))
}

/// The low halves of four 64-bit lanes.
#[target_feature(enable = "avx2")]
#[inline]
fn narrow(lanes: __m256i) -> __m128i {
    let even = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
    _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(lanes, even))
}

pub(super) fn lookup6(cpu: Available, tree: &Tree, keys: &[[u8; 16]], out: &mut [NextHopId]) {
    if keys.len() <= FEW6 {
        return popcnt::lookup6(cpu.0, tree, keys, out);
    }
    let view = View::new(tree);
    for (keys, out) in keys.chunks(STEP6).zip(out.chunks_mut(STEP6)) {
        let (mut padded, mut found) = ([[0; 16]; STEP6], [NextHopId::NO_ROUTE; STEP6]);
        padded[..keys.len()].copy_from_slice(keys);
        // SAFETY: `Available` says that the CPU has the feature.
        let rest = unsafe { step6(view, &padded, &mut found) };
        out.copy_from_slice(&found[..keys.len()]);
        if rest != 0 {
            scalar::lookup6_some(tree, keys, out, rest);
        }
    }
}

/// Returns a bit for each key that is outside 2000::/3 or matches a prefix longer than /60.
///
/// # Safety
/// Needs AVX2; `view` must be that of a tree the caller may read.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn step6(view: View, keys: &[[u8; 16]; STEP6], out: &mut [NextHopId; STEP6]) -> u64 {
    const GROUPS: usize = STEP6 / 4;
    let mut key = [_mm256_setzero_si256(); GROUPS];
    let mut word = [_mm_setzero_si128(); GROUPS];
    let mut rest = 0;
    for group in 0..GROUPS {
        // SAFETY: root indices have 21 bits, the length of the root.
        unsafe {
            key[group] = first_halves(&keys[4 * group..4 * group + 4]);
            let first = _mm256_srli_epi64::<61>(key[group]);
            let inside = _mm256_cmpeq_epi64(first, _mm256_set1_epi64x(1));
            rest |= (!top_bits(narrow(inside)) & 15) << (4 * group);
            let slot = narrow(_mm256_srli_epi64::<40>(key[group]));
            let slot = _mm_and_si128(slot, _mm_set1_epi32(0x1f_ffff));
            let (none, inside) = (_mm_setzero_si128(), narrow(inside));
            word[group] = _mm_mask_i32gather_epi32::<4>(none, view.root, slot, inside);
        }
    }
    let mut bit = 24;
    while bit < 60 && word.iter().any(|&word| top_bits(word) != 0) {
        let shift = _mm_cvtsi32_si128(58 - bit);
        for group in 0..GROUPS {
            // SAFETY: the feature is the caller's, words come from the root or from nodes.
            word[group] = unsafe { stage6(view, key[group], word[group], shift) };
        }
        bit += 6;
    }
    for group in 0..GROUPS {
        rest |= top_bits(word[group]) << (4 * group);
        let none = _mm_cmpeq_epi32(word[group], _mm_setzero_si128());
        let id = _mm_sub_epi32(word[group], _mm_set1_epi32(1));
        let id = _mm_blendv_epi8(id, _mm_set1_epi32(view.inherit), none);
        // SAFETY: `out` has 4 places for each group.
        unsafe { _mm_storeu_si128(out.as_mut_ptr().wrapping_add(4 * group).cast(), id) };
    }
    rest
}

/// Goes one node further, in the lanes that hold nodes.
///
/// # Safety
/// Needs AVX2; words with the top bit set must hold nodes of `view`.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn stage6(view: View, key: __m256i, word: __m128i, shift: __m128i) -> __m128i {
    let lanes = _mm256_cvtepi32_epi64(word);
    let offset = _mm_and_si128(word, _mm_set1_epi32(i32::MAX));
    let (none, nodes) = (_mm256_setzero_si256(), view.nodes.cast());
    // SAFETY: the lanes hold offsets of nodes, in units of 8 octets, which readers may use until
    // their next quiescent point.
    let bitmap = unsafe { _mm256_mask_i32gather_epi64::<8>(none, nodes, offset, lanes) };
    let slot = _mm256_and_si256(_mm256_srl_epi64(key, shift), _mm256_set1_epi64x(63));
    let entry = _mm_add_epi32(_mm_slli_epi32::<1>(word), rank(bitmap, slot));
    let entry = _mm_add_epi32(entry, _mm_set1_epi32(1));
    // SAFETY: the rank of a slot is at least 1 and at most the number of the node's entries,
    // which are 4 octets each behind 8 of bitmap.
    unsafe { _mm_mask_i32gather_epi32::<4>(word, view.nodes.cast(), entry, word) }
}

/// The first halves of four keys in host order.
#[target_feature(enable = "avx2")]
#[inline]
fn first_halves(keys: &[[u8; 16]]) -> __m256i {
    let half = |key: &[u8; 16]| (u128::from_be_bytes(*key) >> 64) as i64;
    _mm256_setr_epi64x(
        half(&keys[0]),
        half(&keys[1]),
        half(&keys[2]),
        half(&keys[3]),
    )
}

/// A bit for each lane whose top bit is set.
#[target_feature(enable = "avx2")]
#[inline]
fn top_bits(lanes: __m128i) -> u64 {
    _mm_movemask_ps(_mm_castsi128_ps(lanes)) as u64
}
