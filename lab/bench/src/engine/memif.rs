//! Bora in place of testpmd: it sends packets back by the memif they came in by.
//!
//! A generator on one CPU fills the rings, the subject on the other forwards. The generator is testpmd
//! (flowgen), which makes every packet anew, or a light one ([`super::light`]).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bora_fib_bench::run::Observer;
use bora_port::Queue;
use bora_port::kinds::dpdk;
use bora_port::memif::{Port as Memif, Role};
use bora_port::port::{self, Options as _, Port as Control};
use bora_worker::QUOTA;

pub(crate) use super::light::{LOG2_RING, config};
use super::light::{Light, Task};
use super::testpmd::{self, Device, Options, Testpmd};
use super::{Plan, Section, middle};
use crate::cpu::Usage;
use crate::ends;
use crate::machine::{self, FRAMES, Memory, Port, Running, Settings, Tables};
use crate::packets::MAC;
use bora_fib_bench::report::Report;

pub(crate) const RATE: (&str, &str) = ("throughput", "packets/s");
const CPU_RATE: (&str, &str) = ("packets per CPU-second", "1/s");
const BUSY: (&str, &str) = ("processor time a packet without empty polls", "ns");
const ROUND: (&str, &str) = ("packets a round with packets", "");
/// CPU of the generator, and of the subject.
pub(super) const CORES: [usize; 2] = [0, 1];
/// Longest time until packets flow.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// Warm-up time.
const SETTLE: Duration = Duration::from_millis(200);
/// Huge pages that two testpmd and Bora need, MB.
pub(crate) const HUGE: usize = 300;

/// The program that forwards.
#[derive(Clone, Copy)]
pub(crate) enum Subject<'a> {
    Bora,
    /// Bora with DPDK's memif in place of its own.
    BoraDpdk,
    Testpmd {
        mode: &'static str,
        zero_copy: bool,
    },
    /// A DPDK program with a memif, which is started by this command with the arguments of the port.
    Program(&'a dyn Fn(&Device<'_>) -> Command),
    /// None: the packets go back untouched.
    Ends,
}

/// The program that makes packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Plain,
    Light,
}

impl Source {
    /// The case of a subject in this role.
    pub(crate) fn case(self, role: Role) -> String {
        let source = match self {
            Self::Plain => "",
            Self::Light => ", light generator",
        };
        format!("as {}{source}", name(role))
    }
}

const BORA: &str = "bora";
const BORA_DPDK: &str = "bora, kind dpdk";

/// A running subject.
enum Forwarder {
    Bora(Running, Box<dyn Control>),
    Testpmd(Testpmd),
    Program(Child),
    Ends { _light: Light },
}

/// A running generator.
enum Generator {
    Plain(Testpmd),
    Light(Light),
}

/// What is the same for all subjects of a measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup<'a> {
    /// The subject's.
    pub(crate) role: Role,
    pub(crate) socket: &'a Path,
    pub(crate) source: Source,
    /// Whether DPDK's programs have huge pages.
    pub(crate) huge: bool,
    /// The folder of a system that has them, if that is not this one.
    pub(crate) root: Option<&'a Path>,
    pub(crate) time: Duration,
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
    for round in 1..=plan.rounds {
        eprintln!("memif: round {round} of {}", plan.rounds);
        for (role, source) in cases() {
            let case = source.case(role);
            let mut times = vec![];
            for (name, subject) in subjects(role, huge) {
                let setup = Setup {
                    role,
                    socket: &folder.socket(),
                    source,
                    huge,
                    root: None,
                    time: plan.time,
                };
                let sample = measure(subject, setup).with_context(|| format!("{name} {case}"))?;
                report.sample(RATE, &case, name, sample.rate);
                if let Some(work) = sample.work {
                    report.sample(CPU_RATE, &case, name, work.cpu_rate);
                    report.sample(BUSY, &case, name, work.busy_ns);
                    times.push(work.busy_ns);
                    if let Some(packets) = work.round {
                        report.sample(ROUND, &case, name, packets);
                    }
                }
            }
            if source == Source::Plain {
                ratios.push((role, times[1] / times[0]));
            }
        }
    }
    section.notes.push(format!(
        "The generator on CPU {}: testpmd (flowgen, 64 bytes, 1024 flows), or the light one, which sends \
         the same packets again and again; the subject on CPU {}; rings of {} slots, bursts of {QUOTA}. \
         As client Bora shares its memory and copies nothing; as server both copy. `{}` sends back what \
         comes, untouched. DPDK {} huge pages.",
        CORES[0],
        CORES[1],
        1 << LOG2_RING,
        ends::ALONE,
        if huge { "has" } else { "is without" },
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

/// Roles of the subject, and generators.
pub(crate) fn cases() -> impl Iterator<Item = (Role, Source)> {
    let roles = [Role::Client, Role::Server];
    roles.into_iter().flat_map(|role| {
        [Source::Plain, Source::Light]
            .into_iter()
            .map(move |source| (role, source))
    })
}

/// The subjects; the first two are compared.
fn subjects(role: Role, huge: bool) -> Vec<(&'static str, Subject<'static>)> {
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
    subjects.push((ends::ALONE, Subject::Ends));
    subjects
}

/// The result of a measurement.
pub(crate) struct Sample {
    /// Packets that came back to the generator a second.
    pub(crate) rate: f64,
    /// What is known of subjects that tell.
    work: Option<Worked>,
}

struct Worked {
    cpu_rate: f64,
    busy_ns: f64,
    round: Option<f64>,
}

pub(crate) fn measure(subject: Subject<'_>, setup: Setup<'_>) -> anyhow::Result<Sample> {
    // the server first, because it makes the socket
    let (mut generator, mut forwarder) = match setup.role {
        Role::Client => {
            let generator = Generator::start(setup)?;
            (generator, Forwarder::start(subject, setup)?)
        }
        Role::Server => {
            let forwarder = Forwarder::start(subject, setup)?;
            (Generator::start(setup)?, forwarder)
        }
    };
    let start = Instant::now();
    while generator.received()? == 0 {
        if start.elapsed() > PATIENCE {
            let state = forwarder.stop()?;
            bail!("no packets after {PATIENCE:?}; {state}");
        }
        forwarder.tend();
        thread::sleep(Duration::from_millis(10));
    }
    thread::sleep(SETTLE);
    let thread_id = forwarder.thread()?;
    let usage = || {
        thread_id
            .map(|(process, thread)| Usage::of(process, thread))
            .transpose()
    };
    let (used, work) = (usage()?, forwarder.work()?);
    let (count, begin) = (generator.received()?, Instant::now());
    thread::sleep(setup.time);
    let (count, elapsed) = (generator.received()? - count, begin.elapsed());
    let after = (usage()?, forwarder.work()?);
    generator.pause()?;
    let mut sample = Sample {
        rate: count as f64 / elapsed.as_secs_f64(),
        work: None,
    };
    if let (Some(used), Some(work), (Some(now), Some(worked))) = (used, work, after) {
        let (used, work) = (now.since(used), worked.since(work));
        let (busy, round) = match work {
            Work::Cycles(packets, time) => (time.as_secs_f64() / packets as f64, None),
            Work::Loops(all, idle) => {
                // measure an idle round, with the link up
                thread::sleep(SETTLE);
                let (rest, before) = (usage()?.context("a thread")?, worked);
                let before = forwarder.work()?.unwrap_or(before);
                thread::sleep(SETTLE);
                let rest = usage()?.context("a thread")?.since(rest);
                let Some(Work::Loops(rounds, _)) = forwarder.work()?.map(|now| now.since(before))
                else {
                    bail!("the forwarder changed its kind");
                };
                let round = rest.ran.as_secs_f64() / rounds as f64;
                let busy = used.ran.as_secs_f64() - idle as f64 * round;
                let packets = count as f64;
                (busy / packets, Some(packets / (all - idle) as f64))
            }
        };
        sample.work = Some(Worked {
            cpu_rate: count as f64 / used.ran.as_secs_f64(),
            busy_ns: busy * 1e9,
            round,
        });
    }
    forwarder.stop()?;
    Ok(sample)
}

impl Generator {
    fn start(setup: Setup<'_>) -> anyhow::Result<Self> {
        let role = match setup.role {
            Role::Client => Role::Server,
            Role::Server => Role::Client,
        };
        Ok(match setup.source {
            Source::Plain => {
                let options = options("generator", CORES[0], role, setup, "flowgen");
                Self::Plain(Testpmd::start(options)?)
            }
            Source::Light => {
                Self::Light(Light::start(Task::Generate, role, setup.socket, CORES[0])?)
            }
        })
    }

    /// Packets that came back.
    fn received(&mut self) -> anyhow::Result<u64> {
        match self {
            Self::Plain(testpmd) => testpmd.packets_received(),
            Self::Light(light) => Ok(light.received()),
        }
    }

    fn pause(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Plain(testpmd) => testpmd.pause(),
            Self::Light(light) => {
                light.pause();
                Ok(())
            }
        }
    }
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
    role: Role,
    setup: Setup<'a>,
    mode: &'a str,
) -> Options<'a> {
    Options {
        name,
        root: setup.root,
        core,
        device: device(role, setup.socket, false),
        log2_ring_size: LOG2_RING,
        mode,
        burst: QUOTA,
        huge: setup.huge,
        more: &[],
    }
}

fn device(role: Role, socket: &Path, zero_copy: bool) -> Device<'_> {
    Device::Memif {
        role: name(role),
        socket,
        zero_copy,
    }
}

/// DPDK's name of the role.
fn name(role: Role) -> &'static str {
    match role {
        Role::Client => "client",
        Role::Server => "server",
    }
}

/// Bora's end of a link.
type End = (Box<dyn Control>, Vec<Queue>);

/// Opens it with queues in `memory`.
fn open(role: Role, socket: &Path, memory: &Memory) -> anyhow::Result<End> {
    let (port, queues) = Memif::open(config(role, socket), memory.region.clone())?;
    let queues = queues.into_iter().map(Queue::Memif).collect();
    Ok((Box::new(port), queues))
}

/// Opens it with DPDK's driver.
fn open_dpdk(role: Role, socket: &Path, memory: &Memory) -> anyhow::Result<End> {
    let options = dpdk::Options {
        device: format!(
            "net_memif0,role={},socket={},socket-abstract=no,rsize={LOG2_RING}",
            name(role),
            socket.display()
        ),
        queue_pairs: 1,
        ring: LOG2_RING,
        eal: None,
    };
    let setup = port::Setup {
        name: "bora",
        mac: MAC.0,
        region: &memory.region,
        frames: &memory.frames,
    };
    options.open(&setup).map_err(anyhow::Error::from_boxed)
}

impl Forwarder {
    fn start(subject: Subject<'_>, setup: Setup<'_>) -> anyhow::Result<Self> {
        let Setup { role, socket, .. } = setup;
        match subject {
            Subject::Testpmd { mode, zero_copy } => {
                let options = Options {
                    device: device(role, socket, zero_copy),
                    ..options("subject", CORES[1], role, setup, mode)
                };
                Ok(Self::Testpmd(Testpmd::start(options)?))
            }
            Subject::Program(command) => {
                let mut command = command(&device(role, socket, role == Role::Client));
                command.stdin(Stdio::null()).stdout(Stdio::null());
                let child = command.stderr(Stdio::null()).spawn();
                let child = child.with_context(|| format!("cannot start {command:?}"))?;
                let start = Instant::now();
                // a testpmd that finds no server does not try again
                while role == Role::Server && !socket.exists() && start.elapsed() < PATIENCE {
                    thread::sleep(Duration::from_millis(10));
                }
                Ok(Self::Program(child))
            }
            Subject::Ends => {
                let light = Light::start(Task::Reflect, role, socket, CORES[1])?;
                Ok(Self::Ends { _light: light })
            }
            Subject::Bora | Subject::BoraDpdk => {
                let uses_dpdk = matches!(subject, Subject::BoraDpdk);
                // as the router has for such ports: with less room, net_memif takes a longer way
                let size = if uses_dpdk { 4096 } else { 2048 };
                let (tables, memory) = (Tables::default_route(0)?, Memory::of(FRAMES, size)?);
                let (port, queues) = match uses_dpdk {
                    true => open_dpdk(role, socket, &memory)?,
                    false => open(role, socket, &memory)?,
                };
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

    /// Looks whether the link is up, as the router does, so that the queues of Bora's port know, too.
    fn tend(&self) {
        if let Self::Bora(_, port) = self {
            port.is_up();
        }
    }

    /// What it has done, if it tells.
    fn work(&mut self) -> anyhow::Result<Option<Work>> {
        Ok(match self {
            Self::Bora(running, _) => {
                let (all, idle) = running.loops();
                Some(Work::Loops(all, idle))
            }
            Self::Testpmd(testpmd) => {
                let (packets, time) = testpmd.busy()?;
                Some(Work::Cycles(packets, time))
            }
            Self::Program(_) | Self::Ends { .. } => None,
        })
    }

    /// Process and thread that forward, of those that tell.
    fn thread(&self) -> anyhow::Result<Option<(u32, u32)>> {
        Ok(match self {
            Self::Bora(running, _) => Some((std::process::id(), running.thread_id())),
            Self::Testpmd(testpmd) => Some(testpmd.thread()?),
            Self::Program(_) | Self::Ends { .. } => None,
        })
    }

    /// Stops it and returns a summary. Takes the link down first, so that Bora's worker can end.
    fn stop(self) -> anyhow::Result<String> {
        match self {
            Self::Testpmd(_) | Self::Ends { .. } => Ok(String::new()),
            Self::Program(child) => end(child),
            Self::Bora(running, port) => {
                let state = port.state().unwrap_or_default();
                port.close();
                Ok(format!("link {state}; {:?}", running.stop()?))
            }
        }
    }
}

/// Ends a program; returns how it ended.
fn end(mut child: Child) -> anyhow::Result<String> {
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&child),
        rustix::process::Signal::INT,
    )?;
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(3) {
        if let Some(status) = child.try_wait()? {
            return Ok(status.to_string());
        }
        thread::sleep(Duration::from_millis(10));
    }
    child.kill()?;
    Ok(child.wait()?.to_string())
}

/// A temporary folder for sockets.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("bora-bench-{}", std::process::id()));
        fs::create_dir(&path).with_context(|| path.display().to_string())?;
        Ok(Self(path))
    }

    /// A path for a socket, another one each time, in case an old server has left one.
    pub(crate) fn socket(&self) -> PathBuf {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        self.0.join(format!("memif{number}"))
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
