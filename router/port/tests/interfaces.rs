//! AF_PACKET and TAP over real interfaces, each test in a network namespace of its own (as root).

mod common;

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bora_buffer::Region;
use bora_contract::Reason;
use bora_linux::interface;
use bora_port::tap::{self, Device, TapError};
use bora_port::{Queue, af_packet};
use common::namespace::{in_a_namespace, ip, quiet, veth_pair};
use common::{FRAMES, Side, seed_of};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Packets on their way, fewer than any buffer on it.
const WINDOW: u32 = 200;

fn on_interface(name: &str, queues: u16, frame_size: u32) -> Side {
    Side::open(frame_size, |region| {
        let queues = af_packet::Queue::open(name, queues, region).unwrap();
        queues.into_iter().map(Queue::AfPacket).collect()
    })
}

fn tap_queues(device: &Device, region: &Arc<Region>) -> Vec<Queue> {
    let queue = |fd| Queue::Tap(tap::Queue::new(fd, region.clone()).unwrap());
    device.queues().map(queue).collect()
}

/// Sends packets of many sizes and checks that each arrives whole, once, and, with one queue, in
/// order.
fn one_way(from: &mut Side, to: &mut Side, count: u32, longest: usize) {
    let (mut sent, mut received) = (0, 0);
    let mut seen = vec![false; count as usize];
    let mut last = Instant::now();
    let in_order = to.queues.len() == 1;
    while received < count {
        assert!(
            last.elapsed() < Duration::from_secs(10),
            "{received} of {sent} arrived; {:?}",
            to.stats().read()
        );
        let mut packets = Vec::new();
        while sent < count && sent - received < WINDOW && packets.len() < 64 {
            let length = 60 + (sent as usize * 7) % (longest - 59);
            let Some(packet) = from.packet(sent, length) else {
                break;
            };
            packets.push(packet);
            sent += 1;
        }
        let offered = packets.len();
        let queue = sent as usize % from.queues.len();
        sent -= (offered - from.send(queue, &mut packets)) as u32;
        for queue in 0..to.queues.len() {
            to.receive(queue, |octets| {
                let seed = seed_of(octets).unwrap_or_else(|| panic!("{octets:x?}"));
                assert!(
                    !std::mem::replace(&mut seen[seed as usize], true),
                    "{seed} twice"
                );
                assert!(
                    !in_order || seed == received,
                    "{seed} instead of {received}"
                );
                received += 1;
                last = Instant::now();
            });
        }
    }
    assert!(seen.iter().all(|&seen| seen));
}

/// Checks that all frames are free but those that each queue keeps to receive into.
fn all_frames_are_back(sides: &mut [&mut Side]) {
    for side in sides {
        side.settle();
        let held: u32 = side.queues.iter().map(Queue::in_flight).sum();
        assert_eq!(held, 0);
        assert!(side.free_frames() + bora_buffer::MAX_BATCH * side.queues.len() >= FRAMES as usize);
    }
}

fn is_readable(side: &mut Side, timeout: Duration) -> bool {
    let fd = side.queues[0].wait().unwrap();
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    let timeout = Timespec {
        tv_sec: 0,
        tv_nsec: timeout.as_nanos() as i64,
    };
    poll(&mut fds, Some(&timeout)).unwrap() > 0
}

#[test]
fn af_packet_carries_every_octet_both_ways() {
    if !in_a_namespace() {
        return;
    }
    veth_pair(1500);
    let (mut left, mut right) = (on_interface("v0", 1, 2048), on_interface("v1", 1, 2048));
    left.settle();
    right.settle();
    assert!(!is_readable(&mut right, Duration::from_millis(10)));
    one_way(&mut left, &mut right, 50_000, 1514);
    one_way(&mut right, &mut left, 50_000, 1514);
    let packet = left.packet(1, 60).unwrap();
    assert_eq!(left.send(0, &mut vec![packet]), 1);
    assert!(is_readable(&mut right, Duration::from_millis(500)));
    assert_eq!(right.queues[0].waiting(5), 1);
    assert_eq!(left.stats().read().dropped.sum(), 0);
    assert_eq!(right.stats().read().dropped.sum(), 0);
    all_frames_are_back(&mut [&mut left, &mut right]);
}

#[test]
fn af_packet_queues_share_an_interface() {
    if !in_a_namespace() {
        return;
    }
    veth_pair(1500);
    let (mut left, mut right) = (on_interface("v0", 1, 2048), on_interface("v1", 3, 2048));
    left.settle();
    right.settle();
    one_way(&mut left, &mut right, 20_000, 1514);
}

#[test]
fn af_packet_puts_vlan_tags_back() {
    if !in_a_namespace() {
        return;
    }
    veth_pair(1500);
    let (mut left, mut right) = (on_interface("v0", 1, 2048), on_interface("v1", 1, 2048));
    left.settle();
    right.settle();
    for tag in [[0x81, 0, 0x20, 7], [0x88, 0xa8, 0, 9], [0x81, 0, 0, 0]] {
        let mut frame = vec![2; 100];
        frame[12..16].copy_from_slice(&tag);
        let mut packet = left.packet(0, frame.len()).unwrap();
        left.region.octets_mut(&mut packet).copy_from_slice(&frame);
        assert_eq!(left.send(0, &mut vec![packet]), 1);
        assert!(is_readable(&mut right, Duration::from_millis(500)));
        let mut got = Vec::new();
        right.receive(0, |octets| got = octets.to_vec());
        assert_eq!(got, frame);
    }
}

#[test]
fn af_packet_names_what_it_loses() {
    if !in_a_namespace() {
        return;
    }
    veth_pair(4000);
    let (mut left, mut right) = (on_interface("v0", 1, 4096), on_interface("v1", 1, 2048));
    left.settle();
    right.settle();
    let packets = [100, 1792, 1793, 3000, 64].map(|n| left.packet(1, n).unwrap());
    assert_eq!(left.send(0, &mut packets.into()), 5);
    let mut lengths = Vec::new();
    right.receive(0, |octets| lengths.push(octets.len()));
    assert_eq!(lengths, [100, 1792, 64]);
    assert_eq!(right.stats().read().dropped[Reason::RxTooLong], 2);

    // more than the socket holds
    let (mut sent, mut received) = (0, 0);
    while sent < 60_000 {
        let mut packets: Vec<_> = (0..64).filter_map(|n| left.packet(n, 500)).collect();
        sent += left.send(0, &mut packets) as u64;
    }
    loop {
        let count = right.receive(0, |_| {});
        received += count as u64;
        if count == 0 {
            break;
        }
    }
    let lost = right.stats().read().dropped[Reason::RxRingFull];
    assert!(
        lost > 0 && received + lost == sent,
        "{received} + {lost} of {sent}"
    );
    assert_eq!(
        right.stats().read().dropped[Reason::RxRingFull],
        lost,
        "counted once"
    );

    // longer than the MTU, then over an interface that is down
    let long = left.packet(1, 3840).unwrap();
    ip("link set v0 mtu 1500");
    assert_eq!(left.send(0, &mut vec![long]), 1);
    assert_eq!(left.stats().read().dropped[Reason::TxRefused], 1);
    ip("link set v0 down");
    let packets = [60, 70].map(|n| left.packet(1, n).unwrap());
    assert_eq!(left.send(0, &mut packets.into()), 2);
    assert_eq!(left.stats().read().dropped[Reason::TxRefused], 3);
}

#[test]
fn af_packet_says_what_is_wrong() {
    if !in_a_namespace() {
        return;
    }
    let region = Arc::new(Region::new(64, 2048).unwrap());
    let error = af_packet::Queue::open("nothing", 1, &region).unwrap_err();
    assert!(
        error.to_string().contains("nothing does not exist"),
        "{error}"
    );
    ip("link add v0 address 02:bc:00:00:00:55 type veth peer name v1");
    assert_eq!(
        interface::mac_of("v0").unwrap(),
        Some([2, 0xbc, 0, 0, 0, 0x55])
    );
    assert_eq!(interface::mac_of("nothing").unwrap(), None);
}

#[test]
fn tap_carries_every_octet_both_ways() {
    for queues in [1, 3] {
        if !in_a_namespace() {
            return;
        }
        let device = Device::open("t0", queues).unwrap();
        quiet("t0");
        let mut tap = Side::open(2048, |region| tap_queues(&device, region));
        let mut linux = on_interface("t0", 1, 2048);
        tap.settle();
        linux.settle();
        one_way(&mut linux, &mut tap, 30_000, 1514);
        one_way(&mut tap, &mut linux, 30_000, 1514);
        assert_eq!(tap.stats().read().dropped.sum(), 0);
        assert_eq!(linux.stats().read().dropped.sum(), 0);
        all_frames_are_back(&mut [&mut tap, &mut linux]);
    }
}

#[test]
fn tap_names_what_it_loses() {
    if !in_a_namespace() {
        return;
    }
    let device = Device::open("t0", 1).unwrap();
    ip("link set t0 mtu 4000");
    quiet("t0");
    let mut tap = Side::open(2048, |region| tap_queues(&device, region));
    let mut linux = on_interface("t0", 1, 4096);
    tap.settle();
    linux.settle();
    let packets = [100, 1792, 1793, 3000, 64].map(|n| linux.packet(1, n).unwrap());
    assert_eq!(linux.send(0, &mut packets.into()), 5);
    let mut lengths = Vec::new();
    tap.receive(0, |octets| lengths.push(octets.len()));
    assert_eq!(lengths, [100, 1792, 64]);
    assert_eq!(tap.stats().read().dropped[Reason::RxTooLong], 2);
    ip("link set t0 down");
    let packets = [60, 70].map(|n| tap.packet(1, n).unwrap());
    assert_eq!(tap.send(0, &mut packets.into()), 2);
    assert_eq!(tap.stats().read().dropped[Reason::TxRefused], 2);
}

fn link(name: &str) -> Option<String> {
    let output = Command::new("ip").args(["link", "show", name]).output();
    let output = output.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    output.status.success().then_some(text)
}

#[test]
fn tap_interfaces_stay_or_go_as_told() {
    if !in_a_namespace() {
        return;
    }
    let mac = [2, 0xbc, 0, 0, 0, 0x77];
    let device = Device::open("t0", 1).unwrap();
    assert!(device.created());
    device.set_mac(mac).unwrap();
    ip("link set t0 up");
    device.set_carrier(false).unwrap();
    assert!(link("t0").unwrap().contains("NO-CARRIER"));
    device.set_carrier(true).unwrap();
    assert!(link("t0").unwrap().contains("LOWER_UP"));
    let busy = Device::open("t0", 1).unwrap_err();
    assert!(matches!(busy, TapError::Busy(_)), "{busy}");
    device.set_persistent(true).unwrap();
    drop(device);
    let left = link("t0").expect("it stays");
    assert!(
        left.contains("NO-CARRIER") && left.contains("02:bc:00:00:00:77"),
        "{left}"
    );
    let kind = Device::open("t0", 2).unwrap_err();
    assert!(matches!(kind, TapError::Kind(_)), "{kind}");
    let device = Device::open("t0", 1).unwrap();
    assert!(!device.created());
    device.set_persistent(false).unwrap();
    drop(device);
    assert_eq!(link("t0"), None);

    veth_pair(1500);
    assert!(matches!(Device::open("v0", 1), Err(TapError::Kind(_))));
    for name in ["", "a name", "a/b", "sixteen-letters!"] {
        assert!(
            matches!(Device::open(name, 1), Err(TapError::Name(_))),
            "{name}"
        );
    }
}
