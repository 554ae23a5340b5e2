//! Rates on the tier-1 tables (or synthetic ones): `cargo run --release -p bora-fib --example timing`.

use std::hint::black_box;
use std::time::Instant;

use bora_fib::{
    FibConfig, Ipv4Table, NextHop, NextHopId, Prefix4, Prefix6, PuntReason, Simd, synthetic,
};

fn median(mut runs: Vec<f64>) -> f64 {
    runs.sort_by(f64::total_cmp);
    runs[runs.len() / 2]
}

fn file<P: std::str::FromStr>(name: &str) -> Option<Vec<(P, u32)>> {
    let path = std::env::var("BORA_TABLES").ok()? + name;
    let text = std::process::Command::new("xzcat")
        .arg(path)
        .output()
        .ok()?;
    let text = String::from_utf8(text.stdout).ok()?;
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    };
    Some(text.lines().filter_map(line).collect())
}

struct Random(u64);
impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

fn zipf(random: &mut Random, flows: usize) -> impl FnMut() -> usize {
    let mut sums: Vec<f64> = vec![];
    for rank in 1..=flows {
        sums.push(sums.last().copied().unwrap_or(0.0) + 1.0 / rank as f64);
    }
    move || {
        let u = (random.next() >> 11) as f64 / (1u64 << 53) as f64 * sums[flows - 1];
        sums.partition_point(|&sum| sum < u)
    }
}

fn rate<K>(name: &str, keys: &[K], look: impl Fn(&[K], &mut [NextHopId])) {
    print!("{name:34}");
    for vector in [1, 8, 32, 64, 256] {
        let mut out = [NextHopId::NO_ROUTE; 256];
        let runs = (0..5).flat_map(|_| {
            keys.chunks(16384)
                .map(|keys| {
                    let start = Instant::now();
                    for keys in keys.chunks(vector) {
                        look(keys, &mut out[..keys.len()]);
                        black_box(&out);
                    }
                    start.elapsed().as_secs_f64() * 1e9 / keys.len() as f64
                })
                .collect::<Vec<_>>()
        });
        print!(" v{vector} {:6.2} ns", median(runs.collect()));
    }
    println!();
}

fn main() {
    let table4: Vec<(Prefix4, u32)> =
        file("/tier1_v4.txt.xz").unwrap_or_else(|| synthetic::ipv4(1, 901_899));
    let table6: Vec<(Prefix6, u32)> =
        file("/tier1_v6.txt.xz").unwrap_or_else(|| synthetic::ipv6(1, 160_147));
    let mut random = Random(88172645463325252);
    let inside4 = |random: &mut Random| {
        let prefix = table4[random.next() as usize % table4.len()].0;
        let host = u32::MAX.checked_shr(prefix.len().into()).unwrap_or(0);
        prefix.addr() | random.next() as u32 & host
    };
    let inside6 = |random: &mut Random| {
        let prefix = table6[random.next() as usize % table6.len()].0;
        let host = u128::MAX.checked_shr(prefix.len().into()).unwrap_or(0);
        let noise = u128::from(random.next()) << 64 | u128::from(random.next());
        (prefix.addr() | noise & host).to_be_bytes()
    };
    let count = 1 << 20;
    let uniform4: Vec<u32> = (0..count).map(|_| (random.next() >> 32) as u32).collect();
    let within4: Vec<u32> = (0..count).map(|_| inside4(&mut random)).collect();
    let flows4: Vec<u32> = (0..8192).map(|_| inside4(&mut random)).collect();
    let within6: Vec<[u8; 16]> = (0..count).map(|_| inside6(&mut random)).collect();
    let flows6: Vec<[u8; 16]> = (0..8192).map(|_| inside6(&mut random)).collect();
    let uniform6: Vec<[u8; 16]> = (0..count)
        .map(|_| {
            let noise = u128::from(random.next()) << 64 | u128::from(random.next());
            (noise >> 3 | 1 << 125).to_be_bytes()
        })
        .collect();
    let mut draw = zipf(&mut random, 8192);
    let picks: Vec<usize> = (0..count).map(|_| draw()).collect();
    drop(draw);
    let zipf4: Vec<u32> = picks.iter().map(|&pick| flows4[pick]).collect();
    let zipf6: Vec<[u8; 16]> = picks.iter().map(|&pick| flows6[pick]).collect();

    for (simd, ipv4) in [
        (Simd::Avx512, Ipv4Table::D),
        (Simd::Avx512, Ipv4Table::Dir24),
        (Simd::Avx2, Ipv4Table::D),
        (Simd::Scalar, Ipv4Table::D),
    ] {
        let config = FibConfig {
            simd,
            ipv4,
            ..FibConfig::default()
        };
        let Ok((mut writer, handle)) = bora_fib::new(config) else {
            continue;
        };
        let punt = NextHop::Punt {
            reason: PuntReason::Local,
            port: None,
        };
        let ids: Vec<_> = (0..256)
            .map(|_| writer.add_next_hop(punt.clone()).unwrap())
            .collect();
        let mut reader = handle.reader().unwrap();
        let bulk4: Vec<_> = table4
            .iter()
            .map(|&(prefix, id)| (prefix, ids[id as usize]))
            .collect();
        let bulk6: Vec<_> = table6
            .iter()
            .map(|&(prefix, id)| (prefix, ids[id as usize]))
            .collect();
        {
            let (mut writer, _handle) = bora_fib::new(config).unwrap();
            for _ in 0..256 {
                writer.add_next_hop(punt.clone()).unwrap();
            }
            let start = Instant::now();
            writer.load4(&bulk4).unwrap();
            let load4 = start.elapsed();
            let start = Instant::now();
            writer.load6(&bulk6).unwrap();
            println!("{simd:?}: bulk {load4:.3?} v4, {:.3?} v6", start.elapsed());
            println!("{ipv4:?} {:?}", writer.stats());
        }
        let start = Instant::now();
        for &(prefix, id) in &table4 {
            writer.insert4(prefix, ids[id as usize]).unwrap();
            reader.quiesce();
        }
        let load4 = start.elapsed();
        let start = Instant::now();
        for &(prefix, id) in &table6 {
            writer.insert6(prefix, ids[id as usize]).unwrap();
            reader.quiesce();
        }
        println!(
            "{simd:?}: one by one {load4:.3?} v4, {:.3?} v6",
            start.elapsed()
        );
        reader.quiesce();
        writer.reclaim();
        println!(
            "{} {}",
            writer.stats().ipv4.table_bytes,
            writer.stats().ipv6.table_bytes
        );
        if simd == Simd::Avx512 {
            let mut update = |name: &str, shortest: u8| {
                let mut times: [Vec<f64>; 3] = Default::default();
                let start = Instant::now();
                let mut done = 0;
                for round in 0..200_000 {
                    let (prefix, id) = table4[random.next() as usize % table4.len()];
                    if prefix.len() < shortest {
                        continue;
                    }
                    for (kind, times) in times.iter_mut().enumerate() {
                        let start = Instant::now();
                        match kind {
                            0 => drop(writer.remove4(prefix)),
                            1 => drop(writer.insert4(prefix, ids[id as usize])),
                            _ => drop(writer.insert4(prefix, ids[id as usize + 1])),
                        }
                        times.push(start.elapsed().as_nanos() as f64);
                        done += 1;
                    }
                    if round % 32 == 0 {
                        reader.quiesce();
                        writer.reclaim();
                    }
                }
                let rate = done as f64 / start.elapsed().as_secs_f64();
                for times in &mut times {
                    times.sort_by(f64::total_cmp);
                }
                let at =
                    |times: &[f64], part: f64| times[(part * (times.len() - 1) as f64) as usize];
                print!("{name}: {:.2} M updates/s;", rate / 1e6);
                for (kind, times) in ["remove", "insert", "replace"].iter().zip(&times) {
                    print!(
                        " {kind} p50 {} p99 {} max {} ns",
                        at(times, 0.5),
                        at(times, 0.99),
                        at(times, 1.0)
                    );
                }
                println!();
            };
            update("v4", 0);
            update("v4 /17 and longer", 17);
            let start = Instant::now();
            for _ in 0..100_000 {
                let (prefix, id) = table6[random.next() as usize % table6.len()];
                writer.remove6(prefix);
                writer.insert6(prefix, ids[id as usize]).unwrap();
                writer.insert6(prefix, ids[id as usize + 1]).unwrap();
                reader.quiesce();
                writer.reclaim();
            }
            println!("v6: {:.2} M updates/s", 0.3 / start.elapsed().as_secs_f64());
            println!(
                "{} {}",
                writer.stats().ipv4.table_bytes,
                writer.stats().ipv6.table_bytes
            );
            for len in 0..=12 {
                let prefix = Prefix4::masked(0x0b00_0000, len);
                let start = Instant::now();
                let old = writer.insert4(prefix, ids[255]).unwrap();
                let took = start.elapsed();
                println!("v4 /{len} insert {took:?}");
                match old {
                    Some(old) => drop(writer.insert4(prefix, old)),
                    None => drop(writer.remove4(prefix)),
                }
                reader.quiesce();
                writer.reclaim();
            }
        }
        let look4 = |keys: &[u32], out: &mut [NextHopId]| reader.lookup4(keys, out);
        let look6 = |keys: &[[u8; 16]], out: &mut [NextHopId]| reader.lookup6(keys, out);
        rate("v4 uniform", &uniform4, look4);
        rate("v4 inside", &within4, look4);
        rate("v4 zipf", &zipf4, look4);
        rate("v6 uniform", &uniform6, look6);
        rate("v6 inside", &within6, look6);
        rate("v6 zipf", &zipf6, look6);
    }
}
