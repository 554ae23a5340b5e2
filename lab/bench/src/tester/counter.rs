//! The XDP programs at both ends: one counts and drops packets, the other only sends.

use std::mem::MaybeUninit;

use anyhow::Context;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, OpenObject, ProgramInput};

use crate::skeleton::{CountSkel, CountSkelBuilder};

/// The counting program on an interface; it is detached when this is dropped.
pub(super) struct Counter {
    skeleton: CountSkel<'static>,
    _link: Link,
}

impl Counter {
    /// Attaches the program to an interface of the calling thread's network namespace.
    pub(super) fn new(ifindex: u32) -> anyhow::Result<Self> {
        let skeleton = load()?;
        let link = skeleton.progs.count.attach_xdp(ifindex as i32);
        Ok(Self {
            _link: link.context("cannot attach the counting program")?,
            skeleton,
        })
    }

    /// Packets and octets so far.
    pub(super) fn read(&self) -> anyhow::Result<(u64, u64)> {
        let counts = &self.skeleton.maps.counts;
        let cpus = counts.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY)?;
        let cpus = cpus.context("the counters")?;
        let number = |octets: &[u8], at: usize| {
            let octets = octets.get(at..at + 8).and_then(|it| it.try_into().ok());
            octets.map_or(0, u64::from_ne_bytes)
        };
        let sum = |at| cpus.iter().map(|cpu| number(cpu, at)).sum();
        Ok((sum(0), sum(8)))
    }
}

/// Sends identical live frames by BPF_PROG_RUN, as xdp-trafficgen of xdp-tools does, on an
/// interface of the calling thread's network namespace.
pub(super) struct Bare {
    skeleton: CountSkel<'static>,
    /// Attachment to the loopback interface. Without it each run patches the program into the
    /// kernel's XDP dispatcher and waits for RCU.
    _attached: Link,
    frame: Vec<u8>,
}

impl Bare {
    pub(super) fn new(ifindex: u32, frame: Vec<u8>) -> anyhow::Result<Self> {
        let skeleton = load()?;
        let device = ifindex.to_ne_bytes();
        let out = &skeleton.maps.out;
        out.update(&0u32.to_ne_bytes(), &device, MapFlags::ANY)
            .context("the interface accepts no XDP frames")?;
        const LOOPBACK: i32 = 1;
        let attached = skeleton.progs.send.attach_xdp(LOOPBACK);
        Ok(Self {
            _attached: attached.context("cannot attach to the loopback interface")?,
            skeleton,
            frame,
        })
    }

    /// Sends `count` frames.
    pub(super) fn send(&self, count: u32) -> anyhow::Result<()> {
        const BPF_F_TEST_XDP_LIVE_FRAMES: u32 = 1 << 1;
        let input = ProgramInput {
            data_in: Some(&self.frame),
            repeat: count,
            flags: BPF_F_TEST_XDP_LIVE_FRAMES,
            ..ProgramInput::default()
        };
        self.skeleton.progs.send.test_run(input)?;
        Ok(())
    }
}

fn load() -> anyhow::Result<CountSkel<'static>> {
    // leaked, because a process loads only a few
    let object: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
    let open = CountSkelBuilder::default().open(object);
    open.and_then(OpenSkel::load)
        .context("cannot load the benchmark's XDP programs (root?)")
}
