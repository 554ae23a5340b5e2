//! Bora in place of testpmd: it sends packets back by the memif they came in by.
//!
//! A generator (testpmd, flowgen) on one CPU fills the rings, the subject on the other forwards.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bora_fib_bench::run::Observer;
use bora_port::Queue;
use bora_port::kinds::dpdk;
use bora_port::memif::{Config, Port as Memif, Role};
use bora_port::port::{Options as _, Port as Control, Setup};
use bora_worker::QUOTA;

use super::testpmd::{self, Device, Options, Testpmd};
use super::{Plan, Section, middle};
use crate::cpu::Usage;
use crate::machine::{self, FRAMES, Memory, Port, Running, Settings, Tables};
use crate::packets::MAC;
use bora_fib_bench::report::Report;

const RATE: (&str, &str) = ("throughput", "packets/s");
const CPU_RATE: (&str, &str) = ("packets per CPU-second", "1/s");
const BUSY: (&str, &str) = ("processor time a packet without empty polls", "ns");
const ROUND: (&str, &str) = ("packets a round with packets", "");
pub(crate) const LOG2_RING: u8 = 10;
/// CPU of the generator, and of the subject.
const CORES: [usize; 2] = [0, 1];
/// Longest time until packets flow.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// Warm-up time.
const SETTLE: Duration = Duration::from_millis(200);
/// Huge pages that zero-copy needs, MB.
pub(crate) const HUGE: usize = 160;

#[derive(Clone, Copy, PartialEq)]
enum Subject {
    Bora,
    /// Bora with DPDK's memif in place of its own.
    BoraDpdk,
    Testpmd {
        mode: &'static str,
        zero_copy: bool,
    },
}

const BORA: &str = "bora";
const BORA_DPDK: &str = "bora, kind dpdk";

/// A running subject.
enum Forwarder {
    Bora(Running, Box<dyn Control>),
    Testpmd(Testpmd),
}

/// Runs the benchmark.
///
/// # Errors
/// testpmd fails, or packets do not flow.
pub fn run(plan: Plan) -> anyhow::Result<Section> {
    let mut section = Section::new("memif");
    if !testpmd::is_there() || thread::available_parallelism()?.get() < 2 {
        let note = "Skipped: it takes dpdk-testpmd (`scripts/deps-bench`) and two CPUs.";
        section.notes.push(note.into());
        return Ok(section);
    }
    let huge = free_huge_pages()? >= HUGE;
    if !huge {
        let note = "testpmd with zero-copy is left out: no huge pages.";
        section.notes.push(note.into());
    }
    let folder = Folder::new()?;
    let mut report = Report::default();
    let mut ratios = vec![];
    let mut sockets = 0;
    for round in 1..=plan.rounds {
        eprintln!("memif: round {round} of {}", plan.rounds);
        for role in [Role::Client, Role::Server] {
            let case = match role {
                Role::Client => "as client",
                Role::Server => "as server",
            };
            let mut rates = vec![];
            for (name, subject) in subjects(role, huge) {
                // another socket each time, in case an old server has left one
                sockets += 1;
                let socket = folder.0.join(format!("memif{sockets}"));
                let sample = measure(subject, role, &socket, plan.time)
                    .with_context(|| format!("{name} {case}"))?;
                report.sample(RATE, case, name, sample.rate);
                report.sample(CPU_RATE, case, name, sample.cpu_rate);
                if let Some(packets) = sample.round {
                    report.sample(ROUND, case, name, packets);
                }
                report.sample(BUSY, case, name, sample.busy_ns);
                rates.push(sample.busy_ns);
            }
            ratios.push((role, rates[1] / rates[0]));
        }
    }
    section.notes.push(format!(
        "testpmd (flowgen, 64 bytes, 1024 flows) on CPU {}, the subject on CPU {}; rings of {} \
         slots, bursts of {QUOTA}. As client Bora shares its memory and copies nothing; as server \
         both copy.",
        CORES[0],
        CORES[1],
        1 << LOG2_RING
    ));
    section.rows = report.rows("testpmd macswap");
    for (role, name) in [(Role::Client, "client"), (Role::Server, "server")] {
        let of: Vec<f64> = ratios
            .iter()
            .filter(|(other, _)| *other == role)
            .map(|(_, ratio)| *ratio)
            .collect();
        let ratio = middle(&of);
        section.aim(
            ratio >= 1.0,
            format!("as {name} at least testpmd's macswap, per CPU-second that is not spent waiting: {ratio:.2}"),
        );
    }
    Ok(section)
}

/// The subjects; the first two are compared.
fn subjects(role: Role, huge: bool) -> Vec<(&'static str, Subject)> {
    let testpmd = |mode, zero_copy| Subject::Testpmd { mode, zero_copy };
    let mut subjects = vec![
        (BORA, Subject::Bora),
        ("testpmd macswap", testpmd("macswap", false)),
        ("testpmd mac", testpmd("mac", false)),
    ];
    if cfg!(feature = "dpdk") {
        subjects.push((BORA_DPDK, Subject::BoraDpdk));
    }
    if role == Role::Client && huge {
        subjects.push(("testpmd macswap, zero-copy", testpmd("macswap", true)));
    }
    subjects
}

struct Sample {
    rate: f64,
    cpu_rate: f64,
    busy_ns: f64,
    round: Option<f64>,
}

fn measure(subject: Subject, role: Role, socket: &Path, time: Duration) -> anyhow::Result<Sample> {
    let generator = || {
        let role = if role == Role::Client {
            "server"
        } else {
            "client"
        };
        Testpmd::start(options("generator", CORES[0], role, socket, "flowgen"))
    };
    // the server first, because it makes the socket
    let (mut generator, mut forwarder) = match role {
        Role::Client => {
            let generator = generator()?;
            (generator, Forwarder::start(subject, role, socket)?)
        }
        Role::Server => {
            let forwarder = Forwarder::start(subject, role, socket)?;
            (generator()?, forwarder)
        }
    };
    let start = Instant::now();
    while forwarder.sent()? == 0 {
        if start.elapsed() > PATIENCE {
            let state = forwarder.stop()?;
            bail!("no packets after {PATIENCE:?}; {state}");
        }
        thread::sleep(Duration::from_millis(10));
    }
    thread::sleep(SETTLE);
    let (process, thread_id) = forwarder.thread()?;
    let usage = || Usage::of(process, thread_id);
    let (used, work) = (usage()?, forwarder.work()?);
    let (sent, begin) = (forwarder.sent()?, Instant::now());
    thread::sleep(time);
    let (sent, elapsed) = (forwarder.sent()? - sent, begin.elapsed());
    let (used, work) = (usage()?.since(used), forwarder.work()?.since(work));
    generator.pause()?;
    let (busy, round) = match work {
        Work::Cycles(packets, time) => (time.as_secs_f64() / packets as f64, None),
        Work::Loops(all, idle) => {
            // measure an idle round, with the link up
            thread::sleep(SETTLE);
            let (rest, work) = (usage()?, forwarder.work()?);
            thread::sleep(SETTLE);
            let (rest, work) = (usage()?.since(rest), forwarder.work()?.since(work));
            let Work::Loops(rounds, _) = work else {
                bail!("the forwarder changed its kind");
            };
            let round = rest.ran.as_secs_f64() / rounds as f64;
            let busy = used.ran.as_secs_f64() - idle as f64 * round;
            (busy / sent as f64, Some(sent as f64 / (all - idle) as f64))
        }
    };
    forwarder.stop()?;
    Ok(Sample {
        rate: sent as f64 / elapsed.as_secs_f64(),
        cpu_rate: sent as f64 / used.ran.as_secs_f64(),
        busy_ns: busy * 1e9,
        round,
    })
}

/// A forwarder's counters of its work.
#[derive(Clone, Copy)]
enum Work {
    /// Rounds, and idle ones.
    Loops(u64, u64),
    /// Packets, and the CPU time they took.
    Cycles(u64, Duration),
}

impl Work {
    fn since(self, earlier: Self) -> Self {
        match (self, earlier) {
            (Self::Loops(all, idle), Self::Loops(before, idle_before)) => {
                Self::Loops(all - before, idle - idle_before)
            }
            (Self::Cycles(packets, time), Self::Cycles(before, time_before)) => {
                Self::Cycles(packets - before, time.saturating_sub(time_before))
            }
            _ => self,
        }
    }
}

fn options<'a>(
    name: &'a str,
    core: usize,
    role: &'a str,
    socket: &'a Path,
    mode: &'a str,
) -> Options<'a> {
    Options {
        name,
        core,
        device: Device::Memif {
            role,
            socket,
            zero_copy: false,
        },
        log2_ring_size: LOG2_RING,
        mode,
        burst: QUOTA,
        more: &[],
    }
}

/// Bora's end of a link to testpmd.
pub(crate) fn config(role: Role, socket: &Path) -> Config {
    Config {
        role,
        socket: socket.into(),
        id: 0,
        secret: String::new(),
        name: "bora".into(),
        queues: 1,
        log2_ring_size: LOG2_RING,
        memory: 1 << 40,
    }
}

/// Opens Bora's end of a link, whose queues are with `memory`.
fn open(
    subject: Subject,
    role: Role,
    socket: &Path,
    memory: &Memory,
) -> anyhow::Result<(Box<dyn Control>, Vec<Queue>)> {
    if subject == Subject::Bora {
        let (port, queues) = Memif::open(config(role, socket), memory.region.clone())?;
        let queues = queues.into_iter().map(Queue::Memif).collect();
        return Ok((Box::new(port), queues));
    }
    let role = if role == Role::Client {
        "client"
    } else {
        "server"
    };
    let options = dpdk::Options {
        device: format!(
            "net_memif0,role={role},socket={},socket-abstract=no,rsize={LOG2_RING}",
            socket.display()
        ),
        queue_pairs: 1,
        ring: LOG2_RING,
        eal: None,
    };
    let setup = Setup {
        name: "bora",
        mac: MAC.0,
        region: &memory.region,
        frames: &memory.frames,
    };
    options.open(&setup).map_err(anyhow::Error::from_boxed)
}

impl Forwarder {
    fn start(subject: Subject, role: Role, socket: &Path) -> anyhow::Result<Self> {
        match subject {
            Subject::Testpmd { mode, zero_copy } => {
                let role = if role == Role::Client {
                    "client"
                } else {
                    "server"
                };
                let device = Device::Memif {
                    role,
                    socket,
                    zero_copy,
                };
                let options = Options {
                    device,
                    ..options("subject", CORES[1], role, socket, mode)
                };
                Ok(Self::Testpmd(Testpmd::start(options)?))
            }
            Subject::Bora | Subject::BoraDpdk => {
                // as the router has for such ports: with less room, net_memif takes a longer way
                let size = if subject == Subject::Bora { 2048 } else { 4096 };
                let (tables, memory) = (Tables::default_route(0)?, Memory::of(FRAMES, size)?);
                let (port, queues) = open(subject, role, socket, &memory)?;
                let ports = queues.into_iter().map(Port::from);
                let settings = Settings {
                    core: Some(CORES[1]),
                    ..Settings::default()
                };
                let job = machine::worker(&tables, &memory, &settings, ports.collect())?;
                Ok(Self::Bora(job.start(Instant::now())?, port))
            }
        }
    }

    fn sent(&mut self) -> anyhow::Result<u64> {
        match self {
            Self::Bora(running, port) => {
                port.is_up(); // as the router does, so that its queues know, too
                Ok(running.sent())
            }
            Self::Testpmd(testpmd) => testpmd.packets_sent(),
        }
    }

    fn work(&mut self) -> anyhow::Result<Work> {
        match self {
            Self::Bora(running, _) => {
                let (all, idle) = running.loops();
                Ok(Work::Loops(all, idle))
            }
            Self::Testpmd(testpmd) => {
                let (packets, time) = testpmd.busy()?;
                Ok(Work::Cycles(packets, time))
            }
        }
    }

    fn thread(&self) -> anyhow::Result<(u32, u32)> {
        match self {
            Self::Bora(running, _) => Ok((std::process::id(), running.thread_id())),
            Self::Testpmd(testpmd) => testpmd.thread(),
        }
    }

    /// Stops it and returns a summary. Takes the link down first, so that Bora's worker can end.
    fn stop(self) -> anyhow::Result<String> {
        match self {
            Self::Testpmd(_) => Ok(String::new()),
            Self::Bora(running, port) => {
                let state = port.state().unwrap_or_default();
                port.close();
                Ok(format!("link {state}; {:?}", running.stop()?))
            }
        }
    }
}

/// A temporary folder for sockets.
pub(super) struct Folder(pub(super) PathBuf);

impl Folder {
    pub(super) fn new() -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("bora-bench-{}", std::process::id()));
        fs::create_dir(&path).with_context(|| path.display().to_string())?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Free huge pages of 2 MB, in MB.
pub(crate) fn free_huge_pages() -> anyhow::Result<usize> {
    let meminfo = fs::read_to_string("/proc/meminfo")?;
    let free = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("HugePages_Free:"))
        .unwrap_or("0");
    Ok(free.trim().parse::<usize>()? * 2)
}
