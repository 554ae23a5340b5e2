//! A queue over capture files.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bora_buffer::{MAX_BATCH, Packet, Pool, Region, SharedFrames};
use bora_contract::Reason;

use super::file::{Capture, FileError};
use crate::closing::Closing;
use crate::copying::Copying;
use crate::port_queue::PortQueue;
use crate::tally::StatsReader;

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

/// One queue.
#[derive(Debug)]
pub struct Queue {
    frames: Copying,
    capture: Capture,
    next: usize,
    repeat: Repeat,
    output: Option<Output>,
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
            frames: Copying::new(region, MAX_BATCH),
            capture,
            next: 0,
            repeat,
            output: output.map(Output::create).transpose()?,
        })
    }

    /// Brings what was transmitted to the file; also done before it sleeps, and when it is dropped.
    fn flush(&mut self) {
        if let Some(output) = &mut self.output
            && let Err(error) = output.0.flush()
        {
            log::debug!("a capture file: {error}");
            // how many packets that were is not known; one loss says that there were some
            self.frames.tally.take_back(Reason::TxRefused, 1);
        }
    }
}

impl PortQueue for Queue {
    fn receive(&mut self, out: &mut Vec<Packet>, max: usize) -> usize {
        let mut count = 0;
        // at most one round through the file, which may hold nothing that fits
        for _ in 0..self.capture.len() {
            if self.next == self.capture.len() && self.repeat == Repeat::Forever {
                self.next = 0;
            }
            if count == max || self.next == self.capture.len() {
                break;
            }
            let Some(mut packet) = self.frames.room() else {
                break;
            };
            let (octets, whole) = self.capture.packet(self.next);
            self.next += 1;
            let tally = &self.frames.tally;
            if octets.len() > packet.length() {
                tally.lost(Reason::RxTooLong, 1);
            } else if !whole || octets.is_empty() {
                tally.lost(Reason::RxMalformed, 1);
            } else {
                packet.truncate(octets.len());
                let room = self.frames.region.octets_mut(&mut packet);
                room.copy_from_slice(octets);
                out.push(packet);
                count += 1;
                continue;
            }
            self.frames.unused(packet);
        }
        count
    }

    fn waiting(&mut self, enough: usize) -> usize {
        match self.repeat {
            Repeat::Forever => enough,
            Repeat::Once => enough.min(self.capture.len() - self.next),
        }
    }

    fn refill(&mut self, pool: &mut Pool) {
        self.frames.refill(pool, 0);
    }

    /// What cannot be written, because the disk is full, is lost.
    fn transmit(&mut self, packets: &mut Vec<Packet>) -> usize {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = match now {
            Ok(now) => now,
            Err(_) => Duration::ZERO, // the clock is before 1970
        };
        let mut refused = 0;
        if let Some(output) = &mut self.output {
            for packet in packets.iter() {
                match output.write(self.frames.region.octets(packet), now) {
                    Ok(()) => {}
                    Err(_) => refused += 1, // counted; the loop writes no log
                }
            }
        }
        let count = packets.len();
        self.frames.sent(packets, count, refused);
        count
    }

    fn reclaim(&mut self, pool: &mut Pool) {
        self.frames.reclaim(pool);
    }

    fn in_flight(&self) -> u32 {
        self.frames.in_flight()
    }

    fn frames(&self) -> u32 {
        self.frames.frames()
    }

    fn wait(&mut self) -> Option<BorrowedFd<'_>> {
        self.flush();
        None
    }

    fn close(mut self: Box<Self>, frames: &SharedFrames) -> Option<Closing> {
        self.frames.close(frames);
        None
    }

    fn stats_reader(&self) -> io::Result<StatsReader> {
        Ok(self.frames.stats_reader())
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
