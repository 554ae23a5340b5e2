//! AF_XDP sockets over real interfaces, each test in a network namespace of its own (as root).

mod common;

use std::fs;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bora_buffer::{MAX_BATCH, Packet, Pool, Region, SharedFrames};
use bora_linux::interface::Interface;
use bora_port::af_xdp::{Opened, QueueSet, RING_SIZE, Socket, frames_for, open_queues};
use bora_port::{Closing, PortQueue};
use common::namespace::{in_a_namespace, ip, veth_pair};

/// More than all rings of two sockets hold.
const FRAMES: u32 = 8 * RING_SIZE;
/// The kernel needs some milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// Memory, and a socket on the only queue of v0.
struct Port {
    region: Arc<Region>,
    frames: SharedFrames,
    pool: Pool,
    socket: Option<Socket>,
}

impl Port {
    fn without_socket() -> Self {
        let region = Arc::new(Region::new(FRAMES, 2048).unwrap());
        let frames = SharedFrames::of_new_region(&region);
        Self {
            pool: Pool::new(frames.clone(), 0),
            region,
            frames,
            socket: None,
        }
    }

    fn open() -> Self {
        let mut port = Self::without_socket();
        let Opened { sockets, refusals } = port.open_queues();
        assert!(refusals.is_empty(), "{refusals:?}");
        port.socket = sockets.into_iter().next();
        port
    }

    fn open_queues(&self) -> Opened {
        let v0 = Interface::named("v0").unwrap().unwrap();
        let set = QueueSet {
            interface: "v0",
            ifindex: v0.index,
            driver: &v0.driver,
            mtu: v0.mtu,
            queues: 1,
            zero_copy: false,
        };
        open_queues(&set, (&self.region, &self.frames), |_| None)
    }

    fn socket(&mut self) -> &mut Socket {
        self.socket.as_mut().unwrap()
    }

    /// Puts packets into the transmit ring, as many as it takes.
    fn transmit(&mut self, count: u32) -> u32 {
        let mut sent = 0;
        while sent < count {
            let most = (count - sent).min(MAX_BATCH as u32);
            let mut packets: Vec<_> = (0..most).map(|_| self.packet()).collect();
            let taken = self.socket().transmit(&mut packets);
            let back = packets.drain(..).map(|p| p.into_frame(&self.region));
            back.for_each(|frame| self.pool.give(frame));
            sent += taken as u32;
            if taken < most as usize {
                break;
            }
        }
        sent
    }

    fn packet(&mut self) -> Packet {
        let frame = self.pool.take().unwrap();
        let mut packet = frame.into_packet(&self.region, 60).unwrap();
        self.region.octets_mut(&mut packet).fill(0xff);
        packet
    }

    fn reclaim(&mut self) {
        let mut pool = Pool::new(self.frames.clone(), 0);
        self.socket().reclaim(&mut pool);
    }

    fn close(&mut self) -> Closing {
        self.socket.take().unwrap().close()
    }

    /// Frames that are free.
    fn free(&self) -> u32 {
        (self.frames.len() + self.pool.len()) as u32
    }

    /// Waits until all frames of a closed socket are home, then counts them.
    fn all_come_home(&self, mut closing: Closing) {
        let deadline = Instant::now() + PATIENCE;
        while !closing.finish(&self.frames) {
            assert!(Instant::now() < deadline, "{} do not come", closing.len());
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(closing.is_empty());
        assert_eq!(self.free(), FRAMES);
    }
}

/// Another network namespace, a process's.
struct Elsewhere(Child);

impl Elsewhere {
    fn new() -> Self {
        let space = |id: &str| fs::read_link(format!("/proc/{id}/ns/net")).unwrap();
        let child = Command::new("unshare").args(["-n", "sleep", "60"]).spawn();
        let other = Self(child.unwrap());
        let deadline = Instant::now() + PATIENCE;
        while space(&other.0.id().to_string()) == space("thread-self") {
            assert!(Instant::now() < deadline, "no other namespace");
            std::thread::sleep(Duration::from_millis(1));
        }
        other
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the interface did not take comes home: it was down, or was deleted or moved, with a full ring.
#[test]
fn unsent_frames_come_home() {
    for fate in ["down", "deleted", "moved"] {
        if !in_a_namespace() {
            return;
        }
        veth_pair(1500);
        let other = Elsewhere::new();
        let mut port = Port::open();
        ip("link set v0 down");
        assert_eq!(port.transmit(2 * RING_SIZE), RING_SIZE);
        port.socket().kick();
        match fate {
            "deleted" => ip("link del v0"),
            "moved" => ip(&format!("link set v0 netns {}", other.0.id())),
            _ => {}
        }
        let closing = port.close();
        assert_eq!(closing.unsent(), RING_SIZE, "{fate}");
        port.all_come_home(closing);
    }
}

/// So does what was sent and never reclaimed, and what was there to receive into.
#[test]
fn sent_frames_come_home() {
    if !in_a_namespace() {
        return;
    }
    veth_pair(1500);
    let mut port = Port::open();
    for _ in 0..3 {
        assert_eq!(port.transmit(RING_SIZE / 4), RING_SIZE / 4);
        port.socket().kick();
    }
    assert_eq!(port.free() + port.socket().frames(), FRAMES);
    let closing = port.close();
    assert_eq!(closing.unsent(), 0);
    port.all_come_home(closing);
}

/// Nothing comes home while the socket is on its queue: here because another descriptor keeps it, with a card
/// because its buffers are there.
#[test]
fn frames_stay_away_while_the_kernel_has_the_socket() {
    if !in_a_namespace() {
        return;
    }
    veth_pair(1500);
    let mut port = Port::open();
    let reader = port.socket().stats_reader().unwrap();
    let mut closing = port.close();
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(200) {
        assert!(!closing.finish(&port.frames));
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(port.free() + closing.len(), FRAMES);
    drop(reader);
    port.all_come_home(closing);
}

/// A queue that refuses costs no frames.
#[test]
fn a_refused_socket_keeps_no_frames() {
    if !in_a_namespace() {
        return;
    }
    veth_pair(1500);
    let (mut first, second) = (Port::open(), Port::without_socket());
    let opened = second.open_queues();
    assert!(opened.sockets.is_empty() && !opened.refusals.is_empty());
    assert_eq!(second.free(), FRAMES);
    let closing = first.close();
    first.all_come_home(closing);
}

/// A device without carrier drops packets one by one, and the kernel says so each time.
#[test]
fn one_kick_sends_all_to_a_device_that_drops() {
    if !in_a_namespace() {
        return;
    }
    veth_pair(1500);
    let mut port = Port::open();
    ip("link set v1 down");
    assert_eq!(port.transmit(RING_SIZE), RING_SIZE);
    port.socket().kick();
    port.reclaim();
    assert_eq!(port.socket().in_flight(), 0);
    assert!(!port.socket().is_cut_off());
    ip("link set v0 down");
    assert_eq!(port.transmit(2 * RING_SIZE), RING_SIZE);
    port.socket().kick();
    assert!(port.socket().is_cut_off());
    assert!(port.socket().frames() <= frames_for(RING_SIZE));
    let closing = port.close();
    port.all_come_home(closing);
}
