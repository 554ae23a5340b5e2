//! Compares the tables with "longest match by scanning"; tests of next hops.

mod common;

use std::collections::BTreeMap;

use bora_fib::{
    Adjacency, FibConfig, FibError, FibReader, FibWriter, Group, NextHop, NextHopId, PortId,
    Prefix4, Prefix6, UseMark,
};
use common::{crowded, punt};
use proptest::prelude::*;

fn fib(ids: usize) -> (FibWriter, FibReader, Vec<NextHopId>) {
    fib_with(0, ids)
}

/// An empty FIB with one of the look-up functions that this CPU supports.
fn fib_with(kernel: usize, ids: usize) -> (FibWriter, FibReader, Vec<NextHopId>) {
    let kernels = common::kernels();
    let config = common::config(kernels[kernel % kernels.len()]);
    let (writer, handle, ids) = common::fib(config, ids);
    let reader = handle.reader().unwrap();
    (writer, reader, ids)
}

fn naive<P: Copy>(
    table: &BTreeMap<(u128, u8), (P, NextHopId)>,
    holds: impl Fn(P) -> bool,
) -> NextHopId {
    let matching = table.iter().filter(|(_, (prefix, _))| holds(*prefix));
    matching
        .max_by_key(|((_, len), _)| *len)
        .map_or(NextHopId::NO_ROUTE, |(_, (_, id))| *id)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn ipv4_is_longest_match(
        kernel in 0..3usize,
        updates in prop::collection::vec((crowded(), 0..=32u8, 0..9usize), 1..120),
        keys in prop::collection::vec(crowded(), 64),
    ) {
        let (mut writer, mut reader, ids) = fib_with(kernel, 8);
        let mut model = BTreeMap::new();
        let mut asked: Vec<u32> = keys.iter().map(|key| (key >> 96) as u32).collect();
        for (addr, len, id) in updates {
            let prefix = Prefix4::masked((addr >> 96) as u32, len);
            asked.extend([prefix.addr(), prefix.addr() | u32::MAX.checked_shr(len.into()).unwrap_or(0)]);
            let key = (u128::from(prefix.addr()), len);
            match ids.get(id) {
                Some(&id) => { writer.insert4(prefix, id).unwrap(); model.insert(key, (prefix, id)); }
                None => { prop_assert_eq!(writer.remove4(prefix).is_some(), model.remove(&key).is_some()); }
            }
            reader.quiesce();
            writer.reclaim();
        }
        for chunk in asked.chunks(256) {
            let mut out = vec![NextHopId::NO_ROUTE; chunk.len()];
            reader.lookup4(chunk, &mut out);
            for (&key, out) in chunk.iter().zip(out) {
                prop_assert_eq!(out, naive(&model, |prefix: Prefix4| prefix.contains(key)));
                prop_assert_eq!(writer.longest_match4(key).map_or(NextHopId::NO_ROUTE, |m| m.1), out);
            }
        }
    }

    #[test]
    fn ipv6_is_longest_match(
        kernel in 0..3usize,
        updates in prop::collection::vec((crowded(), 0..=128u8, 0..9usize), 1..120),
        keys in prop::collection::vec(crowded(), 64),
    ) {
        let (mut writer, mut reader, ids) = fib_with(kernel, 8);
        let mut model = BTreeMap::new();
        let mut asked = keys;
        for (addr, len, id) in updates {
            let prefix = Prefix6::masked(addr, len);
            asked.extend([prefix.addr(), prefix.addr() | u128::MAX.checked_shr(len.into()).unwrap_or(0)]);
            let key = (prefix.addr(), len);
            match ids.get(id) {
                Some(&id) => { writer.insert6(prefix, id).unwrap(); model.insert(key, (prefix, id)); }
                None => { prop_assert_eq!(writer.remove6(prefix).is_some(), model.remove(&key).is_some()); }
            }
            reader.quiesce();
            writer.reclaim();
        }
        let octets: Vec<_> = asked.iter().map(|key| key.to_be_bytes()).collect();
        for (chunk, octets) in asked.chunks(256).zip(octets.chunks(256)) {
            let mut out = vec![NextHopId::NO_ROUTE; chunk.len()];
            reader.lookup6(octets, &mut out);
            for (&key, out) in chunk.iter().zip(out) {
                prop_assert_eq!(out, naive(&model, |prefix: Prefix6| prefix.contains(key)));
            }
        }
    }
}

#[test]
fn nodes_come_back_when_prefixes_go() {
    let (mut writer, mut reader, ids) = fib(1);
    let empty = writer.stats().table_bytes;
    for round in 0..3 {
        for host in 0..1000u32 {
            writer
                .insert4(Prefix4::masked(host << 8 | 1, 32), ids[0])
                .unwrap();
            writer
                .insert6(Prefix6::masked(u128::from(host) << 80, 64), ids[0])
                .unwrap();
        }
        for host in 0..1000u32 {
            writer.remove4(Prefix4::masked(host << 8 | 1, 32)).unwrap();
            writer
                .remove6(Prefix6::masked(u128::from(host) << 80, 64))
                .unwrap();
        }
        assert!(
            writer.stats().retired > 0,
            "round {round}: a reader may still be inside"
        );
        reader.quiesce();
        writer.reclaim();
        assert_eq!(writer.stats().table_bytes, empty);
    }
}

#[test]
fn a_full_table_refuses_and_stays_whole() {
    let config = FibConfig {
        max_bytes4: 4096,
        ..FibConfig::default()
    };
    let (mut writer, handle) = bora_fib::new(config).unwrap();
    let mut reader = handle.reader().unwrap();
    let id = writer.add_next_hop(punt()).unwrap();
    let mut fitted: Vec<u32> = vec![];
    let refused = (0..1000)
        .map(|n| 0x0a00_0000 + n * 0x10_0000)
        .find(|&addr| {
            let result = writer.insert4(Prefix4::masked(addr, 24), id);
            if result.is_ok() {
                fitted.push(addr);
            } else {
                assert_eq!(result, Err(FibError::TableFull(4096)));
            }
            result.is_err()
        })
        .expect("one page fills up");
    assert!(fitted.len() >= 250);
    assert_eq!(writer.len4(), fitted.len());
    let check = |reader: &FibReader, addrs: &[u32]| {
        let mut out = vec![NextHopId::NO_ROUTE; addrs.len()];
        reader.lookup4(addrs, &mut out);
        assert!(out.iter().all(|&out| out == id));
        let mut out = [id];
        reader.lookup4(&[refused], &mut out);
        assert_eq!(out, [NextHopId::NO_ROUTE]);
    };
    check(&reader, &fitted);
    // a /8 that would change all nodes is refused as a whole
    let other = writer.add_next_hop(punt()).unwrap();
    let covering = Prefix4::masked(0x0a00_0000, 8);
    assert!(writer.insert4(covering, other).is_err());
    check(&reader, &fitted);
    // room comes back with the first removal that readers have passed
    let gone = fitted.pop().unwrap();
    assert_eq!(writer.remove4(Prefix4::masked(gone, 24)), Some(id));
    reader.quiesce();
    writer.insert4(Prefix4::masked(gone, 24), id).unwrap();
    fitted.push(gone);
    check(&reader, &fitted);
}

#[test]
fn next_hops_live_as_long_as_they_are_used() {
    let (mut writer, mut reader, ids) = fib(2);
    let group = writer
        .add_next_hop(NextHop::Group(Group::new(&[(ids[0], 1), (ids[1], 1)])))
        .unwrap();
    assert_eq!(
        writer.remove_next_hop(ids[0]),
        Err(FibError::NextHopInUse(ids[0].get(), 1))
    );
    let nested = writer.add_next_hop(NextHop::Group(Group::new(&[(group, 1)])));
    assert_eq!(nested, Err(FibError::NestedGroup(group.get())));
    let adjacency = Adjacency {
        port: PortId(3),
        mtu: 1500,
        l2: [0; 14],
        unconfirmed: Some(UseMark::new(1, [10, 0, 0, 1].into())),
    };
    writer
        .set_next_hop(ids[0], NextHop::Forward(adjacency))
        .unwrap();
    assert_eq!(reader.next_hop(ids[0]), &NextHop::Forward(adjacency));
    writer.remove_next_hop(group).unwrap();
    writer.remove_next_hop(ids[0]).unwrap();
    assert_eq!(
        writer.set_next_hop(ids[0], punt()),
        Err(FibError::NoSuchNextHop(ids[0].get()))
    );
    assert_ne!(
        writer.add_next_hop(punt()).unwrap(),
        ids[0],
        "a reader may still hold the id"
    );
    reader.quiesce();
    assert!(writer.reclaim() > 0);
}
