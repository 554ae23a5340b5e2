//! Peers that do what no honest one does: each loses its link with a name for it, and harms nothing else.

mod checks;
mod common;

use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use bora_contract::Reason;
use bora_port::memif::{
    AddRegion, AddRing, Config, Hello, Init, LinkState, Message, Name, Port, Role,
};
use checks::peer::{
    BUFFER, Channel, Client, HEAD, MOST_FDS, Memory, NEXT, Server, TAIL, VERSION, bell, config,
    hello, listener,
};
use common::{End, FRAMES};
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, ftruncate};

const SEALED: MemfdFlags = MemfdFlags::ALLOW_SEALING;

fn server() -> (End, Config) {
    let settings = config(Role::Server, 10);
    (End::open(settings.clone(), 2048), settings)
}

/// A server with a client whose link is up.
fn link(log2: u8, flags: MemfdFlags) -> (End, Client) {
    let (mut end, settings) = server();
    let client = Client::new(&settings, log2, flags).unwrap();
    assert!(matches!(client.shake(), Some(Message::Connected(_))));
    assert!(end.wait_for(true));
    end.settle();
    (end, client)
}

/// The link goes down for a reason with these words, and no frame is lost.
fn goes_down(end: &mut End, words: &str) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while !end.port.link_state().to_string().contains(words) {
        let state = end.port.link_state();
        assert!(Instant::now() < deadline, "{state}, not `{words}`");
        std::thread::sleep(Duration::from_millis(2));
        end.receive(0, |_| {});
        end.settle();
    }
    end.settle();
    assert_eq!(end.queues[0].in_flight(), 0);
    assert_eq!(end.free_frames(), FRAMES as usize, "{words}");
}

fn init() -> Init {
    Init {
        version: VERSION,
        id: 0,
        secret: [0; 24],
        name: Name::new("peer"),
    }
}

fn ring() -> AddRing {
    AddRing {
        s2m: true,
        index: 0,
        region: 0,
        offset: 0,
        log2_ring_size: 4,
        private_hdr_size: 0,
    }
}

/// Octets of a message with one of them changed.
fn changed(message: &Message, at: usize, octet: u8) -> Vec<u8> {
    let mut octets = message.emit().to_vec();
    octets[at] = octet;
    octets
}

/// Says the first `good` messages of a client, then this one; the answer has these words.
fn refused(good: usize, octets: &[u8], fds: &[BorrowedFd<'_>], words: &str) {
    let (mut end, settings) = server();
    let client = Client::new(&settings, 4, SEALED).unwrap();
    for (message, fd) in client.script().into_iter().take(good) {
        let answer = client.channel.ask(&message.emit(), fd.as_slice());
        assert!(
            matches!(answer, Some(Message::Ack | Message::Connected(_))),
            "{answer:?}"
        );
    }
    let answer = client.channel.ask(octets, fds);
    let Some(Message::Disconnect(disconnect)) = &answer else {
        panic!("{answer:?}, not `{words}`");
    };
    assert!(
        disconnect.reason.contains(words),
        "{}, not `{words}`",
        disconnect.reason
    );
    goes_down(&mut end, words);
}

#[test]
fn messages_with_a_wrong_field_are_refused_by_name() {
    let init = |change: fn(&mut Init)| {
        let mut init = init();
        change(&mut init);
        Message::Init(init).emit()
    };
    let ack = Message::Ack.emit();
    refused(0, &ack[..127], &[], "127 octets");
    refused(0, &[&ack[..], &[0]].concat(), &[], "129 octets");
    refused(
        0,
        &changed(&Message::Ack, 0, 9),
        &[],
        "unknown message type 9",
    );
    refused(0, &ack, &[], "ACK message out of turn");
    refused(0, &init(|init| init.version = 0x0100), &[], "version 2.0");
    refused(0, &init(|init| init.id = 7), &[], "id 7");
    refused(
        0,
        &changed(&Message::Init(self::init()), 8, 1),
        &[],
        "interface mode 1",
    );
    refused(1, &init(|_| {}), &[], "INIT message out of turn");
    refused(
        0,
        &Message::Connect(Name::new("a")).emit(),
        &[],
        "CONNECT message out of turn",
    );
    refused(
        1,
        &Message::Connected(Name::new("a")).emit(),
        &[],
        "CONNECTED message out of turn",
    );
    for after in [ack, init(|_| {}), Message::Connect(Name::new("a")).emit()] {
        refused(5, &after, &[], "out of turn");
    }
}

#[test]
fn regions_with_a_wrong_field_are_refused_by_name() {
    let region = |index, size| Message::AddRegion(AddRegion { index, size }).emit();
    let memory = Memory::new(4096, SEALED);
    let fds = [memory.0.as_fd()];
    refused(0, &region(0, 4096), &fds, "ADD_REGION message out of turn");
    refused(1, &region(1, 4096), &fds, "region 1 out of order");
    refused(2, &region(0, 4096), &fds, "region 0 out of order");
    refused(5, &region(1, 4096), &fds, "ADD_REGION message out of turn");
    refused(1, &region(0, 4096), &[], "without a file descriptor");
    refused(1, &region(0, 0), &fds, "no octets");
    refused(1, &region(0, 4097), &fds, "4097 octets in a file of 4096");
    refused(1, &region(0, u64::MAX), &fds, "in a file of 4096");
    refused(1, &region(0, 4096), &[bell().as_fd()], "not in memory");
    let disk = std::fs::File::open("/proc/self/exe").unwrap();
    refused(1, &region(0, 4096), &[disk.as_fd()], "not in memory");
}

#[test]
fn rings_with_a_wrong_field_are_refused_by_name() {
    let bell = bell();
    let add = |words: &str, change: fn(&mut AddRing)| {
        let mut ring = ring();
        change(&mut ring);
        refused(2, &Message::AddRing(ring).emit(), &[bell.as_fd()], words);
    };
    add("ring 1 is not one of those offered", |ring| ring.index = 1);
    add("ring 65535 is not one of those offered", |ring| {
        ring.index = u16::MAX
    });
    add("of region 1", |ring| ring.region = 1);
    add("of region 65535", |ring| ring.region = u16::MAX);
    add("offset 4 ", |ring| ring.offset = 4);
    add("offset 4294967288 ", |ring| ring.offset = u32::MAX - 7);
    add("offset 1024 ", |ring| ring.offset = 1024); // no cookie
    add("offset 0 ", |ring| ring.log2_ring_size = 14);
    add("private headers", |ring| ring.private_hdr_size = 1);
    let good = Message::AddRing(ring());
    refused(2, &changed(&good, 12, 15), &[bell.as_fd()], "2^15");
    refused(2, &changed(&good, 12, 255), &[bell.as_fd()], "2^255");
    refused(
        3,
        &good.emit(),
        &[bell.as_fd()],
        "ring 0 is not one of those offered",
    );
    refused(1, &good.emit(), &[bell.as_fd()], "of region 0");
    refused(2, &good.emit(), &[], "without a file descriptor");
    refused(
        2,
        &good.emit(),
        &[Memory::new(8, SEALED).0.as_fd()],
        "not an eventfd",
    );
}

/// The sum counts, and whole pages of the file.
#[test]
fn more_memory_than_allowed_is_refused() {
    let settings = Config {
        memory: 1 << 20,
        ..config(Role::Server, 10)
    };
    let mut end = End::open(settings.clone(), 2048);
    let channel = Channel::connect(&settings).unwrap();
    channel.answer().unwrap();
    channel.ask(&Message::Init(init()).emit(), &[]);
    let memory = Memory::new(400 << 10, SEALED);
    for index in 0..3 {
        let region = Message::AddRegion(AddRegion {
            index,
            size: 400 << 10,
        });
        let answer = channel.ask(&region.emit(), &[memory.0.as_fd()]);
        let is_ack = matches!(answer, Some(Message::Ack));
        assert_eq!(is_ack, index < 2, "{answer:?}");
    }
    goes_down(
        &mut end,
        "region of 409600 octets, where `memory=` leaves 229376",
    );
}

/// A second mapping of the packets would break what Rust is promised about them.
#[test]
fn the_packets_of_the_port_are_no_region_of_a_peer() {
    let (mut end, settings) = server();
    let channel = Channel::connect(&settings).unwrap();
    channel.answer().unwrap();
    channel.ask(&Message::Init(init()).emit(), &[]);
    let region = Message::AddRegion(AddRegion {
        index: 0,
        size: 4096,
    });
    channel.ask(&region.emit(), &[end.region.fd()]);
    goes_down(&mut end, "Bora's own packets");
}

#[test]
fn indices_and_descriptors_that_lie_are_named() {
    type Deed = fn(&Client);
    let deeds: [(&str, Deed); 7] = [
        ("not within 16 slots", |client| {
            client.memory.write16(client.ring(0) + HEAD, 17)
        }),
        ("not within 16 slots", |client| {
            client.memory.write16(client.ring(0) + HEAD, u16::MAX)
        }),
        ("outside region 1", |client| put(client, 0, 1, 64, 0)),
        ("outside region 0", |client| put(client, 0, 0, 64, u32::MAX)),
        ("outside region 0", |client| {
            put(client, 0, 0, 1792, client.size as u32 - 1791)
        }),
        ("outside region 65535", |client| {
            put(client, 0, u16::MAX, 1, 0)
        }),
        ("chain of more than 16 buffers", |client| {
            for slot in 0..16 {
                client
                    .memory
                    .describe(client.ring(0), slot, NEXT, 0, 1, client.buffer(0));
            }
            client.memory.write16(client.ring(0) + HEAD, 16);
        }),
    ];
    for (words, deed) in deeds {
        let (mut end, client) = link(4, SEALED);
        deed(&client);
        goes_down(&mut end, words);
    }
}

/// Offers one packet.
fn put(client: &Client, flags: u16, region: u16, length: u32, offset: u32) {
    client
        .memory
        .describe(client.ring(0), 0, flags, region, length, offset);
    client.memory.write16(client.ring(0) + HEAD, 1);
}

#[test]
fn buffers_that_lie_are_named_when_something_is_sent() {
    for (words, region, length, offset) in [
        ("outside region 9", 9, BUFFER, 0),
        ("outside region 0", 0, BUFFER, u32::MAX - 1000),
        ("buffer of no octets", 0, 0, 0),
    ] {
        let (mut end, client) = link(4, SEALED);
        client
            .memory
            .describe(client.ring(1), 0, 0, region, length, offset);
        client.memory.write16(client.ring(1) + HEAD, 1);
        let packet = end.packet(1, 60).unwrap();
        end.send(0, &mut vec![packet]);
        goes_down(&mut end, words);
    }
}

/// What a call may cost is counted in buffers: bad packets and chains are no way around it.
#[test]
fn a_call_takes_no_more_buffers_than_packets_asked_for() {
    let (mut end, client) = link(14, SEALED);
    let taken = || client.memory.read16(client.ring(0) + TAIL);
    for slot in 0..1 << 14 {
        // 256 empty ones, the rest chains of 128
        let flags = if slot < 256 || slot % 128 == 127 {
            0
        } else {
            NEXT
        };
        client
            .memory
            .describe(client.ring(0), slot, flags, 0, 0, client.buffer(0));
    }
    client.memory.write16(client.ring(0) + HEAD, 1 << 14);
    let mut packets = Vec::new();
    let mut before = 0;
    for most in [64, 64, 128, 128 + 63, 128 + 63] {
        assert_eq!(end.queues[0].receive(&mut packets, 64), 0);
        let now = taken();
        assert!(
            (64..=most).contains(&(now - before)),
            "{} buffers",
            now - before
        );
        before = now;
        end.settle();
    }
}

/// A chain without an end costs a look at 256 buffers once, not at the whole ring for ever.
#[test]
fn chains_have_an_end() {
    let (mut end, client) = link(14, SEALED);
    for slot in 0..300 {
        client
            .memory
            .describe(client.ring(0), slot, NEXT, 0, 1, client.buffer(0));
    }
    client.memory.write16(client.ring(0) + HEAD, 300);
    goes_down(&mut end, "chain of more than 256 buffers");

    // to send: a packet that its buffers cannot hold is lost by name, and the next goes on
    let (mut end, client) = link(14, SEALED);
    for slot in 0..400 {
        let length = if slot < 300 { 1 } else { BUFFER };
        client
            .memory
            .describe(client.ring(1), slot, 0, 0, length, client.buffer(0));
    }
    client.memory.write16(client.ring(1) + HEAD, 400);
    let packets = [1000, 200, 250].map(|length| end.packet(1, length).unwrap());
    assert_eq!(end.send(0, &mut packets.into()), 3);
    assert_eq!(end.stats().read().dropped[Reason::TxRefused], 1);
    // 200 of one octet; 100 of one octet and then one large
    assert_eq!(client.memory.read16(client.ring(1) + TAIL), 301);
}

#[test]
fn memory_that_is_taken_away_ends_the_link_and_nothing_else() {
    type Deed = fn(&OwnedFd, u64);
    let deeds: [(MemfdFlags, Deed); 3] = [
        (MemfdFlags::empty(), |fd, _| ftruncate(fd, 0).unwrap()),
        (MemfdFlags::empty(), |fd, _| {
            ftruncate(fd, 0).unwrap();
            ftruncate(fd, 1 << 30).unwrap();
        }),
        (SEALED, |fd, size| {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            fallocate(fd, flags, 0, size).unwrap();
        }),
    ];
    for (flags, deed) in deeds {
        let (mut end, client) = link(6, flags);
        for slot in 0..64 {
            client
                .memory
                .describe(client.ring(0), slot, 0, 0, 100, client.buffer(slot));
            client
                .memory
                .describe(client.ring(1), slot, 0, 0, BUFFER, client.buffer(64 + slot));
        }
        for ring in 0..2 {
            client.memory.write16(client.ring(ring) + HEAD, 64);
        }
        let mut packets = vec![end.packet(1, 1000).unwrap(), end.packet(1, 1000).unwrap()];
        assert_eq!(end.receive(0, |_| {}), 64);
        deed(&client.memory.0, client.size);
        // the worker goes on until the port knows
        end.receive(0, |_| {});
        end.send(0, &mut packets);
        goes_down(&mut end, "the peer took away memory of region 0");
    }
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Others run beside this test, so it is more than they have that counts.
#[test]
fn floods_of_messages_and_descriptors_leave_nothing_behind() {
    let before = descriptors();
    let (mut end, settings) = server();
    for round in 0..8 {
        let Some(channel) = Channel::connect(&settings) else {
            continue;
        };
        let bell = bell();
        let many = [bell.as_fd(); MOST_FDS];
        for _ in 0..64 {
            channel.send(&Message::Init(init()).emit(), &many);
        }
        for _ in 0..16 {
            let half_open = Channel::connect(&settings);
            let _ = half_open.map(|channel| channel.send(&[0; 500], &many));
        }
        drop(channel);
        std::thread::sleep(Duration::from_millis(20 * round));
    }
    let client = loop {
        match Client::new(&settings, 4, SEALED) {
            Some(client) => break client,
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    assert!(
        matches!(client.shake(), Some(Message::Connected(_))),
        "the port is still there"
    );
    assert!(end.wait_for(true));
    drop((client, end));
    let deadline = Instant::now() + Duration::from_secs(5);
    while descriptors() > before + 200 {
        assert!(
            Instant::now() < deadline,
            "{} descriptors, {before} before",
            descriptors()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// One that says nothing keeps the place no longer than its time.
#[test]
fn half_open_peers_make_room() {
    let (mut end, settings) = server();
    let _silent = Channel::connect(&settings).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let start = Instant::now();
    let client = Client::new(&settings, 4, SEALED).unwrap();
    assert!(matches!(client.shake(), Some(Message::Connected(_))));
    assert!(end.wait_for(true) && start.elapsed() < Duration::from_secs(4));
}

/// Each time that the link goes up or down, the twin's carrier does, and Linux and routing daemons work.
#[test]
fn a_storm_of_connections_is_slowed_down() {
    let (mut end, settings) = server();
    let (start, mut ups) = (Instant::now(), 0);
    while start.elapsed() < Duration::from_secs(5) {
        let client = Client::new(&settings, 4, SEALED);
        ups += u32::from(client.is_some_and(|client| client.shake().is_some()));
        end.settle();
    }
    assert!((3..=10).contains(&ups), "{ups} times up in five seconds");
    let client = Client::new(&settings, 4, SEALED).unwrap();
    assert!(matches!(client.shake(), Some(Message::Connected(_))));
    assert!(end.wait_for(true));
}

/// A socket whose close takes a minute: what it sent is not taken, and it lingers.
fn slow_to_close() -> (OwnedFd, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::from_secs(60))).unwrap();
    stream.set_nonblocking(true).unwrap();
    while std::io::Write::write(&mut &stream, &[0; 65536]).is_ok() {}
    stream.set_nonblocking(false).unwrap();
    (stream.into(), far)
}

/// Brings the port to close a descriptor that takes its time. It is sent while the port talks to another, so
/// that the port has it last.
fn hang(settings: &Config) -> TcpStream {
    let (slow, far) = slow_to_close();
    let other = Channel::connect(settings).unwrap();
    other.answer().unwrap();
    let channel = Channel::connect(settings).unwrap();
    assert!(channel.send(&Message::Init(init()).emit(), &[slow.as_fd()]));
    drop((slow, other));
    channel.answer().unwrap();
    std::thread::sleep(Duration::from_millis(100));
    far
}

#[test]
fn a_descriptor_that_does_not_close_cannot_keep_the_port_from_ending() {
    let (end, settings) = server();
    let _far = hang(&settings);
    let start = Instant::now();
    drop(end);
    assert!(
        start.elapsed() < Duration::from_secs(4),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn a_descriptor_that_does_not_close_cannot_keep_others_out() {
    let (mut end, settings) = server();
    let _far = hang(&settings);
    let deadline = Instant::now() + Duration::from_secs(20);
    let client = loop {
        assert!(Instant::now() < deadline, "{}", end.port.link_state());
        match Client::new(&settings, 4, SEALED) {
            Some(client) if client.shake().is_some() => break client,
            _ => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    assert!(end.wait_for(true));
    drop(client);
}

/// connect() waits while a server has no room for it.
#[test]
fn a_server_that_takes_nobody_cannot_keep_a_port() {
    let settings = config(Role::Client, 4);
    let _listener = listener(&settings, 0);
    let mut waiting = Vec::new();
    while let Some(channel) = Channel::connect(&settings) {
        waiting.push(channel);
    }
    let start = Instant::now();
    let end = End::open(settings.clone(), 2048);
    let words = "takes no connections";
    while !end.port.link_state().to_string().contains(words) {
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "{}",
            end.port.link_state()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    let as_server = Config {
        role: Role::Server,
        ..settings
    };
    let error = Port::open(as_server, end.region.clone()).unwrap_err();
    assert!(error.to_string().contains("in use"), "{error}");
    drop(end);
    assert!(start.elapsed() < Duration::from_secs(8));
}

/// The worker that lets go of a peer's memory is not the one that unmaps it.
#[test]
fn taking_a_link_down_costs_a_worker_nothing() {
    let mut least = Duration::MAX;
    for _ in 0..4 {
        let (mut end, settings) = server();
        let client = Client::new(&settings, 4, SEALED).unwrap();
        let more = Memory::new(128 << 20, SEALED);
        let region = Message::AddRegion(AddRegion {
            index: 1,
            size: 128 << 20,
        });
        for (step, (message, fd)) in client.script().into_iter().enumerate() {
            client.channel.ask(&message.emit(), fd.as_slice());
            if step == 1 {
                let answer = client.channel.ask(&region.emit(), &[more.0.as_fd()]);
                assert!(matches!(answer, Some(Message::Ack)), "{answer:?}");
            }
        }
        assert!(end.wait_for(true));
        drop((client, more));
        while matches!(end.port.link_state(), LinkState::Up { .. }) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let start = Instant::now();
        end.settle();
        least = least.min(start.elapsed());
        assert_eq!(
            end.queues.first().and_then(|queue| match queue {
                bora_port::Queue::Memif(queue) => Some(queue.is_up()),
                _ => None,
            }),
            Some((false, false))
        );
    }
    assert!(least < Duration::from_millis(2), "{least:?}");
}

/// A client port and where its servers listen.
fn client(log2: u8) -> (End, OwnedFd) {
    let settings = config(Role::Client, log2);
    let listener = listener(&settings, 4);
    (End::open(settings, 2048), listener)
}

#[test]
fn servers_that_say_something_wrong_are_refused_by_name() {
    let hello = |change: fn(&mut Hello)| {
        let mut hello = hello();
        change(&mut hello);
        Message::Hello(hello)
    };
    let connected = Message::Connected(Name::new("a"));
    for (message, words) in [
        (
            hello(|hello| hello.min_version = VERSION + 1),
            "version 2.0",
        ),
        (
            hello(|hello| hello.max_version = VERSION - 1),
            "version 2.0",
        ),
        (hello(|hello| hello.max_region = 0), "region 1 out of order"),
        (Message::Ack, "ACK message out of turn"),
        (connected.clone(), "CONNECTED message out of turn"),
        (Message::Init(init()), "INIT message out of turn"),
        (Message::AddRing(ring()), "ADD_RING message out of turn"),
    ] {
        let (mut end, listener) = client(4);
        let channel = Channel::accept(&listener).unwrap();
        channel.send(&message.emit(), &[]);
        goes_down(&mut end, words);
    }
    for (last, words) in [
        (hello(|_| {}), "HELLO message out of turn"),
        (Message::Ack, "ACK message out of turn"),
    ] {
        let (mut end, listener) = client(4);
        Server::shake(&listener, &last).unwrap();
        goes_down(&mut end, words);
    }
}

#[test]
fn servers_whose_rings_lie_are_named() {
    type Deed = fn(&Server, &Memory);
    let deeds: [(&str, Deed); 4] = [
        ("not within 16 slots", |server, rings| {
            rings.write16(server.ring(1) + TAIL, 17)
        }),
        ("not within 16 slots", |server, rings| {
            rings.write16(server.ring(1) + TAIL, u16::MAX)
        }),
        ("not within 1 slots", |server, rings| {
            rings.write16(server.ring(0) + TAIL, 2)
        }),
        ("chain of more than 16 buffers", |server, rings| {
            for slot in 0..16 {
                rings.describe(server.ring(1), slot, NEXT, 1, 1, 0);
            }
            rings.write16(server.ring(1) + TAIL, 16);
        }),
    ];
    for (words, deed) in deeds {
        let (mut end, listener) = client(4);
        let server = Server::shake(&listener, &Message::Connected(Name::new("a"))).unwrap();
        assert!(end.wait_for(true));
        end.settle();
        let packet = end.packet(1, 60).unwrap();
        assert_eq!(end.send(0, &mut vec![packet]), 1);
        deed(&server, &server.regions[0]);
        goes_down(&mut end, words);
    }
}

/// Where a packet is taken from is the port's own note; of what a server writes only the length counts.
#[test]
fn lengths_and_places_that_a_server_makes_up_are_lost_by_name() {
    let (mut end, listener) = client(4);
    let server = Server::shake(&listener, &Message::Connected(Name::new("a"))).unwrap();
    assert!(end.wait_for(true));
    end.settle();
    let rings = &server.regions[0];
    for (slot, length) in [0, 1793, u32::MAX, 1792].into_iter().enumerate() {
        rings.describe(server.ring(1), slot as u64, 0, 7, length, u32::MAX);
    }
    rings.write16(server.ring(1) + TAIL, 4);
    let mut lengths = Vec::new();
    end.receive(0, |octets| lengths.push(octets.len()));
    assert_eq!(lengths, [1792]);
    assert_eq!(end.stats().read().dropped[Reason::RxMalformed], 3);
    drop(server);
    goes_down(&mut end, "the peer has gone");
}

/// Plays of the fuzz targets with other octets each time the seed changes.
#[test]
fn plays_from_a_seed() {
    let mut state = 1u64;
    for _ in 0..150 {
        let octets: Vec<u8> = (0..200)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (state >> 33) as u8
            })
            .collect();
        checks::memif_server(&octets);
        checks::memif_client(&octets);
    }
}
