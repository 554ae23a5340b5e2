//! What a sender sends in one trial: frames of several ports in the order in which they are due, in
//! a ring that the BPF program reads.

use anyhow::ensure;
use hdrhistogram::Histogram;

use crate::check::SHORTEST;
use crate::clock;
use crate::frame::{self, FCS};
use crate::generate::Generator;
use crate::link::Link;
use crate::pacer::CATCH_UP;
use crate::schedule::Schedule;
use crate::skeleton::send::types;
use crate::traffic::Traffic;
use crate::trial::new_histogram;

/// First octets of a frame that are written for each; `tester/engine/bpf/tester_send.bpf.c` has the same
/// value.
const HEAD: usize = 88;
/// `tester/engine/bpf/tester_send.bpf.c` has the same value.
const LEFT: u8 = 1;

/// Longest frame, octets with FCS: what a page holds beside the kernel's own.
pub const LONGEST: u16 = 3300;

/// Frames that ports sent.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Frames by stream of the traffic; what the interface refused is not in it.
    pub streams: Vec<u64>,
    /// Frames that the interface refused, by stream.
    pub refused: Vec<u64>,
    /// When the last frame was due, by stream, be it refused or not, ns of [`crate::clock::now`]; as fast as
    /// it goes, when it was sent. 0 if there is none.
    pub last_due: Vec<u64>,
    /// How late frames left, ns. Empty as fast as it goes.
    pub lateness: Histogram<u64>,
    /// When sending ended, ns of [`crate::clock::now`].
    pub ended: u64,
}

/// What is being sent.
pub(super) struct Job {
    parts: Vec<Part>,
    /// The part whose frame is written next: all have frame k before the first has frame k + 1.
    turn: usize,
    /// Frames of the schedule that every part has written.
    number: u64,
    /// One frame, as the generators write it.
    frame: Vec<u8>,
    /// What the kernel fills its frames with.
    pub(super) filling: Vec<u8>,
    sent: Sent,
    /// Frames that the kernel did not even queue for an interface.
    pub(super) unqueued: u64,
}

/// What one port sends.
struct Part {
    /// The sender's number of the port.
    place: u8,
    generator: Generator,
}

impl Job {
    /// The frames of `ports`, which are the sender's first, second … port, and of which some may
    /// send nothing; `links` has an entry for each stream.
    ///
    /// # Errors
    /// The traffic makes no sense, or has frames longer than [`LONGEST`].
    pub(super) fn new(traffic: &Traffic, ports: &[usize], links: &[Link]) -> anyhow::Result<Self> {
        let lengths = traffic.frames.lengths.iter();
        let longest = lengths.copied().max().unwrap_or_default();
        ensure!(
            longest <= LONGEST,
            "frames of {longest} octets do not fit a page: XDP ports send up to {LONGEST}; use an \
             AF_XDP or AF_PACKET port"
        );
        let octets = match usize::from(longest.max(SHORTEST)) - FCS {
            octets if octets + FCS > usize::from(SHORTEST) => octets.max(HEAD),
            octets => octets,
        };
        let senders = traffic.senders();
        let mut parts = Vec::new();
        for (place, &port) in ports.iter().enumerate() {
            if senders.contains(&port) {
                let generator = Generator::new(traffic, port, links)?;
                let place = place as u8;
                parts.push(Part { place, generator });
            }
        }
        let streams = traffic.streams.len();
        Ok(Self {
            parts,
            turn: 0,
            number: 0,
            frame: vec![0; octets.max(HEAD)],
            filling: frame::filling(octets),
            sent: Sent {
                streams: vec![0; streams],
                refused: vec![0; streams],
                last_due: vec![0; streams],
                lateness: new_histogram(),
                ended: 0,
            },
            unqueued: 0,
        })
    }

    /// Number of the frame of the schedule that is written next.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// When the next frame that is not written yet is due, ns after the start.
    pub(super) fn due(&self, schedule: &Schedule) -> Option<u64> {
        schedule.due(self.number).filter(|_| !self.parts.is_empty())
    }

    /// Writes the next frame; `false` if the schedule has none. `unpaced`: it is due now, whatever
    /// the schedule says.
    pub(super) fn write(
        &mut self,
        slot: &mut types::slot,
        schedule: &Schedule,
        start: u64,
        unpaced: bool,
    ) -> bool {
        let (Some(due), Some(part)) = (self.due(schedule), self.parts.get_mut(self.turn)) else {
            return false;
        };
        let next = schedule.due(self.number + 1).unwrap_or(due);
        (slot.stream, slot.signature) = part.generator.next_signature();
        slot.length = part.generator.write(&mut self.frame, start + due) as u16;
        for (word, octets) in slot.words.iter_mut().zip(self.frame.chunks_exact(8)) {
            *word = u64::from_ne_bytes(octets.try_into().unwrap_or_default());
        }
        slot.due = if unpaced { 0 } else { start + due };
        slot.gap = ((next - due) as f64 / CATCH_UP) as u32;
        slot.port = part.place;
        slot.fate = 0;
        self.turn += 1;
        if self.turn == self.parts.len() {
            self.turn = 0;
            self.number += 1;
        }
        true
    }

    /// Notes what became of a frame that the program was done with.
    pub(super) fn account(&mut self, slot: &types::slot) {
        let stream = usize::from(slot.stream);
        let counters = match slot.fate {
            LEFT => &mut self.sent.streams,
            _ => &mut self.sent.refused,
        };
        if let Some(count) = counters.get_mut(stream) {
            *count += 1;
        }
        let paced = slot.due != 0;
        if let Some(last) = self.sent.last_due.get_mut(stream) {
            *last = if paced { slot.due } else { slot.sent };
        }
        if paced && slot.fate == LEFT {
            let late = slot.sent.saturating_sub(slot.due);
            self.sent.lateness.saturating_record(late);
        }
        // it never came to an interface's queue
        self.unqueued += u64::from(slot.fate == 0);
    }

    /// Whether frames were refused and none sent.
    pub(super) fn refused_all(&self) -> Option<u64> {
        let refused = self.sent.refused.iter().sum();
        (refused > 0 && self.sent.streams.iter().all(|&sent| sent == 0)).then_some(refused)
    }

    /// What was sent; sending ends now.
    pub(super) fn into_sent(mut self) -> Sent {
        self.sent.ended = clock::now();
        self.sent
    }
}
