//! Queues driven by hand, and one end of a memif link.
#![allow(dead_code)] // each test uses its part

pub(crate) mod namespace;

use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bora_buffer::{Packet, Pool, Region, SharedFrames};
use bora_port::memif::{Config, LinkState, Port, Role};
use bora_port::{Queue, StatsReader};

/// Frames of each end's region.
pub(crate) const FRAMES: u32 = 4096;

/// Where the control channel of a test is.
pub(crate) fn socket_path(test: &str) -> PathBuf {
    std::env::temp_dir().join(format!("bora-memif-{test}-{}", std::process::id()))
}

/// A memif port with its queues and memory.
pub(crate) struct End {
    pub(crate) port: Port,
    side: Side,
}

impl Deref for End {
    type Target = Side;

    fn deref(&self) -> &Side {
        &self.side
    }
}

impl DerefMut for End {
    fn deref_mut(&mut self) -> &mut Side {
        &mut self.side
    }
}

/// Queues with their memory.
pub(crate) struct Side {
    pub(crate) queues: Vec<Queue>,
    pub(crate) region: Arc<Region>,
    pub(crate) frames: SharedFrames,
    pub(crate) pool: Pool,
}

/// Settings for a test.
pub(crate) fn config(role: Role, socket: &Path, queues: u16, log2_ring_size: u8) -> Config {
    Config {
        role,
        socket: socket.into(),
        id: 0,
        secret: String::new(),
        name: format!("{role:?}"),
        queues,
        log2_ring_size,
        memory: 1 << 30,
    }
}

impl End {
    /// Opens a port over a region of its own.
    pub(crate) fn open(config: Config, frame_size: u32) -> Self {
        let mut port = None;
        let side = Side::open(frame_size, |region| {
            let (opened, queues) = Port::open(config, region.clone()).unwrap();
            port = Some(opened);
            queues.into_iter().map(Queue::Memif).collect()
        });
        Self {
            port: port.unwrap(),
            side,
        }
    }

    /// Waits until the link is as wanted; false after ten seconds.
    pub(crate) fn wait_for(&mut self, up: bool) -> bool {
        let end = Instant::now() + Duration::from_secs(10);
        while Instant::now() < end {
            let is_up = matches!(self.port.link_state(), LinkState::Up { .. });
            self.settle();
            if is_up == up {
                return true;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        false
    }
}

impl Side {
    /// Queues over a region of their own.
    pub(crate) fn open(frame_size: u32, open: impl FnOnce(&Arc<Region>) -> Vec<Queue>) -> Self {
        let region = Arc::new(Region::new(FRAMES, frame_size).unwrap());
        let frames = SharedFrames::of_new_region(&region);
        Self {
            queues: open(&region),
            pool: Pool::new(frames.clone(), 1024),
            region,
            frames,
        }
    }

    /// What a worker does each round.
    pub(crate) fn settle(&mut self) {
        for queue in &mut self.queues {
            queue.refill(&mut self.pool);
            queue.kick();
            queue.reclaim(&mut self.pool);
        }
    }

    /// A packet whose octets follow from `seed`.
    pub(crate) fn packet(&mut self, seed: u32, length: usize) -> Option<Packet> {
        let frame = self.pool.take()?;
        let mut packet = frame.into_packet(&self.region, length).unwrap();
        fill(self.region.octets_mut(&mut packet), seed);
        Some(packet)
    }

    /// Receives from a queue and gives each packet's octets to `look`; returns how many.
    pub(crate) fn receive(&mut self, queue: usize, mut look: impl FnMut(&[u8])) -> usize {
        let mut packets = Vec::new();
        self.queues[queue].receive(&mut packets, 256);
        self.queues[queue].refill(&mut self.pool);
        let count = packets.len();
        for packet in packets {
            look(self.region.octets(&packet));
            self.pool.give(packet.into_frame(&self.region));
        }
        count
    }

    /// Sends what fits; the rest goes back to the pool.
    pub(crate) fn send(&mut self, queue: usize, packets: &mut Vec<Packet>) -> usize {
        self.queues[queue].reclaim(&mut self.pool);
        let sent = self.queues[queue].transmit(packets);
        self.queues[queue].kick();
        for packet in packets.drain(..) {
            self.pool.give(packet.into_frame(&self.region));
        }
        sent
    }

    /// Frames that are neither in a ring nor with the test.
    pub(crate) fn free_frames(&self) -> usize {
        self.frames.len() + self.pool.len()
    }

    /// A reader of what the first queue lost.
    pub(crate) fn stats(&self) -> StatsReader {
        self.queues[0].stats_reader().unwrap()
    }
}

/// Octets that follow from `seed`: the seed itself, then a running pattern.
pub(crate) fn fill(octets: &mut [u8], seed: u32) {
    octets[..4].copy_from_slice(&seed.to_ne_bytes());
    let mut state = seed | 1;
    for octet in &mut octets[4..] {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *octet = (state >> 24) as u8;
    }
}

/// The seed of octets written by [`fill`], if they are whole.
pub(crate) fn seed_of(octets: &[u8]) -> Option<u32> {
    let seed = u32::from_ne_bytes(*octets.first_chunk()?);
    let mut expected = vec![0; octets.len()];
    fill(&mut expected, seed);
    (expected == octets).then_some(seed)
}
