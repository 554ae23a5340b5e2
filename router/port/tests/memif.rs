//! A client and a server in one process: every octet, wrap-around, sleep, reconnection, and peers
//! that lie.

mod common;

use std::time::{Duration, Instant};

use bora_contract::Reason;
use bora_port::memif::{Config, LinkState, Port, Role};
use common::{End, FRAMES, config, seed_of, socket_path};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

fn link(test: &str, queues: (u16, u16), log2: u8, frame_sizes: (u32, u32)) -> (End, End) {
    let socket = socket_path(test);
    let server = config(Role::Server, &socket, queues.0, log2);
    let client = config(Role::Client, &socket, queues.1, log2);
    let mut server = End::open(server, frame_sizes.0);
    let mut client = End::open(client, frame_sizes.1);
    assert!(client.wait_for(true) && server.wait_for(true));
    (server, client)
}

/// Sends packets of many sizes from one end to the other and checks each octet and the order.
fn one_way(from: &mut End, to: &mut End, queue: usize, count: u32) {
    let (mut sent, mut received) = (0, 0);
    let longest = from.region.capacity().min(to.region.capacity());
    let deadline = Instant::now() + Duration::from_secs(60);
    while received < count {
        assert!(Instant::now() < deadline, "{received} of {sent} arrived");
        let mut packets = Vec::new();
        while sent < count && packets.len() < 1 + sent as usize % 64 {
            let length = 60 + (sent as usize * 7) % (longest.min(2000) - 59);
            let Some(packet) = from.packet(sent, length) else {
                break;
            };
            packets.push(packet);
            sent += 1;
        }
        // what does not fit is sent again, with its old number
        let kept = packets.len();
        sent -= (kept - from.send(queue, &mut packets)) as u32;
        from.settle();
        to.receive(queue, |octets| {
            assert_eq!(seed_of(octets), Some(received), "{} octets", octets.len());
            received += 1;
        });
    }
}

#[test]
fn every_octet_arrives_in_order_both_ways() {
    for (log2, frame_sizes) in [(10, (2048, 2048)), (5, (4096, 4096)), (0, (2048, 4096))] {
        let test = format!("octets{log2}");
        let (mut server, mut client) = link(&test, (1, 1), log2, frame_sizes);
        // more than 2^16, so that the indices wrap, except where it would take long
        let count = if log2 == 10 { 150_000 } else { 20_000 };
        one_way(&mut client, &mut server, 0, count);
        one_way(&mut server, &mut client, 0, count);
        server.settle();
        client.settle();
        assert_eq!(server.stats().read().dropped.sum(), 0);
        assert_eq!(client.stats().read().dropped.sum(), 0);
        assert_eq!(server.queues[0].in_flight(), 0);
        assert_eq!(client.queues[0].in_flight(), 0);
    }
}

#[test]
fn queues_are_matched_and_the_fewer_count() {
    let (mut server, mut client) = link("queues", (3, 2), 8, (2048, 2048));
    for queue in 0..2 {
        one_way(&mut client, &mut server, queue, 1000);
        one_way(&mut server, &mut client, queue, 1000);
    }
    let packet = server.packet(0, 60).unwrap();
    assert_eq!(server.send(2, &mut vec![packet]), 1);
    let losses = server.queues[2].stats_reader().unwrap().read();
    assert_eq!(losses.dropped[Reason::TxLinkDown], 1, "no ring to send to");
    server.settle();
    assert_eq!(server.queues[2].in_flight(), 0);
    let state = server.port.link_state();
    let LinkState::Up {
        rx_rings, tx_rings, ..
    } = state
    else {
        panic!("{state}");
    };
    assert_eq!((rx_rings, tx_rings), (2, 2));
}

#[test]
fn a_packet_too_long_for_a_frame_is_dropped_by_name() {
    // the server cuts it into a chain of the client's buffers
    let (mut server, mut client) = link("chain", (1, 1), 8, (4096, 2048));
    client.settle();
    let packets = [100, 1792, 1793, 3800, 64].map(|length| server.packet(1, length).unwrap());
    assert_eq!(server.send(0, &mut packets.into()), 5);
    let mut lengths = Vec::new();
    client.receive(0, |octets| lengths.push(octets.len()));
    assert_eq!(lengths, [100, 1792, 64]);
    assert_eq!(client.stats().read().dropped[Reason::RxTooLong], 2);
}

#[test]
fn a_buffer_too_long_for_a_frame_is_dropped_by_name() {
    let (mut server, mut client) = link("long", (1, 1), 8, (2048, 4096));
    let packets = [1792, 1793, 80].map(|length| client.packet(1, length).unwrap());
    assert_eq!(client.send(0, &mut packets.into()), 3);
    let mut lengths = Vec::new();
    server.receive(0, |octets| lengths.push(octets.len()));
    assert_eq!(lengths, [1792, 80]);
    assert_eq!(server.stats().read().dropped[Reason::RxTooLong], 1);
}

fn is_readable(end: &mut End, timeout: Duration) -> bool {
    let fd = end.queues[0].wait().unwrap();
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    let timeout = Timespec {
        tv_sec: 0,
        tv_nsec: timeout.as_nanos() as i64,
    };
    poll(&mut fds, Some(&timeout)).unwrap() > 0
}

#[test]
fn a_sleeper_is_woken_once() {
    const SHORT: Duration = Duration::from_millis(10);
    let (mut server, mut client) = link("sleep", (1, 1), 8, (2048, 2048));
    client.settle();
    let ends = [(true, "server"), (false, "client")];
    for (server_sleeps, name) in ends {
        let (sleeper, other) = if server_sleeps {
            (&mut server, &mut client)
        } else {
            (&mut client, &mut server)
        };
        assert!(!is_readable(sleeper, SHORT), "{name}: nothing has come");
        let packet = other.packet(1, 60).unwrap();
        assert_eq!(other.send(0, &mut vec![packet]), 1);
        assert!(is_readable(sleeper, SHORT), "{name}: woken");
        assert_eq!(sleeper.receive(0, |_| {}), 1);
        assert!(!is_readable(sleeper, SHORT), "{name}: all is taken");
        // polling again: a packet comes before the next sleep begins
        sleeper.receive(0, |_| {});
        let packet = other.packet(1, 60).unwrap();
        assert_eq!(other.send(0, &mut vec![packet]), 1);
        assert!(is_readable(sleeper, SHORT), "{name}: not missed");
        assert_eq!(sleeper.receive(0, |_| {}), 1);
    }
}

#[test]
fn links_come_back_and_no_frame_is_lost() {
    let socket = socket_path("reconnect");
    let mut server = End::open(config(Role::Server, &socket, 1, 8), 2048);
    let mut lost = 0;
    for round in 0..5 {
        let mut client = End::open(config(Role::Client, &socket, 1, 8), 2048);
        assert!(client.wait_for(true) && server.wait_for(true), "{round}");
        one_way(&mut client, &mut server, 0, 1000);
        one_way(&mut server, &mut client, 0, 1000);
        // packets the server never takes
        let mut packets: Vec<_> = (0..10).filter_map(|n| client.packet(n, 60)).collect();
        assert_eq!(client.send(0, &mut packets), 10);
        if round % 2 == 0 {
            drop(client);
            assert!(server.wait_for(false));
        } else {
            drop(server);
            assert!(client.wait_for(false));
            client.settle();
            assert_eq!(client.free_frames(), FRAMES as usize);
            assert_eq!(client.stats().read().dropped[Reason::TxLinkDown], 10);
            lost += 10;
            server = End::open(config(Role::Server, &socket, 1, 8), 2048);
            // the client is the old one, and finds the new server
            assert!(client.wait_for(true) && server.wait_for(true), "{round}");
            one_way(&mut client, &mut server, 0, 1000);
            drop(client);
            assert!(server.wait_for(false));
        }
        server.settle();
        assert_eq!(server.free_frames(), FRAMES as usize);
    }
    assert_eq!(lost, 20);
}

#[test]
fn wrong_settings_are_named_on_both_sides() {
    let socket = socket_path("settings");
    let server = Config {
        secret: "right".into(),
        id: 3,
        ..config(Role::Server, &socket, 1, 8)
    };
    let server = End::open(server, 2048);
    for (id, secret, expected) in [(3, "wrong", "wrong secret"), (4, "right", "no interface")] {
        let client = Config {
            secret: secret.into(),
            id,
            ..config(Role::Client, &socket, 1, 8)
        };
        let client = End::open(client, 2048);
        let deadline = Instant::now() + Duration::from_secs(5);
        while !client.port.link_state().to_string().contains(expected) {
            assert!(Instant::now() < deadline, "{}", client.port.link_state());
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(matches!(server.port.link_state(), LinkState::Down(_)));
    }
    let second = config(Role::Server, &socket, 1, 8);
    let error = Port::open(second, server.region.clone()).unwrap_err();
    assert!(error.to_string().contains("in use"), "{error}");
}
