use super::*;
use crate::generate::Generator;
use crate::test_traffic::{link, many_flows};

const START: u64 = 1 << 47;

/// Frames of port 0, due every 1000 ns.
fn sent(traffic: &Traffic, count: u64) -> Vec<Vec<u8>> {
    let mut generator = Generator::new(traffic, 0, &vec![link(); traffic.streams.len()]).unwrap();
    let write = |n| {
        let mut frame = vec![0; generator.next_length()];
        generator.write(&mut frame, START + n * 1000);
        frame
    };
    (0..count).map(write).collect()
}

#[test]
fn all_that_comes_is_counted() {
    let traffic = many_flows(3);
    let mut analyser = Analyser::new(&traffic, 1, START);
    for (n, frame) in sent(&traffic, 100).iter().enumerate() {
        analyser.receive(frame, START + n as u64 * 1000 + 500);
    }
    let (streams, unknown, foreign) = conclude(&traffic, START, &[100], &[analyser.finish()]);
    let expected = Counts {
        sent: 100,
        received: 100,
        ..Counts::default()
    };
    assert_eq!(streams[0].counts, expected);
    assert_eq!((unknown, foreign), (0, 0));
    assert_eq!((streams[0].longest_gap, streams[0].last_loss), (1000, None));
    assert!(streams[0].latency.equivalent(streams[0].latency.max(), 500));
}
