//! Shared by the tests: tables, oracles, keys.
#![allow(dead_code)] // each test file uses only a part

use std::collections::HashMap;
use std::str::FromStr;

use bora_fib::{
    FibConfig, FibError, FibHandle, FibReader, FibWriter, Ipv4Table, NextHop, NextHopId, Prefix4,
    Prefix6, Reason, Simd,
};
use proptest::prelude::*;

pub(crate) fn punt() -> NextHop {
    NextHop::Punt {
        reason: Reason::Local,
        port: None,
    }
}

/// The look-up functions that this CPU supports.
pub(crate) fn kernels() -> Vec<Simd> {
    let works = |simd: &Simd| {
        let config = FibConfig {
            simd: *simd,
            max_next_hops: 1,
            max_bytes4: 4096,
            max_bytes6: 4096,
            ..FibConfig::default()
        };
        !matches!(bora_fib::new(config), Err(FibError::NoSimd(_)))
    };
    let all = [Simd::Scalar, Simd::Avx2, Simd::Avx512];
    all.into_iter().filter(works).collect()
}

/// Configurations for IPv4: the tree with each look-up function, and DIR-24-8.
pub(crate) fn tables4() -> Vec<FibConfig> {
    let mut configs: Vec<_> = kernels().into_iter().map(config).collect();
    configs.push(FibConfig {
        ipv4: Ipv4Table::Dir24,
        ..FibConfig::default()
    });
    configs
}

/// The default configuration with these look-ups.
pub(crate) fn config(simd: Simd) -> FibConfig {
    FibConfig {
        simd,
        ..FibConfig::default()
    }
}

/// A FIB with `ids` next hops, every other one with an id of the range for hosts.
pub(crate) fn fib(config: FibConfig, ids: usize) -> (FibWriter, FibHandle, Vec<NextHopId>) {
    let (mut writer, handle) = bora_fib::new(config).unwrap();
    let ids = (0..ids).map(|number| match number % 2 {
        0 => writer.add_next_hop(punt()).unwrap(),
        _ => writer.add_host(punt()).unwrap(),
    });
    let ids = ids.collect();
    (writer, handle, ids)
}

/// A small random generator, the same on every machine (xorshift64*).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 16) as usize % bound
    }

    pub(crate) fn wide(&mut self) -> u128 {
        u128::from(self.next()) << 64 | u128::from(self.next())
    }
}

/// Longest match by trying each length; addresses are left-aligned.
#[derive(Default)]
pub(crate) struct Naive(HashMap<(u128, u8), NextHopId>);

impl Naive {
    pub(crate) fn set(&mut self, addr: u128, len: u8, id: Option<NextHopId>) -> Option<NextHopId> {
        match id {
            Some(id) => self.0.insert((addr, len), id),
            None => self.0.remove(&(addr, len)),
        }
    }

    pub(crate) fn longest_match(&self, addr: u128) -> NextHopId {
        let masked = |len: u8| Prefix6::masked(addr, len).addr();
        (0..=128u8)
            .rev()
            .find_map(|len| self.0.get(&(masked(len), len)).copied())
            .unwrap_or(NextHopId::NO_ROUTE)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = ((u128, u8), NextHopId)> {
        self.0.iter().map(|(&prefix, &id)| (prefix, id))
    }
}

/// Look-ups in batches of growing length, so that all code for short batches is tested.
pub(crate) fn lookup4(reader: &FibReader, keys: &[u32]) -> Vec<NextHopId> {
    let mut out = vec![NextHopId::NO_ROUTE; keys.len()];
    for (from, to) in batches(keys.len()) {
        reader.lookup4(&keys[from..to], &mut out[from..to]);
    }
    out
}

/// Look-ups of IPv6 in batches, as [`lookup4`] makes them.
pub(crate) fn lookup6(reader: &FibReader, keys: &[u128]) -> Vec<NextHopId> {
    let keys: Vec<_> = keys.iter().map(|key| key.to_be_bytes()).collect();
    let mut out = vec![NextHopId::NO_ROUTE; keys.len()];
    for (from, to) in batches(keys.len()) {
        reader.lookup6(&keys[from..to], &mut out[from..to]);
    }
    out
}

fn batches(len: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut from = 0;
    (0..=256).cycle().map_while(move |size| {
        let batch = (from, (from + size).min(len));
        from = batch.1;
        (batch.0 < len).then_some(batch)
    })
}

/// The tier-1 IPv4 table from the folder named by `BORA_TABLES`, else a synthetic one.
pub(crate) fn table4() -> Vec<(Prefix4, u32)> {
    file("tier1_v4.txt.xz").unwrap_or_else(|| bora_fib_bench::synthetic::ipv4(1, 901_899))
}

/// The tier-1 IPv6 table from there, else a synthetic one.
pub(crate) fn table6() -> Vec<(Prefix6, u32)> {
    file("tier1_v6.txt.xz").unwrap_or_else(|| bora_fib_bench::synthetic::ipv6(1, 160_147))
}

fn file<P: FromStr>(name: &str) -> Option<Vec<(P, u32)>> {
    let path = std::env::var("BORA_TABLES").ok()?;
    let path = std::path::Path::new(&path).join(name);
    let text = std::process::Command::new("xzcat")
        .arg(&path)
        .output()
        .unwrap();
    assert!(text.status.success(), "xzcat {}", path.display());
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    };
    let text = String::from_utf8(text.stdout).unwrap();
    Some(text.lines().filter_map(line).collect())
}

/// Addresses that share leading bits, so that prefixes nest.
pub(crate) fn crowded() -> impl Strategy<Value = u128> {
    (
        prop::sample::select(vec![0, 0x2001_0db8 << 96, 0x0a00_0001 << 96, 0xfe80 << 112]),
        any::<u128>(),
        0..128u32,
    )
        .prop_map(|(base, noise, keep)| base ^ (noise >> keep))
}
