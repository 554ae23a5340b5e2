use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn stream(flows: u32, flow_length: Option<u32>) -> Stream {
    Stream {
        from: 0,
        to: 1,
        weight: 1,
        flows,
        flow_length,
        sources: Values::Range(address("198.18.0.1"), address("198.18.0.254")),
        destinations: Values::List(vec![address("198.19.0.1"), address("198.19.0.2")]),
        source_ports: Values::Random {
            first: 1024,
            last: 65535,
            seed: 1,
        },
        destination_ports: Values::Random {
            first: 1024,
            last: 65535,
            seed: 1,
        },
        dscp: 0,
        vlan: None,
    }
}

#[test]
fn lists_and_ranges_begin_anew() {
    assert_eq!(Values::List(vec![7u16, 9]).nth(4), 7);
    let range = Values::Range(10u16, 12);
    assert_eq!(
        (0..5).map(|n| range.nth(n)).collect::<Vec<_>>(),
        [10, 11, 12, 10, 11]
    );
    let range = Values::Range(address("10.0.0.255"), address("10.0.1.0"));
    assert_eq!(range.nth(1), address("10.0.1.0"));
    assert_eq!(range.nth(2), address("10.0.0.255"));
    let range = Values::Range(address("2001:2::ffff"), address("2001:2::1:0"));
    assert_eq!(range.nth(1), address("2001:2::1:0"));
    let all = Values::Range(
        address("::"),
        address("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    );
    assert_eq!(all.nth(3), address("::3"), "no overflow");
    assert_eq!(
        Values::Range(9u16, 3).nth(5),
        9,
        "an empty range is its first value"
    );
}

#[test]
fn random_values_reach_all_of_their_range_evenly() {
    let values = Values::Random {
        first: 100u16,
        last: 109,
        seed: 3,
    };
    let mut counts = [0; 10];
    for n in 0..10_000 {
        counts[usize::from(values.nth(n) - 100)] += 1;
    }
    assert!(
        counts.iter().all(|count| (900..1100).contains(count)),
        "{counts:?}"
    );
    let wide = Values::Random {
        first: address("2001:2::"),
        last: address("2001:2:0:ffff:ffff:ffff:ffff:ffff"),
        seed: 3,
    };
    let drawn: HashSet<IpAddr> = (0..1000).map(|n| wide.nth(n)).collect();
    assert_eq!(drawn.len(), 1000);
    for value in drawn {
        assert!(
            (address("2001:2::")..=address("2001:2:0:ffff:ffff:ffff:ffff:ffff")).contains(&value)
        );
    }
}

#[test]
fn fields_with_one_seed_are_independent() {
    let stream = stream(1000, None);
    let same = (0..1000)
        .map(|flow| {
            stream.flow(Place {
                flow,
                generation: 0,
            })
        })
        .filter(|flow| flow.source_port == flow.destination_port);
    assert!(same.count() < 5);
}

#[test]
fn flows_live_as_long_as_they_should_and_end_one_after_the_other() {
    // KTH08's: 8192 flows of 30 packets
    let stream = stream(8192, Some(30));
    let mut lives = std::collections::HashMap::new();
    let mut born = vec![0u32; 90];
    let mut before = vec![None; 8192];
    for sequence in 0..8192 * 90 {
        let place = stream.place(sequence);
        *lives.entry((place.flow, place.generation)).or_insert(0) += 1;
        let flow = stream.flow(place);
        if before[place.flow as usize].replace(flow) != Some(flow) {
            born[(sequence / 8192) as usize] += 1;
        }
    }
    let whole = lives.iter().filter(|((_, generation), _)| *generation == 1);
    assert!(whole.map(|(_, life)| *life).all(|life| life == 30));
    // one in thirty of the flows is new in each round
    assert!(
        born[1..].iter().all(|new| (270..=275).contains(new)),
        "{born:?}"
    );
}

proptest! {
    #[test]
    fn places_follow_the_sequence(flows in 1u32..100_000, length in 1u32..100, sequence in 0u64..1 << 48) {
        let place = stream(flows, Some(length)).place(sequence);
        prop_assert_eq!(u64::from(place.flow), sequence % u64::from(flows));
        let age = sequence / u64::from(flows) + u64::from(place.flow % length);
        prop_assert_eq!(place.generation, age / u64::from(length));
        prop_assert_eq!(stream(flows, None).place(sequence).generation, 0);
    }
}
