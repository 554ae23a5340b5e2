//! Packets go into tunnels and come out of them.

use std::cell::RefCell;
use std::net::Ipv4Addr;

use bora_buffer::{Packet, Pool, Region, SharedFrames};
use bora_fib::{
    Adjacency, Encapsulation, FibConfig, FibReader, FibWriter, Group, NextHop, OuterUdp, PortId,
    Prefix4,
};
use bora_forward::{
    Batch, Classifier, Context, Device, Devices, Endpoint, FlowHash, Ingress, Inputs, Meta,
    Policies, Ports, Priorities, Reason, Tags, Tunnelling, Verdict,
};
use bora_wire::{MacAddr, Protocol, checksum, ipv4, udp};
use proptest::prelude::*;

const OURS: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const NEAR: u32 = 0x0a00_0101;
const FAR: u32 = 0xc000_0209;
const TUNNEL: PortId = PortId(bora_contract::MAX_PORTS as u16);
/// Behind the tunnel, and the host that packets for it come from.
const THERE: u32 = 0xc633_0109;
const HERE: u32 = 0xc612_0009;
const KEY: u32 = 0x0102_0304;

/// The template of GRE with a key.
fn gre() -> Vec<u8> {
    let mut headers = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 0, 47, 0, 0];
    headers.extend(NEAR.to_be_bytes());
    headers.extend(FAR.to_be_bytes());
    headers.extend([0x20, 0, 8, 0]);
    headers.extend(KEY.to_be_bytes());
    headers
}

/// The template of VXLAN 66 to port 4789, with an Ethernet header inside.
fn vxlan() -> Vec<u8> {
    let mut headers = gre()[..20].to_vec();
    (headers[8], headers[9]) = (64, 17);
    headers.extend([0, 0, 0x12, 0xb5, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 66, 0]);
    headers.extend([6; 6]);
    headers.extend([7; 6]);
    headers.extend([8, 0]);
    headers
}

fn adjacency(port: u16, mtu: u16) -> Adjacency {
    let mut l2 = [port as u8; 14];
    l2[12..].copy_from_slice(&[8, 0]);
    Adjacency {
        port: PortId(port),
        mtu,
        l2,
        unconfirmed: None,
    }
}

struct Bench {
    region: Region,
    pool: RefCell<Pool>,
    fib: FibReader,
    _writer: FibWriter,
}

impl Bench {
    /// A network behind the tunnel, and its far end behind these ports.
    fn new(tunnel: Encapsulation, outer: &[Adjacency]) -> Self {
        let region = Region::new(512, 2048).unwrap();
        let pool = Pool::new(SharedFrames::of_new_region(&region), 512);
        let (mut writer, handle) = bora_fib::new(FibConfig::default()).unwrap();
        let tunnel = writer.add_next_hop(NextHop::Tunnel(tunnel.into())).unwrap();
        writer.insert4(Prefix4::masked(THERE, 24), tunnel).unwrap();
        let members = outer.iter().map(|&way| {
            let id = writer.add_next_hop(NextHop::Forward(way)).unwrap();
            (id, 1)
        });
        let members: Vec<_> = members.collect();
        let far = match members[..] {
            [(only, _)] => only,
            _ => writer
                .add_next_hop(NextHop::Group(Group::new(&members)))
                .unwrap(),
        };
        writer.insert4(Prefix4::masked(FAR, 24), far).unwrap();
        Self {
            region,
            pool: pool.into(),
            fib: handle.reader().unwrap(),
            _writer: writer,
        }
    }

    fn packet(&self, frame: &[u8]) -> Packet {
        let empty = self.pool.borrow_mut().take().unwrap();
        let mut packet = empty.into_packet(&self.region, frame.len()).unwrap();
        self.region.octets_mut(&mut packet).copy_from_slice(frame);
        packet
    }

    /// What becomes of a frame, and what a worker is told of tunnels.
    fn forward(&self, frame: &[u8]) -> (Verdict, Vec<u8>, Vec<(PortId, u64, u64)>) {
        let mut batch = Batch::new();
        batch.packets.push(self.packet(frame));
        batch.came_by(PortId(0));
        let inputs = Inputs::new([&Ingress::new(PortId(0), OURS)], &Devices::default());
        let tunnelling = Tunnelling::new(0x1234);
        let hash = FlowHash {
            key: [7, 8],
            ..FlowHash::default()
        };
        let context = Context {
            region: &self.region,
            fib: &self.fib,
            inputs: &inputs,
            devices: &Devices::default(),
            min_frames: &[0, 60],
            classifier: &Classifier::default(),
            policies: &Policies::default(),
            hash4: hash,
            hash6: hash,
            tunnelling: &tunnelling,
        };
        bora_forward::run(&mut batch, &context, &[], |_| {});
        let packet = batch.packets.pop().unwrap();
        let octets = self.region.octets(&packet).to_vec();
        self.pool.borrow_mut().give(packet.into_frame(&self.region));
        let mut sent = Vec::new();
        tunnelling.take_sent(|port, packets, octets| sent.push((port, packets, octets)));
        let meta: Meta = batch.meta[0];
        (meta.verdict(), octets, sent)
    }
}

/// A UDP packet of `length` octets from HERE to THERE, with TOS and flags.
fn inner(tos: u8, flags: u8, length: u16, source_port: u16) -> Vec<u8> {
    let mut frame = vec![0; 14 + usize::from(length)];
    let header = udp::Frame {
        dst_mac: OURS,
        ttl: 9,
        ..udp::Frame::new(Ipv4Addr::from(HERE), Ipv4Addr::from(THERE))
    };
    header.emit(&mut frame).unwrap();
    (frame[15], frame[20]) = (tos, flags);
    frame[34..36].copy_from_slice(&source_port.to_be_bytes());
    ipv4::Packet::new_unchecked(&mut frame[14..]).fill_checksum();
    frame
}

/// The packet after the hop.
fn after_hop(frame: &[u8]) -> Vec<u8> {
    let mut packet = frame[14..].to_vec();
    ipv4::Packet::new_unchecked(&mut packet[..]).decrement_ttl();
    packet
}

fn tunnel(headers: &[u8], udp: Option<OuterUdp>) -> Encapsulation {
    Encapsulation::new(TUNNEL, 1400, headers, udp).unwrap()
}

#[test]
fn gre_goes_in_front() {
    let way = Encapsulation {
        inherits_tos: true,
        copies_dont_fragment: true,
        ..tunnel(&gre(), None)
    };
    let bench = Bench::new(way, &[adjacency(1, 1500)]);
    // outer ECN: RFC 6040, 4.1, as Linux has it
    for (tos, outer_tos) in [
        (0, 0),
        (0xb9, 0xb9),
        (0x02, 0x02),
        (0x03, 0x02),
        (0xff, 0xfe),
    ] {
        let frame = inner(tos, 0, 100, 1);
        let (verdict, got, sent) = bench.forward(&frame);
        assert_eq!(verdict, Verdict::Forward(PortId(1)));
        assert_eq!(sent, [(TUNNEL, 1, 100)]);
        assert_eq!(got[..14], adjacency(1, 0).l2);
        let mut wanted = gre();
        wanted[1] = outer_tos;
        wanted[2..6].copy_from_slice(&[0, 128, 0x12, 0x34]);
        wanted[8] = 8; // inherited, after the hop
        ipv4::Packet::new_unchecked(&mut wanted[..20]).fill_checksum();
        wanted.extend(after_hop(&frame));
        assert_eq!(got[14..], wanted);
    }
}

#[test]
fn dont_fragment_is_copied_or_not() {
    for (template, copies, inside, outside) in [
        (0, true, 0, 0),
        (0, true, 0x40, 0x40),
        (0, false, 0x40, 0),
        (0x40, false, 0, 0x40),
    ] {
        let mut headers = gre();
        headers[6] = template;
        let way = Encapsulation {
            copies_dont_fragment: copies,
            ..tunnel(&headers, None)
        };
        let bench = Bench::new(way, &[adjacency(1, 1500)]);
        assert_eq!(bench.forward(&inner(0, inside, 100, 1)).1[20], outside);
    }
}

#[test]
fn linux_gets_what_does_not_fit() {
    let punt = |outer_mtu, link, flags, length| {
        let way = Encapsulation {
            link,
            ..tunnel(&gre(), None)
        };
        let bench = Bench::new(way, &[adjacency(1, outer_mtu)]);
        let frame = inner(0, flags, length, 1);
        let (verdict, got, sent) = bench.forward(&frame);
        if matches!(verdict, Verdict::Punt(_)) {
            assert_eq!((got, sent), (frame, vec![]), "as it came");
        }
        verdict
    };
    let sent = Verdict::Forward(PortId(1));
    assert_eq!(punt(1500, None, 0, 1400), sent);
    assert_eq!(
        punt(1500, None, 0, 1401),
        Verdict::Punt(Reason::Fragmentation)
    );
    assert_eq!(punt(1500, None, 0x40, 1401), Verdict::Punt(Reason::TooBig));
    // the outer packet
    assert_eq!(punt(1000, None, 0x40, 972), sent);
    assert_eq!(punt(1000, None, 0x40, 973), Verdict::Punt(Reason::TooBig));
    assert_eq!(
        punt(1000, None, 0, 973),
        Verdict::Punt(Reason::Fragmentation)
    );
    assert_eq!(punt(1500, Some(PortId(1)), 0, 100), sent);
    assert_eq!(
        punt(1500, Some(PortId(2)), 0, 100),
        Verdict::Punt(Reason::Unsupported)
    );
}

#[test]
fn flows_inside_share_several_outer_paths() {
    let bench = Bench::new(
        tunnel(&gre(), None),
        &[adjacency(1, 1500), adjacency(2, 1500)],
    );
    let port = |source_port| bench.forward(&inner(0, 0, 60, source_port)).0;
    let first = (0..400).filter(|&flow| port(flow) == Verdict::Forward(PortId(1)));
    let first: Vec<_> = first.collect();
    assert!((120..280).contains(&first.len()), "{}", first.len());
    assert!(
        first
            .iter()
            .all(|&flow| port(flow) == Verdict::Forward(PortId(1)))
    );
}

#[test]
fn vxlan_tells_the_flow_by_its_source_port() {
    for checksum in [false, true] {
        let udp = OuterUdp {
            source_ports: (40_000, 40_100),
            checksum,
        };
        let bench = Bench::new(tunnel(&vxlan(), Some(udp)), &[adjacency(1, 1500)]);
        let mut ports = std::collections::BTreeSet::new();
        for flow in 0..50 {
            let frame = inner(0, 0, 101, flow);
            let (verdict, got, _) = bench.forward(&frame);
            assert_eq!(verdict, Verdict::Forward(PortId(1)));
            assert_eq!(got[50..64], vxlan()[36..], "the inner Ethernet header");
            assert_eq!(got[64..], after_hop(&frame));
            let outer = ipv4::Packet::new_checked(&got[14..]).unwrap();
            outer.verify_checksum().unwrap();
            let segment = outer.payload();
            assert_eq!(segment.len(), 101 + 14 + 16);
            let (source, to) = (outer.src(), outer.dst());
            let sum = checksum::transport_v4(source, to, Protocol::UDP, segment);
            assert_eq!(sum == checksum::Transport::Valid, checksum);
            assert_eq!(sum == checksum::Transport::Absent, !checksum);
            ports.insert(u16::from_be_bytes([segment[0], segment[1]]));
        }
        assert!(ports.len() > 25 && ports.iter().all(|port| (40_000..40_100).contains(port)));
    }
}

/// The tunnel as what packets come in by.
fn devices(endpoint: Endpoint, only_from: Option<u32>) -> Devices {
    Devices::new([Device {
        ingress: Ingress::new(TUNNEL, MacAddr([9; 6])),
        ports: Ports::default(),
        tags: Tags::NONE,
        priorities: Priorities::default(),
        is_station: false,
        endpoints: vec![endpoint],
        only_from,
    }])
}

const BY_KEY: Endpoint = Endpoint::Addresses {
    protocol: 47,
    source: FAR,
    destination: NEAR,
    key: Some(KEY),
};
const BY_VNI: Endpoint = Endpoint::Vxlan {
    port: 4789,
    vni: 66,
};

/// A frame with these headers, this packet and padding.
fn outer(headers: &[u8], inside: &[u8], padding: usize) -> Vec<u8> {
    let mut frame = [&[3; 12][..], &[8, 0], headers, inside].concat();
    let length = (frame.len() - 14) as u16;
    frame[16..18].copy_from_slice(&length.to_be_bytes());
    let (far, near) = (FAR.to_be_bytes(), NEAR.to_be_bytes());
    frame[26..30].copy_from_slice(&far);
    frame[30..34].copy_from_slice(&near);
    frame[22] = 60;
    if frame[23] == 17 {
        frame[38..40].copy_from_slice(&(length - 20).to_be_bytes());
    }
    ipv4::Packet::new_unchecked(&mut frame[14..34]).fill_checksum();
    frame.resize(frame.len() + padding, 0);
    frame
}

/// What is inside a frame, if it came through the tunnel; and checks that it can be put back.
fn unwrapped(devices: &Devices, frame: &[u8]) -> Option<Vec<u8>> {
    let bench = Bench::new(tunnel(&gre(), None), &[adjacency(1, 1500)]);
    let region = &bench.region;
    let mut packet = bench.packet(frame);
    let outer = devices.unwrap(region, &mut packet, (PortId(0), true), &mut None);
    let inside = outer.map(|outer| {
        let inside = region.octets(&packet).to_vec();
        outer.rewrap(region, &mut packet);
        inside
    });
    assert_eq!(region.octets(&packet), frame);
    inside
}

#[test]
fn what_is_inside_comes_out() {
    let inside = &inner(0, 0, 100, 1)[14..];
    let frame = outer(&gre(), inside, 3);
    let wanted = [&[9; 6][..], &[0; 6], &[8, 0], inside, &[0; 3]].concat();
    assert_eq!(unwrapped(&devices(BY_KEY, None), &frame), Some(wanted));
    let frame = outer(&vxlan(), inside, 0);
    let wanted = [&vxlan()[36..], inside].concat();
    assert_eq!(
        unwrapped(&devices(BY_VNI, None), &frame),
        Some(wanted.clone())
    );
    assert_eq!(unwrapped(&devices(BY_VNI, Some(FAR)), &frame), Some(wanted));
    assert_eq!(unwrapped(&devices(BY_VNI, Some(NEAR)), &frame), None);
}

#[test]
fn what_is_not_plain_stays_wrapped() {
    let inside = inner(0, 0, 100, 1)[14..].to_vec();
    let changed = |headers: Vec<u8>, at: usize, value: u8| {
        let mut frame = outer(&headers, &inside, 0);
        frame[at] = value;
        if at == 43 {
            frame[15] = 1;
        }
        ipv4::Packet::new_unchecked(&mut frame[14..34]).fill_checksum();
        frame
    };
    let (by_key, by_vni) = (devices(BY_KEY, None), devices(BY_VNI, None));
    for (at, value) in [
        (15, 3),    // congestion
        (43, 2),    // ECT(0) inside, ECT(1) outside: see below
        (20, 0x20), // a fragment
        (21, 1),    // a later one
        (23, 4),    // another protocol
        (29, 1),    // another far end
        (34, 0xa0), // with a checksum
        (34, 0),    // no key
        (36, 7),    // another EtherType
        (41, 9),    // another key
        (44, 1),    // longer than the outer packet has of it
    ] {
        assert_eq!(unwrapped(&by_key, &changed(gre(), at, value)), None, "{at}");
    }
    // port, length, checksum, flags, reserved octets, VNI
    for (at, value) in [
        (36, 1),
        (39, 1),
        (41, 1),
        (42, 0),
        (43, 1),
        (48, 1),
        (49, 1),
    ] {
        assert_eq!(
            unwrapped(&by_vni, &changed(vxlan(), at, value)),
            None,
            "{at}"
        );
    }
}

proptest! {
    /// Whatever comes, it is taken apart and put back, or left as it is.
    #[test]
    fn anything_can_be_put_back(
        mut frame in proptest::collection::vec(any::<u8>(), 0..200),
        (is_vxlan, plain, cut) in (any::<bool>(), 0..70usize, 0..200usize),
    ) {
        let (headers, endpoint) = if is_vxlan { (vxlan(), BY_VNI) } else { (gre(), BY_KEY) };
        let template = outer(&headers, &inner(0, 0, 100, 1)[14..], 0);
        for (to, from) in frame.iter_mut().zip(&template).take(plain) {
            *to = *from;
        }
        frame.truncate(cut);
        unwrapped(&devices(endpoint, None), &frame);
    }
}
