//! Look-ups with AVX2, 32 (IPv4) or 16 (IPv6) keys at a time.

// stages walk several arrays of groups in parallel
#![allow(clippy::needless_range_loop)]

use std::arch::x86_64::*;

use super::{FIRST6, View, popcnt};
use crate::nexthop::NextHopId;
use crate::tree::Tree;

/// IPv4 keys of a step, in groups of 8.
const STEP4: usize = 32;
const GROUPS4: usize = STEP4 / 8;
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
        unsafe { step4(view, &padded, &mut found) };
        out.copy_from_slice(&found[..keys.len()]);
    }
}

/// # Safety
/// Needs AVX2; `view` must be that of a tree the caller may read.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn step4(view: View, keys: &[u32; STEP4], out: &mut [NextHopId; STEP4]) {
    let zero = _mm256_setzero_si256();
    let mut rest = [zero; GROUPS4];
    let mut word = [zero; GROUPS4];
    for group in 0..GROUPS4 {
        // SAFETY: `keys` has 8 keys for each group; root indices have 18 bits, the length of the
        // root.
        unsafe {
            let key = _mm256_loadu_si256(keys.as_ptr().wrapping_add(8 * group).cast());
            rest[group] = _mm256_slli_epi32::<18>(key);
            word[group] = _mm256_i32gather_epi32::<4>(view.root, _mm256_srli_epi32::<14>(key));
        }
    }
    // SAFETY: the feature is the caller's, words come from the root or from nodes.
    while unsafe { stage4(view, &rest, &mut word) } {
        rest = rest.map(|rest| _mm256_slli_epi32::<6>(rest));
    }
    for group in 0..GROUPS4 {
        let none = _mm256_cmpeq_epi32(word[group], zero);
        let id = _mm256_sub_epi32(word[group], _mm256_set1_epi32(1));
        let id = _mm256_blendv_epi8(id, _mm256_set1_epi32(view.inherit), none);
        // SAFETY: `out` has 8 places for each group.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().wrapping_add(8 * group).cast(), id) };
    }
}

/// Goes one node further, in the lanes that hold nodes; returns whether any lane holds one then.
///
/// # Safety
/// Needs AVX2; words with the top bit set must hold nodes of `view`.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn stage4(view: View, rest: &[__m256i; GROUPS4], word: &mut [__m256i; GROUPS4]) -> bool {
    let zero = _mm256_setzero_si256();
    let mut bitmap = [[zero; 2]; GROUPS4];
    for group in 0..GROUPS4 {
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
    let mut deeper = zero;
    for group in 0..GROUPS4 {
        let (low, high) = split(_mm256_srli_epi32::<26>(rest[group]));
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
        let mut leaf = _mm256_andnot_si256(other_half, leaf);
        let far = _mm256_slli_epi32::<16>(_mm256_and_si256(inner, leaf));
        if _mm256_movemask_ps(_mm256_castsi256_ps(far)) != 0 {
            let behind = _mm256_and_si256(leaf, _mm256_set1_epi32(i16::MAX.into()));
            let behind = _mm256_add_epi32(_mm256_slli_epi32::<1>(word[group]), behind);
            // SAFETY: such an entry says which of the node's words of 4 octets is meant.
            leaf = unsafe { _mm256_mask_i32gather_epi32::<4>(leaf, nodes, behind, far) };
            deeper = _mm256_or_si256(deeper, leaf);
        }
        word[group] = leaf;
    }
    _mm256_movemask_ps(_mm256_castsi256_ps(deeper)) != 0
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
        unsafe { step6(view, &padded, &mut found) };
        out.copy_from_slice(&found[..keys.len()]);
    }
}

const GROUPS6: usize = STEP6 / 4;
/// # Safety
/// Needs AVX2; `view` must be that of a tree the caller may read.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn step6(view: View, keys: &[[u8; 16]; STEP6], out: &mut [NextHopId; STEP6]) {
    let mut inside = [_mm256_setzero_si256(); GROUPS6];
    let mut high = inside;
    let mut word = [_mm_setzero_si128(); GROUPS6];
    for group in 0..GROUPS6 {
        let key = halves::<64>(&keys[4 * group..4 * group + 4]);
        let first = _mm256_srli_epi64::<61>(key);
        inside[group] = _mm256_cmpeq_epi64(first, _mm256_set1_epi64x(1));
        let slot = narrow(_mm256_srli_epi64::<40>(key));
        let slot = _mm_and_si128(slot, _mm_set1_epi32(0x1f_ffff));
        let (outside, inner) = (_mm_set1_epi32(view.outside), narrow(inside[group]));
        // SAFETY: root indices have 21 bits, the length of the root.
        word[group] = unsafe { _mm_mask_i32gather_epi32::<4>(outside, view.root, slot, inner) };
        high[group] = _mm256_sllv_epi64(key, root_bits(inside[group]));
    }
    let mut bits = 0;
    while word.iter().any(|&word| top_bits(word) != 0) {
        // SAFETY: the feature is the caller's, words come from the root or from nodes.
        let head = word.map(|word| unsafe { head6(view, word) });
        if bits == FIRST6.into() || head.iter().any(|&head| has_path(head)) {
            // SAFETY: as before.
            unsafe { rest6(view, keys, &inside, bits, &mut high, &mut word) };
            break;
        }
        for group in 0..GROUPS6 {
            let entry = entry6(head[group], high[group]);
            // SAFETY: as before, and the entry is one of the node.
            word[group] = unsafe { follow6(view, word[group], entry) };
            high[group] = _mm256_slli_epi64::<6>(high[group]);
        }
        bits += 6;
    }
    for group in 0..GROUPS6 {
        let (inherit, other) = (_mm_set1_epi32(view.inherit), _mm_set1_epi32(view.default));
        let default = _mm_blendv_epi8(other, inherit, narrow(inside[group]));
        let none = _mm_cmpeq_epi32(word[group], _mm_setzero_si128());
        let id = _mm_sub_epi32(word[group], _mm_set1_epi32(1));
        let id = _mm_blendv_epi8(id, default, none);
        // SAFETY: `out` has 4 places for each group.
        unsafe { _mm_storeu_si128(out.as_mut_ptr().wrapping_add(4 * group).cast(), id) };
    }
}

/// Goes on to the end after some nodes of 6 bits, which `bits` counts. `high` holds what the first halves have left.
///
/// # Safety
/// Needs AVX2; words with the top bit set must hold nodes of `view`.
#[target_feature(enable = "avx2")]
unsafe fn rest6(
    view: View,
    keys: &[[u8; 16]; STEP6],
    inside: &[__m256i; GROUPS6],
    bits: i64,
    high: &mut [__m256i; GROUPS6],
    word: &mut [__m128i; GROUPS6],
) {
    let mut low = [_mm256_setzero_si256(); GROUPS6];
    for group in 0..GROUPS6 {
        let taken = _mm256_add_epi64(root_bits(inside[group]), _mm256_set1_epi64x(bits));
        let key = halves::<0>(&keys[4 * group..4 * group + 4]);
        low[group] = _mm256_sllv_epi64(key, taken);
        high[group] = _mm256_or_si256(high[group], _mm256_srlv_epi64(key, other_bits(taken)));
    }
    while word.iter().any(|&word| top_bits(word) != 0) {
        for group in 0..GROUPS6 {
            // SAFETY: the feature is the caller's, words come from the root or from nodes.
            let head = unsafe { head6(view, word[group]) };
            let mut entry = entry6(head, high[group]);
            let mut taken = _mm256_set1_epi64x(6);
            if has_path(head) {
                // SAFETY: as before.
                unsafe { path6(view, word[group], head, high[group], &mut entry, &mut taken) };
            }
            // SAFETY: as before, and the entry is one of the node.
            word[group] = unsafe { follow6(view, word[group], entry) };
            let next = _mm256_srlv_epi64(low[group], other_bits(taken));
            high[group] = _mm256_or_si256(_mm256_sllv_epi64(high[group], taken), next);
            low[group] = _mm256_sllv_epi64(low[group], taken);
        }
    }
}

/// The bits that the root decides: of addresses in 2000::/3, 24.
#[target_feature(enable = "avx2")]
#[inline]
fn root_bits(inside: __m256i) -> __m256i {
    _mm256_and_si256(inside, _mm256_set1_epi64x(24))
}

/// The bits of 64 that these are not.
#[target_feature(enable = "avx2")]
#[inline]
fn other_bits(bits: __m256i) -> __m256i {
    _mm256_sub_epi64(_mm256_set1_epi64x(64), bits)
}

/// The bitmaps of nodes, or heads of paths; 1 in lanes without a node.
///
/// # Safety
/// Needs AVX2; words with the top bit set must hold nodes of `view`.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn head6(view: View, word: __m128i) -> __m256i {
    let inner = _mm256_cvtepi32_epi64(word);
    let offset = _mm_and_si128(word, _mm_set1_epi32(i32::MAX));
    let (none, nodes) = (_mm256_set1_epi64x(1), view.nodes.cast());
    // SAFETY: the lanes hold offsets of nodes, in units of 8 octets, which readers may use until
    // their next quiescent point.
    unsafe { _mm256_mask_i32gather_epi64::<8>(none, nodes, offset, inner) }
}

/// Whether one of the heads is that of a path: bit 0 is clear.
#[target_feature(enable = "avx2")]
#[inline]
fn has_path(head: __m256i) -> bool {
    _mm256_testc_si256(head, _mm256_set1_epi64x(1)) == 0
}

/// The words of nodes, in units of 4 octets from their start, for the next bits of keys.
#[target_feature(enable = "avx2")]
#[inline]
fn entry6(head: __m256i, high: __m256i) -> __m128i {
    let slot = _mm256_srli_epi64::<58>(high);
    _mm_add_epi32(rank(head, slot), _mm_set1_epi32(1))
}

/// Corrects entry and number of bits in the lanes of paths.
///
/// # Safety
/// Needs AVX2; the heads must be those of these words' nodes in `view`.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn path6(
    view: View,
    word: __m128i,
    head: __m256i,
    high: __m256i,
    entry: &mut __m128i,
    taken: &mut __m256i,
) {
    let path = _mm256_cmpeq_epi64(_mm256_slli_epi64::<63>(head), _mm256_setzero_si256());
    let offset = _mm_and_si128(word, _mm_set1_epi32(i32::MAX));
    let nodes = view.nodes.wrapping_add(8).cast();
    // SAFETY: a path's bits are the 8 octets behind its head.
    let want = unsafe { _mm256_mask_i32gather_epi64::<8>(high, nodes, offset, path) };
    let len = _mm256_srli_epi64::<1>(head);
    let differs = _mm256_srlv_epi64(_mm256_xor_si256(high, want), other_bits(len));
    let equal = _mm256_cmpeq_epi64(differs, _mm256_setzero_si256());
    // word 4 is that of equal bits, word 5 that of others
    let leads = _mm_add_epi32(_mm_set1_epi32(5), narrow(equal));
    *entry = _mm_blendv_epi8(*entry, leads, narrow(path));
    *taken = _mm256_blendv_epi8(*taken, len, path);
}

/// Reads these words of nodes, in the lanes that hold nodes.
///
/// # Safety
/// Needs AVX2; the entries must be words of these nodes of `view`.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn follow6(view: View, word: __m128i, entry: __m128i) -> __m128i {
    // the shift removes the word's top bit
    let entry = _mm_add_epi32(_mm_slli_epi32::<1>(word), entry);
    // SAFETY: the rank of a slot is at least 1 and at most the number of the node's entries,
    // which are 4 octets each behind 8 of bitmap; a path's two words are behind 16 octets.
    unsafe { _mm_mask_i32gather_epi32::<4>(word, view.nodes.cast(), entry, word) }
}

/// The halves of four keys in host order, of which this many bits follow.
#[target_feature(enable = "avx2")]
#[inline]
fn halves<const FOLLOW: u32>(keys: &[[u8; 16]]) -> __m256i {
    let half = |key: &[u8; 16]| (u128::from_be_bytes(*key) >> FOLLOW) as i64;
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
