//! Receives, checks and counts.

use std::mem::MaybeUninit;
use std::time::Duration;

use anyhow::Context;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, OpenObject};

use crate::skeleton::{TesterSkel, TesterSkelBuilder};

/// What arrived since the last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SinkCounters {
    /// Packets.
    pub packets: u64,
    /// Octets, without FCS.
    pub bytes: u64,
    /// Packets that came after a later one of their flow (RFC 4737).
    pub reordered: u64,
    /// Packets that came twice in a row.
    pub duplicated: u64,
    /// Longest silence between two packets, if watched.
    pub longest_gap: Duration,
}

/// An XDP program on an interface; leaves when dropped.
pub struct Sink {
    skeleton: TesterSkel<'static>,
    _link: Link,
}

impl Sink {
    /// A sink on an interface of the calling thread's network namespace.
    ///
    /// # Errors
    /// What libbpf says.
    pub fn new(ifindex: u32) -> anyhow::Result<Self> {
        // leaked: lives as long as the process, which measures and ends
        let object: &'static mut MaybeUninit<OpenObject> =
            Box::leak(Box::new(MaybeUninit::uninit()));
        let open = TesterSkelBuilder::default().open(object).context("sink")?;
        let skeleton = open.load().context("sink")?;
        let link = skeleton
            .progs
            .sink
            .attach_xdp(ifindex as i32)
            .context("attach the sink")?;
        Ok(Self {
            skeleton,
            _link: link,
        })
    }

    /// Starts counting from zero.
    pub fn reset(&mut self, watch_gaps: bool) {
        if let Some(bss) = self.skeleton.maps.bss_data.as_deref_mut() {
            bss.watch_gaps = watch_gaps.into();
            bss.received = 0;
            bss.received_bytes = 0;
            bss.reordered = 0;
            bss.duplicated = 0;
            bss.last_arrival = 0;
            bss.longest_gap = 0;
            bss.last_of_flow.fill(0);
        }
    }

    /// The counters now.
    pub fn counters(&self) -> SinkCounters {
        let Some(bss) = self.skeleton.maps.bss_data.as_deref() else {
            return SinkCounters::default();
        };
        SinkCounters {
            packets: bss.received,
            bytes: bss.received_bytes,
            reordered: bss.reordered,
            duplicated: bss.duplicated,
            longest_gap: Duration::from_nanos(bss.longest_gap),
        }
    }

    /// Waits until nothing has arrived for a moment; returns the counters then.
    pub fn drained(&self) -> SinkCounters {
        let mut before = self.counters();
        for _ in 0..50 {
            std::thread::sleep(Duration::from_millis(40));
            let now = self.counters();
            if now.packets == before.packets {
                return now;
            }
            before = now;
        }
        before
    }
}
