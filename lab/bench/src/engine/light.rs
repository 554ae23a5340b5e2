//! A memif peer that does next to nothing with packets, so that it is hardly ever the limit.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::{Context, anyhow};
use bora_buffer::{Packet, Pool, Region, SharedFrames};
use bora_port::Queue;
use bora_port::memif::{Config, Port as Memif, Role};

use crate::cpu::pin;
use crate::packets::{self, FRAME};

/// Logarithm to base 2 of the slots of a ring.
pub(crate) const LOG2_RING: u8 = 10;
const BURST: usize = 64;
const FRAMES: u32 = 8192;
/// Frames with packets to send: more than a ring holds.
const PACKETS: u32 = 2048;

/// What it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Sends the same packets again and again, and drops what comes. As client it writes descriptors only,
    /// as server it also copies 60 octets to the client.
    Generate,
    /// Sends back what comes, untouched: the most that the generator at the other end can do.
    Reflect,
}

/// A running peer; it stops when this is dropped.
pub struct Light {
    /// Kept, because the link goes down when it is dropped.
    _port: Memif,
    thread: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    received: AtomicU64,
    paused: AtomicBool,
    stop: AtomicBool,
}

/// What its thread has.
struct Body {
    queue: Queue,
    region: Arc<Region>,
    /// Frames to receive into.
    free: Pool,
    /// Frames that hold packets to send; the port gives them back as they were.
    filled: Pool,
    packets: Vec<Packet>,
    shared: Arc<Shared>,
}

/// Bora's end of a link to testpmd.
pub(crate) fn config(role: Role, socket: &Path) -> Config {
    Config {
        role,
        socket: socket.into(),
        id: 0,
        secret: String::new(),
        name: "bora".into(),
        queues: 1,
        log2_ring_size: LOG2_RING,
        memory: 1 << 40,
    }
}

impl Light {
    /// Starts it on a CPU.
    ///
    /// # Errors
    /// No memory, or the socket cannot be opened.
    pub fn start(task: Task, role: Role, socket: &Path, core: usize) -> anyhow::Result<Self> {
        let region = Arc::new(Region::new(FRAMES, 2048)?);
        let (port, mut queues) = Memif::open(config(role, socket), region.clone())?;
        let frames = SharedFrames::of_new_region(&region);
        let shared = Arc::new(Shared::default());
        let mut body = Body {
            queue: Queue::Memif(queues.pop().context("a memif with a queue")?),
            region,
            free: Pool::new(frames.clone(), FRAMES as usize),
            filled: Pool::new(frames, FRAMES as usize),
            packets: Vec::with_capacity(BURST),
            shared: shared.clone(),
        };
        body.fill()?;
        let thread = thread::Builder::new().spawn(move || {
            // best effort: without it the measurement is only noisier
            let _ = pin(core);
            match task {
                Task::Generate => body.generate(),
                Task::Reflect => body.reflect(),
            }
        })?;
        Ok(Self {
            _port: port,
            thread: Some(thread),
            shared,
        })
    }

    /// Packets received so far.
    pub fn received(&self) -> u64 {
        self.shared.received.load(Ordering::Relaxed)
    }

    /// Sends nothing any more, but keeps the link.
    pub fn pause(&self) {
        self.shared.paused.store(true, Ordering::Relaxed);
    }
}

impl Drop for Light {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Body {
    /// Writes the packets.
    fn fill(&mut self) -> anyhow::Result<()> {
        for octets in packets::flows(PACKETS, 0, 0) {
            let frame = self.free.take().context("a free frame")?;
            let packet = frame.into_packet(&self.region, FRAME);
            let mut packet = packet.map_err(|_| anyhow!("a frame holds a packet"))?;
            let frame = {
                let place = self.region.octets_mut(&mut packet);
                place.copy_from_slice(&octets);
                packet.into_frame(&self.region)
            };
            self.filled.give(frame);
        }
        Ok(())
    }

    fn generate(mut self) {
        while !self.shared.stop.load(Ordering::Relaxed) {
            self.receive(BURST);
            for packet in self.packets.drain(..) {
                self.free.give(packet.into_frame(&self.region));
            }
            if !self.shared.paused.load(Ordering::Relaxed) {
                self.send_again();
            }
            self.queue.reclaim(&mut self.filled);
        }
    }

    fn send_again(&mut self) {
        for _ in 0..self.filled.len().min(BURST) {
            let frame = self.filled.take();
            let packet = frame.and_then(|frame| frame.into_packet(&self.region, FRAME).ok());
            self.packets.extend(packet);
        }
        self.queue.transmit(&mut self.packets);
        self.queue.kick();
        for packet in self.packets.drain(..) {
            self.filled.give(packet.into_frame(&self.region));
        }
    }

    fn reflect(mut self) {
        while !self.shared.stop.load(Ordering::Relaxed) {
            self.receive(BURST - self.packets.len());
            self.queue.transmit(&mut self.packets);
            self.queue.kick();
            self.queue.reclaim(&mut self.free);
        }
    }

    fn receive(&mut self, most: usize) {
        let count = self.queue.receive(&mut self.packets, most);
        self.queue.refill(&mut self.free);
        let received = self.shared.received.load(Ordering::Relaxed) + count as u64;
        self.shared.received.store(received, Ordering::Relaxed);
    }
}
