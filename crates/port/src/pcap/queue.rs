//! A queue over capture files.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bora_buffer::{Frame, Packet, Pool, Region, SharedFrames};

use super::file::{Capture, FileError};
use crate::losses::Losses;

/// Free frames kept to copy into.
const STOCK: usize = bora_buffer::MAX_BATCH;
/// Magic number of files with nanoseconds, in the machine's own byte order.
const NANOSECONDS: u32 = 0xa1b2_3c4d;
/// LINKTYPE_ETHERNET.
const ETHERNET: u32 = 1;
/// Longest packet a file can hold, octets; what tcpdump says too.
const SNAPLEN: u32 = 262_144;

/// How often a file is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// Once, from beginning to end.
    Once,
    /// Again and again.
    Forever,
}

/// One queue. Its calls are those of [`crate::Queue`].
#[derive(Debug)]
pub struct Queue {
    region: Arc<Region>,
    losses: Arc<Losses>,
    capture: Capture,
    next: usize,
    repeat: Repeat,
    output: Option<Output>,
    free: Vec<Frame>,
    /// Frames whose packets have been written, for the pool.
    sent: Vec<Frame>,
}

/// A pcap file that is being written.
#[derive(Debug)]
struct Output(BufWriter<File>);

impl Queue {
    /// A queue that receives the packets of `input`, if there is one, as fast as they are taken,
    /// and writes to `output`, if there is one; without, what is transmitted goes nowhere.
    ///
    /// # Errors
    /// See [`FileError`].
    pub fn open(
        input: Option<(&Path, Repeat)>,
        output: Option<&Path>,
        region: Arc<Region>,
    ) -> Result<Self, FileError> {
        let (capture, repeat) = match input {
            Some((path, repeat)) => (Capture::read(path)?, repeat),
            None => (Capture::default(), Repeat::Once),
        };
        Ok(Self {
            region,
            losses: Arc::default(),
            capture,
            next: 0,
            repeat,
            output: output.map(Output::create).transpose()?,
            free: Vec::with_capacity(STOCK),
            sent: Vec::with_capacity(bora_buffer::MAX_BATCH),
        })
    }

    /// What it lost, to be read from any thread.
    pub fn losses(&self) -> Arc<Losses> {
        self.losses.clone()
    }

    /// See [`crate::Queue::receive`]; at most 64 packets a call.
    pub fn receive(&mut self, out: &mut Vec<Packet>, max: usize) -> usize {
        let mut count = 0;
        // at most one round through the file, which may hold nothing that fits
        for _ in 0..self.capture.len() {
            if self.next == self.capture.len() && self.repeat == Repeat::Forever {
                self.next = 0;
            }
            if count == max || self.next == self.capture.len() {
                break;
            }
            let Some(frame) = self.free.pop() else { break };
            let (octets, whole) = self.capture.packet(self.next);
            self.next += 1;
            match frame.into_packet(&self.region, octets.len()) {
                Ok(mut packet) if whole && !octets.is_empty() => {
                    self.region.octets_mut(&mut packet).copy_from_slice(octets);
                    out.push(packet);
                    count += 1;
                }
                Ok(packet) => {
                    self.losses.rx_malformed.add(1);
                    self.free.push(packet.into_frame(&self.region));
                }
                Err(frame) => {
                    self.losses.rx_too_long.add(1);
                    self.free.push(frame);
                }
            }
        }
        count
    }

    /// See [`crate::Queue::waiting`].
    pub fn waiting(&mut self, enough: usize) -> usize {
        match self.repeat {
            Repeat::Forever => enough,
            Repeat::Once => enough.min(self.capture.len() - self.next),
        }
    }

    /// See [`crate::Queue::refill`].
    pub fn refill(&mut self, pool: &mut Pool) {
        while self.free.len() < STOCK {
            let Some(frame) = pool.take() else { break };
            self.free.push(frame);
        }
    }

    /// See [`crate::Queue::transmit`]. What cannot be written, because the disk is full, is lost.
    pub fn transmit(&mut self, packets: &mut Vec<Packet>) -> usize {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or(Duration::ZERO);
        let count = packets.len();
        for packet in packets.drain(..) {
            if let Some(output) = &mut self.output
                && output.write(self.region.octets(&packet), now).is_err()
            {
                self.losses.tx_refused.add(1);
            }
            self.sent.push(packet.into_frame(&self.region));
        }
        count
    }

    /// See [`crate::Queue::reclaim`].
    pub fn reclaim(&mut self, pool: &mut Pool) {
        for frame in self.sent.drain(..) {
            pool.give(frame);
        }
    }

    /// See [`crate::Queue::in_flight`].
    pub fn in_flight(&self) -> u32 {
        self.sent.len() as u32
    }

    /// See [`crate::Queue::frames`].
    pub fn frames(&self) -> u32 {
        (self.free.len() + self.sent.len()) as u32
    }

    /// See [`crate::Queue::close`].
    pub fn close(mut self, frames: &SharedFrames) {
        let all = self.free.drain(..).chain(self.sent.drain(..));
        all.for_each(|frame| frames.give(frame));
    }

    /// Brings what was transmitted to the file; also done when the queue is dropped.
    pub fn flush(&mut self) {
        if let Some(output) = &mut self.output
            && output.0.flush().is_err()
        {
            // how many packets that were is not known; one loss says that there were some
            self.losses.tx_refused.add(1);
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.flush();
    }
}

/// The format is that of draft-ietf-opsawg-pcap: a header, then each packet behind its own.
impl Output {
    fn create(path: &Path) -> Result<Self, FileError> {
        let mut header = Vec::with_capacity(24);
        header.extend(NANOSECONDS.to_ne_bytes());
        header.extend([2u16, 4].map(u16::to_ne_bytes).as_flattened());
        header.extend(
            [0, 0, SNAPLEN, ETHERNET]
                .map(u32::to_ne_bytes)
                .as_flattened(),
        );
        let created = File::create(path).and_then(|file| {
            let mut writer = BufWriter::new(file);
            writer.write_all(&header).map(|()| writer)
        });
        created.map(Self).map_err(|source| FileError::Io {
            file: path.display().to_string(),
            source,
        })
    }

    fn write(&mut self, octets: &[u8], now: Duration) -> std::io::Result<()> {
        let (seconds, length) = (now.as_secs() as u32, octets.len() as u32);
        let header = [seconds, now.subsec_nanos(), length, length].map(u32::to_ne_bytes);
        self.0.write_all(header.as_flattened())?;
        self.0.write_all(octets)
    }
}
