//! The cable of a simulated card, and the interface at its other end.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use bora_buffer::{MAX_BATCH, Packet, Pool, Region, RegionError, SharedFrames};
use bora_linux::interface::Carrier;
use bora_linux::netns;
use bora_port::{Queue, QueueStats, StatsReader, af_packet, tap};

use crate::model::{FAULTLESS, Model, Sent};

/// Most frames on the line to a card; more wait in the interface's queue.
const ON_LINE: usize = 64;

/// The interface at the other end of a cable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireSpec {
    /// Name of the Linux interface.
    pub interface: String,
    /// Whether to make it, as a TAP interface; otherwise it must exist.
    pub tap: bool,
    /// Name of its network namespace; `None` for that of this process.
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

/// Why a cable cannot be connected.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The packet socket cannot be opened.
    #[error(transparent)]
    Interface(#[from] af_packet::OpenError),
    /// The TAP interface cannot be made.
    #[error(transparent)]
    Tap(#[from] tap::TapError),
    /// The network namespace does not exist or cannot be entered.
    #[error("network namespace {0}: {1}; `ip netns` lists the existing ones")]
    Netns(String, io::Error),
    /// There are no more file descriptors.
    #[error("cannot open the wire's queue: {0}")]
    Queue(#[from] io::Error),
    /// There is no memory for buffers.
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
    carrier: Option<Carrier>,
    /// Keeps the TAP interface alive.
    _tap: Option<tap::Device>,
}

impl Wire {
    /// Connects a cable to an interface.
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
        let carrier = Some(Carrier::new(&spec.interface)?);
        if spec.tap {
            let device = tap::Device::open(&spec.interface, 1)?;
            let fd = device.queues().next().ok_or(io::ErrorKind::NotFound);
            let queue = Queue::Tap(tap::Queue::new(
                fd.map_err(io::Error::from)?,
                region.clone(),
            )?);
            let wire = Self::over(queue, region, frames)?;
            return Ok(Self {
                carrier,
                _tap: Some(device),
                ..wire
            });
        }
        let queue = af_packet::Queue::open(&spec.interface, 1, &region)?.swap_remove(0);
        Ok(Self {
            carrier,
            ..Self::over(Queue::AfPacket(queue), region, frames)?
        })
    }

    /// Makes buffers for a cable.
    ///
    /// # Errors
    /// There is not enough memory.
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
            carrier: None,
            _tap: None,
        })
    }

    /// Puts frames from Linux on the line to a card, as far as there is room; returns how many.
    pub fn deliver(&mut self, model: &mut Model, card: usize) -> usize {
        let room = ON_LINE.saturating_sub(model.arriving(card));
        self.queue.receive(&mut self.to_card, room);
        self.queue.refill(&mut self.pool);
        let count = self.to_card.len();
        for packet in self.to_card.drain(..) {
            // there is room, and Linux sends no frame that is empty or too long
            model.receive(card, self.region.octets(&packet), FAULTLESS);
            self.pool.give(packet.into_frame(&self.region));
        }
        count
    }

    /// Takes the frames that a card sent off its line; returns how many.
    pub fn collect(&mut self, model: &mut Model, card: usize) -> usize {
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

    /// Whether the interface is up and has a carrier; without an interface, always.
    pub fn has_link(&self) -> bool {
        self.carrier.as_ref().is_none_or(Carrier::is_up)
    }

    /// Frames lost between Linux and the card.
    pub fn stats(&self) -> QueueStats {
        self.stats.read()
    }

    /// A descriptor that is readable when frames come; see [`Queue::wait`].
    pub fn wait(&mut self) -> Option<BorrowedFd<'_>> {
        self.queue.wait()
    }
}
