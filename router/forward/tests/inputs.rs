//! Packets of many inputs in one batch fare as each of them alone: ports with and without an XDP program, VLAN devices, macvlans, a
//! bond and tunnels.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use bora_buffer::{Packet, Pool, Region, SharedFrames};
use bora_fib::{
    Adjacency, Encapsulation, FibConfig, FibReader, FibWriter, NextHop, NextHopId, PortId,
};
use bora_forward::classify::{Action, Rule, RuleSet, Ternary};
use bora_forward::policy::{self, Known, List, Lists, Step};
use bora_forward::schedule::OutputConfig;
use bora_forward::{
    Batch, Classifier, Context, Device, Devices, Egress, Endpoint, FlowHash, Gate, Ingress, Inputs,
    Meta, Outer, Outputs, Policies, Ports, Priorities, Reason, RpFilter, RuleCounters, Tags,
    Tunnelling, Unwrapped, Verdict, enqueue, find_inputs, run,
};
use bora_wire::{MacAddr, ipv4, udp};
use proptest::prelude::*;
use proptest::strategy::ValueTree;

const FIRST: u16 = bora_contract::MAX_PORTS as u16;
const VLAN: PortId = PortId(FIRST);
const GATED: PortId = PortId(FIRST + 1);
const DOUBLE: PortId = PortId(FIRST + 2);
const STATION: PortId = PortId(FIRST + 3);
const ON_VLAN: PortId = PortId(FIRST + 4);
const GRE: PortId = PortId(FIRST + 5);
const VXLAN: PortId = PortId(FIRST + 6);
const BOND: PortId = PortId(FIRST + 7);
const OURS: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const STATIONS: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 7, 1]), MacAddr([2, 0, 0, 0, 7, 2])];
const NEAR: u32 = 0x0a09_0001;
const FAR: u32 = 0x0a01_0009;

fn device(ingress: Ingress, port: u16, tags: Tags) -> Device {
    Device {
        ingress,
        ports: Ports::one(PortId(port)),
        tags,
        priorities: Priorities::default(),
        is_station: false,
        endpoints: Vec::new(),
        only_from: None,
    }
}

fn devices() -> Devices {
    let plain = |number| Ingress::new(number, OURS);
    let double = Tags::one(0x88a8, 300).with_inner(0x8100, 7).unwrap();
    let gate = Some(Gate {
        up: true,
        kernel6: true,
        ..Gate::default()
    });
    let station = |number, mac: usize, tags| Device {
        is_station: true,
        ..device(Ingress::new(number, STATIONS[mac]), 0, tags)
    };
    let redirecting = Ingress {
        send_redirects4: true,
        ..plain(VLAN)
    };
    let gated = Ingress {
        gate,
        rp_filter: RpFilter::Strict,
        ..plain(GATED)
    };
    let partial = Ingress {
        partial_checksum: true,
        forward6: false,
        ..Ingress::new(STATION, STATIONS[0])
    };
    let below = Ingress {
        below: VLAN,
        ..Ingress::new(ON_VLAN, STATIONS[1])
    };
    let gre = Endpoint::Addresses {
        protocol: 47,
        source: FAR,
        destination: NEAR,
        key: None,
    };
    let vxlan = Endpoint::Vxlan {
        port: 4789,
        vni: 66,
    };
    let tunnel = |number, endpoint| Device {
        ports: Ports::default(),
        endpoints: vec![endpoint],
        ..device(plain(number), 0, Tags::NONE)
    };
    Devices::new([
        device(redirecting, 0, Tags::one(0x8100, 100)),
        device(gated, 0, Tags::one(0x8100, 200)),
        device(plain(DOUBLE), 0, double),
        Device {
            ingress: partial,
            ..station(STATION, 0, Tags::NONE)
        },
        Device {
            ingress: below,
            ..station(ON_VLAN, 1, Tags::one(0x8100, 100))
        },
        tunnel(GRE, gre),
        tunnel(VXLAN, vxlan),
        device(plain(BOND), 2, Tags::NONE),
    ])
}

/// The headers of GRE without options to the far end.
fn gre_headers() -> Vec<u8> {
    let mut headers = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 0, 47, 0, 0];
    headers.extend(NEAR.to_be_bytes());
    headers.extend(FAR.to_be_bytes());
    headers.extend([0, 0, 8, 0]);
    headers
}

struct Bench {
    region: Region,
    pool: RefCell<Pool>,
    fib: FibReader,
    _writer: FibWriter,
    devices: Devices,
    inputs: Inputs,
    policies: Policies,
    classifier: Classifier,
}

impl Bench {
    fn new() -> Self {
        let region = Region::new(1024, 2048).unwrap();
        let pool = Pool::new(SharedFrames::of_new_region(&region), 1024);
        let (mut writer, handle) = bora_fib::new(FibConfig::default()).unwrap();
        let to = |port: PortId| {
            NextHop::Forward(Adjacency {
                port,
                mtu: 500,
                l2: [9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 8, 0],
                unconfirmed: None,
            })
        };
        let [mut add, mut add6] = [Vec::new(), Vec::new()];
        for (second, port) in [
            (0, PortId(0)),
            (1, PortId(1)),
            (2, VLAN),
            (3, DOUBLE),
            (5, BOND),
        ] {
            add.push((format!("10.{second}.0.0/16"), to(port)));
            add6.push((format!("2001:db8:{second}::/48"), to(port)));
        }
        let tunnel = Encapsulation::new(GRE, 400, &gre_headers(), None).unwrap();
        add.push(("10.4.0.0/16".into(), NextHop::Tunnel(tunnel.into())));
        let local = NextHop::Punt {
            reason: Reason::Local,
            port: None,
        };
        add.push((format!("{}/32", Ipv4Addr::from(NEAR)), local));
        add.push(("10.6.0.0/16".into(), NextHop::Blackhole));
        for (prefix, hop) in add {
            let hop = writer.add_next_hop(hop).unwrap();
            writer.insert4(prefix.parse().unwrap(), hop).unwrap();
        }
        for (prefix, hop) in add6 {
            let hop = writer.add_next_hop(hop).unwrap();
            writer.insert6(prefix.parse().unwrap(), hop).unwrap();
        }
        let elsewhere = writer.add_next_hop(to(PortId(1))).unwrap();
        let devices = devices();
        Self {
            region,
            pool: pool.into(),
            fib: handle.reader().unwrap(),
            _writer: writer,
            inputs: Inputs::new(&ports(), &devices),
            devices,
            policies: policies(elsewhere),
            classifier: rules().compile().unwrap(),
        }
    }
}

/// Two with an XDP program, one without.
fn ports() -> [Ingress; 3] {
    let port = |number| Ingress::new(PortId(number), OURS);
    let alone = Ingress {
        gate: Some(Gate {
            up: true,
            ..Gate::default()
        }),
        send_redirects4: true,
        ..port(1)
    };
    [port(0), alone, port(2)]
}

/// What comes in by the device with two tags leaves by port 1, whatever the table says.
fn policies(elsewhere: NextHopId) -> Policies {
    let step = Step {
        selector: None,
        action: policy::Action::Give(elsewhere),
    };
    let mut policies = Policies::default();
    let lists = Lists {
        v4: Some(List::new(vec![step], Known::default())),
        ..Lists::default()
    };
    policies.set(DOUBLE, lists);
    policies
}

/// Rules that look at the input and at the priority of a tag that is gone.
fn rules() -> RuleSet {
    let of_input = |port| Rule {
        in_port: Some(port),
        ..Rule::default()
    };
    let with_priority = Rule {
        pcp: Some(Ternary { value: 5, mask: 7 }),
        action: Action::Drop,
        ..Rule::default()
    };
    RuleSet {
        rules: vec![
            with_priority,
            of_input(VLAN),
            of_input(GRE),
            of_input(PortId(0)),
        ],
        ..RuleSet::default()
    }
}

/// What became of frames: how they left and were counted.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    /// Output, class and octets.
    sent: Vec<(usize, u8, Vec<u8>)>,
    /// What Linux gets, with the reason.
    to_linux: Vec<(Reason, Vec<u8>)>,
    dropped: BTreeMap<&'static str, u64>,
    received_by: BTreeMap<u16, (u64, u64)>,
    sent_by: BTreeMap<u16, (u64, u64)>,
    rules: Vec<(u64, u64)>,
}

fn count(counters: &mut BTreeMap<u16, (u64, u64)>, device: PortId, packets: u64, octets: u64) {
    let (all, sum) = counters.entry(device.0).or_default();
    (*all, *sum) = (*all + packets, *sum + octets);
}

impl Bench {
    /// What becomes of frames that come by a port, `at_once` in each batch.
    fn forward(&self, port: u16, frames: &[Vec<u8>], at_once: usize) -> Seen {
        let counters: Vec<RuleCounters> = (0..4).map(|_| RuleCounters::default()).collect();
        let mut seen = Seen::default();
        let config = OutputConfig::default();
        let mut egress = [0, 1, 2].map(|_| Egress::new(&config).unwrap());
        let (mut batch, mut unwrapped) = (Batch::new(), Unwrapped::new());
        let tunnelling = Tunnelling::new(0);
        for frames in frames.chunks(at_once) {
            for frame in frames {
                let empty = self.pool.borrow_mut().take().unwrap();
                let mut packet = empty.into_packet(&self.region, frame.len()).unwrap();
                self.region.octets_mut(&mut packet).copy_from_slice(frame);
                batch.packets.push(packet);
            }
            let (devices, region) = (&self.devices, &self.region);
            let received = |device, packets, octets| {
                count(&mut seen.received_by, device, packets, octets);
            };
            find_inputs(&mut batch, PortId(port), devices, region, received);
            self.run(&mut batch, &tunnelling, &counters);
            unwrapped.take(&mut batch, devices, &self.inputs, region);
            self.carry_out(&mut batch, &mut egress, &tunnelling, None, &mut seen);
            if !unwrapped.is_empty() {
                unwrapped.fill(&mut batch, |device, packets, octets| {
                    count(&mut seen.received_by, device, packets, octets);
                });
                self.run(&mut batch, &tunnelling, &counters);
                let outer = Some(&unwrapped);
                self.carry_out(&mut batch, &mut egress, &tunnelling, outer, &mut seen);
            }
        }
        let rules = counters.iter();
        seen.rules = rules
            .map(|rule| (rule.packets.get(), rule.octets.get()))
            .collect();
        seen.sent.sort();
        seen.to_linux
            .sort_by_key(|(reason, octets)| (*reason as u16, octets.clone()));
        seen
    }

    fn run(&self, batch: &mut Batch, tunnelling: &Tunnelling, counters: &[RuleCounters]) {
        let context = Context {
            region: &self.region,
            fib: &self.fib,
            inputs: &self.inputs,
            devices: &self.devices,
            min_frames: &[60, 60, 60],
            classifier: &self.classifier,
            policies: &self.policies,
            hash4: FlowHash::default(),
            hash6: FlowHash::default(),
            tunnelling,
        };
        run(batch, &context, counters, |_| {});
    }

    fn carry_out(
        &self,
        batch: &mut Batch,
        egress: &mut [Egress],
        tunnelling: &Tunnelling,
        unwrapped: Option<&Unwrapped>,
        seen: &mut Seen,
    ) {
        tunnelling.take_sent(|tunnel, packets, octets| {
            count(&mut seen.sent_by, tunnel, packets, octets);
        });
        let outputs = Outputs {
            egress,
            devices: &self.devices,
            min_frames: &[60, 60, 60],
            region: &self.region,
        };
        let sent_by = &mut seen.sent_by;
        let left = |device, packets, octets| count(sent_by, device, packets, octets);
        let mut rest = Vec::new();
        enqueue(batch, outputs, left, |place, packet, meta| {
            let outer = unwrapped.and_then(|all| all.outer(place));
            rest.push((packet, meta, outer));
        });
        for (packet, meta, outer) in rest {
            self.be_done_with(packet, meta, outer, seen);
        }
        for (port, egress) in egress.iter_mut().enumerate() {
            let mut packets = Vec::new();
            packets.append(egress.ready(0, u64::MAX, |_| panic!("there is room")).0);
            egress.settle(|_| panic!("there is room"));
            for packet in packets {
                let octets = self.octets(&packet);
                seen.sent.push((port, packet.mark(), octets));
                self.give(packet);
            }
        }
    }

    fn be_done_with(&self, mut packet: Packet, meta: Meta, outer: Option<&Outer>, seen: &mut Seen) {
        match meta.verdict() {
            Verdict::Punt(reason) => {
                if let Some(outer) = outer {
                    outer.rewrap(&self.region, &mut packet);
                }
                let outer = outer.map_or(meta.input(), |outer| outer.input);
                if let Some(device) = self.devices.get(outer) {
                    device.restore(&self.region, &mut packet);
                }
                let octets = self.region.octets(&packet).to_vec();
                seen.to_linux.push((reason, octets));
            }
            Verdict::Drop(reason) => *seen.dropped.entry(reason.name()).or_default() += 1,
            other => panic!("{other:?}"),
        }
        self.give(packet);
    }

    /// The octets, without what outer headers count.
    fn octets(&self, packet: &Packet) -> Vec<u8> {
        let mut octets = self.region.octets(packet).to_vec();
        if octets[12..15] == [8, 0, 0x45] && octets[23] == 47 {
            assert!(
                ipv4::Packet::new_unchecked(&octets[14..])
                    .verify_checksum()
                    .is_ok()
            );
            octets[18..20].fill(0);
            octets[24..26].fill(0);
        }
        octets
    }

    fn give(&self, packet: Packet) {
        self.pool.borrow_mut().give(packet.into_frame(&self.region));
    }
}

/// A packet for one of these addresses, which says by its UDP source port which one it is.
fn packet(to: u8, number: u16, ttl: u8, long: bool) -> Vec<u8> {
    let header = |frame| udp::Frame {
        dst_mac: OURS,
        src_port: number,
        ttl,
        ..frame
    };
    let mut frame = vec![0; if long { 560 } else { 90 }];
    let frame_of = match to % 16 {
        to @ 0..8 => udp::Frame::new(
            [10, 1, 0, 7],
            Ipv4Addr::from(0x0a00_0001 | u32::from(to) << 16),
        ),
        to @ 8..13 => udp::Frame::new(
            Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, 1),
            Ipv6Addr::new(0x2001, 0xdb8, u16::from(to - 8), 0, 0, 0, 0, 1),
        ),
        13 => udp::Frame::new([10, 2, 0, 7], Ipv4Addr::from(NEAR)),
        14 => udp::Frame::new(Ipv4Addr::from(NEAR), Ipv4Addr::from(0x0a01_0001)),
        _ => udp::Frame::new([10, 3, 0, 7], Ipv4Addr::from(0xc000_0201)),
    };
    header(frame_of).emit(&mut frame).unwrap();
    frame
}

/// The frame as what comes by GRE or VXLAN.
fn wrapped(frame: &[u8], vxlan: bool) -> Vec<u8> {
    let ethertype = [frame[12], frame[13]];
    let mut outer = vec![
        0x45,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        9,
        if vxlan { 17 } else { 47 },
        0,
        0,
    ];
    outer.extend(FAR.to_be_bytes());
    outer.extend(NEAR.to_be_bytes());
    let length = frame.len() + 16;
    if vxlan {
        outer.extend([0x80, 1, 0x12, 0xb5, (length >> 8) as u8, length as u8, 0, 0]);
        outer.extend([8, 0, 0, 0, 0, 0, 66, 0]);
        outer.extend(frame);
    } else {
        outer.extend([0, 0]);
        outer.extend(ethertype);
        outer.extend(&frame[14..]);
    }
    let length = outer.len() as u16;
    outer[2..4].copy_from_slice(&length.to_be_bytes());
    ipv4::Packet::new_unchecked(&mut outer[..20]).fill_checksum();
    [&OURS.0[..], &[4; 6], &[8, 0], &outer].concat()
}

/// Everything that may come: packets in tunnels or not, with tags or not, for whom, and what is no packet.
fn frames() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let one = (
        any::<u8>(),
        0..12u8,
        0..6u8,
        0..10u8,
        any::<u8>(),
        any::<bool>(),
    );
    let frame = one.prop_map(|(to, around, mac, tags, odd, long)| {
        let mut frame = packet(to, u16::from(odd) << 8 | u16::from(to), odd % 64 + 1, long);
        if around < 4 {
            frame = wrapped(&frame, around % 2 == 0);
        }
        match mac {
            0 => frame[..6].copy_from_slice(&STATIONS[0].0),
            1 => frame[..6].copy_from_slice(&STATIONS[1].0),
            2 if odd < 64 => frame[..6].fill(0xff),
            3 if odd < 64 => frame[..6].copy_from_slice(&[2, 3, 4, 5, 6, 7]),
            _ => {}
        }
        if odd == 7 {
            frame[24] ^= 1;
        }
        if odd == 9 {
            frame.truncate(usize::from(to) % 60);
        }
        let priority = if odd % 8 == 0 { 0xa0 } else { 0x20 };
        let tags: &[[u8; 4]] = match tags {
            0..2 => &[[0x81, 0, priority, 100]],
            2..4 => &[[0x81, 0, priority, 200]],
            4 => &[[0x88, 0xa8, priority | 1, 44], [0x81, 0, 0, 7]],
            5 => &[[0x81, 0, 0, 99]],
            6 => &[[0x81, 0, 0, 100], [0x81, 0, 0, 100], [0x81, 0, 0, 100]],
            _ => &[],
        };
        let at = frame.len().min(12);
        [&frame[..at], &tags.concat(), &frame[at..]].concat()
    });
    proptest::collection::vec(frame, 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Also sorted by input, so that whole batches have one.
    #[test]
    fn a_mixed_batch_fares_as_its_packets_alone(frames in frames(), port in 0..3u16) {
        let bench = Bench::new();
        let alone = bench.forward(port, &frames, 1);
        for at_once in [7, 256] {
            prop_assert_eq!(&bench.forward(port, &frames, at_once), &alone);
        }
        for (_, octets) in &alone.to_linux {
            prop_assert!(frames.contains(octets), "as it came: {:x?}", octets);
        }
        let mut sorted = frames;
        sorted.sort_by_key(|frame| frame.get(12..20).map(<[u8]>::to_vec));
        prop_assert_eq!(&bench.forward(port, &sorted, 64), &alone);
    }
}

/// The property above sees each kind of outcome.
#[test]
fn all_kinds_of_inputs_and_outputs_occur() {
    let bench = Bench::new();
    let (mut received, mut sent, mut reasons) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for round in 0..32 {
        let frames = frames().new_tree(&mut runner).unwrap().current();
        let mut seen = bench.forward(round % 3, &frames, 256);
        received.append(&mut seen.received_by);
        sent.append(&mut seen.sent_by);
        reasons.extend(seen.to_linux.iter().map(|(reason, _)| reason.name()));
        reasons.extend(seen.dropped.keys());
    }
    let inputs: Vec<u16> = received.into_keys().collect();
    assert_eq!(inputs, (FIRST..FIRST + 8).collect::<Vec<_>>());
    let outputs: Vec<u16> = sent.into_keys().collect();
    assert_eq!(outputs, [VLAN, DOUBLE, GRE, BOND].map(|port| port.0));
    for reason in [
        "local",
        "redirect",
        "foreign_mac",
        "not_ip",
        "source_check",
        "rule",
        "too_big",
        "guard",
        "other_host",
    ] {
        assert!(reasons.contains(&reason), "{reason}");
    }
}
