//! The Ethernet side of a simulated card: what its cable is joined to.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use bora_buffer::{MAX_BATCH, Packet, Pool, Region, RegionError, SharedFrames};

use super::model::{FAULTLESS, Model, Sent};
use crate::{Queue, QueueStats, StatsReader, af_packet, netns, tap};

/// Frames that may be on the line to a card; more wait where they are.
const ON_LINE: usize = 64;

/// What a cable is joined to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireSpec {
    /// The interface of Linux.
    pub interface: String,
    /// Whether it is a TAP interface to be made, rather than one that is there.
    pub tap: bool,
    /// The network namespace it is in, by name; this process's if none.
    pub netns: Option<String>,
}

impl std::fmt::Display for WireSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = if self.tap { "tap:" } else { "" };
        write!(f, "{kind}{}", self.interface)?;
        match &self.netns {
            Some(name) => write!(f, " in {name}"),
            None => Ok(()),
        }
    }
}

/// Why a card has no cable.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// No packet socket.
    #[error(transparent)]
    Interface(#[from] af_packet::OpenError),
    /// No TAP interface.
    #[error(transparent)]
    Tap(#[from] tap::TapError),
    /// No such network namespace, or no way in.
    #[error("network namespace {0}: {1}; `ip netns` lists those there are")]
    Netns(String, io::Error),
    /// No file descriptor.
    #[error("cannot open the wire's queue: {0}")]
    Queue(#[from] io::Error),
    /// No buffers.
    #[error(transparent)]
    Memory(#[from] RegionError),
}

/// A cable.
#[derive(Debug)]
pub struct Wire {
    queue: Queue,
    stats: StatsReader,
    region: Arc<Region>,
    pool: Pool,
    /// Frames from Linux for the card, and from the card for Linux.
    to_card: Vec<Packet>,
    from_card: Vec<Packet>,
    /// Keeps the interface.
    _tap: Option<tap::Device>,
}

impl Wire {
    /// Joins a cable to an interface.
    ///
    /// # Errors
    /// See [`WireError`].
    pub fn open(spec: &WireSpec) -> Result<Self, WireError> {
        match &spec.netns {
            None => Self::open_here(spec),
            Some(name) => netns::in_named(name, || Self::open_here(spec))
                .map_err(|error| WireError::Netns(name.clone(), error))?,
        }
    }

    fn open_here(spec: &WireSpec) -> Result<Self, WireError> {
        let (region, frames) = Self::memory()?;
        if spec.tap {
            let device = tap::Device::open(&spec.interface, 1)?;
            let fd = device.queues().next().ok_or(io::ErrorKind::NotFound);
            let queue = Queue::Tap(tap::Queue::new(
                fd.map_err(io::Error::from)?,
                region.clone(),
            )?);
            let wire = Self::over(queue, region, frames)?;
            return Ok(Self {
                _tap: Some(device),
                ..wire
            });
        }
        let queue = af_packet::Queue::open(&spec.interface, 1, &region)?.swap_remove(0);
        Ok(Self::over(Queue::AfPacket(queue), region, frames)?)
    }

    /// Buffers for a cable.
    ///
    /// # Errors
    /// No memory.
    pub fn memory() -> Result<(Arc<Region>, SharedFrames), RegionError> {
        let region = Arc::new(Region::new(4 * MAX_BATCH as u32, 2048)?);
        let frames = SharedFrames::of_new_region(&region);
        Ok((region, frames))
    }

    /// A cable over any queue, whose packets are in `region`.
    ///
    /// # Errors
    /// No more file descriptors.
    pub fn over(queue: Queue, region: Arc<Region>, frames: SharedFrames) -> io::Result<Self> {
        Ok(Self {
            stats: queue.stats_reader()?,
            queue,
            region,
            pool: Pool::new(frames, MAX_BATCH),
            to_card: Vec::with_capacity(MAX_BATCH),
            from_card: Vec::with_capacity(MAX_BATCH),
            _tap: None,
        })
    }

    /// Puts what comes onto the line to a card, as far as there is room; how many frames.
    pub(super) fn deliver(&mut self, model: &mut Model, card: usize) -> usize {
        let room = ON_LINE.saturating_sub(model.arriving(card));
        self.queue.receive(&mut self.to_card, room);
        self.queue.refill(&mut self.pool);
        let count = self.to_card.len();
        for packet in self.to_card.drain(..) {
            // there is room, and no frame of Linux is empty or too long
            model.receive(card, self.region.octets(&packet), FAULTLESS);
            self.pool.give(packet.into_frame(&self.region));
        }
        count
    }

    /// Takes what a card sent from its line; how many frames.
    pub(super) fn collect(&mut self, model: &mut Model, card: usize) -> usize {
        let mut count = 0;
        self.queue.reclaim(&mut self.pool);
        while self.from_card.len() < MAX_BATCH {
            let Some(frame) = self.pool.take() else { break };
            let capacity = self.region.capacity();
            let mut packet = match frame.into_packet(&self.region, capacity) {
                Ok(packet) => packet,
                Err(frame) => {
                    self.pool.give(frame);
                    break;
                }
            };
            match model.transmitted(card, self.region.octets_mut(&mut packet)) {
                Some(Sent::Frame(octets)) => {
                    packet.truncate(octets);
                    self.from_card.push(packet);
                    count += 1;
                    continue;
                }
                Some(bad) => log::error!("card {card} sent {bad:?}"),
                None => {
                    self.pool.give(packet.into_frame(&self.region));
                    break;
                }
            }
            self.pool.give(packet.into_frame(&self.region));
        }
        if !self.from_card.is_empty() {
            self.queue.transmit(&mut self.from_card);
            self.queue.kick();
        }
        count
    }

    /// What was lost between Linux and the card.
    pub(super) fn stats(&self) -> QueueStats {
        self.stats.read()
    }

    /// Readable when frames come; see [`Queue::wait`].
    pub(super) fn wait(&mut self) -> Option<BorrowedFd<'_>> {
        self.queue.wait()
    }
}
