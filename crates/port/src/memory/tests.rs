use bora_buffer::SharedFrames;

use super::*;

#[test]
fn a_pair_moves_every_packet_in_order_between_threads() {
    const COUNT: u32 = 200_000;
    let region = Arc::new(Region::new(1024, 2048).unwrap());
    let frames = SharedFrames::of_new_region(&region);
    let (mut left, mut right) = pair(100);
    let (there, reserve) = (region.clone(), frames.clone());
    let sender = std::thread::spawn(move || {
        let mut pool = Pool::new(reserve, 128);
        let mut packets = Vec::new();
        let mut next = 0u32;
        while next < COUNT || !packets.is_empty() {
            while next < COUNT && packets.len() < 50 {
                let Some(frame) = pool.take() else { break };
                let mut packet = frame.into_packet(&there, 64).unwrap();
                there.octets_mut(&mut packet)[..4].copy_from_slice(&next.to_ne_bytes());
                packets.push(packet);
                next += 1;
            }
            if left.transmit(&mut packets) == 0 {
                std::thread::yield_now();
            }
        }
        left
    });
    let mut pool = Pool::new(frames.clone(), 128);
    let mut packets = Vec::new();
    let mut expected = 0u32;
    while expected < COUNT {
        if right.receive(&mut packets, 33) == 0 {
            std::thread::yield_now();
        }
        for packet in packets.drain(..) {
            assert_eq!(region.octets(&packet)[..4], expected.to_ne_bytes());
            expected += 1;
            pool.give(packet.into_frame(&region));
        }
    }
    assert_eq!(sender.join().unwrap().in_flight(), 0);
    drop(pool);
    assert_eq!(frames.len(), 1024);
}

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
