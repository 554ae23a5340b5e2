//! Sends the frames of ports with BPF_PROG_RUN.

use std::fs::File;
use std::mem::MaybeUninit;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use bora_linux::netns;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link as Attachment, MapCore, MapFlags, OpenObject, ProgramInput};

use super::job::{Job, Sent};
use crate::clock;
use crate::link::Link;
use crate::schedule::Schedule;
use crate::skeleton::send::{TesterSendSkel, TesterSendSkelBuilder};
use crate::traffic::Traffic;

const BPF_F_TEST_XDP_LIVE_FRAMES: u32 = 1 << 1;
/// `tester/engine/bpf/tester_send.bpf.c` has the same values.
const SLOTS: usize = 8192;
const PORTS: usize = 16;
/// Length of one call at a rate, ns. Each takes a page pool, whose number the kernel gives back a second or
/// more later, and there are 65534; between two calls nothing is sent, for some 100 us.
const CALL: u64 = 5_000_000;
/// Runs of the program in one call, at least and at most.
const FEWEST_RUNS: f64 = 256.0;
const MOST_RUNS: f64 = 1e6;
/// First guess of how long a run takes, ns.
const RUN: f64 = 200.0;
/// How long after the end frames still leave that were due before, ns.
const OVERTIME: u64 = 100_000_000;
/// Waits for the kernel's page pools, and how often.
const PAUSE: Duration = Duration::from_millis(50);
const PATIENCE: u32 = 100;
/// How much before the next frame a sleep ends, and the longest sleep, ns.
const WAKE_UP: u64 = 200_000;
const LONGEST_SLEEP: u64 = 5_000_000;
/// The interface cannot send XDP frames, or is down.
const EOPNOTSUPP: i32 = rustix::io::Errno::OPNOTSUPP.raw_os_error();
/// The loopback interface is the first of every network namespace.
const LOOPBACK: i32 = 1;

/// Sends for all ports of one CPU: several threads there would take turns of milliseconds each.
pub struct Sender {
    skeleton: TesterSendSkel<'static>,
    /// The program also sits on an interface: an attached program is in the kernel's XDP dispatcher,
    /// into which each run would otherwise patch it, and wait for RCU. It is the loopback interface
    /// of a namespace that nobody else uses, so that it gets no packets, and is always free.
    _attached: Attachment,
    /// That namespace.
    _namespace: File,
    /// Traces transmissions, to count the frames that interfaces refuse.
    _traced: Attachment,
    ports: usize,
    /// How long a run of the program takes, ns, sleeping and sending together.
    run: f64,
    job: Option<Job>,
}

impl Sender {
    /// A sender without ports.
    ///
    /// # Errors
    /// What libbpf says.
    pub fn new() -> anyhow::Result<Self> {
        // leaked: a sender lives as long as the process, which measures and ends
        let object: &'static mut MaybeUninit<OpenObject> =
            Box::leak(Box::new(MaybeUninit::uninit()));
        let open = TesterSendSkelBuilder::default().open(object);
        let skeleton = open
            .and_then(OpenSkel::load)
            .context("cannot load the sender (root? Linux 5.18 with BTF?)")?;
        let traced = skeleton.progs.xmit.attach_trace();
        let attach = move || {
            let attached = skeleton.progs.send.attach_xdp(LOOPBACK);
            (File::open("/proc/thread-self/ns/net"), attached, skeleton)
        };
        let made = netns::in_new(attach).context("cannot make a network namespace; run as root");
        let (namespace, attached, skeleton) = made?;
        Ok(Self {
            _attached: attached.context("cannot attach the sender to a loopback interface")?,
            _namespace: namespace.context("cannot keep a network namespace")?,
            _traced: traced.context("cannot trace what the interface refuses")?,
            skeleton,
            ports: 0,
            run: RUN,
            job: None,
        })
    }

    /// Adds an interface of this thread's network namespace as the next port. It must take XDP
    /// frames: a veth's peer needs a program or GRO.
    ///
    /// # Errors
    /// It takes none, or there are 16 already.
    pub fn add(&mut self, ifindex: u32) -> anyhow::Result<()> {
        let place = self.ports;
        ensure!(place < PORTS, "one CPU sends for {PORTS} XDP ports at most");
        let space = std::fs::metadata("/proc/thread-self/ns/net")
            .context("cannot look at the network namespace")?;
        let (key, device) = ((place as u32).to_ne_bytes(), ifindex.to_ne_bytes());
        let maps = &mut self.skeleton.maps;
        maps.out
            .update(&key, &device, MapFlags::ANY)
            .context("the interface takes no XDP frames")?;
        let bss = maps.bss_data.as_deref_mut().context("no ring")?;
        bss.ports[place].interface = ifindex;
        bss.ports[place].netns = space.ino() as u32;
        self.ports += 1;
        Ok(())
    }

    /// Makes the frames ready from number 0 of the traffic's ports that are this sender's first,
    /// second … port; some may send nothing. `links` has an entry for each stream.
    ///
    /// # Errors
    /// The traffic makes no sense, or has frames longer than [`super::LONGEST`].
    pub fn prepare(
        &mut self,
        traffic: &Traffic,
        ports: &[usize],
        links: &[Link],
    ) -> anyhow::Result<()> {
        let job = Job::new(traffic, ports, links)?;
        let bss = self.skeleton.maps.bss_data.as_deref_mut();
        let bss = bss.context("no ring")?;
        bss.length = job.filling.len() as u32;
        bss.written = 0;
        bss.next = 0;
        for port in &mut bss.ports {
            (port.error, port.first, port.next, port.free) = (0, 0, 0, 0);
        }
        self.job = Some(job);
        Ok(())
    }

    /// Sends all of a schedule that began or begins at `start`, ns of [`clock::now`], or until
    /// `stop` is set.
    ///
    /// # Errors
    /// Nothing is prepared, the kernel fails, or the interfaces take nothing at all.
    pub fn run(
        &mut self,
        schedule: &Schedule,
        start: u64,
        stop: &AtomicBool,
    ) -> anyhow::Result<Sent> {
        while !stop.load(Ordering::Relaxed) {
            let Some(next) = self.send_due(schedule, start)? else {
                break;
            };
            let left = next.saturating_sub(clock::now());
            if left > WAKE_UP {
                let time = (left - WAKE_UP).min(LONGEST_SLEEP);
                std::thread::sleep(Duration::from_nanos(time));
            }
        }
        self.finish()
    }

    /// Sends for some milliseconds what is due in them; returns when the next frame is due, ns of
    /// [`clock::now`], or `None` if everything is sent or the time is over.
    ///
    /// # Errors
    /// Nothing is prepared, or the kernel fails.
    pub fn send_due(&mut self, schedule: &Schedule, start: u64) -> anyhow::Result<Option<u64>> {
        let now = clock::now();
        let elapsed = now.saturating_sub(start);
        let unpaced = now >= start && schedule.unpaced(elapsed);
        let overtime = if unpaced { 0 } else { OVERTIME };
        if elapsed >= schedule.end().saturating_add(overtime) {
            return Ok(None);
        }
        // twice as far ahead as a call should last: it may last longer
        let waiting = self.write(schedule, start, elapsed + 2 * CALL, unpaced)?;
        let Some(first) = self.first_due(schedule, start)? else {
            return Ok(None);
        };
        if waiting == 0 || first > now + WAKE_UP {
            return Ok(Some(first));
        }
        // where frames are far apart, the CPU is left alone between them
        let time = match schedule.interval(self.number()) > (2 * WAKE_UP) as f64 {
            true => first.saturating_sub(now) + WAKE_UP / 4,
            false => CALL,
        };
        let runs = match unpaced {
            true => waiting as f64,
            false => (time as f64 / self.run).clamp(FEWEST_RUNS, MOST_RUNS),
        };
        self.call(runs as u32)?;
        if !unpaced && time == CALL {
            self.run = (self.run + (clock::now() - now) as f64 / runs.floor()) / 2.0;
        }
        self.account(waiting)?;
        self.first_due(schedule, start)
    }

    /// What was sent since [`Self::prepare`].
    ///
    /// # Errors
    /// Nothing was prepared, or the interfaces took nothing at all.
    pub fn finish(&mut self) -> anyhow::Result<Sent> {
        let job = self.job.take().context("no frames prepared")?;
        if let Some(refused) = job.refused_all() {
            let bss = self.skeleton.maps.bss_data.as_deref();
            let errors = bss.iter().flat_map(|bss| &bss.ports).map(|port| port.error);
            let error = match errors.min().unwrap_or_default() {
                0 if job.unqueued == refused => -EOPNOTSUPP,
                error => error,
            };
            if error != 0 {
                bail!(
                    "the interface took none of {refused} XDP frames: {}. It must be up. A veth takes them \
                     if its peer has an XDP program, or GRO that was turned on while both were up: if it \
                     was on before, it shows as on and does not count. Turn it on now: \
                     `ethtool -K PEER gro off; ethtool -K PEER gro on`",
                    std::io::Error::from_raw_os_error(-error)
                );
            }
        }
        Ok(job.into_sent())
    }

    /// Fills the ring with frames due until `horizon`, ns after the start; returns how many wait.
    fn write(
        &mut self,
        schedule: &Schedule,
        start: u64,
        horizon: u64,
        unpaced: bool,
    ) -> anyhow::Result<usize> {
        let bss = self.skeleton.maps.bss_data.as_deref_mut();
        let (bss, job) = bss.zip(self.job.as_mut()).context("no frames prepared")?;
        let mut waiting = bss.written.wrapping_sub(bss.next) as usize;
        // what was paced goes first
        while waiting < SLOTS && job.due(schedule).is_some_and(|due| due <= horizon) {
            let slot = &mut bss.slots[bss.written as usize % SLOTS];
            if !job.write(slot, schedule, start, unpaced) {
                break;
            }
            bss.written = bss.written.wrapping_add(1);
            waiting += 1;
        }
        Ok(waiting)
    }

    /// When the next frame is due that was not sent yet, ns of [`clock::now`].
    fn first_due(&self, schedule: &Schedule, start: u64) -> anyhow::Result<Option<u64>> {
        let bss = self.skeleton.maps.bss_data.as_deref();
        let (bss, job) = bss.zip(self.job.as_ref()).context("no frames prepared")?;
        if bss.written != bss.next {
            return Ok(Some(bss.slots[bss.next as usize % SLOTS].due));
        }
        Ok(job.due(schedule).map(|due| start + due))
    }

    /// Number of the frame of the schedule that is written next.
    fn number(&self) -> u64 {
        self.job.as_ref().map_or(0, Job::number)
    }

    fn call(&mut self, runs: u32) -> anyhow::Result<()> {
        let job = self.job.as_ref().context("no frames prepared")?;
        for _ in 0..PATIENCE {
            let input = ProgramInput {
                data_in: Some(&job.filling),
                repeat: runs,
                flags: BPF_F_TEST_XDP_LIVE_FRAMES,
                ..ProgramInput::default()
            };
            match self.skeleton.progs.send.test_run(input) {
                Err(error) if is_no_space(&error) => std::thread::sleep(PAUSE),
                // a signal, such as Ctrl-C, ends a call early
                Err(error) if error.kind() == libbpf_rs::ErrorKind::Interrupted => return Ok(()),
                done => return done.map(drop).context("BPF_PROG_RUN"),
            }
        }
        bail!("the kernel has no page pools left for so many short calls")
    }

    /// Notes what became of the frames that are done of those that were `waiting` before the call.
    fn account(&mut self, waiting: usize) -> anyhow::Result<()> {
        let bss = self.skeleton.maps.bss_data.as_deref_mut();
        let (bss, job) = bss.zip(self.job.as_mut()).context("no frames prepared")?;
        let first = bss.written.wrapping_sub(waiting as u32);
        for number in 0..bss.next.wrapping_sub(first) {
            job.account(&bss.slots[first.wrapping_add(number) as usize % SLOTS]);
        }
        // a call leaves nothing in the interfaces' queues
        for port in &mut bss.ports {
            (port.first, port.next) = (0, 0);
        }
        Ok(())
    }
}

fn is_no_space(error: &libbpf_rs::Error) -> bool {
    error.to_string().contains("(os error 28)")
}
