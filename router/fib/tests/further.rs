//! Further tables beside the main one: each is longest match by scanning, and none disturbs another.

mod common;

use std::collections::BTreeMap;

use bora_fib::{
    FibConfig, FibError, FibReader, FibWriter, MAX_TABLES, NextHopId, Prefix4, Prefix6, TableId,
};
use proptest::prelude::*;

const TABLES: usize = 4;

type Model<P> = BTreeMap<(u128, u8), (P, NextHopId)>;

fn naive<P: Copy>(model: &Model<P>, holds: impl Fn(P) -> bool) -> Option<NextHopId> {
    let matching = model.iter().filter(|(_, (prefix, _))| holds(*prefix));
    let best = matching.max_by_key(|((_, len), _)| *len);
    best.map(|(_, (_, id))| *id)
}

fn fib() -> (FibWriter, FibReader, Vec<NextHopId>) {
    let (writer, handle, ids) = common::fib(FibConfig::default(), 8);
    let reader = handle.reader().unwrap();
    (writer, reader, ids)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn ipv4_tables_are_apart(
        updates in prop::collection::vec((0..TABLES, common::crowded(), 0..=32u8, 0..10usize), 1..160),
        bulk in prop::collection::vec((common::crowded(), 0..=32u8, 0..8usize), 0..40),
        keys in prop::collection::vec(common::crowded(), 48),
    ) {
        let (mut writer, mut reader, ids) = fib();
        let mut tables = vec![TableId::MAIN];
        tables.extend((1..TABLES).map(|_| writer.add_table4().unwrap()));
        let mut models: Vec<Model<Prefix4>> = vec![Model::new(); TABLES];
        let mut asked: Vec<u32> = keys.iter().map(|key| (key >> 96) as u32).collect();
        for (number, address, len, id) in updates {
            let prefix = Prefix4::masked((address >> 96) as u32, len);
            asked.push(prefix.addr());
            let key = (u128::from(prefix.addr()), len);
            let (table, model) = (tables[number], &mut models[number]);
            if let Some(&id) = ids.get(id) {
                let old = writer.insert4_in(table, prefix, id).unwrap();
                prop_assert_eq!(old, model.insert(key, (prefix, id)).map(|old| old.1));
            } else if id == 8 || number == 0 {
                let old = writer.remove4_in(table, prefix);
                prop_assert_eq!(old, model.remove(&key).map(|old| old.1));
            } else {
                writer.remove_table4(table);
                prop_assert_eq!(
                    writer.insert4_in(table, prefix, ids[0]),
                    Err(FibError::NoSuchTable(usize::from(table.number().unwrap())))
                );
                tables[number] = writer.add_table4().unwrap();
                model.clear();
            }
            reader.quiesce();
            writer.reclaim();
        }
        let bulk: Vec<_> = bulk
            .into_iter()
            .map(|(address, len, id)| (Prefix4::masked((address >> 96) as u32, len), ids[id]))
            .collect();
        writer.load4_in(tables[1], &bulk).unwrap();
        for (prefix, id) in bulk {
            models[1].insert((u128::from(prefix.addr()), prefix.len()), (prefix, id));
        }
        for (&table, model) in tables.iter().zip(&models) {
            for &key in &asked {
                let expected = naive(model, |prefix| prefix.contains(key));
                prop_assert_eq!(reader.find4(table, key), expected);
                let longest = writer.longest_match4_in(table, key).map(|found| found.1);
                prop_assert_eq!(longest, expected);
            }
            prop_assert_eq!(writer.len4_in(table), model.len());
            let (mut all, mut from) = (vec![], Some(0));
            while let Some(next) = from {
                let (part, next) = writer.part4_in(table, next, 8);
                all.extend(part);
                from = next;
            }
            all.sort();
            let expected: Vec<_> = model.values().copied().collect();
            prop_assert_eq!(all, expected);
        }
        // every use of a next hop has been counted, and given back
        for table in tables {
            writer.remove_table4(table);
        }
        for (prefix, _) in models[0].values() {
            writer.remove4(*prefix);
        }
        for id in ids {
            writer.remove_next_hop(id).unwrap();
        }
    }

    #[test]
    fn ipv6_tables_are_apart(
        updates in prop::collection::vec((0..TABLES, common::crowded(), 0..=128u8, 0..9usize), 1..160),
        keys in prop::collection::vec(common::crowded(), 48),
    ) {
        let (mut writer, mut reader, ids) = fib();
        let mut tables = vec![TableId::MAIN];
        tables.extend((1..TABLES).map(|_| writer.add_table6().unwrap()));
        let mut models: Vec<Model<Prefix6>> = vec![Model::new(); TABLES];
        let mut asked = keys;
        for (number, address, len, id) in updates {
            let prefix = Prefix6::masked(address, len);
            asked.push(prefix.addr());
            let (table, model) = (tables[number], &mut models[number]);
            if let Some(&id) = ids.get(id) {
                writer.insert6_in(table, prefix, id).unwrap();
                model.insert((prefix.addr(), len), (prefix, id));
            } else {
                writer.remove6_in(table, prefix);
                model.remove(&(prefix.addr(), len));
            }
            reader.quiesce();
            writer.reclaim();
        }
        for (&table, model) in tables.iter().zip(&models) {
            for &key in &asked {
                let expected = naive(model, |prefix| prefix.contains(key));
                prop_assert_eq!(reader.find6(table, key.to_be_bytes()), expected);
            }
        }
    }
}

#[test]
fn tables_come_and_go() {
    let (mut writer, mut reader, ids) = fib();
    let tables: Vec<_> = (0..MAX_TABLES)
        .map(|_| writer.add_table4().unwrap())
        .collect();
    assert_eq!(writer.add_table4(), Err(FibError::TablesFull));
    let nodes = writer.stats().ipv4.nodes;
    for (number, &table) in tables.iter().enumerate() {
        let prefix = Prefix4::masked(number as u32 * 77_777, 29);
        writer.insert4_in(table, prefix, ids[0]).unwrap();
    }
    writer.remove_table4(TableId::MAIN); // does nothing
    for table in tables {
        writer.remove_table4(table);
        assert_eq!(reader.find4(table, 0), None);
    }
    reader.quiesce();
    writer.reclaim();
    let stats = writer.stats();
    assert_eq!((stats.ipv4.nodes, stats.ipv4.retired), (nodes, 0));
}

#[test]
fn a_table_without_room_keeps_what_it_has() {
    let config = FibConfig {
        max_bytes4: 64 << 10,
        ..FibConfig::default()
    };
    let (mut writer, handle, ids) = common::fib(config, 2);
    let reader = handle.reader().unwrap();
    let table = writer.add_table4().unwrap();
    let routes: Vec<_> = (0..20_000u32)
        .map(|number| (Prefix4::masked(number << 12 | 0x80, 32), ids[0]))
        .collect();
    let loaded = writer.load4_in(table, &routes).unwrap();
    assert!(!loaded.refused.is_empty() && loaded.added > 100);
    assert_eq!(writer.len4_in(table), loaded.added);
    for (prefix, _) in routes {
        let expected = (!loaded.refused.contains(&prefix)).then_some(ids[0]);
        assert_eq!(reader.find4(table, prefix.addr()), expected);
    }
}

/// 256 VRFs with 10 000 routes each, beside a full table.
#[test]
fn many_tables_beside_a_full_one_fit() {
    let (mut writer, handle, ids) = common::fib(FibConfig::default(), 256);
    let full: Vec<_> = common::table4()
        .into_iter()
        .map(|(prefix, id)| (prefix, ids[id as usize]))
        .collect();
    writer.load4(&full).unwrap();
    let before = writer.stats().ipv4;
    let mut random = common::Random(7);
    for vrf in 0..256u32 {
        let table = writer.add_table4().unwrap();
        let prefix = |_| {
            let number = random.below(1 << 16) as u32;
            let prefix = Prefix4::masked(0x0a00_0000 | number << 8, 24);
            (prefix, ids[(number ^ vrf) as usize % 256])
        };
        let routes: Vec<_> = (0..10_000).map(prefix).collect();
        let loaded = writer.load4_in(table, &routes).unwrap();
        assert!(loaded.refused.is_empty());
    }
    let after = writer.stats().ipv4;
    let each = (after.node_bytes - before.node_bytes) / 256;
    println!("{each} octets of nodes for each VRF of 10 000 routes");
    assert!(each < 200_000, "{each}");
    drop(handle);
}
