//! A queue of a TAP interface: one read or write a packet.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use bora_buffer::{MAX_BATCH, Packet, Pool, Region, SharedFrames};
use bora_contract::Reason;
use rustix::io::Errno;

use crate::closing::Closing;
use crate::copying::{Copying, readable};
use crate::port_queue::PortQueue;
use crate::tally::StatsReader;

/// One queue.
#[derive(Debug)]
pub struct Queue {
    fd: OwnedFd,
    frames: Copying,
}

impl Queue {
    /// A queue over a descriptor of [`super::Device::queues`].
    ///
    /// # Errors
    /// No more file descriptors.
    pub fn new(fd: BorrowedFd<'_>, region: Arc<Region>) -> io::Result<Self> {
        Ok(Self {
            fd: fd.try_clone_to_owned()?,
            frames: Copying::new(region, MAX_BATCH),
        })
    }
}

impl PortQueue for Queue {
    fn receive(&mut self, out: &mut Vec<Packet>, max: usize) -> usize {
        let before = out.len();
        while out.len() - before < max {
            let Some(mut packet) = self.frames.room() else {
                break;
            };
            // the octet more tells a packet that fills the frame from one that was cut off
            let mut more = [0; 1];
            let octets = self.frames.region.octets_mut(&mut packet);
            let buffers = &mut [IoSliceMut::new(octets), IoSliceMut::new(&mut more)];
            match rustix::io::readv(&self.fd, buffers) {
                Ok(length) if length > 0 && length <= packet.length() => {
                    packet.truncate(length);
                    out.push(packet);
                    continue;
                }
                Ok(0) => self.frames.tally.lost(Reason::RxMalformed, 1),
                Ok(_) => self.frames.tally.lost(Reason::RxTooLong, 1),
                // nothing waits, or the interface is down
                Err(_) => {
                    self.frames.unused(packet);
                    break;
                }
            }
            self.frames.unused(packet);
        }
        out.len() - before
    }

    fn waiting(&mut self, enough: usize) -> usize {
        readable(&self.fd).min(enough)
    }

    fn refill(&mut self, pool: &mut Pool) {
        self.frames.refill(pool, 0);
    }

    /// What Linux refuses, because the interface is down, is lost.
    fn transmit(&mut self, packets: &mut Vec<Packet>) -> usize {
        let (mut count, mut refused) = (0, 0);
        for packet in packets.iter() {
            match write(&self.fd, self.frames.region.octets(packet)) {
                Ok(()) => {}
                Err(Errno::AGAIN | Errno::NOBUFS) => break,
                Err(_) => refused += 1, // for good, and counted
            }
            count += 1;
        }
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
        Some(self.fd.as_fd())
    }

    fn close(mut self: Box<Self>, frames: &SharedFrames) -> Option<Closing> {
        self.frames.close(frames);
        None
    }

    fn stats_reader(&self) -> io::Result<StatsReader> {
        Ok(self.frames.stats_reader())
    }
}

/// Gives packets to Linux as received on a TAP interface, from any thread.
#[derive(Debug)]
pub struct Writer(OwnedFd);

impl Writer {
    /// A writer to a descriptor of [`super::Device::queues`].
    ///
    /// # Errors
    /// No more file descriptors.
    pub fn new(fd: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(Self(fd.try_clone_to_owned()?))
    }

    /// Hands one frame over.
    ///
    /// # Errors
    /// What the kernel said, for instance that the interface is down.
    pub fn write(&self, octets: &[u8]) -> io::Result<()> {
        Ok(write(&self.0, octets)?)
    }
}

/// One frame is one write, whole or not at all.
fn write(fd: &OwnedFd, octets: &[u8]) -> Result<(), Errno> {
    rustix::io::write(fd, octets).map(drop)
}
