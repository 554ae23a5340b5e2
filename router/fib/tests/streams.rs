//! Compares long random streams of updates with "longest match by trying each length".

mod common;

use bora_fib::{FibConfig, FibError, NextHopId, Prefix4, Prefix6, Simd};
use common::{Naive, Random, config, fib, kernels, lookup4, lookup6, tables4};

/// A prefix close to others: only a few bits vary, at places that depend on the length.
fn prefix(random: &mut Random, bits: u8) -> (u128, u8) {
    let bases = [
        0x2001_0db8_u128 << 96,
        0x2001_0db9 << 96,
        0x0a00_0001 << 96,
        0xfd00_0000 << 96,
        0x3fff_ffff << 96,
        0,
        u128::MAX,
    ];
    let base = bases[random.below(bases.len())];
    let noise = random.wide() >> random.below(bits.into());
    let len = random.below(usize::from(bits) + 1) as u8;
    (Prefix6::masked(base ^ noise, len).addr(), len)
}

/// Addresses at the edges of a prefix and somewhere inside.
fn edges(random: &mut Random, addr: u128, len: u8) -> [u128; 4] {
    let host = u128::MAX.checked_shr(len.into()).unwrap_or(0);
    let last = addr | host;
    let noise = random.wide() & host;
    [addr, last, last.wrapping_add(1), addr | noise]
}

fn stream4(config: FibConfig, operations: usize) {
    let (mut writer, handle, ids) = fib(config, 8);
    let empty = writer.stats().ipv4.table_bytes;
    let mut reader = handle.reader().unwrap();
    let (mut naive, mut random) = (Naive::default(), Random(7));
    let mut keys: Vec<u32> = vec![];
    for operation in 0..operations {
        let (addr, len) = prefix(&mut random, 32);
        let id = ids.get(random.below(12)).copied();
        let known = Prefix4::masked((addr >> 96) as u32, len);
        let addr = u128::from(known.addr()) << 96;
        let old = match id {
            Some(id) => writer.insert4(known, id).unwrap(),
            None => writer.remove4(known),
        };
        assert_eq!(old, naive.set(addr, len, id));
        assert_eq!(writer.get4(known), id);
        keys.extend(edges(&mut random, addr, len).map(|key| (key >> 96) as u32));
        if operation % 64 == 63 {
            for (&key, found) in keys.iter().zip(lookup4(&reader, &keys)) {
                let expected = naive.longest_match(u128::from(key) << 96);
                assert_eq!(found, expected, "{key:#x} after {operation}");
                let listed = writer.longest_match4(key);
                assert_eq!(
                    listed.map_or(NextHopId::NO_ROUTE, |found| found.1),
                    expected
                );
                assert!(listed.is_none_or(|(prefix, _)| prefix.contains(key)));
            }
            keys.clear();
            reader.quiesce();
            writer.reclaim();
        }
    }
    assert_eq!(writer.len4(), naive.len());
    let mut listed: Vec<_> = writer.iter4().collect();
    assert_eq!(listed.len(), naive.len());
    assert!(
        listed
            .iter()
            .all(|&(prefix, id)| writer.get4(prefix) == Some(id))
    );
    // removing all prefixes frees all memory
    listed.sort_unstable();
    for (prefix, _) in listed {
        assert!(writer.remove4(prefix).is_some());
    }
    reader.quiesce();
    writer.reclaim();
    let stats = writer.stats();
    assert_eq!(
        (stats.ipv4.nodes, stats.ipv4.table_bytes, stats.retired),
        (0, empty, 0)
    );
}

/// Returns how many prefixes found no room.
fn stream6(config: FibConfig, operations: usize) -> usize {
    let mut refused = 0;
    let (mut writer, handle, ids) = fib(config, 8);
    let mut reader = handle.reader().unwrap();
    let (mut naive, mut random) = (Naive::default(), Random(9));
    let mut keys: Vec<u128> = vec![];
    for operation in 0..operations {
        let (addr, len) = prefix(&mut random, 128);
        let id = ids.get(random.below(12)).copied();
        let known = Prefix6::masked(addr, len);
        // a short prefix paints up to a million root slots, so do it only now and then
        if (3..8).contains(&len) && operation % 16 != 0 {
            continue;
        }
        let old = match id {
            Some(id) => writer.insert6(known, id),
            None => Ok(writer.remove6(known)),
        };
        match old {
            Ok(old) => assert_eq!(old, naive.set(addr, len, id)),
            Err(error) => {
                assert_eq!(error, FibError::TableFull(config.max_bytes6));
                refused += 1;
            }
        }
        keys.extend(edges(&mut random, addr, len));
        if operation % 64 == 63 {
            for (&key, found) in keys.iter().zip(lookup6(&reader, &keys)) {
                let expected = naive.longest_match(key);
                assert_eq!(found, expected, "{key:#x} after {operation}");
                let listed = writer.longest_match6(key);
                assert_eq!(
                    listed.map_or(NextHopId::NO_ROUTE, |found| found.1),
                    expected
                );
            }
            keys.clear();
            reader.quiesce();
            writer.reclaim();
        }
    }
    let mut listed: Vec<_> = writer.iter6().collect();
    assert_eq!((writer.len6(), listed.len()), (naive.len(), naive.len()));
    listed.sort_unstable();
    for (prefix, _) in listed {
        assert!(writer.remove6(prefix).is_some());
    }
    reader.quiesce();
    writer.reclaim();
    let stats = writer.stats();
    assert_eq!(
        (stats.ipv6.nodes, stats.ipv6.table_bytes, stats.retired),
        (0, 0, 0)
    );
    refused
}

#[test]
fn ipv4_streams_of_120_000_updates() {
    for config in tables4() {
        stream4(config, 120_000);
    }
}

#[test]
fn ipv6_streams_of_120_000_updates() {
    for simd in kernels() {
        assert_eq!(stream6(config(simd), 120_000), 0);
    }
}

/// An update without room changes nothing, whatever paths it would have cut or joined.
#[test]
fn ipv6_streams_in_little_memory() {
    let little = FibConfig {
        max_bytes6: 1 << 15,
        ..config(Simd::Scalar)
    };
    let refused = stream6(little, 60_000);
    assert!(refused > 1000, "{refused}");
}

/// Short enough for Miri: `cargo +nightly miri test -p bora-fib --test streams short`.
#[test]
fn short_streams() {
    let small = FibConfig {
        max_next_hops: 8,
        max_bytes4: 1 << 20,
        max_bytes6: 1 << 20,
        ..config(Simd::Scalar)
    };
    stream4(small, 60);
    assert_eq!(stream6(small, 60), 0);
}
