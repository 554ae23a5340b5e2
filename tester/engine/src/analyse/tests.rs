use std::collections::HashSet;

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::generate::Generator;
use crate::test_traffic::{any_traffic, link, many_flows, one_flow};

/// Close to where 48 bits begin anew.
const START: u64 = (5 << 48) - 20_000;
const PORT: usize = 1;

/// Frames of port 0, due every 1000 ns.
fn sent(traffic: &Traffic, count: u64) -> (Vec<Vec<u8>>, Vec<u64>) {
    let mut generator = Generator::new(traffic, 0, &vec![link(); traffic.streams.len()]).unwrap();
    let write = |n| {
        let mut frame = vec![0; generator.next_length()];
        generator.write(&mut frame, START + n * 1000);
        frame
    };
    let frames = (0..count).map(write).collect();
    (frames, generator.sent())
}

/// What happens to a frame on its way.
#[derive(Clone, Debug)]
enum Fate {
    Fine,
    Lost,
    /// One bit is wrong.
    Damaged(Index),
    /// It comes this many frames later.
    Late(usize),
    /// It comes at once, and again this many frames later.
    Twice(usize),
}

fn any_fates() -> impl Strategy<Value = Vec<Fate>> {
    let fate = prop_oneof![
        8 => Just(Fate::Fine),
        2 => Just(Fate::Lost),
        2 => any::<Index>().prop_map(Fate::Damaged),
        2 => (1usize..40).prop_map(Fate::Late),
        2 => (0usize..40).prop_map(Fate::Twice),
    ];
    proptest::collection::vec(fate, 1..120)
}

/// The frames in the order in which they come, with the bit that is wrong.
fn carried(fates: &[Fate]) -> Vec<(usize, Option<Index>)> {
    let mut carried = Vec::new();
    for (n, fate) in fates.iter().enumerate() {
        match fate {
            Fate::Lost => {}
            Fate::Fine => carried.push((n, n, None)),
            Fate::Damaged(bit) => carried.push((n, n, Some(*bit))),
            Fate::Late(by) => carried.push((n + by, n, None)),
            Fate::Twice(by) => carried.extend([(n, n, None), (n + by, n, None)]),
        }
    }
    carried.sort_by_key(|(place, ..)| *place);
    carried.into_iter().map(|(_, n, bit)| (n, bit)).collect()
}

/// Whether a wrong bit there makes a frame another one (foreign), is covered by no check, or shows.
#[derive(Debug, PartialEq)]
enum Damage {
    Foreign,
    Unseen,
    Seen,
}

fn damage(stream: &Stream, bit: usize) -> Damage {
    let ip = frame::ip_offset(stream);
    let octet = bit / 8;
    if octet < ip {
        // an EtherType, or else addresses and the tag's value
        let ethertype = (12..14).contains(&octet) || octet + 2 >= ip;
        return if ethertype {
            Damage::Foreign
        } else {
            Damage::Unseen
        };
    }
    match (frame::is_v4(stream), octet - ip) {
        (true, 0 | 9) | (false, 6) => Damage::Foreign,
        // version; in IPv6 nothing covers class, label and hop limit
        (false, 0) if bit % 8 >= 4 => Damage::Foreign,
        (false, 0..4 | 7) => Damage::Unseen,
        _ => Damage::Seen,
    }
}

/// Counts what came, by the book.
fn count_plainly(
    traffic: &Traffic,
    frames: &[Vec<u8>],
    carried: &[(usize, Option<Index>)],
) -> (Vec<Counts>, u64) {
    let mut counts = vec![Counts::default(); traffic.streams.len()];
    let mut came = vec![HashSet::new(); traffic.streams.len()];
    let mut order: Vec<Vec<u64>> = vec![Vec::new(); traffic.streams.len()];
    let mut foreign = 0;
    for (n, bit) in carried {
        let arrived = Arrived::find(&frames[*n]).unwrap();
        let (signature, _) = Signature::read(arrived.signature);
        let id = usize::from(signature.stream);
        let (stream, counts) = (&traffic.streams[id], &mut counts[id]);
        let damage = bit.map(|bit| damage(stream, bit.index(frames[*n].len() * 8)));
        match damage {
            Some(Damage::Foreign) => foreign += 1,
            Some(Damage::Seen) => counts.corrupted += 1,
            _ if stream.to != PORT => counts.misrouted += 1,
            _ => {
                let sequence = signature.sequence;
                let flow = |sequence| sequence % u64::from(stream.flows);
                let overtaken = came[id]
                    .iter()
                    .any(|&other| other > sequence && flow(other) == flow(sequence));
                if came[id].insert(sequence) {
                    counts.received += 1;
                    let first = order[id].iter().position(|&other| other > sequence);
                    if let Some(first) = first.filter(|_| overtaken) {
                        let extent = (order[id].len() - first) as u64;
                        counts.reordered += 1;
                        counts.extent_sum += extent;
                        counts.extent_max = counts.extent_max.max(extent);
                    }
                    order[id].push(sequence);
                } else {
                    counts.duplicated += 1;
                }
            }
        }
    }
    (counts, foreign)
}

proptest! {
    #[test]
    fn exactly_what_happened_is_found(traffic in any_traffic(), fates in any_fates()) {
        let (frames, sent) = sent(&traffic, fates.len() as u64);
        let carried = carried(&fates);
        let mut analyser = Analyser::new(&traffic, PORT, START);
        let distinct: HashSet<u16> = traffic.frames.lengths.iter().copied().collect();
        // one pair of streams in 65535 has the same checksum
        prop_assume!(analyser.checksums.len() == distinct.len() * traffic.streams.len());
        for (time, (n, bit)) in carried.iter().enumerate() {
            let mut frame = frames[*n].clone();
            if let Some(bit) = bit.map(|bit| bit.index(frame.len() * 8)) {
                frame[bit / 8] ^= 1 << (bit % 8);
            }
            analyser.receive(&frame, START + 200_000 + time as u64);
        }
        let last = vec![START + fates.len() as u64 * 1000; sent.len()];
        let parts = [analyser.finish()];
        let (streams, unknown, foreign) = conclude(&traffic, START, &sent, &last, &parts);
        let (mut expected, expected_foreign) = count_plainly(&traffic, &frames, &carried);
        for (expected, sent) in expected.iter_mut().zip(&sent) {
            expected.sent = *sent;
        }
        let counts: Vec<Counts> = streams.iter().map(|stream| stream.counts).collect();
        prop_assert_eq!(counts, expected);
        prop_assert_eq!((unknown, foreign), (0, expected_foreign));
        for stream in &streams {
            prop_assert_eq!(stream.latency.len(), stream.counts.received);
        }
    }

    #[test]
    fn any_octets_are_counted_once(
        frames in proptest::collection::vec(
            (proptest::collection::vec(any::<u8>(), 0..120), any::<(Index, bool)>()), 0..40),
    ) {
        let traffic = many_flows(3);
        let (good, _) = sent(&traffic, 1);
        let mut analyser = Analyser::new(&traffic, PORT, START);
        for (octets, (at, own)) in &frames {
            let mut frame = octets.clone();
            if *own {
                // a good frame, cut off or with other octets from some place on
                let at = at.index(good[0].len() + 1);
                frame.splice(..at.min(octets.len()), good[0][..at].iter().copied());
            }
            analyser.receive(&frame, START);
        }
        let found = analyser.finish();
        let stream = &found.streams[0];
        let all = stream.received + stream.duplicated + stream.corrupted + found.unknown_damaged + found.foreign;
        prop_assert_eq!(all, frames.len() as u64);
        prop_assert!(stream.received <= 1);
    }
}

fn analysed(traffic: &Traffic, start: u64, frames: &[Vec<u8>]) -> Received {
    let mut analyser = Analyser::new(traffic, PORT, start);
    for (n, frame) in frames.iter().enumerate() {
        analyser.receive(frame, START + n as u64 * 1000 + 500);
    }
    analyser.finish()
}

#[test]
fn times_are_found() {
    let traffic = many_flows(3);
    let (frames, sent) = sent(&traffic, 100);
    let outcome = |frames: &[Vec<u8>], end: u64| {
        let found = analysed(&traffic, START, frames);
        let (mut streams, ..) = conclude(&traffic, START, &sent, &[START + end], &[found]);
        streams.remove(0)
    };
    let whole = outcome(&frames, 99_000);
    assert_eq!((whole.longest_gap, whole.last_loss), (1000, None));
    assert!(!whole.tail_lost);
    assert!(whole.latency.equivalent(whole.latency.max(), 500));
    assert!(whole.latency.equivalent(whole.latency.min(), 500));
    assert_eq!(whole.counts.received, 100);

    let holed = outcome(&[&frames[..40], &frames[60..]].concat(), 99_000);
    assert_eq!((holed.longest_gap, holed.last_loss), (21_000, Some(60_000)));
    assert!(!holed.tail_lost);

    let ended = outcome(&frames[..90], 99_000);
    assert_eq!((ended.longest_gap, ended.last_loss), (10_000, Some(99_000)));
    assert!(!ended.tail_lost);

    let never_again = outcome(&frames[..90], 60_089_000);
    assert_eq!(never_again.longest_gap, 60_000_000);
    assert!(never_again.tail_lost);

    let nothing = outcome(&[], 99_000);
    assert_eq!(
        (
            nothing.counts.lost(),
            nothing.longest_gap,
            nothing.last_loss
        ),
        (100, 99_000, Some(99_000))
    );
}

#[test]
fn frames_of_an_earlier_trial_are_foreign() {
    let traffic = many_flows(3);
    let (frames, _) = sent(&traffic, 10);
    let found = analysed(&traffic, START + 4000, &frames);
    assert_eq!((found.foreign, found.streams[0].received), (4, 6));
}

#[test]
fn damage_without_verification() {
    let traffic = one_flow(128);
    let (mut frames, _) = sent(&traffic, 2);
    frames[0][100] ^= 1;
    frames[1][56] ^= 1; // the stamp
    let mut analyser = Analyser::new(&traffic, PORT, START);
    analyser.set_verify(false);
    for frame in &frames {
        analyser.receive(frame, START + 5000);
    }
    let found = analyser.finish();
    assert_eq!(
        (found.streams[0].received, found.streams[0].corrupted),
        (1, 1)
    );
}

#[test]
fn damage_that_hides_the_stream() {
    let traffic = one_flow(128);
    let (mut frames, _) = sent(&traffic, 3);
    for frame in &mut frames {
        frame[40] ^= 1; // the UDP checksum
        frame[42] ^= 1; // the stream
    }
    let damaged = analysed(&traffic, START, &frames);
    assert_eq!((damaged.unknown_damaged, damaged.foreign), (3, 0));
    for frame in &mut frames {
        frame[53] ^= 0x10; // the stamp, which is no longer within the trial
    }
    let hidden = analysed(&traffic, START, &frames);
    assert_eq!((hidden.unknown_damaged, hidden.foreign), (0, 3));
}

#[test]
fn tags_that_a_router_takes_off_or_puts_on_do_not_matter() {
    let mut traffic = one_flow(128);
    let mut tagged = traffic.clone();
    tagged.streams[0].vlan = Some((7, 0));
    tagged.frames.lengths = vec![132];
    let (untagged_frames, _) = sent(&traffic, 2);
    let (tagged_frames, _) = sent(&tagged, 2);
    assert_eq!(
        analysed(&tagged, START, &untagged_frames).streams[0].received,
        2
    );
    traffic.frames.lengths = vec![128];
    assert_eq!(
        analysed(&traffic, START, &tagged_frames).streams[0].received,
        2
    );
}

/// Latencies of 500, 700, 600 ns; then number 3 is lost, and 5 comes before 4.
#[test]
fn delay_variation_is_of_neighbours_only() {
    let traffic = one_flow(64);
    let (frames, _) = sent(&traffic, 7);
    let mut analyser = Analyser::new(&traffic, PORT, START);
    for (n, latency) in [
        (0, 500),
        (1, 700),
        (2, 600),
        (5, 9000),
        (4, 20_000),
        (6, 8000),
    ] {
        analyser.receive(&frames[n], START + n as u64 * 1000 + latency);
    }
    let found = analyser.finish();
    let variation = &found.variation;
    assert_eq!(
        (variation.len(), variation.min(), variation.max()),
        (2, 100, 200)
    );
    let stream = &found.streams[0];
    assert_eq!(
        (stream.reordered, stream.extent_sum, stream.extent_max),
        (1, 1, 1)
    );
}
