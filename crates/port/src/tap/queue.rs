//! A queue of a TAP interface: one read or write a packet.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use bora_buffer::{Frame, Packet, Pool, Region, SharedFrames};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::losses::Losses;

/// Free frames kept to read into.
const STOCK: usize = bora_buffer::MAX_BATCH;

/// One queue. Its calls are those of [`crate::Queue`].
#[derive(Debug)]
pub struct Queue {
    fd: OwnedFd,
    region: Arc<Region>,
    losses: Arc<Losses>,
    free: Vec<Frame>,
    /// Frames whose packets Linux has copied, for the pool.
    sent: Vec<Frame>,
}

impl Queue {
    /// A queue over a descriptor of [`super::Device::queues`].
    ///
    /// # Errors
    /// No more file descriptors.
    pub fn new(fd: BorrowedFd<'_>, region: Arc<Region>) -> io::Result<Self> {
        Ok(Self {
            fd: fd.try_clone_to_owned()?,
            region,
            losses: Arc::default(),
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
        while count < max {
            let Some(frame) = self.free.pop() else { break };
            let mut packet = match frame.into_packet(&self.region, self.region.capacity()) {
                Ok(packet) => packet,
                Err(frame) => {
                    self.free.push(frame);
                    break;
                }
            };
            // the octet more tells a packet that fills the frame from one that was cut off
            let mut more = [0; 1];
            let octets = self.region.octets_mut(&mut packet);
            let buffers = &mut [IoSliceMut::new(octets), IoSliceMut::new(&mut more)];
            match rustix::io::readv(&self.fd, buffers) {
                Ok(length) if length > 0 && length <= packet.length() => {
                    packet.truncate(length);
                    out.push(packet);
                    count += 1;
                    continue;
                }
                Ok(0) => self.losses.rx_malformed.add(1),
                Ok(_) => self.losses.rx_too_long.add(1),
                Err(_) => {
                    self.free.push(packet.into_frame(&self.region));
                    break;
                }
            }
            self.free.push(packet.into_frame(&self.region));
        }
        count
    }

    /// See [`crate::Queue::waiting`]; never more than one, because Linux does not say.
    pub fn waiting(&mut self, enough: usize) -> usize {
        let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
        let none = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut fds, Some(&none)).unwrap_or(0).min(enough)
    }

    /// See [`crate::Queue::refill`].
    pub fn refill(&mut self, pool: &mut Pool) {
        while self.free.len() < STOCK {
            let Some(frame) = pool.take() else { break };
            self.free.push(frame);
        }
    }

    /// See [`crate::Queue::transmit`]. What Linux refuses, because the interface is down, is lost.
    pub fn transmit(&mut self, packets: &mut Vec<Packet>) -> usize {
        let mut count = 0;
        for packet in packets.iter() {
            match write(&self.fd, self.region.octets(packet)) {
                Ok(()) => {}
                Err(Errno::AGAIN | Errno::NOBUFS) => break,
                Err(_) => self.losses.tx_refused.add(1),
            }
            count += 1;
        }
        let sent = packets.drain(..count);
        self.sent
            .extend(sent.map(|packet| packet.into_frame(&self.region)));
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

    /// See [`crate::Queue::wait`].
    pub fn wait(&mut self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// See [`crate::Queue::close`].
    pub fn close(self, frames: &SharedFrames) {
        let all = self.free.into_iter().chain(self.sent);
        all.for_each(|frame| frames.give(frame));
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
