//! Measures the mirror in the calling network namespace: how long the kernel's tables take to
//! load, and how fast changes are followed. Run it inside a namespace of its own:
//! `ip netns exec NAME mirror-load SECONDS`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bora_fib::{FibConfig, PortId};
use bora_kernel::{Mirror, MirrorConfig, Port};

fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap_or_default();
    line.split_whitespace()
        .nth(1)
        .and_then(|kib| kib.parse::<u64>().ok())
        .unwrap_or(0)
        / 1024
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    env_logger::init();
    let seconds: u64 = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "10".into())
        .parse()?;
    let (fib, _readers) = bora_fib::new(FibConfig::default())?;
    let start = Instant::now();
    let mut mirror = Mirror::open(MirrorConfig::default(), fib)?;
    let ports: BTreeMap<u32, Port> = mirror
        .links()
        .values()
        .filter_map(|link| Some((link.index, link.mac?)))
        .zip(0..)
        .map(|((index, mac), n)| {
            (
                index,
                Port {
                    id: PortId(n),
                    mac,
                    mtu: 1500,
                },
            )
        })
        .collect();
    mirror.set_ports(ports)?;
    let status = mirror.status();
    println!(
        "loaded {} + {} routes in {:?}, {} MiB resident",
        status.v4.kernel_routes,
        status.v6.kernel_routes,
        start.elapsed(),
        resident_mib()
    );
    let (mut busy, mut changes, mut first) = (Duration::ZERO, 0, None);
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        let before = cpu();
        let found = mirror.poll(Duration::from_millis(100))?;
        if found.fib > 0 {
            first.get_or_insert_with(Instant::now);
            changes += found.fib;
            busy += cpu() - before;
            println!(
                "{changes} changes {:?} after the first, {busy:?} of CPU",
                first.map(|at| at.elapsed())
            );
        }
    }
    let status = mirror.status();
    println!(
        "in sync {}, overflows {}, reconciliations {}, last {:?}, {} MiB resident",
        status.in_sync,
        status.overflows,
        status.reconciliations,
        status.last_reconciliation,
        resident_mib()
    );
    let start = Instant::now();
    let differences = mirror.verify()?;
    println!(
        "verified in {:?}: {} differences",
        start.elapsed(),
        differences.len()
    );
    differences
        .iter()
        .take(5)
        .for_each(|difference| println!("  {difference}"));
    Ok(())
}

/// CPU time of this process.
fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}
