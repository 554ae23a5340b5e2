//! Benchmarks of the tester's ways to send, beside DPDK's testpmd and what the kernel offers.

mod counter;
pub mod memif;
pub mod pacing;
pub mod veth;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bora_tester::link::Link;
use bora_tester::port_bench::{Options, PortBench};
use bora_tester::ports::{self, Kind, PortSpec};
use bora_tester::traffic::{FrameMix, Stream, Traffic};
use bora_tester::trial::{Bench, TrialSpec};
use bora_wire::MacAddr;
use rustix::thread::{CpuSet, Pid, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use crate::Results;
use crate::cpu::Usage;
use crate::engine::Section;

/// CPU of the sender, and of the receiver.
const CORES: [usize; 2] = [0, 1];
/// Octets of a frame with FCS; ports handle 4 octets less.
const FRAME: u16 = 64;
/// Packets that a sender sends at once.
const BATCH: u32 = 64;
/// Warm-up time.
const SETTLE: Duration = Duration::from_millis(200);
/// Longest time until packets flow.
const PATIENCE: Duration = Duration::from_secs(10);
/// The cases, by flows.
const ONE_FLOW: &str = "1 flow";
const MANY_FLOWS: &str = "8192 flows";
/// Number of flows in the case of many flows, as in KTH08.
const MANY: u32 = 8192;

/// The result of a sender.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// Packets received per second.
    rate: f64,
    /// Packets received per second of the sender's CPU time.
    cpu_rate: f64,
}

/// Results of all senders and rounds.
#[derive(Default)]
struct Samples {
    rates: Results,
    cpu_rates: Results,
}

impl Samples {
    fn add(&mut self, case: &str, subject: &str, sample: Sample) {
        self.rates.add(case, subject, sample.rate);
        self.cpu_rates.add(case, subject, sample.cpu_rate);
    }

    /// Puts the rows into a section, with ratios to `base`.
    fn publish(&self, section: &mut Section, base: &str) {
        let rates = self.rates.rows("throughput", "packets/s", base);
        let cpu = "packets per CPU-second of the sender";
        section.rows = rates;
        section.rows.extend(self.cpu_rates.rows(cpu, "1/s", base));
    }
}

/// Frames of [`FRAME`] octets from port 0 to port `to`.
fn traffic(to: usize, flows: u32) -> Traffic {
    let stream = Stream::new((0, to), [198, 18, 0, 1], [198, 18, 0, 2]);
    Traffic {
        streams: vec![stream.with_flows(flows)],
        frames: FrameMix::of(FRAME),
    }
}

/// Ethernet addresses that no interface has.
fn link() -> Link {
    Link {
        source: MacAddr([2, 0, 0, 0, 0, 1]),
        next_hop: MacAddr([2, 0, 0, 0, 0, 2]),
    }
}

/// A port on one of the CPUs, without addresses, because no neighbour has to be resolved.
fn port(kind: Kind, netns: Option<&str>, core: usize) -> PortSpec {
    PortSpec {
        name: kind.to_string(),
        kind,
        netns: netns.map(Into::into),
        v4: None,
        v6: None,
        speed: None,
        cpu: Some(core as u32),
    }
}

/// Measures the tester on one port at full speed. `count` returns how many packets have been
/// received, `others` the CPU time of this process's threads that do not send.
fn send(
    port: PortSpec,
    flows: u32,
    time: Duration,
    count: &dyn Fn() -> anyhow::Result<u64>,
    others: &dyn Fn() -> anyhow::Result<Duration>,
) -> anyhow::Result<Sample> {
    let ports = ports::open(&[port], Vec::new(), ports::Options::default())?;
    let options = Options {
        drain: Some(Duration::from_millis(5)),
        ..Options::default()
    };
    let mut wire = PortBench::new(ports, options);
    let traffic = std::sync::Arc::new(traffic(0, flows));
    let mut trial = |time| wire.trial(&TrialSpec::steady(traffic.clone(), f64::INFINITY, time));
    trial(SETTLE)?;
    let used = || anyhow::Ok(own_time()?.saturating_sub(others()?));
    let (before, received) = (used()?, count()?);
    let trial = trial(time)?;
    let (used, received) = (used()?.saturating_sub(before), count()? - received);
    ensure!(received > 0, "none of {} packets came", trial.counts().sent);
    Ok(Sample {
        rate: received as f64 / trial.elapsed.as_secs_f64(),
        cpu_rate: received as f64 / used.as_secs_f64(),
    })
}

/// Repeats a failed measurement, because testpmd, for example, sometimes stops sending.
fn patiently(
    name: &str,
    mut measure: impl FnMut() -> anyhow::Result<Sample>,
) -> anyhow::Result<Sample> {
    const TRIES: u32 = 5;
    for _ in 1..TRIES {
        match measure() {
            Ok(sample) => return Ok(sample),
            Err(error) => eprintln!("{name}: {error:#}; once more"),
        }
    }
    measure().with_context(|| name.to_owned())
}

/// Measures a sender that runs until it is stopped.
fn watch(
    time: Duration,
    count: &dyn Fn() -> anyhow::Result<u64>,
    usage: &dyn Fn() -> anyhow::Result<Usage>,
) -> anyhow::Result<Sample> {
    const FLOW: u64 = 1000;
    let (start, none) = (Instant::now(), count()?);
    // Linux may have sent one of them
    while count()? < none + FLOW {
        ensure!(start.elapsed() < PATIENCE, "no packets came");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(SETTLE);
    let (used, received, start) = (usage()?, count()?, Instant::now());
    std::thread::sleep(time);
    let used = usage()?.since(used).ran;
    let (received, elapsed) = (count()? - received, start.elapsed());
    ensure!(received > 0, "no more packets come");
    Ok(Sample {
        rate: received as f64 / elapsed.as_secs_f64(),
        cpu_rate: received as f64 / used.as_secs_f64(),
    })
}

/// CPU time of all threads of this process.
fn own_time() -> anyhow::Result<Duration> {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Ok(Duration::new(
        time.tv_sec.try_into()?,
        time.tv_nsec.try_into()?,
    ))
}

/// Pins a thread to a CPU. Ignores failures, which only make the measurement noisier.
fn pin(thread: Option<Pid>, core: usize) {
    let mut cpus = CpuSet::new();
    cpus.set(core);
    let _ = sched_setaffinity(thread, &cpus);
}

/// Fails if frames do not have the length that all subjects use.
fn same_length(octets: f64) -> anyhow::Result<()> {
    let expected = f64::from(FRAME) - 4.0;
    ensure!(
        (octets - expected).abs() < 0.5,
        "packets of {octets:.1} octets came instead of {expected}"
    );
    Ok(())
}

/// A path for a socket of this process.
fn socket(number: usize) -> std::path::PathBuf {
    let name = format!("bora-bench-tester-{}-{number}", std::process::id());
    std::env::temp_dir().join(name)
}

/// Removes the socket when it is dropped.
struct Socket<'a>(&'a Path);

impl Drop for Socket<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.0);
    }
}

/// Number of the calling thread.
fn thread_id() -> anyhow::Result<u32> {
    let id = rustix::thread::gettid().as_raw_nonzero().get();
    u32::try_from(id).context("a thread's id")
}
