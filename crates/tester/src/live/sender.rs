//! Sends the frames of one port with BPF_PROG_RUN.

use std::fs::File;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use bora_port::netns;
use hdrhistogram::Histogram;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link as Attachment, MapCore, MapFlags, OpenObject, ProgramInput};

use crate::check::SHORTEST;
use crate::clock;
use crate::frame::{self, FCS};
use crate::generate::Generator;
use crate::link::Link;
use crate::pacer::Pacer;
use crate::schedule::Schedule;
use crate::signature::at;
use crate::skeleton::send::{TesterSendSkel, TesterSendSkelBuilder};
use crate::traffic::Traffic;
use crate::trial::new_histogram;

/// Longest frame, octets with FCS: what a page holds beside the kernel's own.
pub const LONGEST: u16 = 3300;

const BPF_F_TEST_XDP_LIVE_FRAMES: u32 = 1 << 1;
/// As in `xdp/tester_send.bpf.c`: first octets of a frame that are written for each.
const HEAD: usize = 88;
/// Frames of one call as fast as it goes; as in `xdp/tester_send.bpf.c`.
const BURST: u64 = 8192;
/// Frames of one call at a rate: fewer than the 256 places of a veth's ring.
const PACED_BURST: u64 = 128;
/// Shortest time between calls that send less than that, ns. Each call takes a page pool, whose
/// number the kernel gives back a second or more later; there are 65534, for all senders together.
const BETWEEN_CALLS: u64 = 100_000;
/// Senders with frames prepared, in this process: they share the page pools' numbers.
static BUSY: AtomicU64 = AtomicU64::new(0);
/// How long after the end frames still leave that were due before, ns.
const OVERTIME: u64 = 100_000_000;
/// Waits for the kernel's page pools, and how often.
const PAUSE: Duration = Duration::from_millis(50);
const PATIENCE: u32 = 100;
/// How much before the next frame a sleep ends, and the longest sleep, ns.
const WAKE_UP: u64 = 100_000;
const LONGEST_SLEEP: u64 = 5_000_000;
/// The interface cannot send XDP frames, or is down.
const EOPNOTSUPP: i32 = rustix::io::Errno::OPNOTSUPP.raw_os_error();
/// The loopback interface is the first of every network namespace.
const LOOPBACK: i32 = 1;

/// Frames that a port sent.
#[derive(Clone, Debug)]
pub struct Sent {
    /// By stream of the traffic; what the interface refused is not in it.
    pub streams: Vec<u64>,
    /// Frames that the interface refused, by stream.
    pub refused: Vec<u64>,
    /// By stream, when the last frame was due, be it refused or not, ns of [`clock::now`]: as fast as
    /// it goes, when the call that sent it began. 0 if there is none.
    pub last_due: Vec<u64>,
    /// How late frames left, ns, at most: until the call that sent them was over. Empty as fast as
    /// it goes.
    pub lateness: Histogram<u64>,
}

/// Sends in the network namespace of the thread that uses it.
pub struct Sender {
    skeleton: TesterSendSkel<'static>,
    /// The program also sits on an interface: an attached program is in the kernel's XDP dispatcher,
    /// into which each run would otherwise patch it, and wait for RCU. It is the loopback interface
    /// of a namespace that nobody else uses, so that it gets no packets, and is always free.
    _attached: Attachment,
    /// That namespace.
    _apart: File,
    /// Hears what the interface refuses.
    _traced: Attachment,
    job: Option<Job>,
}

/// Counts in [`BUSY`].
struct Busy;

impl Busy {
    fn new() -> Self {
        BUSY.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        BUSY.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What is being sent.
struct Job {
    _busy: Busy,
    generator: Generator,
    /// One frame, as the generator writes it.
    frame: Vec<u8>,
    /// What the kernel fills its frames with.
    filling: Vec<u8>,
    pacer: Pacer,
    /// Frames of the schedule handed out so far.
    number: u64,
    /// When the next call may be.
    next_call: u64,
    /// By stream.
    refused: Vec<u64>,
    /// Frames that the kernel did not even queue for the interface.
    unqueued: u64,
    lateness: Histogram<u64>,
}

impl Sender {
    /// A sender on an interface of this thread's network namespace, which must take XDP frames: a
    /// veth's peer needs a program or GRO.
    ///
    /// # Errors
    /// What libbpf says.
    pub fn new(ifindex: u32) -> anyhow::Result<Self> {
        // leaked: a sender lives as long as the process, which measures and ends
        let object: &'static mut MaybeUninit<OpenObject> =
            Box::leak(Box::new(MaybeUninit::uninit()));
        let open = TesterSendSkelBuilder::default().open(object);
        let skeleton = open
            .and_then(OpenSkel::load)
            .context("cannot load the sender (root? Linux 5.18 with BTF?)")?;
        let (slot, device) = (0u32.to_ne_bytes(), ifindex.to_ne_bytes());
        let maps = &skeleton.maps;
        maps.out
            .update(&slot, &device, MapFlags::ANY)
            .context("the interface takes no XDP frames")?;
        let traced = skeleton.progs.xmit.attach_trace();
        let attach = move || {
            let attached = skeleton.progs.send.attach_xdp(LOOPBACK);
            (File::open("/proc/thread-self/ns/net"), attached, skeleton)
        };
        let apart = netns::in_new(attach).context("cannot make a network namespace; run as root");
        let (namespace, attached, skeleton) = apart?;
        Ok(Self {
            _attached: attached.context("cannot attach the sender to a loopback interface")?,
            _apart: namespace.context("cannot keep a network namespace")?,
            _traced: traced.context("cannot hear what the interface refuses")?,
            skeleton,
            job: None,
        })
    }

    /// Makes the frames of `port` ready, from number 0; `links` has an entry for each stream.
    ///
    /// # Errors
    /// The traffic makes no sense, or has frames longer than [`LONGEST`].
    pub fn prepare(
        &mut self,
        traffic: &Traffic,
        port: usize,
        links: &[Link],
    ) -> anyhow::Result<()> {
        let generator = Generator::new(traffic, port, links)?;
        let lengths = traffic.frames.lengths.iter();
        let longest = lengths.copied().max().unwrap_or_default();
        ensure!(
            longest <= LONGEST,
            "frames of {longest} octets do not fit a page: XDP ports send up to {LONGEST}; use an \
             AF_XDP or AF_PACKET port"
        );
        let octets = usize::from(longest).max(usize::from(SHORTEST)) - FCS;
        let octets = match octets {
            octets if octets + FCS > usize::from(SHORTEST) => octets.max(HEAD),
            octets => octets,
        };
        self.job = Some(Job {
            _busy: Busy::new(),
            generator,
            frame: vec![0; octets.max(HEAD)],
            filling: frame::filling(octets),
            pacer: Pacer::new(),
            number: 0,
            next_call: 0,
            refused: vec![0; traffic.streams.len()],
            unqueued: 0,
            lateness: new_histogram(),
        });
        if let Some(bss) = self.skeleton.maps.bss_data.as_deref_mut() {
            bss.error = 0;
        }
        Ok(())
    }

    /// Sends all of a schedule that began or begins at `start`, ns of [`clock::now`], or until
    /// `stop` is set.
    ///
    /// # Errors
    /// Nothing is prepared, the kernel fails, or the interface takes nothing at all.
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
            } else if left > 0 {
                std::hint::spin_loop();
            }
        }
        self.finish()
    }

    /// Sends some of what is due now; returns when to call again, ns of [`clock::now`], or `None`
    /// if everything is sent or the time is over.
    ///
    /// # Errors
    /// Nothing is prepared, or the kernel fails.
    pub fn send_due(&mut self, schedule: &Schedule, start: u64) -> anyhow::Result<Option<u64>> {
        let job = self.job.as_mut().context("no frames prepared")?;
        let now = clock::now();
        if now < start.max(job.next_call) {
            return Ok(Some(start.max(job.next_call)));
        }
        let elapsed = now - start;
        let unpaced = schedule.unpaced(elapsed);
        let overtime = if unpaced { 0 } else { OVERTIME };
        if elapsed >= schedule.end().saturating_add(overtime) || schedule.due(job.number).is_none()
        {
            return Ok(None);
        }
        let most = if unpaced { BURST } else { PACED_BURST };
        let count = job.pacer.allow(schedule, job.number, elapsed, most);
        if count > 0 {
            let first = job.number;
            self.write(count, schedule, start, unpaced.then_some(elapsed))?;
            self.call(count)?;
            self.account(first..first + count, schedule, start, unpaced);
        }
        let job = self.job.as_mut().context("no frames prepared")?;
        // full calls take their time anyway
        job.next_call = if count == most {
            0
        } else {
            now + BETWEEN_CALLS * BUSY.load(Ordering::Relaxed).max(1)
        };
        let due = schedule.due(job.number);
        Ok(due.map(|due| (start + due).max(job.next_call)))
    }

    /// What was sent since [`Self::prepare`].
    ///
    /// # Errors
    /// Nothing was prepared, or the interface took nothing at all.
    pub fn finish(&mut self) -> anyhow::Result<Sent> {
        let job = self.job.take().context("no frames prepared")?;
        let mut streams = job.generator.sent();
        for (sent, refused) in streams.iter_mut().zip(&job.refused) {
            *sent = sent.saturating_sub(*refused);
        }
        let refused: u64 = job.refused.iter().sum();
        let error = self.skeleton.maps.bss_data.as_deref();
        let error = error.map_or(0, |bss| bss.error);
        let error = match error {
            0 if job.unqueued == refused => -EOPNOTSUPP,
            error => error,
        };
        if refused > 0 && error != 0 && streams.iter().all(|&sent| sent == 0) {
            bail!(
                "the interface took none of {refused} XDP frames: {} (is it up? A veth's peer needs \
                 an XDP program, or GRO: ethtool -K PEER gro on)",
                std::io::Error::from_raw_os_error(-error)
            );
        }
        Ok(Sent {
            streams,
            last_due: job.generator.last_due(),
            refused: job.refused,
            lateness: job.lateness,
        })
    }

    /// Writes the next frames' first octets for the program, which stamps them anew if they are not
    /// paced, but sent at this time.
    fn write(
        &mut self,
        count: u64,
        schedule: &Schedule,
        start: u64,
        unpaced: Option<u64>,
    ) -> anyhow::Result<()> {
        let bss = self.skeleton.maps.bss_data.as_deref_mut();
        let (bss, job) = bss.zip(self.job.as_mut()).context("no frames prepared")?;
        for slot in bss.slots.iter_mut().take(count as usize) {
            let due = unpaced.or_else(|| schedule.due(job.number));
            let due = due.unwrap_or_default();
            let length = job.generator.write(&mut job.frame, start + due);
            for (word, octets) in slot.words.iter_mut().zip(job.frame.chunks_exact(8)) {
                *word = u64::from_ne_bytes(octets.try_into().unwrap_or_default());
            }
            slot.length = length as u16;
            slot.signature = signature_of(&job.frame) as u16;
            slot.refused = 0;
            job.number += 1;
        }
        bss.stamping = unpaced.is_some().into();
        bss.length = job.filling.len() as u32;
        bss.flushed = 0;
        bss.next = 0;
        bss.count = count as u32;
        Ok(())
    }

    fn call(&mut self, count: u64) -> anyhow::Result<()> {
        let job = self.job.as_ref().context("no frames prepared")?;
        for _ in 0..PATIENCE {
            let input = ProgramInput {
                data_in: Some(&job.filling),
                repeat: count as u32,
                flags: BPF_F_TEST_XDP_LIVE_FRAMES,
                ..ProgramInput::default()
            };
            match self.skeleton.progs.send.test_run(input) {
                Err(error) if is_no_space(&error) => std::thread::sleep(PAUSE),
                done => return done.map(drop).context("BPF_PROG_RUN"),
            }
        }
        bail!("the kernel has no page pools left for so many short calls")
    }

    /// Notes what was refused, and how late the rest was.
    fn account(
        &mut self,
        numbers: std::ops::Range<u64>,
        schedule: &Schedule,
        start: u64,
        unpaced: bool,
    ) {
        let now = clock::now();
        let bss = self.skeleton.maps.bss_data.as_deref_mut();
        let Some((bss, job)) = bss.zip(self.job.as_mut()) else {
            return;
        };
        // those that never came to the interface's bulk queue did not leave either
        let flushed = bss.flushed as usize;
        job.unqueued += (numbers.end - numbers.start).saturating_sub(flushed as u64);
        bss.count = 0;
        for (place, (slot, number)) in bss.slots.iter().zip(numbers).enumerate() {
            if slot.refused != 0 || place >= flushed {
                let stream = usize::from(stream_of(&slot.words, slot.signature));
                if let Some(refused) = job.refused.get_mut(stream) {
                    *refused += 1;
                }
            } else if !unpaced {
                let due = start + schedule.due(number).unwrap_or_default();
                job.lateness.saturating_record(now.saturating_sub(due));
            }
        }
    }
}

/// Where the signature of one of our own frames starts.
fn signature_of(frame: &[u8]) -> usize {
    let ip = if frame[12..14] == [0x81, 0x00] {
        18
    } else {
        14
    };
    let header = if frame[ip] >> 4 == 4 { 20 } else { 40 };
    ip + header + bora_wire::udp::HEADER_LEN
}

fn stream_of(words: &[u64], signature: u16) -> u16 {
    let octet = |at: usize| words[at / 8].to_ne_bytes()[at % 8];
    let first = usize::from(signature) + at::STREAM;
    u16::from_be_bytes([octet(first), octet(first + 1)])
}

fn is_no_space(error: &libbpf_rs::Error) -> bool {
    error.to_string().contains("(os error 28)")
}
