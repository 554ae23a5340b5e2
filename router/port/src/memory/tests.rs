use bora_buffer::Region;

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
