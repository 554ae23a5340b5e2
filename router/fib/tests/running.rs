//! Readers that check every answer while a writer runs at full speed.

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bora_fib::{FibConfig, NextHop, NextHopId, Prefix4, Prefix6};
use common::{fib, punt, tables4};

const UPDATES: u32 = 60_000;

/// Prefixes come and go with next hop `ids[1]` or `ids[2]`, below a covering prefix with `ids[0]`.
/// Readers may see only these.
fn run(config: FibConfig) {
    let (mut writer, handle, ids) = fib(config, 3);
    writer
        .insert4(Prefix4::masked(0x0a00_0000, 8), ids[0])
        .unwrap();
    writer
        .insert6(Prefix6::masked(0x2001_0db8 << 96, 32), ids[0])
        .unwrap();
    writer
        .insert6(Prefix6::masked(0xfd << 120, 8), ids[0])
        .unwrap();
    let keys4: Vec<u32> = (0..256).map(|n| 0x0a00_0105 ^ n << (n % 17)).collect();
    let keys6: Vec<[u8; 16]> = (0..256u128)
        .map(|n| {
            if n % 8 == 0 {
                0xfd << 120
            } else {
                0x2001_0db8 << 96 | n << (n % 89)
            }
        })
        .map(|key| key.to_be_bytes())
        .collect();
    let (done, checked) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let mut reader = handle.reader().unwrap();
            let (done, checked, ids, keys4, keys6) = (&done, &checked, &ids, &keys4, &keys6);
            scope.spawn(move || {
                let mut out = [NextHopId::NO_ROUTE; 256];
                while !done.load(Ordering::Relaxed) {
                    reader.lookup4(keys4, &mut out);
                    assert!(out.iter().all(|out| ids.contains(out)), "{out:?}");
                    // outside what changes
                    reader.lookup4(&[0x0b00_0000, 0x0aff_ffff], &mut out[..2]);
                    assert_eq!(out[..2], [NextHopId::NO_ROUTE, ids[0]]);
                    reader.lookup6(keys6, &mut out);
                    assert!(out.iter().all(|out| ids.contains(out)), "{out:?}");
                    let objects = out.iter().map(|&id| reader.next_hop(id));
                    for object in objects {
                        assert!(matches!(object, NextHop::Punt { .. } | NextHop::Blackhole));
                    }
                    checked.fetch_add(514, Ordering::Relaxed);
                    if checked.load(Ordering::Relaxed) % 7 == 0 {
                        reader.offline();
                        reader.online();
                    }
                    reader.quiesce();
                }
            });
        }
        for round in 0..UPDATES {
            let id = ids[1 + (round % 2) as usize];
            let four = Prefix4::masked(0x0a00_0105, 9 + (round % 24) as u8);
            let six = Prefix6::masked(0x2001_0db8 << 96 | 0x42, 33 + (round % 96) as u8);
            let unique_local = Prefix6::masked(0xfd << 120, 9 + (round % 120) as u8);
            writer.insert4(four, id).unwrap();
            writer.insert6(six, id).unwrap();
            writer.insert6(unique_local, id).unwrap();
            if round % 3 != 0 {
                writer.remove4(four);
                writer.remove6(six);
                writer.remove6(unique_local);
            }
            let object = if round % 2 == 0 {
                NextHop::Blackhole
            } else {
                punt()
            };
            writer.set_next_hop(ids[2], object).unwrap();
            writer.reclaim();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(checked.load(Ordering::Relaxed) > 0);
}

#[test]
fn every_answer_is_that_before_or_after_an_update() {
    for config in tables4() {
        run(config);
    }
}
