//! What is control traffic, and in which order packets go to Linux.

use bora_fib::{FibConfig, NextHop, Prefix4};

use super::*;

const OURS: [u8; 6] = [2, 0, 0, 0, 0, 1];
const OWN: u32 = 0x0a00_0101;
const OTHER: u32 = 0x0a00_0202;

fn frame(to: [u8; 6], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let ethertype = ethertype.to_be_bytes();
    [&to[..], &[2, 0, 0, 0, 0, 9], &ethertype, payload].concat()
}

fn ip4(to: u32, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 1, 2];
    packet.extend(to.to_be_bytes());
    packet.extend(payload);
    packet[3] = packet.len() as u8;
    packet
}

fn ip6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, payload.len() as u8, next, 255];
    packet.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
    packet.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    packet.extend(payload);
    packet
}

/// Ports of TCP or UDP, and no more of the header.
fn ports(from: u16, to: u16) -> [u8; 8] {
    let [[a, b], [c, d]] = [from, to].map(u16::to_be_bytes);
    [a, b, c, d, 0, 8, 0, 0]
}

#[test]
fn what_links_neighbours_and_routes_live_by_is_control_traffic() {
    let four = |protocol, payload: &[u8]| frame(OURS, 0x0800, &ip4(OWN, protocol, payload));
    let six = |next, payload: &[u8]| frame(OURS, 0x86dd, &ip6(next, payload));
    let listeners = [&[58, 0, 5, 2, 0, 0, 1, 0, 143][..], &[0; 7]].concat();
    for frame in [
        frame([0x01, 0x80, 0xc2, 0, 0, 2], 0x8809, &[1]),
        frame([0x01, 0x80, 0xc2, 0, 0, 0], 39, &[0x42, 0x42, 3]),
        frame([9, 0, 0x2b, 0, 0, 5], 1000, &[0xfe, 0xfe, 3, 0x83]),
        frame([0xff; 6], 0x0806, &[0; 28]),
        frame([0xff; 6], 0x8100, &[0, 7, 8, 6, 0, 1]),
        frame([0xff; 6], 0x88a8, &[0, 7, 0x81, 0, 0, 8, 8, 6, 0, 1]),
        four(89, &[2, 1]),
        four(112, &[0x21]),
        four(6, &ports(40_000, 179)),
        four(6, &ports(179, 40_000)),
        four(17, &ports(50_000, 3784)),
        four(17, &ports(68, 67)),
        six(89, &[3, 1]),
        six(58, &[135, 0, 0, 0]),
        six(0, &listeners),
        six(17, &ports(521, 521)),
    ] {
        assert!(is_control(&frame), "{frame:02x?}");
    }
    let mut later = ip4(OWN, 17, &ports(50_000, 3784));
    later[7] = 1;
    for frame in [
        frame(OURS, 0x0800, &later),
        four(17, &ports(3784, 50_000)),
        four(17, &ports(1, 2)[..3]),
        four(6, &ports(22, 40_000)),
        four(1, &[8, 0, 0, 0]),
        six(58, &[128, 0, 0, 0]),
        frame(OURS, 0x8847, &[0; 28]),
        frame(
            [1, 0, 0x5e, 1, 2, 3],
            0x0800,
            &ip4(0xe001_0203, 17, &ports(5, 6)),
        ),
        vec![0; 3],
    ] {
        assert!(!is_control(&frame), "{frame:02x?}");
    }
}

#[test]
fn control_traffic_of_the_router_comes_first_then_its_other_traffic() {
    let (mut writer, handle) = bora_fib::new(FibConfig::default()).unwrap();
    let local = NextHop::Punt {
        reason: Reason::Local,
        port: None,
    };
    let local = writer.add_next_hop(local).unwrap();
    writer.insert4(Prefix4::masked(OWN, 32), local).unwrap();
    let fib = handle.reader().unwrap();
    let (bgp, ping) = (ports(40_000, 179), [8, 0, 0, 0]);
    let to =
        |address, protocol, payload: &[u8]| frame(OURS, 0x0800, &ip4(address, protocol, payload));
    let group = [1, 0, 0x5e, 0, 0, 5];
    for (reason, frame, urgency) in [
        (Reason::Local, to(OWN, 6, &bgp), Urgency::Control),
        (Reason::Guard, to(OWN, 6, &bgp), Urgency::Control),
        (Reason::Local, to(OWN, 1, &ping), Urgency::Local),
        (Reason::Guard, to(OWN, 1, &ping), Urgency::Local),
        (Reason::ForwardingOff, to(OWN, 1, &ping), Urgency::Local),
        (Reason::TtlExceeded, to(OTHER, 6, &bgp), Urgency::Exception),
        (Reason::Guard, to(OTHER, 6, &bgp), Urgency::Bulk),
        (Reason::Redirect, to(OTHER, 6, &bgp), Urgency::Bulk),
        (Reason::ForeignMac, to(OTHER, 6, &bgp), Urgency::Bulk),
        (
            Reason::ForeignMac,
            frame(group, 0x0800, &ip4(0xe000_0005, 89, &[2])),
            Urgency::Control,
        ),
        (
            Reason::ForeignMac,
            frame(group, 0x0800, &ip4(0xe000_0005, 17, &ping)),
            Urgency::Bulk,
        ),
        (
            Reason::SpecialAddress,
            frame(OURS, 0x86dd, &ip6(58, &[136, 0])),
            Urgency::Control,
        ),
        (
            Reason::SpecialAddress,
            frame(OURS, 0x86dd, &ip6(58, &[128, 0])),
            Urgency::Local,
        ),
        (
            Reason::SpecialAddress,
            to(0x7f00_0001, 1, &ping),
            Urgency::Bulk,
        ),
        (
            Reason::NotIp,
            frame(OURS, 0x0806, &[0; 28]),
            Urgency::Control,
        ),
        (Reason::NotIp, frame(OURS, 0x8847, &[0; 28]), Urgency::Bulk),
    ] {
        assert_eq!(
            Urgency::of(reason, &frame, &fib),
            urgency,
            "{reason:?} {frame:02x?}"
        );
    }
}
