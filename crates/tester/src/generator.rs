//! Sends packets out of one interface.

use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, OpenObject, ProgramInput};

use crate::MAX_FLOWS;
use crate::skeleton::{TesterSkel, TesterSkelBuilder};
use crate::template::Stream;

const BPF_F_TEST_XDP_LIVE_FRAMES: u32 = 1 << 1;
/// Packets of one call when nothing holds the generator back: some milliseconds.
const BURST: u64 = 8192;
/// Packets of one call at a rate: fewer than the 256 places of a veth's ring, also when the generator
/// was late.
const PACED_BURST: u64 = 128;

/// Waits for the kernel's page pools, and how often.
const PAUSE: Duration = Duration::from_millis(50);
const PATIENCE: u32 = 100;

/// Sends in the network namespace of the thread that uses it.
pub struct Generator {
    skeleton: TesterSkel<'static>,
    /// The program also sits on the loopback interface: an attached program is in the kernel's
    /// XDP dispatcher, into which each run would otherwise patch it, and wait for RCU.
    _attached: Link,
}

/// The loopback interface is the first of every network namespace.
const LOOPBACK: i32 = 1;

impl Generator {
    /// A generator on an interface, whose peer must accept XDP frames (it has a program or GRO).
    ///
    /// # Errors
    /// What libbpf says.
    pub fn new(ifindex: u32) -> anyhow::Result<Self> {
        // leaked: lives as long as the process, which measures and ends
        let object: &'static mut MaybeUninit<OpenObject> =
            Box::leak(Box::new(MaybeUninit::uninit()));
        let open = TesterSkelBuilder::default()
            .open(object)
            .context("generator")?;
        let skeleton = open.load().context("generator")?;
        let (slot, device) = (0u32.to_ne_bytes(), ifindex.to_ne_bytes());
        skeleton
            .maps
            .out
            .update(&slot, &device, MapFlags::ANY)
            .context("generator's interface")?;
        let attached = skeleton
            .progs
            .generate
            .attach_xdp(LOOPBACK)
            .context("generator")?;
        Ok(Self {
            skeleton,
            _attached: attached,
        })
    }

    /// Spreads the packets over this many flows (UDP source ports).
    pub fn set_flows(&mut self, flows: u32) {
        if let Some(data) = self.skeleton.maps.data_data.as_deref_mut() {
            data.flows = flows.clamp(1, MAX_FLOWS);
        }
    }

    /// Packets sent so far; the interface may have refused some.
    pub fn sent(&self) -> u64 {
        self.skeleton
            .maps
            .bss_data
            .as_deref()
            .map_or(0, |bss| bss.sequence)
    }

    /// Sends streams in turn, each `weight` parts of the packets, for a time, at `rate` packets a
    /// second or, at 0, as fast as it goes; returns how many packets that were.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn send(
        &mut self,
        streams: &[(Stream, u64)],
        rate: u64,
        time: Duration,
    ) -> anyhow::Result<u64> {
        let frames: Vec<(Vec<u8>, u64)> = streams
            .iter()
            .map(|(stream, weight)| (stream.frame(), *weight))
            .collect();
        let weights: u64 = frames.iter().map(|(_, weight)| weight).sum();
        let start = Instant::now();
        let mut sent = 0;
        while start.elapsed() < time {
            let round = if rate == 0 {
                BURST
            } else {
                let due = (start.elapsed().as_secs_f64() * rate as f64) as u64;
                if due < sent + weights {
                    std::thread::sleep(Duration::from_micros(200));
                    continue;
                }
                (due - sent).min(PACED_BURST)
            };
            for (frame, weight) in &frames {
                let count = (round * weight / weights).max(*weight);
                self.run(frame, count)?;
                sent += count;
            }
        }
        Ok(sent)
    }

    fn run(&mut self, frame: &[u8], count: u64) -> anyhow::Result<()> {
        if let Some(bss) = self.skeleton.maps.bss_data.as_deref_mut() {
            let headers = frame.len().min(bss.headers.len());
            bss.headers[..headers].copy_from_slice(&frame[..headers]);
        }
        for _ in 0..PATIENCE {
            let input = ProgramInput {
                data_in: Some(frame),
                repeat: u32::try_from(count).unwrap_or(u32::MAX),
                flags: BPF_F_TEST_XDP_LIVE_FRAMES,
                ..ProgramInput::default()
            };
            match self.skeleton.progs.generate.test_run(input) {
                // each call takes a page pool, whose number the kernel gives back a second or more
                // later; there are 65534
                Err(error) if is_no_space(&error) => std::thread::sleep(PAUSE),
                done => return done.map(drop).context("send"),
            }
        }
        bail!("the kernel has no page pools left for so many short bursts")
    }
}

fn is_no_space(error: &libbpf_rs::Error) -> bool {
    error.to_string().contains("(os error 28)")
}
