//! What the tests and benches of classes, queues and schedulers share.
#![allow(dead_code)] // each uses its part

pub(crate) mod headers;

use bora_buffer::{Packet, Pool, Region, SharedFrames};

/// xorshift64*: the same numbers from the same seed, and fast enough for a million packets.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// 0 to `bound`, exclusive.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 32) % bound
    }

    pub(crate) fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

/// Memory for packets.
pub(crate) struct Memory {
    pub(crate) region: Region,
    pool: Pool,
}

impl Memory {
    pub(crate) fn new(frames: u32) -> Self {
        let region = Region::new(frames, 2048).unwrap();
        let pool = Pool::new(SharedFrames::of_new_region(&region), frames as usize);
        Self { region, pool }
    }

    /// A packet of this length that carries a number.
    pub(crate) fn packet(&mut self, length: usize, number: u64) -> Packet {
        let mut packet = self.blank(length);
        self.region.octets_mut(&mut packet)[..8].copy_from_slice(&number.to_be_bytes());
        packet
    }

    pub(crate) fn frame(&mut self, octets: &[u8]) -> Packet {
        let mut packet = self.blank(octets.len());
        self.region.octets_mut(&mut packet).copy_from_slice(octets);
        packet
    }

    /// The number in a packet, which is done with.
    pub(crate) fn number(&mut self, packet: Packet) -> u64 {
        let octets = self.region.octets(&packet)[..8].try_into().unwrap();
        self.give(packet);
        u64::from_be_bytes(octets)
    }

    pub(crate) fn give(&mut self, packet: Packet) {
        self.pool.give(packet.into_frame(&self.region));
    }

    fn blank(&mut self, length: usize) -> Packet {
        let frame = self.pool.take().expect("enough frames");
        frame.into_packet(&self.region, length).unwrap()
    }
}
