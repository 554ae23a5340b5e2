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

    /// Starts counting from zero, and watches gaps and latencies if asked; that costs two readings of
    /// the clock for each packet.
    pub fn reset(&mut self, watch_times: bool) {
        if let Some(bss) = self.skeleton.maps.bss_data.as_deref_mut() {
            bss.watch_times = watch_times.into();
            bss.received = 0;
            bss.received_bytes = 0;
            bss.reordered = 0;
            bss.duplicated = 0;
            bss.last_arrival = 0;
            bss.longest_gap = 0;
            bss.latencies.fill(0);
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

    /// Latencies from the generator's stamp to here, if watched. Both must be on one machine.
    pub fn latencies(&self) -> Latencies {
        let bss = self.skeleton.maps.bss_data.as_deref();
        Latencies(bss.map_or_else(Vec::new, |bss| bss.latencies.to_vec()))
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

/// Parts of an octave in the program's histogram (`PARTS` in `xdp/tester.bpf.c`).
const PARTS: usize = 16;

/// Latencies of many packets, to a sixteenth.
#[derive(Clone, Debug, Default)]
pub struct Latencies(Vec<u64>);

impl Latencies {
    /// The latency that this share of the packets, 0 to 1, did not exceed; `None` without packets.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let all: u64 = self.0.iter().sum();
        let rank = ((all as f64 * share).ceil() as u64).max(1);
        let mut below = 0;
        let slot = self.0.iter().position(|&count| {
            below += count;
            below >= rank
        })?;
        let (octave, part) = (slot / PARTS, slot % PARTS);
        // the upper end of the slot
        let nanoseconds = match octave {
            0..4 => part as u64,
            _ => ((PARTS + part + 1) as u64) << (octave - 4),
        };
        Some(Duration::from_nanos(nanoseconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_upper_ends_of_slots() {
        let mut slots = vec![0; 40 * PARTS];
        slots[10 * PARTS] = 99; // 1024 to 1087 ns
        slots[20 * PARTS + 15] = 1; // just below 2 ms
        let latencies = Latencies(slots);
        assert_eq!(latencies.quantile(0.5), Some(Duration::from_nanos(1088)));
        assert_eq!(latencies.quantile(0.99), Some(Duration::from_nanos(1088)));
        assert_eq!(latencies.quantile(1.0), Some(Duration::from_nanos(1 << 21)));
        assert_eq!(Latencies::default().quantile(0.5), None);
    }
}
