//! IPv4 look-ups with AVX-512 and a reader's cache.

use std::arch::x86_64::*;
use std::sync::atomic::AtomicU64;

use super::avx512::{Available, GROUP, STEP, step4};
use super::{View, scalar};
use crate::nexthop::NextHopId;
use crate::route_cache::{RouteCache, SETS, TAG, VALID};
use crate::tree::Tree;

/// Keys whose misses are looked up together.
const MOST: usize = 4 * STEP;

pub(super) fn lookup4(
    _: Available,
    tree: &Tree,
    cache: &RouteCache,
    keys: &[u32],
    out: &mut [NextHopId],
) {
    assert_eq!(keys.len(), out.len());
    assert_eq!(cache.sets().len(), SETS);
    for (keys, out) in keys.chunks(MOST).zip(out.chunks_mut(MOST)) {
        let mut missed = [0; MOST / STEP];
        // SAFETY: `Available` says that the CPU has the features; there are `SETS` sets; the chunks
        // are equally long.
        unsafe {
            all(cache, keys, out, &mut missed);
            if missed.iter().any(|&missed| missed != 0) {
                look_up_missed(tree, cache, (keys, out), missed);
            }
        }
        let missed = missed.iter().map(|missed| missed.count_ones()).sum::<u32>();
        cache.account(keys.len(), missed as usize);
    }
}

/// Sets a bit for each key that is not in the cache.
///
/// # Safety
/// Needs the features of [`Available`], a cache of [`SETS`] sets, and `keys` as long as `out`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
unsafe fn all(
    cache: &RouteCache,
    keys: &[u32],
    out: &mut [NextHopId],
    missed: &mut [u64; MOST / STEP],
) {
    let (sets, generation) = (cache.sets(), cache.generation());
    let groups = keys.chunks(GROUP).zip(out.chunks_mut(GROUP));
    for (group, (keys, out)) in groups.enumerate() {
        // SAFETY: the features and the sets are the caller's; the chunks are equally long.
        let found = unsafe { step(sets, generation, keys, out) };
        missed[group / 4] |= u64::from(found) << (group % 4 * GROUP);
    }
}

/// Looks up at most [`GROUP`] keys; returns the lanes that are not in the cache.
///
/// # Safety
/// Needs the features of [`Available`], [`SETS`] sets, and `keys` as long as `out`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
#[inline]
unsafe fn step(sets: &[AtomicU64], generation: u32, keys: &[u32], out: &mut [NextHopId]) -> u16 {
    let live = u16::MAX >> (GROUP - keys.len().clamp(1, GROUP));
    let all = |value: u32| _mm512_set1_epi32(value as i32);
    // SAFETY: only the lanes that have a key are loaded.
    let key = unsafe { _mm512_maskz_loadu_epi32(live, keys.as_ptr().cast()) };
    let set = _mm512_xor_si512(_mm512_srli_epi32::<8>(key), _mm512_srli_epi32::<23>(key));
    let set = _mm512_and_si512(set, all(SETS as u32 - 1));
    let (first, last) = (
        _mm512_castsi512_si256(set),
        _mm512_extracti64x4_epi64::<1>(set),
    );
    // SAFETY: the indices are below `SETS`. Only this reader stores to the sets, so ordinary loads do.
    let (first, last) = unsafe {
        let sets = sets.as_ptr().cast();
        (
            _mm512_i32gather_epi64::<8>(first, sets),
            _mm512_i32gather_epi64::<8>(last, sets),
        )
    };
    // both entries of a set beside what the key's would be: equal but for the lower 16 bits?
    let wanted = _mm512_or_si512(_mm512_and_si512(key, all(TAG)), all(generation));
    let twice = _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0);
    let first = equal(first, _mm512_permutexvar_epi32(twice, wanted));
    let twice = _mm512_add_epi32(twice, all(8));
    let last = equal(last, _mm512_permutexvar_epi32(twice, wanted));
    // at most one of a set's two entries is
    let even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    let odd = _mm512_add_epi32(even, all(1));
    let found = _mm512_or_si512(
        _mm512_permutex2var_epi32(first, even, last),
        _mm512_permutex2var_epi32(first, odd, last),
    );
    let id = _mm512_and_si512(found, all(VALID - 1));
    // SAFETY: only the lanes that have a key are stored, and `out` has a place for each.
    unsafe { _mm512_mask_storeu_epi32(out.as_mut_ptr().cast(), live, id) };
    _mm512_mask_testn_epi32_mask(live, found, all(VALID))
}

/// The lower 16 bits of the entries whose upper ones are as wanted; 0 for the others.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
#[inline]
fn equal(entries: __m512i, wanted: __m512i) -> __m512i {
    let differs = _mm512_xor_si512(entries, wanted);
    let equal = _mm512_cmplt_epu32_mask(differs, _mm512_set1_epi32(1 << 16));
    _mm512_maskz_mov_epi32(equal, differs)
}

/// Looks up the keys whose bit is set, and adds to the cache what holds for their /24s.
///
/// # Safety
/// Needs the features of [`Available`], and `keys` as long as `out`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
#[inline(never)]
unsafe fn look_up_missed(
    tree: &Tree,
    cache: &RouteCache,
    (keys, out): (&[u32], &mut [NextHopId]),
    missed: [u64; MOST / STEP],
) {
    let view = View::new(tree);
    let steps = keys.chunks(STEP).zip(out.chunks_mut(STEP));
    for ((keys, out), mut missed) in steps.zip(missed).filter(|(_, missed)| *missed != 0) {
        let (mut some, mut places) = ([0; STEP], [0; STEP]);
        let mut count = 0;
        while missed != 0 {
            let index = missed.trailing_zeros() as usize;
            (some[count % STEP], places[count % STEP]) = (keys[index], index as u8);
            count += 1;
            missed &= missed - 1;
        }
        let mut found = [NextHopId::NO_ROUTE; STEP];
        let (some, found) = (&some[..count], &mut found[..count]);
        // SAFETY: the features are the caller's.
        let deeper = unsafe { step4(view, some, found) };
        if deeper != 0 {
            scalar::lookup4_some(tree, some, found, deeper);
        }
        for (index, (&key, &id)) in some.iter().zip(&*found).enumerate() {
            out[usize::from(places[index])] = id;
            if deeper >> index & 1 == 0 {
                cache.add(key, id);
            }
        }
    }
}
