use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bora_buffer::{Packet, Pool, Region, SharedFrames};

use bora_port::{Queue as AnyQueue, memory};

use crate::fault::*;

/// A faulty queue, its other end, and what their packets need.
struct Link {
    region: Arc<Region>,
    frames: SharedFrames,
    pool: Pool,
    far: AnyQueue,
    near: AnyQueue,
    handle: Handle,
}

const FRAMES: u32 = 4096;

impl Link {
    fn new(faults: Faults, arrival: Option<Arrival>) -> Self {
        let region = Arc::new(Region::new(FRAMES, 2048).unwrap());
        let frames = SharedFrames::of_new_region(&region);
        let (far, near) = memory::pair(2048);
        let (near, handle) =
            Queue::new(AnyQueue::Memory(near), region.clone(), faults, arrival).unwrap();
        Self {
            pool: Pool::new(frames.clone(), 128),
            far: AnyQueue::Memory(far),
            near: AnyQueue::other(near),
            region,
            frames,
            handle,
        }
    }

    /// Sends packets of 64 octets, with their number at the end.
    fn send(&mut self, numbers: Range<u32>) {
        let mut packets = Vec::new();
        for number in numbers {
            let frame = self.pool.take().unwrap();
            let mut packet = frame.into_packet(&self.region, 64).unwrap();
            let octets = self.region.octets_mut(&mut packet);
            octets.fill(0);
            octets[60..].copy_from_slice(&number.to_be_bytes());
            packets.push(packet);
        }
        self.far.transmit(&mut packets);
        assert!(packets.is_empty());
    }

    /// Octets of everything that comes until `quiet` has passed since the last of it.
    fn receive(&mut self, quiet: Duration) -> Vec<Vec<u8>> {
        let mut last = Instant::now();
        let mut all = Vec::new();
        let mut packets: Vec<Packet> = Vec::new();
        loop {
            // read before the queue is asked: this thread may be held up at any line
            let over = last.elapsed() >= quiet;
            self.near.refill(&mut self.pool);
            if self.near.receive(&mut packets, 32) > 0 {
                last = Instant::now();
            } else if over {
                break;
            }
            for packet in packets.drain(..) {
                all.push(self.region.octets(&packet).to_vec());
                self.pool.give(packet.into_frame(&self.region));
            }
        }
        self.near.refill(&mut self.pool);
        all
    }

    /// Ends it; no frame may be missing.
    fn close(self) {
        self.near.close(&self.frames);
        drop(self.pool);
        assert_eq!(self.frames.len(), FRAMES as usize);
    }
}

fn number(octets: &[u8]) -> u32 {
    u32::from_be_bytes(octets[60..].try_into().unwrap())
}

#[test]
fn every_packet_is_passed_on_or_lost_by_name() {
    let everything = Faults {
        seed: 3,
        loss: Some(Loss::random(0.1)),
        capacity: Some(Capacity {
            rate: 1e6,
            buffer: 1500,
        }),
        delay: Duration::from_micros(300),
        jitter: Some(Jitter::Uniform(Duration::from_micros(100))),
        reordering: Some(Reordering {
            share: 0.1,
            packets: 3,
        }),
        duplication: 0.05,
        corruption: Some(Corruption {
            share: 0.1,
            whole: 8,
            bits: 3,
        }),
    };
    let mut link = Link::new(everything, None);
    link.near.refill(&mut link.pool);
    link.send(0..2000);
    let received = link.receive(2 * LONGEST_HOLD);
    let it = link.handle.counters();
    assert_eq!(
        (it.came, it.passed, it.held),
        (2000, received.len() as u64, 0)
    );
    let ends = it.passed + it.outage + it.lost + it.buffer_full + it.held;
    assert_eq!(it.came + it.duplicated, ends);
    let damaged = |octets: &&Vec<u8>| octets[..60].iter().any(|octet| *octet != 0);
    assert!(received.iter().all(|octets| octets[..8] == [0; 8]));
    let seen = received.iter().filter(damaged).count() as u64;
    assert!(it.corrupted >= seen && seen > 0, "{it:?}");
    assert!(it.lost > 100 && it.reordered > 100 && it.duplicated > 50);
    link.close();
}

#[test]
fn reordering_is_what_the_order_shows() {
    let faults = Faults {
        reordering: Some(Reordering {
            share: 0.1,
            packets: 4,
        }),
        ..Faults::default()
    };
    let mut link = Link::new(faults, None);
    link.send(0..1000);
    let received = link.receive(2 * LONGEST_HOLD);
    assert_eq!(received.len(), 1000);
    // RFC 4737: behind one with a greater number
    let mut next = 0;
    let mut reordered = 0;
    for number in received.iter().map(|octets| number(octets)) {
        reordered += u64::from(number < next);
        next = next.max(number + 1);
    }
    assert_eq!(link.handle.counters().reordered, reordered);
    assert!(reordered > 50);
    link.close();
}

#[test]
fn copies_follow_the_first_and_need_free_frames() {
    let faults = Faults {
        duplication: 1.0,
        ..Faults::default()
    };
    let mut link = Link::new(faults, None);
    link.send(0..3);
    assert_eq!(link.near.waiting(8), 3);
    link.near.refill(&mut link.pool);
    link.send(3..6);
    let received = link.receive(Duration::from_millis(5));
    let numbers: Vec<u32> = received.iter().map(|octets| number(octets)).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 3, 4, 4, 5, 5]);
    let it = link.handle.counters();
    assert_eq!((it.duplicated, it.not_duplicated), (3, 3));
    link.close();
}

#[test]
fn a_stamped_outage_is_exact() {
    // packet n is of the nth microsecond
    let stamp: Arrival = |octets| Some(u64::from(number(octets)) * 1000);
    let mut link = Link::new(Faults::default(), Some(stamp));
    link.handle.take_down(100_000..250_000);
    link.send(0..500);
    let received = link.receive(Duration::from_millis(5));
    let expected: Vec<u32> = (0..100).chain(250..500).collect();
    let numbers: Vec<u32> = received.iter().map(|octets| number(octets)).collect();
    assert_eq!(numbers, expected);
    assert_eq!(link.handle.counters().outage, 150);
    link.close();
}

#[test]
fn nothing_comes_before_it_is_due_and_close_gives_it_back() {
    let faults = Faults {
        delay: Duration::from_secs(600),
        ..Faults::default()
    };
    let mut link = Link::new(faults, None);
    link.send(0..10);
    assert_eq!(link.near.waiting(100), 0);
    assert_eq!(link.handle.counters().held, 10);
    assert!(link.near.wait().is_none());
    link.close();
}
