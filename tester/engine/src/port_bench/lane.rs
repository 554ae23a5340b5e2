//! One port in one trial, and what it sends.

use bora_buffer::Packet;
use hdrhistogram::Histogram;

use super::common::{Common, Unfinished};
use super::xdp::Judge;
use crate::clock;
use crate::generate::Generator;
use crate::pacer::Pacer;
use crate::ports::{Neighbours, Side};
use crate::trial::new_histogram;

/// Frames that are written before they are handed to the port.
const BATCH: usize = 64;

/// A port in a trial.
pub(super) struct Lane<'a> {
    pub(super) side: &'a mut Side,
    pub(super) neighbours: &'a Neighbours,
    pub(super) judge: Judge<'a>,
    /// `None` if it sends nothing, or not by its queues.
    pub(super) sending: Option<Sending<'a>>,
}

impl Lane<'_> {
    /// Looks at what has come through the queues; returns how many frames that were.
    pub(super) fn receive(&mut self) -> usize {
        let (judge, neighbours) = (&mut self.judge, self.neighbours);
        self.side.receive(|frame, arrival| {
            judge.receive(frame, arrival);
            neighbours.answer(frame)
        })
    }

    /// Frames that the kernel judged since the last call.
    pub(super) fn elsewhere(&mut self) -> usize {
        self.judge.elsewhere()
    }

    /// Sends what is due; returns when to come again, ns of [`clock::now`], `None` if nothing more
    /// is to be sent.
    pub(super) fn send(&mut self, common: &Common) -> Option<u64> {
        let next = match &mut self.sending {
            Some(sending) if sending.unfinished.is_some() => sending.go_on(self.side, common),
            // what is in the queue still has to leave
            _ => None,
        };
        if next.is_none() {
            self.side.settle();
        }
        next
    }
}

/// What a port sends in a trial.
pub(super) struct Sending<'a> {
    pub(super) generator: Generator,
    pacer: Pacer,
    /// Frames written, those taken back excepted.
    written: u64,
    /// Written, but not yet taken by the port.
    pending: Vec<Packet>,
    /// `None` when it sends no more.
    unfinished: Option<Unfinished<'a>>,
    /// How late frames were written, ns.
    pub(super) lateness: Histogram<u64>,
    /// When frames last were handed to the port, ns of [`clock::now`].
    last: u64,
}

impl<'a> Sending<'a> {
    pub(super) fn new(generator: Generator, unfinished: Unfinished<'a>) -> Self {
        Self {
            generator,
            pacer: Pacer::default(),
            written: 0,
            pending: Vec::with_capacity(BATCH),
            unfinished: Some(unfinished),
            lateness: new_histogram(),
            last: 0,
        }
    }

    /// Does what [`Lane::send`] says.
    fn go_on(&mut self, side: &mut Side, common: &Common) -> Option<u64> {
        let now = clock::now();
        let Some(elapsed) = now.checked_sub(common.start) else {
            return Some(common.start);
        };
        let unpaced = common.schedule.unpaced(elapsed);
        if common.is_stopped() || common.is_too_late(elapsed, unpaced) {
            return self.end(side);
        }
        side.settle();
        if self.pending.is_empty() {
            self.write(side, common, elapsed, unpaced);
        }
        if let Some(queue) = side.queues.first_mut().filter(|_| !self.pending.is_empty()) {
            if queue.transmit(&mut self.pending) > 0 {
                self.last = now;
            }
            queue.kick();
        }
        if !self.pending.is_empty() {
            return Some(now);
        }
        match common.schedule.due(self.written) {
            Some(_) if unpaced => Some(now),
            Some(due) => Some(common.start + due),
            None => self.end(side),
        }
    }

    /// Writes frames that are due, as many as fit a batch.
    fn write(&mut self, side: &mut Side, common: &Common, elapsed: u64, unpaced: bool) {
        let most = BATCH as u64;
        let count = self
            .pacer
            .allow(&common.schedule, self.written, elapsed, most);
        for _ in 0..count {
            let due = match common.schedule.due(self.written) {
                Some(_) if unpaced => elapsed,
                Some(due) => due,
                None => break,
            };
            let Some(frame) = side.pool.take() else { break };
            let length = self.generator.next_length();
            let mut packet = match frame.into_packet_spread(&side.region, length) {
                Ok(packet) => packet,
                // the trial was refused if frames are too long
                Err(frame) => {
                    side.pool.give(frame);
                    break;
                }
            };
            let octets = side.region.octets_mut(&mut packet);
            self.generator.write(octets, common.start + due);
            self.pending.push(packet);
            self.written += 1;
            if !unpaced {
                self.lateness.saturating_record(elapsed.saturating_sub(due));
            }
        }
    }

    /// Sends no more. What the port has not taken was not sent.
    fn end(&mut self, side: &mut Side) -> Option<u64> {
        for packet in self.pending.drain(..).rev() {
            self.generator.take_back(side.region.octets(&packet));
            self.written -= 1;
            side.pool.give(packet.into_frame(&side.region));
        }
        self.unfinished = None;
        None
    }

    /// How long it sent, ns.
    pub(super) fn elapsed(&self, common: &Common) -> u64 {
        common.elapsed(self.written, self.last)
    }
}
