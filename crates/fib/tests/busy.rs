//! A few busy /24s, whose results readers may keep until the tables change.

mod common;

use bora_fib::{FibReader, FibWriter, NextHopId, Prefix4};
use common::{fib, tables4};

/// More keys than a reader looks up before it keeps results.
const ENOUGH: usize = 2 << 20;

fn look_up(reader: &mut FibReader, keys: &[u32]) -> Vec<NextHopId> {
    let mut found = vec![NextHopId::NO_ROUTE; keys.len()];
    reader.lookup4(keys, &mut found);
    reader.quiesce();
    found
}

fn agree(reader: &mut FibReader, writer: &FibWriter, keys: &[u32]) {
    let right = |&key: &u32| {
        let found = writer.longest_match4(key);
        found.map_or(NextHopId::NO_ROUTE, |(_, id)| id)
    };
    let right: Vec<_> = keys.iter().map(right).collect();
    // what is missing, then what has been kept
    for _ in 0..3 {
        assert_eq!(look_up(reader, keys), right);
    }
}

#[test]
fn each_change_is_seen_at_once() {
    for config in tables4() {
        let (mut writer, handle, ids) = fib(config, 4);
        let mut reader = handle.reader().unwrap();
        // sets of the cache overlap, and some keys are there twice
        let keys: Vec<u32> = (0..200)
            .map(|n| 0x0a00_0000 + n % 150 * 0x0001_0081 + ((n % 7) << 23))
            .collect();
        writer.insert4(Prefix4::masked(0, 0), ids[0]).unwrap();
        for _ in 0..ENOUGH / keys.len() {
            look_up(&mut reader, &keys);
        }
        for n in 0..600u32 {
            let len = [32, 24, 20, 16, 8, 25, 0][n as usize % 7];
            let prefix = Prefix4::masked(keys[n as usize * 31 % keys.len()], len);
            match n % 5 {
                4 => drop(writer.remove4(prefix)),
                _ => drop(writer.insert4(prefix, ids[n as usize % 4]).unwrap()),
            }
            agree(&mut reader, &writer, &keys);
        }
    }
}
