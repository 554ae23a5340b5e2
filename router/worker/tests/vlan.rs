//! A worker with VLAN devices and a bond on its ports: tags come off, tags go on, and what goes to Linux goes as it came.

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bora_buffer::{Pool, Region, SharedFrames};
use bora_fib::PortId;
use bora_forward::classify::{Action, Rule, RuleSet, Ternary};
use bora_forward::{Device, Devices, Ports, Priorities, Tags, XmitHash};
use bora_port::{PortQueue, Queue, memory};
use bora_wire::MacAddr;
use bora_worker::{Command, Mode, Published, Tables, Worker, WorkerConfig};

use common::{ipv4_packet, port_without_xdp, tables, worker_config};

const MAX_PORTS: u16 = bora_contract::MAX_PORTS as u16;
const ONE: u16 = MAX_PORTS;
const TWO: u16 = MAX_PORTS + 1;
const DOUBLE: u16 = MAX_PORTS + 2;
const PATIENCE: Duration = Duration::from_secs(20);

/// A frame with these tags in front of its EtherType.
fn tagged(frame: &[u8], tags: &[[u8; 4]]) -> Vec<u8> {
    [&frame[..12], &tags.concat(), &frame[12..]].concat()
}

fn vlan(number: u16, tags: Tags) -> Device {
    let mut ingress = port_without_xdp(number, Queue::Memory(memory::pair(2).0)).ingress;
    ingress.send_redirects4 = true;
    Device {
        ingress,
        ports: Ports::one(PortId(0)),
        tags,
        priorities: Priorities::default(),
        is_station: false,
        endpoints: Vec::new(),
        only_from: None,
    }
}

/// VLAN 100, VLAN 200, and VLAN 7 in service VLAN 300, on port 0.
fn devices() -> Devices {
    let double = Tags::one(0x88a8, 300).with_inner(0x8100, 7).unwrap();
    Devices::new([
        vlan(ONE, Tags::one(0x8100, 100)),
        vlan(TWO, Tags::one(0x8100, 200)),
        vlan(DOUBLE, double),
    ])
}

/// Sends frames into port 0; returns what leaves by it and by port 1, and what goes to Linux.
fn forward(frames: &[Vec<u8>], edit: impl FnOnce(&mut Tables)) -> [Vec<Vec<u8>>; 3] {
    let region = Arc::new(Region::new(4096, 2048).unwrap());
    let reserve = SharedFrames::of_new_region(&region);
    let (_writer, handle) = tables(&[
        ("10.0.0.0/16", 0),
        ("10.1.0.0/16", 1),
        ("10.100.0.0/16", ONE),
        ("10.200.0.0/16", TWO),
        ("10.30.0.0/16", DOUBLE),
    ]);
    let (near, mut far): (Vec<_>, Vec<_>) = (0..2)
        .map(|number| {
            let (near, far) = memory::pair(1024);
            (port_without_xdp(number, Queue::Memory(near)), far)
        })
        .unzip();
    let mut decide_by = Tables {
        mode: Mode::Poll,
        devices: Arc::new(devices()),
        ..Tables::default()
    };
    edit(&mut decide_by);
    let config = WorkerConfig {
        tables: Published::new(decide_by),
        ..worker_config(&region, &reserve, &handle, near)
    };
    let (commands, counters) = (config.commands.clone(), config.counters.clone());
    let punts = config.punts.clone();
    let mut pool = Pool::new(reserve, 512);
    let mut packets = Vec::new();
    for frame in frames {
        let mut packet = pool
            .take()
            .unwrap()
            .into_packet(&region, frame.len())
            .unwrap();
        region.octets_mut(&mut packet).copy_from_slice(frame);
        packets.push(packet);
    }
    far[0].transmit(&mut packets);
    let worker = std::thread::spawn(move || Worker::new(config).unwrap().run());
    let end = Instant::now() + PATIENCE;
    let mut left = [Vec::new(), Vec::new(), Vec::new()];
    while left.iter().map(Vec::len).sum::<usize>() + dropped(&counters) < frames.len() {
        assert!(Instant::now() < end, "{left:x?}");
        for (far, left) in far.iter_mut().zip(&mut left) {
            let mut packets = Vec::new();
            far.receive(&mut packets, 256);
            left.extend(packets.iter().map(|packet| region.octets(packet).to_vec()));
            packets
                .into_iter()
                .for_each(|packet| pool.give(packet.into_frame(&region)));
        }
        let mut to_linux = Vec::new();
        punts.take(&mut to_linux, 64);
        for punted in to_linux {
            assert_eq!(punted.port, PortId(0));
            left[2].push(region.octets(&punted.packet).to_vec());
        }
    }
    commands.push(Command::Stop).unwrap();
    worker.join().unwrap();
    left
}

fn dropped(counters: &bora_worker::WorkerCounters) -> usize {
    let ports = counters.ports.iter();
    ports.map(|port| port.dropped.read().sum() as usize).sum()
}

/// The frame after forwarding, without tags.
fn forwarded(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[..12].fill(2);
    let ttl = frame[22];
    frame[22] -= 1;
    let check = u32::from(u16::from_be_bytes([frame[24], frame[25]])) + 0x100;
    let check = (check + (check >> 16)) as u16;
    frame[24..26].copy_from_slice(&check.to_be_bytes());
    assert!(ttl > 1);
    frame
}

const VLAN_100: [u8; 4] = [0x81, 0, 0, 100];
const VLAN_200: [u8; 4] = [0x81, 0, 0, 200];
const SERVICE: [[u8; 4]; 2] = [[0x88, 0xa8, 1, 44], [0x81, 0, 0, 7]];

#[test]
fn tags_come_off_and_go_on() {
    let to = |second: u32| ipv4_packet(0x0a00_0001 | second << 16, 0, 9);
    let frames = [
        tagged(&to(1), &[VLAN_100]),   // to a port without tags
        tagged(&to(200), &[VLAN_100]), // between VLANs of one port
        to(100),
        tagged(&to(100), &[[0x81, 0, 0xf0, 200]]), // whatever its priority
        tagged(&to(30), &[VLAN_200]),
        tagged(&to(1), &SERVICE),
        tagged(&to(0), &[VLAN_200]),
    ];
    let [trunk, other, linux] = forward(&frames, |_| {});
    let sorted = |mut frames: Vec<Vec<u8>>| {
        frames.sort();
        frames
    };
    let wanted = vec![
        tagged(&forwarded(&to(200)), &[VLAN_200]),
        tagged(&forwarded(&to(100)), &[VLAN_100]),
        tagged(&forwarded(&to(100)), &[VLAN_100]),
        tagged(&forwarded(&to(30)), &SERVICE),
        forwarded(&to(0)),
    ];
    assert_eq!(sorted(trunk), sorted(wanted));
    assert_eq!(other, [forwarded(&to(1)), forwarded(&to(1))]);
    assert_eq!(linux, [] as [Vec<u8>; 0]);
}

#[test]
fn what_is_for_a_station_is_its_own() {
    let (own, on_vlan, stranger) = ([2, 0, 0, 0, 7, 1], [2, 0, 0, 0, 7, 2], [2, 0, 0, 0, 7, 3]);
    let station = |number, tags, mac| {
        let mut device = vlan(number, tags);
        device.ingress.mac = MacAddr(mac);
        Device {
            is_station: true,
            ..device
        }
    };
    let to = |second: u32, mac: [u8; 6]| {
        let mut frame = ipv4_packet(0x0a00_0001 | second << 16, 0, 9);
        frame[..6].copy_from_slice(&mac);
        frame
    };
    let vlan_100 = Tags::one(0x8100, 100);
    let stations = Devices::new([
        station(ONE, Tags::NONE, own),
        station(DOUBLE, vlan_100, on_vlan),
        vlan(TWO, vlan_100),
    ]);
    let mine = ipv4_packet(0x0a01_0001, 0, 9);
    let frames = [
        to(1, own),
        mine.clone(),
        tagged(&to(1, on_vlan), &[VLAN_100]),
        tagged(&mine, &[VLAN_100]),
        to(1, on_vlan), // without the tag that it is behind
        tagged(&to(1, own), &[VLAN_100]),
        to(1, stranger),
        tagged(&to(99, on_vlan), &[VLAN_100]), // no route
    ];
    let [trunk, other, linux] = forward(&frames, |tables| tables.devices = Arc::new(stations));
    assert!(trunk.is_empty());
    assert_eq!(other, vec![forwarded(&mine); 4]);
    let (mut wanted, mut linux) = (frames[4..].to_vec(), linux);
    wanted.sort();
    linux.sort();
    assert_eq!(linux, wanted);
}

#[test]
fn linux_gets_frames_as_they_came() {
    let to = |second: u32| ipv4_packet(0x0a00_0001 | second << 16, 0, 9);
    let frames = [
        tagged(&to(100), &[[0x81, 0, 0xa0, 100]]), // Linux would send a redirect
        tagged(&to(1), &[[0x81, 0, 0, 101]]),      // no such VLAN
        tagged(&to(1), &[VLAN_100, [0x81, 0, 0, 5]]),
        tagged(&to(1), &SERVICE[..1]),
        tagged(&to(99), &SERVICE), // no route
        tagged(&to(1), &[VLAN_100, VLAN_100, VLAN_100]),
        tagged(&to(1)[..13], &[VLAN_100]), // cut short
    ];
    let [trunk, other, linux] = forward(&frames, |_| {});
    assert!(trunk.is_empty() && other.is_empty());
    let mut wanted = frames.to_vec();
    wanted.sort();
    let mut linux = linux;
    linux.sort();
    assert_eq!(linux, wanted);
}

#[test]
fn rules_see_the_priority() {
    let to = |second: u32| ipv4_packet(0x0a00_0001 | second << 16, 0, 9);
    let drop = Rule {
        pcp: Some(Ternary { value: 5, mask: 7 }),
        action: Action::Drop,
        ..Rule::default()
    };
    let rules = RuleSet {
        rules: vec![drop],
        ..RuleSet::default()
    };
    let frames = [
        tagged(&to(1), &[[0x81, 0, 0xa0, 100]]),
        tagged(&to(1), &[[0x81, 0, 0x80, 100]]),
        to(1),
    ];
    let classifier = Arc::new(rules.compile().unwrap());
    let [_, other, linux] = forward(&frames, |tables| tables.classifier = classifier);
    assert_eq!((other.len(), linux.len()), (2, 0));
}

/// A bond of both ports, and VLAN 100 on it, instead of the other devices.
fn bond(tables: &mut Tables, usable: &[u16]) {
    let ports = Ports {
        all: vec![PortId(0), PortId(1)],
        usable: usable.iter().copied().map(PortId).collect(),
        hash: XmitHash::Layer34,
    };
    let on_bond = |number, tags| Device {
        ports: ports.clone(),
        ..vlan(number, tags)
    };
    tables.devices = Arc::new(Devices::new([
        on_bond(ONE, Tags::NONE),
        on_bond(TWO, Tags::one(0x8100, 100)),
    ]));
}

#[test]
fn a_bond_sends_a_flow_by_one_port() {
    let flow = |second: u32, port| ipv4_packet(0x0a00_0001 | second << 16, 0, port);
    let frames: Vec<_> = (0..64)
        .flat_map(|port| [flow(200, port), flow(200, port)])
        .collect();
    let [first, second, linux] = forward(&frames, |tables| bond(tables, &[0, 1]));
    assert_eq!((first.len() + second.len(), linux.len()), (128, 0));
    assert!(first.len() > 20 && second.len() > 20, "{}", first.len());
    for frame in &first {
        let same = |left: &[Vec<u8>]| left.iter().filter(|&it| it == frame).count();
        assert_eq!((same(&first), same(&second)), (2, 0));
        assert_eq!(frame[12..16], VLAN_100);
    }
}

#[test]
fn a_bond_receives_by_all_ports_and_sends_by_those_it_may() {
    let to = |second: u32| ipv4_packet(0x0a00_0001 | second << 16, 0, 9);
    let frames = [to(200), tagged(&to(100), &[VLAN_100])];
    let [first, second, linux] = forward(&frames, |tables| bond(tables, &[1]));
    assert_eq!(first, [] as [Vec<u8>; 0]);
    let mut second = second;
    second.sort();
    let mut wanted = vec![
        tagged(&forwarded(&to(200)), &[VLAN_100]),
        forwarded(&to(100)),
    ];
    wanted.sort();
    assert_eq!((second, linux), (wanted, vec![]));
    let [first, second, linux] = forward(&frames, |tables| bond(tables, &[]));
    assert_eq!((first.len(), second.len(), linux.len()), (0, 0, 0)); // dropped: there is no port
}
