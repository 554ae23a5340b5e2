use std::sync::Arc;
use std::time::{Duration, Instant};

use bora_buffer::{Packet, Pool, Region, SharedFrames};
use bora_port::Queue;
use rustix::event::{PollFd, PollFlags, poll};

use super::*;

#[test]
fn a_replay_is_fresh_each_time_and_keeps_its_frames() {
    let region = Arc::new(Region::new(512, 2048).unwrap());
    let frames = SharedFrames::of_new_region(&region);
    let mut pool = Pool::new(frames, 512);
    let (short, long) = ([1u8; 60], [2u8; 100]);
    let source = Replay::new(region.clone(), &[&short, &long]).unwrap();
    let (mut queue, counter) = replay(region.clone(), source);
    let mut packets = Vec::new();
    for _ in 0..100 {
        queue.refill(&mut pool);
        assert_eq!(queue.receive(&mut packets, 64), 64);
        for (index, packet) in packets.iter_mut().enumerate() {
            let octets = region.octets_mut(packet);
            assert_eq!(octets.len(), [60, 100][index % 2]);
            assert!(
                octets[..60]
                    .iter()
                    .all(|&o| usize::from(o) == 1 + index % 2)
            );
            octets.fill(0xff);
        }
        assert_eq!(queue.transmit(&mut packets), 64);
        assert_eq!(queue.in_flight(), 64);
        queue.reclaim(&mut pool);
    }
    assert_eq!(counter.packets(), 6400);
    assert!(Replay::new(region.clone(), &[]).is_none());
    assert!(Replay::new(region, &[&[0; 4000]]).is_none());
}

#[test]
fn a_limited_replay_ends() {
    let region = Arc::new(Region::new(512, 2048).unwrap());
    let mut pool = Pool::new(SharedFrames::of_new_region(&region), 512);
    let source = Replay::new(region.clone(), &[&[1u8; 60]]).unwrap();
    let (mut queue, _) = replay(region, source.limited(70));
    queue.refill(&mut pool);
    let mut packets = Vec::new();
    assert_eq!(queue.waiting(100), 70);
    assert_eq!(queue.receive(&mut packets, 64), 64);
    assert_eq!(queue.receive(&mut packets, 64), 6);
    assert_eq!(
        (queue.receive(&mut packets, 64), queue.waiting(100)),
        (0, 0)
    );
}

/// A million a second for 10 ms from `start` on, in a ring of 100.
fn pace(start: Instant) -> Pace {
    Pace {
        start,
        time: Duration::from_millis(10),
        rate: 1e6,
        ring: 100,
        jitter: None,
    }
}

fn paced_queue(pace: Pace) -> (Arc<Region>, Pool, Queue, Arrivals) {
    let region = Arc::new(Region::new(512, 2048).unwrap());
    let mut pool = Pool::new(SharedFrames::of_new_region(&region), 512);
    let (one, two) = ([1u8; 60], [2u8; 60]);
    let source = Paced::new(region.clone(), &[&one, &two], pace).unwrap();
    let source = source.unwrap();
    let arrivals = source.arrivals();
    let (mut queue, _) = paced(region.clone(), source);
    queue.refill(&mut pool);
    (region, pool, queue, arrivals)
}

#[test]
fn a_paced_ring_keeps_the_oldest_and_counts_the_others() {
    let past = Instant::now() - Duration::from_secs(1);
    let (region, _pool, mut queue, arrivals) = paced_queue(pace(past));
    let mut packets = Vec::new();
    assert_eq!(queue.waiting(1000), 100);
    assert_eq!(queue.receive(&mut packets, 64), 64);
    assert_eq!(queue.receive(&mut packets, 64), 36);
    assert_eq!(queue.receive(&mut packets, 64), 0);
    for (number, packet) in packets.iter().enumerate() {
        let octets = region.octets(packet);
        let stamp = Stamp {
            number: number as u64,
            arrival_ns: 1000 * number as u64,
        };
        assert_eq!(Stamp::read(octets), Some(stamp));
        assert_eq!((octets[0] as usize, octets.len()), (1 + number % 2, 60));
    }
    assert_eq!((arrivals.arrived(), arrivals.lost()), (10_001, 9_901));
}

#[test]
fn a_paced_source_loses_only_by_name_whenever_it_is_read() {
    let (region, mut pool, mut queue, arrivals) = paced_queue(pace(Instant::now()));
    let mut packets = Vec::new();
    let (mut received, mut next) = (0, 0);
    for pause in [0u64, 50, 100, 300, 0, 2000, 700, 20_000, 0, 0] {
        std::thread::sleep(Duration::from_micros(pause));
        received += queue.receive(&mut packets, 64) as u64;
        queue.refill(&mut pool);
        for packet in packets.drain(..) {
            let octets = region.octets(&packet);
            let stamp = Stamp::read(octets).unwrap();
            assert!(stamp.number >= next);
            assert_eq!(u64::from(octets[0]), 1 + stamp.number % 2);
            next = stamp.number + 1;
            pool.give(packet.into_frame(&region));
        }
    }
    assert_eq!(arrivals.arrived(), 10_001);
    assert_eq!(arrivals.lost() + received, 10_001);
}

#[test]
fn a_paced_source_wakes_its_worker() {
    let start = Instant::now() + Duration::from_millis(5);
    let (_region, _pool, mut queue, _) = paced_queue(pace(start));
    let forever = None;
    {
        let fd = queue.wait().unwrap();
        poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], forever).unwrap();
    }
    assert!(Instant::now() >= start);
    assert!(queue.receive(&mut Vec::new(), 1) == 1);
}

#[test]
fn jitter_moves_arrivals_within_their_intervals() {
    let past = Instant::now() - Duration::from_secs(1);
    let pace = Pace {
        jitter: Some(7),
        ..pace(past)
    };
    let (region, _pool, mut queue, arrivals) = paced_queue(pace);
    let mut packets = Vec::new();
    queue.receive(&mut packets, 100);
    let late = packets.iter().enumerate().map(|(number, packet)| {
        let stamp = Stamp::read(region.octets(packet)).unwrap();
        assert_eq!(stamp.number, number as u64);
        let late = stamp.arrival_ns - 1000 * stamp.number;
        assert!(late <= 1000, "{late}");
        late
    });
    let mean = late.sum::<u64>() / 100;
    assert!((350..650).contains(&mean), "{mean}");
    let arrived = arrivals.arrived();
    assert!((10_000..=10_001).contains(&arrived), "{arrived}");
}

#[test]
fn a_packet_without_room_for_a_stamp_is_refused() {
    let region = Arc::new(Region::new(1, 2048).unwrap());
    let source = Paced::new(region, &[&[0; 57]], pace(Instant::now()));
    assert!(source.unwrap().is_none());
}

#[test]
fn an_observer_sees_what_leaves() {
    #[derive(Debug)]
    struct Lengths(Arc<std::sync::Mutex<Vec<usize>>>);
    impl Observer for Lengths {
        fn observe(&mut self, region: &Region, packets: &[Packet]) {
            let lengths = packets.iter().map(|packet| region.octets(packet).len());
            self.0.lock().unwrap().extend(lengths);
        }
    }
    let region = Arc::new(Region::new(8, 2048).unwrap());
    let mut pool = Pool::new(SharedFrames::of_new_region(&region), 8);
    let seen = Arc::default();
    let (mut queue, counter) = observed(region.clone(), Box::new(Lengths(Arc::clone(&seen))));
    let packet = |length| pool.take().unwrap().into_packet(&region, length).unwrap();
    let mut packets: Vec<_> = [60, 100].map(packet).into();
    assert_eq!(queue.receive(&mut packets, 64), 0);
    assert_eq!(queue.transmit(&mut packets), 2);
    assert_eq!(*seen.lock().unwrap(), [60, 100]);
    assert_eq!((counter.packets(), queue.in_flight()), (2, 2));
}
