//! Sets of rules, and packets for them.

use bora_fib_bench::random::Random;

use super::{Header, PACKETS};

/// An IPv4 rule: prefixes, ports and a protocol.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Source prefix: address and length.
    pub source: (u32, u8),
    /// Destination prefix.
    pub destination: (u32, u8),
    /// First and last.
    pub source_ports: (u16, u16),
    /// First and last.
    pub destination_ports: (u16, u16),
    /// Any if none.
    pub protocol: Option<u8>,
}

/// What a set of rules is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A filter of hosts and services: destinations and ports, some sources, ranges, some rules for whole
    /// networks.
    Filter,
    /// Sources to drop: addresses and networks, nothing else.
    Blocklist,
}

impl Kind {
    /// The name of the kind, for cases.
    pub fn name(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Blocklist => "blocklist",
        }
    }
}

const ANY: (u16, u16) = (0, u16::MAX);
const SERVICES: [u16; 12] = [22, 25, 53, 80, 110, 123, 143, 179, 443, 993, 3306, 8080];

/// Ones of a prefix.
pub(super) fn mask(length: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0)
}

/// A prefix in one of this many /16 networks.
fn prefix(random: &mut Random, networks: usize, lengths: &[u8]) -> (u32, u8) {
    let length = lengths[random.below(lengths.len())];
    let network = (random.below(networks) as u32).wrapping_mul(2039) & 0xfff; // scattered
    let address = 0x1000_0000 | network << 16 | random.below(1 << 16) as u32;
    (address & mask(length), length)
}

/// A set of rules; those of one kind and number are always the same.
pub fn rules(kind: Kind, count: usize) -> Vec<Rule> {
    let mut random = Random::new(count as u64 + 1);
    let networks = (count / 40).clamp(4, 4096);
    (0..count)
        .map(|_| rule(kind, networks, &mut random))
        .collect()
}

fn rule(kind: Kind, networks: usize, random: &mut Random) -> Rule {
    const HOSTS: [u8; 6] = [32, 32, 32, 28, 24, 24];
    let mut one = Rule {
        source: (0, 0),
        destination: (0, 0),
        source_ports: ANY,
        destination_ports: ANY,
        protocol: None,
    };
    if kind == Kind::Blocklist {
        one.source = prefix(random, networks, &HOSTS);
        return one;
    }
    let service = SERVICES[random.below(SERVICES.len())];
    let protocol = if random.below(4) == 0 { 17 } else { 6 };
    match random.below(20) {
        // a service of a host, for all or for a network
        0..=11 => {
            one.destination = prefix(random, networks, &HOSTS);
            (one.destination_ports, one.protocol) = ((service, service), Some(protocol));
            if random.below(3) == 0 {
                one.source = prefix(random, networks, &[16, 24, 24]);
            }
        }
        // between networks
        12..=15 => {
            one.source = prefix(random, networks, &HOSTS);
            one.destination = prefix(random, networks, &[16, 24, 32]);
        }
        // ranges
        16 | 17 => {
            one.destination = prefix(random, networks, &HOSTS);
            let first = random.below(60_000) as u16;
            let last = first + random.below(5000) as u16;
            (one.destination_ports, one.protocol) = ((first, last), Some(protocol));
        }
        // a host that may do nothing
        18 => one.source = prefix(random, networks, &[32]),
        // answers of a service
        _ => {
            one.source = prefix(random, networks, &HOSTS);
            (one.source_ports, one.protocol) = ((service, service), Some(protocol));
        }
    }
    one
}

/// Packets: of four, three match some rule, unless an earlier one matches.
pub fn packets(rules: &[Rule]) -> Vec<Header> {
    let mut random = Random::new(7);
    let inside = |random: &mut Random, (address, length): (u32, u8)| match length {
        0 => 0x0b00_0000 | random.below(1 << 24) as u32, // an address of no rule, and not special
        _ => address | (random.bits() as u32 & !mask(length)),
    };
    let between = |random: &mut Random, (first, last): (u16, u16)| {
        first + random.below(usize::from(last - first) + 1) as u16
    };
    let header = |_| {
        let rule = &rules[random.below(rules.len())];
        let (mut source, mut destination) = (
            inside(&mut random, rule.source),
            inside(&mut random, rule.destination),
        );
        let ports =
            [rule.source_ports, rule.destination_ports].map(|range| between(&mut random, range));
        let protocol = rule
            .protocol
            .unwrap_or(if random.below(3) == 0 { 17 } else { 6 });
        if random.below(4) == 0 {
            source = 0x0b00_0000 | random.below(1 << 24) as u32;
            destination ^= 0x0001_0101;
        }
        let mut header = [0; super::HEADER];
        (header[0], header[3], header[8], header[9]) = (0x45, 60, 64, protocol);
        header[12..16].copy_from_slice(&source.to_be_bytes());
        header[16..20].copy_from_slice(&destination.to_be_bytes());
        header[20..22].copy_from_slice(&ports[0].to_be_bytes());
        header[22..24].copy_from_slice(&ports[1].to_be_bytes());
        header
    };
    (0..PACKETS).map(header).collect()
}

impl Rule {
    /// Whether it matches a packet.
    pub fn matches(&self, header: &Header) -> bool {
        let word = |at: usize| {
            u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let short = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let is_in =
            |address: u32, (prefix, length): (u32, u8)| (address ^ prefix) & mask(length) == 0;
        let between = |port: u16, (first, last): (u16, u16)| (first..=last).contains(&port);
        is_in(word(12), self.source)
            && is_in(word(16), self.destination)
            && between(short(20), self.source_ports)
            && between(short(22), self.destination_ports)
            && self.protocol.is_none_or(|protocol| protocol == header[9])
    }
}
