//! Judges what one port receives, in an XDP program.

use std::mem::MaybeUninit;

use anyhow::{Context, ensure};
use hdrhistogram::Histogram;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link as Attachment, MapCore, MapFlags, OpenObject};

use crate::analyse;
use crate::frame::{self, FCS};
use crate::received::{Received, StreamReceived};
use crate::skeleton::receive::{TesterSkel, TesterSkelBuilder, types};
use crate::traffic::{Stream, Traffic};
use crate::trial::new_histogram;
use crate::window::{LONGEST, SHORTEST};

/// `tester/engine/bpf/tester.bpf.c` has the same values.
const STREAMS: usize = 256;
const LENGTHS: usize = 1024;
const WINDOW_WORDS: usize = 1 << 17;
const NOTED_FLOWS: usize = 1 << 17;
/// With more flows, a look into the window takes at most 256 steps.
const NOTED_FLOWS_OF_STREAM: u32 = 4096;
const PART_BITS: u32 = 6;

/// An XDP program on an interface; leaves when dropped.
pub struct Receiver {
    skeleton: TesterSkel<'static>,
    _attached: Attachment,
}

impl Receiver {
    /// A receiver on an interface of this thread's network namespace.
    ///
    /// # Errors
    /// What libbpf says.
    pub fn new(ifindex: u32) -> anyhow::Result<Self> {
        // leaked: a receiver lives as long as the process, which measures and ends
        let object: &'static mut MaybeUninit<OpenObject> =
            Box::leak(Box::new(MaybeUninit::uninit()));
        let open = TesterSkelBuilder::default().open(object);
        let skeleton = open
            .and_then(OpenSkel::load)
            .context("cannot load the receiver (root? Linux 5.18 with BTF?)")?;
        let attached = skeleton.progs.receive.attach_xdp(ifindex as i32);
        Ok(Self {
            _attached: attached.context("cannot attach the receiver (another XDP program?)")?,
            skeleton,
        })
    }

    /// Counts from zero what `port` receives of a trial that starts at `start`, ns of
    /// [`crate::clock::now`].
    ///
    /// # Errors
    /// More than 256 streams or 1024 frame lengths.
    pub fn reset(&mut self, traffic: &Traffic, port: usize, start: u64) -> anyhow::Result<()> {
        traffic.check()?;
        let (count, lengths) = (traffic.streams.len(), &traffic.frames.lengths);
        ensure!(
            count <= STREAMS,
            "XDP ports tell {STREAMS} streams apart, not {count}; use AF_XDP ports or fewer streams"
        );
        ensure!(
            lengths.len() <= LENGTHS,
            "XDP ports know mixes of {LENGTHS} frames, not {}",
            lengths.len()
        );
        self.reset_checksums(traffic)?;
        let bss = self.skeleton.maps.bss_data.as_deref_mut();
        let bss = bss.context("the receiver's memory")?;
        // nothing counts meanwhile
        bss.stream_count = 0;
        bss.words.fill(0);
        bss.latest_of_flow.fill(0);
        bss.lengths[..lengths.len()].copy_from_slice(lengths);
        bss.length_count = lengths.len() as u32;
        bss.start = start;
        let mut layout = Layout::new(traffic, port);
        for (state, stream) in bss.streams.iter_mut().zip(&traffic.streams) {
            layout.set(state, stream, port);
        }
        (bss.foreign, bss.unknown_damaged, bss.other_queues) = (0, 0, 0);
        bss.variations.fill(0);
        (bss.variation_count, bss.least_variation, bss.most_variation) = (0, 0, 0);
        bss.stream_count = count as u32;
        Ok(())
    }

    fn reset_checksums(&self, traffic: &Traffic) -> anyhow::Result<()> {
        let map = &self.skeleton.maps.checksums;
        for key in map.keys() {
            map.delete(&key).context("the receiver's checksums")?;
        }
        for ((length, checksum), id) in analyse::checksums(traffic) {
            let key = u32::from(length) << 16 | u32::from(checksum);
            let (key, id) = (key.to_ne_bytes(), u32::from(id).to_ne_bytes());
            map.update(&key, &id, MapFlags::ANY)
                .context("the receiver's checksums")?;
        }
        Ok(())
    }

    /// What was found since the last reset.
    ///
    /// # Errors
    /// Frames came by another than the interface's first queue, and were not counted.
    pub fn findings(&self) -> anyhow::Result<Received> {
        let bss = self.skeleton.maps.bss_data.as_deref();
        let bss = bss.context("the receiver's memory")?;
        ensure!(
            bss.other_queues == 0,
            "{} frames came by another queue than the interface's first; an XDP port takes one \
             queue (ethtool -L INTERFACE combined 1, or rx 1)",
            bss.other_queues
        );
        let states = bss.streams.iter().take(bss.stream_count as usize);
        Ok(Received {
            streams: states.map(|state| found(state, &bss.words)).collect(),
            unknown_damaged: bss.unknown_damaged,
            foreign: bss.foreign,
            variation: histogram(&bss.variations, bss.least_variation, bss.most_variation),
        })
    }

    /// Frames that came so far, of all kinds but foreign ones: to see when nothing comes any more.
    pub fn arrived(&self) -> u64 {
        let bss = self.skeleton.maps.bss_data.as_deref();
        let states = bss.map_or(&[][..], |bss| &bss.streams[..bss.stream_count as usize]);
        let of_stream = |state: &types::stream| {
            state.received + state.duplicated + state.reordered + state.corrupted + state.misrouted
        };
        let damaged = bss.map_or(0, |bss| bss.unknown_damaged);
        damaged + states.iter().map(of_stream).sum::<u64>()
    }
}

/// Divides the program's memory among the streams.
struct Layout {
    window: usize,
    noted: usize,
    words: usize,
}

impl Layout {
    fn new(traffic: &Traffic, port: usize) -> Self {
        let here = traffic.streams.iter().filter(|stream| stream.to == port);
        let bits = WINDOW_WORDS * 64 / here.count().max(1);
        let bits = bits.clamp(SHORTEST, LONGEST);
        Self {
            window: 0,
            noted: 0,
            // down to a power of two
            words: (1 << bits.ilog2()) / 64,
        }
    }

    fn set(&mut self, state: &mut types::stream, stream: &Stream, port: usize) {
        *state = types::stream {
            here: (stream.to == port).into(),
            v4: frame::is_v4(stream).into(),
            link: (frame::ip_offset(stream) + FCS) as u32,
            flows: stream.flows,
            mask: self.words as u32 - 1,
            ..types::stream::default()
        };
        if state.here == 0 {
            return;
        }
        state.window = self.window as u32;
        self.window += self.words;
        let flows = stream.flows as usize;
        if (2..=NOTED_FLOWS_OF_STREAM).contains(&stream.flows) && self.noted + flows <= NOTED_FLOWS
        {
            state.is_noted = 1;
            state.noted = self.noted as u32;
            self.noted += flows;
        }
    }
}

fn found(state: &types::stream, words: &[u64]) -> StreamReceived {
    StreamReceived {
        received: state.received,
        duplicated: state.duplicated,
        reordered: state.reordered,
        extent_sum: state.extent_sum,
        extent_max: state.extent_max,
        corrupted: state.corrupted,
        misrouted: state.misrouted,
        latency: histogram(&state.latencies, state.shortest, state.longest),
        latest: state.latest,
        next: state.next,
        longest_gap: state.longest_gap,
        last_hole: last_hole(state, words),
    }
}

/// Due time of the frame behind the last hole of which a frame never came.
fn last_hole(state: &types::stream, words: &[u64]) -> Option<u64> {
    let has = |n: u64| {
        let word = state.window as usize + ((n as usize / 64) & state.mask as usize);
        words[word] >> (n % 64) & 1 != 0
    };
    let reach = u64::from(state.mask) + 1;
    let oldest = state.next.div_ceil(64).saturating_sub(reach) * 64;
    let kept = state.holes.len() as u64;
    let newest_first = (state.hole.saturating_sub(kept)..state.hole).rev();
    newest_first
        .map(|number| &state.holes[(number % kept) as usize])
        .find(|hole| hole.first < oldest || (hole.first..hole.end).any(|n| !has(n)))
        .map(|hole| hole.stamp)
}

/// Each slot counts at its middle, but the shortest and the longest latency, which are exact, each
/// for one frame at itself.
fn histogram(slots: &[u64], shortest: u64, longest: u64) -> Histogram<u64> {
    let mut histogram = new_histogram();
    let last = slots.iter().rposition(|&count| count > 0);
    let Some((first, last)) = slots.iter().position(|&count| count > 0).zip(last) else {
        return histogram;
    };
    histogram.saturating_record(shortest);
    let mut extremes = vec![first];
    // with one frame both are the same
    if slots[first] > 1 || last > first {
        histogram.saturating_record(longest);
        extremes.push(last);
    }
    for (slot, &count) in slots.iter().enumerate() {
        let exact = extremes.iter().filter(|&&extreme| extreme == slot).count() as u64;
        if count > exact {
            // no others are beyond the extremes
            let middle = middle_of(slot as u64).clamp(shortest, longest);
            histogram.saturating_record_n(middle, count - exact);
        }
    }
    histogram
}

fn middle_of(slot: u64) -> u64 {
    let parts = 1 << PART_BITS;
    if slot < 2 * parts {
        return slot;
    }
    let shift = slot / parts - 1;
    ((slot % parts + parts) << shift) + (1 << shift) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_are_exact() {
        let mut slots = vec![0; 2048];
        assert!(histogram(&slots, 0, 0).is_empty());
        let slot = |latency: u64| (0..2048).rfind(|&slot| middle_of(slot) <= latency).unwrap();
        let (low, high) = (slot(1000), slot(50_000));
        slots[low as usize] = 1;
        let one = histogram(&slots, 1001, 1001);
        assert_eq!((one.len(), one.min(), one.max()), (1, 1001, 1001));
        slots[low as usize] = 3;
        let same = histogram(&slots, 1001, 1003);
        assert_eq!((same.len(), same.min(), same.max()), (3, 1001, 1003));
        slots[high as usize] = 2;
        let both = histogram(&slots, 1001, 50_003);
        assert_eq!((both.len(), both.min()), (5, 1001));
        assert!(both.equivalent(both.max(), 50_003));
    }
}
