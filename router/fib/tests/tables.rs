//! Tests of whole tables: every /24 after 600 000 updates, bulk loads, limits.

mod common;

use bora_fib::{Adjacency, FibConfig, FibError, NextHop, NextHopId, PortId, Prefix4};
use common::{
    Naive, Random, config, fib, kernels, lookup4, lookup6, punt, table4, table6, tables4,
};

/// The next hop of every /24, painted by length; prefixes longer than /24 are left out.
fn paint(table: &[(Prefix4, NextHopId)]) -> Vec<u32> {
    let mut routes: Vec<_> = table
        .iter()
        .filter(|(prefix, _)| prefix.len() <= 24)
        .collect();
    routes.sort_by_key(|(prefix, _)| prefix.len());
    let mut painted = vec![0; 1 << 24];
    for (prefix, id) in routes {
        let first = (prefix.addr() >> 8) as usize;
        painted[first..first + (1 << (24 - prefix.len()))].fill(id.get());
    }
    painted
}

#[test]
fn every_slash_24_after_600_000_updates() {
    let table = table4();
    let updates = 600_000;
    for config in tables4() {
        let (mut writer, handle, ids) = fib(config, 256);
        let mut reader = handle.reader().unwrap();
        let mut routes: Vec<_> = table
            .iter()
            .map(|&(prefix, id)| (prefix, ids[id as usize]))
            .filter(|(prefix, _)| prefix.len() <= 24)
            .collect();
        let loaded = writer.load4(&routes).unwrap();
        assert_eq!((loaded.added, loaded.replaced), (routes.len(), 0));
        let mut random = Random(3);
        let mut present = vec![true; routes.len()];
        for update in 0..updates {
            let which = random.below(routes.len());
            let (prefix, id) = &mut routes[which];
            if random.below(3) == 0 {
                assert_eq!(writer.remove4(*prefix).is_some(), present[which]);
                present[which] = false;
            } else {
                *id = ids[random.below(256)];
                assert_eq!(
                    writer.insert4(*prefix, *id).unwrap().is_some(),
                    present[which]
                );
                present[which] = true;
            }
            if update % 256 == 0 {
                reader.quiesce();
                writer.reclaim();
            }
        }
        let mut kept = present.iter();
        routes.retain(|_| *kept.next().unwrap());
        assert_eq!(writer.len4(), routes.len());
        let painted = paint(&routes);
        let mut out = [NextHopId::NO_ROUTE; 256];
        for (first, expected) in painted.chunks(256).enumerate() {
            let keys: [u32; 256] = std::array::from_fn(|key| ((first << 8 | key) << 8 | 77) as u32);
            reader.lookup4(&keys, &mut out);
            let same = out.iter().zip(expected).all(|(out, &id)| out.get() == id);
            assert!(same, "{config:?}: somewhere in {first:#x}0000/16");
        }
    }
}

#[test]
fn full_tables_are_small() {
    let (mut writer, _handle) = bora_fib::new(FibConfig::default()).unwrap();
    let ids: Vec<_> = (0..256)
        .map(|_| writer.add_next_hop(punt()).unwrap())
        .collect();
    let routes4: Vec<_> = table4()
        .into_iter()
        .map(|(p, id)| (p, ids[id as usize]))
        .collect();
    let routes6: Vec<_> = table6()
        .into_iter()
        .map(|(p, id)| (p, ids[id as usize]))
        .collect();
    assert!(writer.load4(&routes4).unwrap().refused.is_empty());
    assert!(writer.load6(&routes6).unwrap().refused.is_empty());
    let stats = writer.stats();
    assert!(stats.ipv4.table_bytes < 8_000_000, "{stats:?}");
    assert!(stats.ipv6.table_bytes < 12_000_000, "{stats:?}");
    assert!(
        stats.table_bytes + stats.control_bytes < 64_000_000,
        "{stats:?}"
    );
    // loading the same again changes nothing that readers see
    let again = writer.load4(&routes4).unwrap();
    assert_eq!((again.added, again.replaced), (0, routes4.len()));
    assert_eq!(writer.stats().ipv4.nodes, stats.ipv4.nodes);
    assert_eq!(writer.next_hop_uses(ids[1]) as usize, {
        let uses = |id: NextHopId| id == ids[1];
        routes4.iter().filter(|route| uses(route.1)).count()
            + routes6.iter().filter(|route| uses(route.1)).count()
    });
}

/// A broadband gateway: a million on-link hosts, and 250 000 routes with a gateway each.
#[test]
fn a_million_hosts_have_next_hops_of_their_own() {
    const HOSTS: u32 = 1_000_000;
    const ROUTES: u32 = 250_000;
    let adjacency = |number: u32| {
        let mut l2 = [0; 14];
        l2[..4].copy_from_slice(&number.to_be_bytes());
        NextHop::Forward(Adjacency {
            port: PortId(0),
            mtu: 1500,
            l2,
            unconfirmed: None,
        })
    };
    for config in tables4() {
        let (mut writer, handle) = bora_fib::new(config).unwrap();
        let reader = handle.reader().unwrap();
        let host = |number: u32| 0x6440_0000 + number;
        let route = |number: u32| Prefix4::masked(0x1000_0000 + (number << 8), 24);
        let hosts = (0..HOSTS).map(|number| {
            let id = writer.add_host(adjacency(number)).unwrap();
            (Prefix4::masked(host(number), 32), id)
        });
        let mut routes: Vec<_> = hosts.collect();
        routes.extend((0..ROUTES).map(|number| {
            let id = writer.add_next_hop(adjacency(HOSTS + number)).unwrap();
            (route(number), id)
        }));
        assert_eq!(writer.load4(&routes).unwrap().added, routes.len());
        let check = |keys: Vec<u32>, first: u32| {
            for (number, found) in (first..).zip(lookup4(&reader, &keys)) {
                assert_eq!(reader.next_hop(found), &adjacency(number), "{config:?}");
            }
        };
        check((0..HOSTS).map(host).collect(), 0);
        check((0..ROUTES).map(|n| route(n).addr() | 7).collect(), HOSTS);
        let stats = writer.stats();
        assert_eq!(stats.next_hops, (HOSTS + ROUTES) as usize);
        assert!(stats.next_hop_bytes < 100_000_000, "{stats:?}");
        assert!(stats.ipv4.node_bytes < 16_000_000, "{stats:?}");
        assert!(stats.ipv4.control_bytes < 40_000_000, "{stats:?}");
    }
}

#[test]
fn next_hops_have_a_limit_and_come_back() {
    let config = FibConfig {
        max_next_hops: 40_000,
        ..FibConfig::default()
    };
    let (mut writer, handle) = bora_fib::new(config).unwrap();
    let mut reader = handle.reader().unwrap();
    let mut ids: Vec<_> = (0..20_000)
        .map(|_| writer.add_host(punt()).unwrap())
        .collect();
    ids.extend((0..20_000).map(|_| writer.add_next_hop(punt()).unwrap()));
    let different: std::collections::HashSet<_> = ids.iter().collect();
    assert_eq!(different.len(), 40_000);
    let full = Err(FibError::NextHopsFull(40_000));
    assert_eq!(
        (writer.add_host(punt()), writer.add_next_hop(punt())),
        (full, full)
    );
    assert_eq!(writer.next_hop_room(), 0);
    for id in [ids[0], ids[39_999]] {
        writer.remove_next_hop(id).unwrap();
    }
    assert_eq!(writer.next_hop_room(), 0, "a reader may still hold them");
    reader.quiesce();
    writer.reclaim();
    assert_eq!(writer.next_hop_room(), 2);
    let again = [writer.add_host(punt()), writer.add_next_hop(punt())];
    assert!(again.iter().all(Result::is_ok), "{again:?}");
    assert_eq!(writer.stats().next_hops, 40_000);
}

#[test]
fn ipv6_table_one_by_one_and_in_bulk() {
    let table = table6();
    for simd in kernels() {
        let (mut writer, handle, ids) = fib(config(simd), 256);
        let reader = handle.reader().unwrap();
        let (one, bulk) = table.split_at(table.len() / 2);
        let mut naive = Naive::default();
        for &(prefix, id) in one {
            writer.insert6(prefix, ids[id as usize]).unwrap();
        }
        let bulk: Vec<_> = bulk.iter().map(|&(p, id)| (p, ids[id as usize])).collect();
        writer.load6(&bulk).unwrap();
        for &(prefix, id) in &table {
            naive.set(prefix.addr(), prefix.len(), Some(ids[id as usize]));
        }
        let mut random = Random(11);
        let keys: Vec<u128> = (0..100_000)
            .map(|_| {
                let prefix = table[random.below(table.len())].0;
                let host = u128::MAX.checked_shr(prefix.len().into()).unwrap_or(0);
                prefix.addr() | random.wide() & host
            })
            .collect();
        for (&key, found) in keys.iter().zip(lookup6(&reader, &keys)) {
            assert_eq!(found, naive.longest_match(key), "{key:#x}");
        }
    }
}

#[test]
fn a_bulk_load_that_does_not_fit_says_what_is_missing() {
    let config = FibConfig {
        max_bytes4: 100_000,
        ..FibConfig::default()
    };
    let (mut writer, handle) = bora_fib::new(config).unwrap();
    let mut reader = handle.reader().unwrap();
    let ids: Vec<_> = (0..256)
        .map(|_| writer.add_next_hop(punt()).unwrap())
        .collect();
    let table = bora_fib_bench::synthetic::ipv4(5, 200_000);
    let routes: Vec<_> = table.iter().map(|&(p, id)| (p, ids[id as usize])).collect();
    let loaded = writer.load4(&routes).unwrap();
    assert!(!loaded.refused.is_empty() && loaded.added > 10_000);
    assert_eq!(loaded.added + loaded.refused.len(), routes.len());
    assert_eq!(writer.len4(), loaded.added);
    let stats = writer.stats().ipv4;
    assert!(stats.node_bytes <= 100_000 && stats.refused > 0);
    // look-ups must work as if the refused prefixes had never been loaded
    let mut naive = Naive::default();
    for (prefix, id) in writer.iter4() {
        naive.set(u128::from(prefix.addr()) << 96, prefix.len(), Some(id));
    }
    let keys: Vec<u32> = routes
        .iter()
        .map(|(prefix, _)| prefix.addr())
        .step_by(7)
        .collect();
    for (&key, found) in keys.iter().zip(common::lookup4(&reader, &keys)) {
        assert_eq!(found, naive.longest_match(u128::from(key) << 96));
    }
    // without half of the table there is room for the refused ones
    let gone: Vec<_> = writer
        .iter4()
        .step_by(2)
        .map(|(prefix, _)| prefix)
        .collect();
    for &prefix in &gone {
        assert!(writer.remove4(prefix).is_some());
    }
    reader.quiesce();
    writer.reclaim();
    let some = &loaded.refused[..loaded.refused.len().min(1000)];
    let some: Vec<_> = some.iter().map(|&prefix| (prefix, ids[1])).collect();
    assert!(writer.load4(&some).unwrap().refused.is_empty());
}

#[test]
fn more_specific_prefixes_are_found_at_every_length() {
    let (mut writer, _handle, ids) = fib(tables4()[0], 1);
    let mut random = Random(7);
    // prefixes close together, so that many lie inside others
    let mut prefix = || {
        let len = 1 + random.below(32) as u8;
        Prefix4::masked(0x0A00_0000 | random.below(1 << 20) as u32, len)
    };
    let prefixes: Vec<Prefix4> = (0..300).map(|_| prefix()).collect();
    for &prefix in &prefixes {
        writer.insert4(prefix, ids[0]).unwrap();
    }
    let inside = |outer: Prefix4, inner: &Prefix4| {
        inner.len() > outer.len() && Prefix4::masked(inner.addr(), outer.len()) == outer
    };
    let asked: Vec<Prefix4> = (0..1000)
        .map(|_| prefix())
        .chain(prefixes.clone())
        .collect();
    let mut found = 0;
    for outer in asked.into_iter().chain([Prefix4::masked(0, 0)]) {
        let expected = prefixes.iter().any(|inner| inside(outer, inner));
        assert_eq!(writer.has_more_specific4(outer), expected, "{outer}");
        found += usize::from(expected);
    }
    assert!(found > 100, "{found}");
}
