//! The multipath hash beside what a kernel did.

use bora_forward::{Family, FlowHash, HashPolicy};

const SEED: u64 = 12345;
const FIELDS: u32 = 0x37 | 0x37 << 6 | 1 << 3 | 1 << 9;

/// Each of some hundred packets takes the path on record: plain ones, fragments, ICMP errors, IPsec, packets
/// in packets, IPv6 extension headers, by all four policies.
#[test]
fn paths_are_the_kernels() {
    let recorded = include_str!("data/multipath.txt");
    let lines = recorded.lines().filter(|line| !line.starts_with('#'));
    let mut count = 0;
    for line in lines {
        let mut words = line.split(' ');
        let mut word = || words.next().expect("three words");
        let (policy, path): (u8, u32) = (word().parse().unwrap(), word().parse().unwrap());
        let hex = word().as_bytes().chunks(2);
        let octets: Vec<u8> = hex
            .map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap())
            .collect();
        let hash = FlowHash {
            policy: HashPolicy::from_number(policy),
            fields: FIELDS,
            key: [SEED << 32 | SEED; 2],
        };
        let family = if octets[0] >> 4 == 4 {
            Family::V4
        } else {
            Family::V6
        };
        let flow = hash.of(&octets, family).expect("known");
        // three equal shares of 2^31
        let taken = [0x2aaa_aaaa, 0x5555_5554]
            .iter()
            .filter(|&&bound| flow > bound)
            .count() as u32;
        assert_eq!(taken, path, "{line}");
        count += 1;
    }
    assert_eq!(count, 480);
}
