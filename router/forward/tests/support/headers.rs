//! Random rules, random headers and the plainest way to match them.
#![allow(dead_code)]

use std::ops::RangeInclusive;

use bora_fib::PortId;
use bora_forward::Class;
use bora_forward::classify::{Action, Addresses, Rule, Ternary};
use bora_wire::{EtherType, MacAddr, Protocol, ethernet, ipv4, ipv6};

use super::Random;

pub(crate) const OURS: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

/// What a packet says, apart from how it says it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Headers {
    pub(crate) v6: bool,
    pub(crate) source: u128,
    pub(crate) destination: u128,
    pub(crate) tos: u8,
    pub(crate) protocol: u8,
    pub(crate) ports: [u16; 2],
    /// A fragment that is not the first.
    pub(crate) later_fragment: bool,
}

impl Headers {
    pub(crate) fn random(random: &mut Random) -> Self {
        let v6 = random.one_in(3);
        Self {
            v6,
            source: address(random, v6),
            destination: address(random, v6),
            tos: random.pick(&[0, 0xb8, 0xb9, 0xc0, 0x28, 3]),
            protocol: random.pick(&[6, 17, 1, 47, 132]),
            ports: [port(random), port(random)],
            later_fragment: random.one_in(8),
        }
    }

    fn known_ports(&self) -> Option<[u16; 2]> {
        (matches!(self.protocol, 6 | 17 | 132) && !self.later_fragment).then_some(self.ports)
    }

    /// An Ethernet frame with these headers.
    pub(crate) fn frame(&self) -> Vec<u8> {
        let network = if self.v6 { 40 + 8 } else { 20 };
        let mut octets = vec![0; 14 + network + 12];
        let link = ethernet::Repr {
            dst: OURS,
            src: MacAddr::ZERO,
            tag: None,
            ethertype: if self.v6 {
                EtherType::IPV6
            } else {
                EtherType::IPV4
            },
        };
        let packet = link.emit(&mut octets).unwrap();
        let transport = if self.v6 {
            self.write_v6(packet)
        } else {
            self.write_v4(packet)
        };
        transport[..2].copy_from_slice(&self.ports[0].to_be_bytes());
        transport[2..4].copy_from_slice(&self.ports[1].to_be_bytes());
        octets
    }

    fn write_v4<'a>(&self, octets: &'a mut [u8]) -> &'a mut [u8] {
        let repr = ipv4::Repr {
            tos: self.tos,
            dont_fragment: false,
            ttl: 64,
            protocol: Protocol(self.protocol),
            src: (self.source as u32).into(),
            dst: (self.destination as u32).into(),
        };
        repr.emit(octets).unwrap();
        let mut packet = ipv4::Packet::new_unchecked(&mut *octets);
        packet.set_fragment(false, true, if self.later_fragment { 8 } else { 0 });
        packet.fill_checksum();
        &mut octets[20..]
    }

    fn write_v6<'a>(&self, octets: &'a mut [u8]) -> &'a mut [u8] {
        let repr = ipv6::Repr {
            traffic_class: self.tos,
            flow_label: 0,
            next_header: Protocol::FRAGMENT,
            hop_limit: 64,
            src: self.source.into(),
            dst: self.destination.into(),
        };
        let (fragment, transport) = repr.emit(octets).unwrap().split_at_mut(8);
        fragment.copy_from_slice(&[self.protocol, 0, 0, 1, 0, 0, 0, 1]);
        if self.later_fragment {
            fragment[3] = 8;
        }
        transport
    }
}

/// Few enough addresses that rules meet packets.
fn address(random: &mut Random, v6: bool) -> u128 {
    let low = u128::from(random.below(4) << 8 | random.below(8));
    if v6 {
        0x2001_0db8 << 96 | u128::from(random.below(3)) << 64 | low
    } else {
        0x0a00_0000 | low
    }
}

fn port(random: &mut Random) -> u16 {
    random.pick(&[22, 53, 80, 443, 1024, 5060, 0, 65535])
}

fn ternary(random: &mut Random, value: u128, bits: u32) -> Ternary<u128> {
    let all = u128::MAX >> (128 - bits);
    let mask = match random.below(4) {
        0 => 0,
        1 => all,
        2 => all << random.below(12) & all,
        _ => u128::from(random.next()) << random.below(u64::from(bits) / 2) & all,
    };
    Ternary { value, mask }
}

fn range(random: &mut Random) -> Option<RangeInclusive<u16>> {
    let (one, other) = (port(random), port(random));
    match random.below(4) {
        0 => Some(one..=one),
        1 => Some(one.min(other)..=one.max(other)),
        _ => None,
    }
}

pub(crate) fn rule(random: &mut Random) -> Rule {
    let narrow = |ternary: Ternary<u128>| Ternary {
        value: ternary.value as u32,
        mask: ternary.mask as u32,
    };
    let v6 = random.one_in(2);
    let mut side = || {
        let value = address(random, v6);
        ternary(random, value, if v6 { 128 } else { 32 })
    };
    let (source, destination) = (side(), side());
    let addresses = match (random.one_in(5), v6) {
        (true, _) => Addresses::Any,
        (false, true) => Addresses::V6 {
            source,
            destination,
        },
        (false, false) => Addresses::V4 {
            source: narrow(source),
            destination: narrow(destination),
        },
    };
    Rule {
        addresses,
        tos: match random.below(3) {
            0 => Ternary::dscp(46),
            1 => Ternary::exact(0xc0),
            _ => Ternary::default(),
        },
        protocol: match random.below(3) {
            0 => Ternary::exact(17),
            1 => Ternary::exact(6),
            _ => Ternary::default(),
        },
        pcp: None,
        source_ports: range(random),
        destination_ports: range(random),
        in_port: [None, None, Some(PortId(0)), Some(PortId(1))][random.below(4) as usize],
        action: match random.below(3) {
            0 => Action::Drop,
            1 => Action::COUNT,
            _ => Action::Pass {
                class: Some(Class(random.below(8) as u8)),
                output: None,
            },
        },
    }
}

/// First match by reading the rules one after the other.
pub(crate) fn scan(rules: &[Rule], headers: &Headers, in_port: PortId) -> Option<usize> {
    rules
        .iter()
        .position(|rule| matches(rule, headers, in_port))
}

fn matches(rule: &Rule, headers: &Headers, in_port: PortId) -> bool {
    let octet = |wanted: Ternary<u8>, value: u8| (wanted.value ^ value) & wanted.mask == 0;
    let four = |wanted: Ternary<u32>, value: u128| (wanted.value ^ value as u32) & wanted.mask == 0;
    let six = |wanted: Ternary<u128>, value: u128| (wanted.value ^ value) & wanted.mask == 0;
    let addresses = match rule.addresses {
        Addresses::Any => true,
        Addresses::V4 {
            source,
            destination,
        } => !headers.v6 && four(source, headers.source) && four(destination, headers.destination),
        Addresses::V6 {
            source,
            destination,
        } => headers.v6 && six(source, headers.source) && six(destination, headers.destination),
    };
    let port = |range: &Option<RangeInclusive<u16>>, which: usize| match range {
        None => true,
        Some(range) => headers
            .known_ports()
            .is_some_and(|ports| range.contains(&ports[which])),
    };
    addresses
        && octet(rule.tos, headers.tos)
        && octet(rule.protocol, headers.protocol)
        && rule.pcp.is_none()
        && port(&rule.source_ports, 0)
        && port(&rule.destination_ports, 1)
        && rule.in_port.is_none_or(|wanted| wanted == in_port)
}
