//! Checks the frames that one port receives, and counts them.

use std::collections::HashMap;

use bora_wire::MacAddr;

use crate::arrived::Arrived;
use crate::frame::{self, FCS, Template};
use crate::link::Link;
use crate::received::{Received, StreamReceived};
use crate::signature::{MASK, Signature};
use crate::traffic::{Stream, Traffic};
use crate::trial::{Counts, StreamOutcome, new_histogram};
use crate::window::{Arrival, LONGEST, SHORTEST, Window};

/// Bits that the windows of all streams of a port have together, unless there are very many.
const WINDOW_BITS: usize = LONGEST * 64;

/// What one port receives in one trial. A port has one analyser, however many queues it has.
///
/// - A frame counts as received if it is whole and came where it should, once.
/// - Copies are told from the first within the last 2^20 frames of a stream (fewer, at least 2^12,
///   if more than 64 streams come to the port). A frame that is further behind counts as reordered
///   and stays lost, as it cannot be told from a copy.
/// - Reordering is judged within a flow (RFC 4737, 3.3); copies are not reordered.
/// - A damaged frame counts as corrupted in the stream that its signature names, or, if that is
///   damaged, in the one whose UDP checksum it has; with a sensible stamp and neither, as unknown.
/// - All else is foreign, frames of earlier trials too.
pub struct Analyser {
    port: usize,
    start: u64,
    verify: bool,
    streams: Vec<Expected>,
    findings: Received,
    /// Octets of the IP packet that the nth frame of a stream is, without what VLAN tags take off.
    lengths: Vec<u16>,
    /// Streams by octets of the IP packet and UDP checksum.
    checksums: HashMap<(u16, u16), u16>,
}

/// What is known of a stream beforehand, and which of it came.
struct Expected {
    to: usize,
    v4: bool,
    /// Octets of the frame that are not of the IP packet.
    link: u16,
    /// The window, only where the stream should come out.
    window: Option<Window>,
    /// Number and latency of the frame that came last.
    previous: Option<(u64, u64)>,
}

impl Analyser {
    /// Analyses what `port` receives of a trial that starts at `start`, ns of [`crate::clock::now`].
    /// The traffic must be fit to be sent ([`Traffic::check`]).
    pub fn new(traffic: &Traffic, port: usize, start: u64) -> Self {
        let here = traffic
            .streams
            .iter()
            .filter(|stream| stream.to == port)
            .count();
        let bits = (WINDOW_BITS / here.max(1)).clamp(SHORTEST, LONGEST);
        // down to a power of two
        let bits = 1 << bits.ilog2();
        let streams = traffic.streams.iter();
        let streams = streams.map(|stream| Expected {
            to: stream.to,
            v4: frame::is_v4(stream),
            link: (frame::ip_offset(stream) + FCS) as u16,
            window: (stream.to == port).then(|| Window::new(bits, stream.flows)),
            previous: None,
        });
        Self {
            port,
            start,
            verify: true,
            streams: streams.collect(),
            findings: Received {
                streams: vec![StreamReceived::default(); traffic.streams.len()],
                unknown_damaged: 0,
                foreign: 0,
                variation: new_histogram(),
            },
            lengths: traffic.frames.lengths.clone(),
            checksums: checksums(traffic),
        }
    }

    /// Whether the UDP checksum of each frame is verified, which takes time with its length; it is
    /// unless told otherwise. Without, damage behind the signature is not seen.
    pub fn set_verify(&mut self, verify: bool) {
        self.verify = verify;
    }

    /// Checks and counts a frame (without FCS) that arrived at `arrival`, ns of
    /// [`crate::clock::now`].
    #[inline]
    pub fn receive(&mut self, frame: &[u8], arrival: u64) {
        let Some(arrived) = Arrived::find(frame) else {
            self.findings.foreign += 1;
            return;
        };
        let (signature, right) = Signature::read(arrived.signature);
        if !right {
            self.damaged(&arrived, signature, arrival);
            return;
        }
        let id = usize::from(signature.stream);
        // the difference tells before from after even where the 48 bits begin anew
        let since = signature.stamp.wrapping_sub(self.start) & MASK;
        let (Some(stream), Some(findings)) =
            (self.streams.get_mut(id), self.findings.streams.get_mut(id))
        else {
            self.findings.foreign += 1;
            return;
        };
        if since > MASK / 2 {
            self.findings.foreign += 1;
            return;
        }
        let length = match self.lengths[..] {
            [length] => length,
            ref lengths => lengths[(signature.sequence % lengths.len() as u64) as usize],
        };
        if arrived.v4 != stream.v4
            || !arrived.is_whole(length.saturating_sub(stream.link))
            || (self.verify && !arrived.verify())
        {
            findings.corrupted += 1;
            return;
        }
        let stamp = self.start.wrapping_add(since);
        match &mut stream.window {
            Some(window) if stream.to == self.port => {
                let sequence = signature.sequence;
                let latency = arrival.saturating_sub(stamp);
                if count(findings, window.note(sequence, stamp), stamp, latency) {
                    if let Some((before, other)) = stream.previous
                        && before + 1 == sequence
                    {
                        let variation = &mut self.findings.variation;
                        variation.saturating_record(latency.abs_diff(other));
                    }
                    stream.previous = Some((sequence, latency));
                }
            }
            _ => findings.misrouted += 1,
        }
    }

    #[cold]
    fn damaged(&mut self, arrived: &Arrived<'_>, signature: Signature, arrival: u64) {
        let known = self.checksums.get(&(arrived.length(), arrived.checksum()));
        let since = signature.stamp.wrapping_sub(self.start) & MASK;
        let sensible = since <= arrival.saturating_sub(self.start);
        let id = known.copied().or(sensible.then_some(signature.stream));
        match id.and_then(|id| self.findings.streams.get_mut(usize::from(id))) {
            Some(findings) => findings.corrupted += 1,
            None if sensible => self.findings.unknown_damaged += 1,
            None => self.findings.foreign += 1,
        }
    }

    /// What was found.
    pub fn finish(mut self) -> Received {
        for (stream, findings) in self.streams.iter().zip(&mut self.findings.streams) {
            if let Some(window) = &stream.window {
                findings.next = window.next();
                findings.last_hole = window.last_hole();
            }
        }
        self.findings
    }
}

/// Whether it counts as received.
#[inline]
fn count(findings: &mut StreamReceived, kind: Arrival, stamp: u64, latency: u64) -> bool {
    match kind {
        Arrival::InOrder => {}
        Arrival::Reordered(extent) => {
            findings.reordered += 1;
            findings.extent_sum += extent;
            findings.extent_max = findings.extent_max.max(extent);
        }
        Arrival::Copy => {
            findings.duplicated += 1;
            return false;
        }
        Arrival::TooLate => {
            findings.reordered += 1;
            return false;
        }
    }
    findings.received += 1;
    findings.latency.saturating_record(latency);
    if stamp > findings.latest {
        if findings.latest != 0 {
            findings.longest_gap = findings.longest_gap.max(stamp - findings.latest);
        }
        findings.latest = stamp;
    }
    true
}

/// The UDP checksums by which a stream is known even if its signature is damaged.
pub(crate) fn checksums(traffic: &Traffic) -> HashMap<(u16, u16), u16> {
    let mut lengths = traffic.frames.lengths.clone();
    lengths.sort_unstable();
    lengths.dedup();
    let mut checksums = HashMap::new();
    for (id, stream) in traffic.streams.iter().enumerate() {
        for &length in &lengths {
            let link = Link {
                source: MacAddr::ZERO,
                next_hop: MacAddr::ZERO,
            };
            let template = Template::new(stream, id as u16, link, length);
            if let Some(arrived) = Arrived::find(&template.octets) {
                checksums.insert((arrived.length(), arrived.checksum()), id as u16);
            }
        }
    }
    checksums
}

/// A stream's tail is lost if nothing of what was due in the last `TAIL` ns came: more than a short loss.
const TAIL: u64 = 20_000_000;

/// The outcome of a trial that started at `start`: how many frames were sent of each stream, when
/// the last one was due (ns of [`crate::clock::now`]; 0: none was sent), and what all receivers
/// found. Also returns damaged frames of unknown streams, and foreign frames.
pub fn conclude(
    traffic: &Traffic,
    start: u64,
    sent: &[u64],
    last_due: &[u64],
    parts: &[Received],
) -> (Vec<StreamOutcome>, u64, u64) {
    let outcome = |id: usize, _: &Stream| {
        let parts = parts.iter().filter_map(|part| part.streams.get(id));
        let of = |all: &[u64]| all.get(id).copied().unwrap_or(0);
        outcome(start, of(sent), of(last_due), parts)
    };
    let streams = traffic.streams.iter().enumerate();
    let streams = streams.map(|(id, stream)| outcome(id, stream)).collect();
    let unknown_damaged = parts.iter().map(|part| part.unknown_damaged).sum();
    let foreign = parts.iter().map(|part| part.foreign).sum();
    (streams, unknown_damaged, foreign)
}

fn outcome<'a>(
    start: u64,
    sent: u64,
    last_due: u64,
    parts: impl Iterator<Item = &'a StreamReceived>,
) -> StreamOutcome {
    let mut counts = Counts {
        sent,
        ..Counts::default()
    };
    let mut latency = new_histogram();
    let (mut longest_gap, mut next, mut latest, mut last_loss) = (0, 0, 0, 0);
    // receivers tell the time in ns or in the 48 bits of it
    let after_start = |time: u64| time.wrapping_sub(start) & MASK;
    for part in parts {
        counts.received += part.received;
        counts.duplicated += part.duplicated;
        counts.reordered += part.reordered;
        counts.extent_sum += part.extent_sum;
        counts.extent_max = counts.extent_max.max(part.extent_max);
        counts.corrupted += part.corrupted;
        counts.misrouted += part.misrouted;
        if part.received > 0 {
            // both have the same bounds
            let _ = latency.add(&part.latency);
            latest = latest.max(after_start(part.latest));
        }
        longest_gap = longest_gap.max(part.longest_gap);
        next = next.max(part.next);
        last_loss = last_loss.max(part.last_hole.map_or(0, after_start));
    }
    // until the last frame that was sent, whether it came or not
    let end = if sent > 0 { after_start(last_due) } else { 0 };
    let silence = end.saturating_sub(latest);
    if next < sent {
        last_loss = end;
        longest_gap = longest_gap.max(silence);
    }
    StreamOutcome {
        counts,
        latency,
        longest_gap,
        tail_lost: next < sent && silence > TAIL,
        last_loss: (counts.lost() > 0).then_some(last_loss),
    }
}

#[cfg(test)]
mod tests;
