//! Tests of the driver with the simulated cards: packets in both directions, the fast path,
//! priorities, interrupts, bad input, resets. Needs the library of hero/model (`make hero-model`).

#[path = "../../../router/port/tests/common/mod.rs"]
mod common;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bora_buffer::MAX_BATCH;
use bora_contract::Reason;
use bora_hero::{
    BAD_FCS, CARDS, CardStats, Config, Counter, LinkState, NO_PAD, OpenError, Port, Wire,
};
use bora_port::offload::{Offload, Route};
use bora_port::{Queue, memory};
use bora_wire::{MacAddr, udp};
use common::{FRAMES, Side};

/// All ports of a process share one simulation, so the tests take turns.
static TURN: Mutex<()> = Mutex::new(());
const PATIENCE: Duration = Duration::from_secs(60);

/// The library; prints why and returns `None` if it is not built.
fn model() -> Option<PathBuf> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/hero/libhero-xbar.so");
    let named = std::env::var_os("BORA_HERO_MODEL").map(PathBuf::from);
    let is_named = named.is_some();
    let path = named.unwrap_or(built);
    if path.exists() {
        return Some(path);
    }
    assert!(!is_named, "no {}", path.display());
    bora_testing::skip(format!(
        "no {}; `make hero-model` builds it",
        path.display()
    ));
    None
}

fn mac(card: usize) -> [u8; 6] {
    [2, 0, 0, 0, 0, card as u8]
}

/// A card, with its worker's queue and the other end of its cable.
struct Card {
    port: Option<Port>,
    router: Side,
    cable: Side,
}

/// Cards 0 to `count` - 1.
struct Cards {
    all: Vec<Card>,
    _turn: MutexGuard<'static, ()>,
}

impl Cards {
    fn open(model: &Path, count: usize) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let all = (0..count).map(|card| Card::open(model, card));
        Self {
            all: all.collect(),
            _turn: turn,
        }
    }
}

impl Card {
    fn open(model: &Path, card: usize) -> Self {
        let (region, frames) = Wire::memory().unwrap();
        let (near, far) = memory::pair(MAX_BATCH);
        let wire = Wire::over(Queue::Memory(far), region.clone(), frames.clone()).unwrap();
        let config = Config {
            model: model.into(),
            card,
            mac: mac(card),
            wire,
            offload: true,
        };
        let mut port = None;
        let router = Side::open(2048, |region| {
            let (opened, queue) = Port::open(config, region.clone()).unwrap();
            port = Some(opened);
            vec![queue]
        });
        let cable = Side {
            queues: vec![Queue::Memory(near)],
            pool: bora_buffer::Pool::new(frames.clone(), MAX_BATCH),
            region,
            frames,
        };
        Self {
            port,
            router,
            cable,
        }
    }

    fn port(&self) -> &Port {
        self.port.as_ref().unwrap()
    }

    /// Puts a frame on the cable; false if there is no room.
    fn arrive(&mut self, frame: &[u8]) -> bool {
        let Some(mut packet) = self.cable.packet(0, frame.len()) else {
            return false;
        };
        self.cable
            .region
            .octets_mut(&mut packet)
            .copy_from_slice(frame);
        self.cable.send(0, &mut vec![packet]) == 1
    }

    /// Gives the card a frame to send.
    fn send(&mut self, frame: &[u8]) -> bool {
        let Some(mut packet) = self.router.packet(0, frame.len()) else {
            return false;
        };
        self.router
            .region
            .octets_mut(&mut packet)
            .copy_from_slice(frame);
        self.router.send(0, &mut vec![packet]) == 1
    }

    /// What the worker received since the last call.
    fn received(&mut self) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        self.router.settle();
        self.router
            .receive(0, |octets| frames.push(octets.to_vec()));
        frames
    }

    /// What the card sent since the last call.
    fn left(&mut self) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        self.cable.receive(0, |octets| frames.push(octets.to_vec()));
        frames
    }

    /// Stops the card; returns how many of the worker's frames are free then.
    fn close(mut self) -> usize {
        self.port = None;
        self.router.settle();
        let Side {
            queues,
            pool,
            frames,
            ..
        } = self.router;
        for queue in queues {
            queue.close(&frames);
        }
        frames.len() + pool.len()
    }

    /// The counters, once they no longer change.
    fn settled(&self) -> CardStats {
        let mut stats = self.port().stats();
        loop {
            std::thread::sleep(Duration::from_millis(300));
            let now = self.port().stats();
            if now == stats {
                return now;
            }
            stats = now;
        }
    }
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "no {what} in {PATIENCE:?}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// A UDP packet for a card's address, with a number in its data.
fn packet(card: usize, to: [u8; 4], tos: u8, number: u32, octets: usize) -> Vec<u8> {
    let mut frame = vec![0; octets];
    let headers = udp::Frame {
        dst_mac: MacAddr(mac(card)),
        src_mac: MacAddr([2, 9, 9, 9, 9, 9]),
        tos,
        ..udp::Frame::new([192, 0, 2, 1], to)
    };
    headers.emit(&mut frame).unwrap();
    frame[42..46].copy_from_slice(&number.to_be_bytes());
    frame
}

fn number_of(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[42..46].try_into().unwrap())
}

#[test]
fn every_octet_goes_both_ways_through_the_rings() {
    let Some(model) = model() else { return };
    let mut cards = Cards::open(&model, CARDS);
    // more than twice round the rings of 256
    const COUNT: u32 = 600;
    // fewer than a card's queue holds, because the paper's bus is slower than eight full lines
    const WINDOW: u32 = 16;
    let frame = |card, number: u32| {
        let octets = 60 + (number as usize * 37) % (1514 - 59);
        let mut frame = packet(card, [10, 0, 0, 1], 0, number, octets);
        frame[46..]
            .iter_mut()
            .enumerate()
            .for_each(|(i, octet)| *octet = (i as u32 * 7 + number) as u8);
        frame
    };
    let mut progress = [(0, 0, 0, 0); CARDS];
    wait_for("600 frames each way", || {
        for (number, card) in cards.all.iter_mut().enumerate() {
            let (came, received, sent, left) = &mut progress[number];
            while *came < COUNT.min(*received + WINDOW) && card.arrive(&frame(number, *came)) {
                *came += 1;
            }
            while *sent < COUNT && card.send(&frame(number, *sent)) {
                *sent += 1;
            }
            for octets in card.received() {
                assert_eq!(octets, frame(number, *received), "frame {received}");
                *received += 1;
            }
            for octets in card.left() {
                assert_eq!(octets, frame(number, *left), "frame {left}");
                *left += 1;
            }
        }
        progress
            .iter()
            .all(|done| *done == (COUNT, COUNT, COUNT, COUNT))
            .then_some(())
    });
    for card in cards.all {
        let stats = card.settled();
        assert_eq!(stats.get(Counter::Received), u64::from(COUNT));
        assert_eq!((stats.to_host, stats.fast), (COUNT.into(), 0));
        assert_eq!(
            (stats.get(Counter::Sent), stats.from_host),
            (COUNT.into(), COUNT.into())
        );
        assert_eq!(card.close(), FRAMES as usize, "frames are conserved");
    }
}

#[test]
fn a_route_takes_packets_to_another_card_and_back_to_the_host() {
    let Some(model) = model() else { return };
    let mut cards = Cards::open(&model, 2);
    let next_hop = [2, 7, 7, 7, 7, 7];
    let slot = cards.all[0].port().slots_to(1)[0];
    let mut routes = vec![None; cards.all[0].port().slots()];
    routes[slot] = Some(Route {
        address: [10, 1, 0, 0].into(),
        len: 16,
        mac: next_hop,
    });
    cards.all[0].port().set_routes(routes);
    for number in 0..20 {
        assert!(cards.all[0].arrive(&packet(0, [10, 1, number as u8, 5], 0, number, 200)));
        assert!(cards.all[0].arrive(&packet(0, [10, 2, 0, 5], 0, number, 200)));
    }
    let (mut fast, mut slow) = (Vec::new(), Vec::new());
    wait_for("20 frames on each path", || {
        fast.extend(cards.all[1].left());
        slow.extend(cards.all[0].received());
        (fast.len() == 20 && slow.len() == 20).then_some(())
    });
    for (number, frame) in fast.iter().enumerate() {
        assert_eq!(frame[..6], next_hop);
        assert_eq!(frame[6..12], mac(1));
        assert_eq!(
            (frame[22], number_of(frame)),
            (63, number as u32),
            "TTL, order"
        );
    }
    assert!(
        slow.iter()
            .all(|frame| frame[22] == 64 && frame[30..32] == [10, 2])
    );
    let stats = cards.all[0].settled();
    let load = cards.all[0].port().load();
    assert_eq!((stats.fast, stats.to_host, load.routes[slot]), (20, 20, 20));
    assert_eq!(load.recent, [std::net::Ipv4Addr::new(10, 2, 0, 5); 20]);
    assert_eq!(cards.all[1].settled().fast_sent(), 20);

    cards.all[0].port().set_routes(Vec::new());
    assert!(cards.all[0].arrive(&packet(0, [10, 1, 0, 5], 0, 77, 60)));
    let back = wait_for("frame on the slow path", || cards.all[0].received().pop());
    assert_eq!((number_of(&back), back[22]), (77, 64));
}

#[test]
fn high_priority_is_served_first_and_nothing_interrupts_meanwhile() {
    let Some(model) = model() else { return };
    let mut cards = Cards::open(&model, 1);
    let card = &mut cards.all[0];
    // the worker has given no buffers yet, so the driver polls without receiving
    for number in 0..40 {
        assert!(card.arrive(&packet(0, [10, 0, 0, 1], 0, number, 60)));
    }
    for number in 40..50 {
        assert!(card.arrive(&packet(0, [10, 0, 0, 1], 0xC0, number, 60)));
    }
    wait_for("50 frames in the rings", || {
        (card.port().stats().to_host == 50).then_some(())
    });
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(card.port().stats().interrupts, 1, "polling, whatever comes");
    let mut numbers = Vec::new();
    wait_for("50 frames", || {
        numbers.extend(card.received().iter().map(|frame| number_of(frame)));
        (numbers.len() == 50).then_some(())
    });
    assert!(numbers[..10].iter().copied().eq(40..50), "{numbers:?}");
    assert!(numbers[10..].iter().copied().eq(0..40), "{numbers:?}");
    // when all frames have been received, interrupts are on again
    let before = card.settled().interrupts;
    assert!(card.arrive(&packet(0, [10, 0, 0, 1], 0, 1, 60)));
    wait_for("frame", || card.received().pop());
    assert_eq!(card.settled().interrupts, before + 1);
}

#[test]
fn what_the_host_cannot_take_is_dropped_and_counted() {
    let Some(model) = model() else { return };
    let mut cards = Cards::open(&model, 1);
    let card = &mut cards.all[0];
    // without buffers from the worker, 64 descriptors (two vectors) and the card's own queue fill
    // up
    const COUNT: u64 = 400;
    let mut came = 0;
    wait_for("400 frames in", || {
        let frame = packet(0, [10, 0, 0, 1], 0, came as u32, 1514);
        while came < COUNT && card.arrive(&frame) {
            came += 1;
        }
        (card.port().stats().get(Counter::Received) == COUNT).then_some(())
    });
    let stats = card.settled();
    let dropped = stats.get(Counter::HostVoqFull);
    assert!(dropped > 100, "{dropped} dropped");
    assert_eq!(stats.to_host + dropped, COUNT);
    let mut received = 0;
    wait_for("all that was not dropped", || {
        received += card.received().len() as u64;
        (received == stats.to_host).then_some(())
    });
}

#[test]
fn bad_frames_are_counted_and_harm_nothing() {
    let Some(model) = model() else { return };
    let mut cards = Cards::open(&model, 1);
    let card = &mut cards.all[0];
    let good = packet(0, [10, 0, 0, 1], 0, 7, 100);
    let mut bad_checksum = good.clone();
    bad_checksum[24] ^= 1;
    let mut foreign = good.clone();
    foreign[5] = 99;
    let port = card.port();
    port.inject(&good, BAD_FCS);
    port.inject(&good[..40], NO_PAD);
    port.inject(&[good.clone(), vec![0; 1600]].concat(), 0);
    port.inject(&bad_checksum, 0);
    port.inject(&foreign, 0);
    port.inject(&good, 0);
    let frame = wait_for("the good frame", || card.received().pop());
    assert_eq!(frame, good);
    let stats = card.settled();
    for counter in Counter::ALL
        .iter()
        .filter(|counter| counter.is_receive_drop())
    {
        let expected = match counter {
            Counter::BadFcs
            | Counter::Runt
            | Counter::Giant
            | Counter::BadChecksum
            | Counter::ForeignMac => 1,
            _ => 0,
        };
        assert_eq!(stats.get(*counter), expected, "{counter}");
    }
    assert_eq!((stats.get(Counter::Received), stats.to_host), (6, 1));
    // frames that no card can send
    assert!(card.send(&good[..10]) && card.send(&vec![0; 1600]) && card.send(&good));
    assert_eq!(wait_for("the good frame", || card.left().pop()), good);
    let stats = card.settled();
    assert_eq!(
        (stats.get(Counter::TransmitLength), stats.from_host),
        (2, 1)
    );
}

#[test]
fn traffic_continues_after_resets() {
    let Some(model) = model() else { return };
    let mut cards = Cards::open(&model, 2);
    let (mut came, mut sent, mut received, mut left) = (0u64, 0u64, 0u64, 0u64);
    let mut pump = |cards: &mut Cards, until: u64| {
        wait_for("traffic", || {
            let card = &mut cards.all[0];
            let frame = packet(0, [10, 0, 0, 1], 0, came as u32, 400);
            came += u64::from(came < until + 64 && card.arrive(&frame));
            sent += u64::from(sent < until + 64 && card.send(&frame));
            received += card.received().len() as u64;
            left += card.left().len() as u64;
            (received >= until && left >= until).then_some(())
        });
        (came, sent, received, left)
    };
    let mut before = pump(&mut cards, 100);
    for round in 1..4 {
        cards.all[0].port().reset().unwrap();
        assert_eq!(cards.all[0].port().link_state(), LinkState::Up);
        before = pump(&mut cards, before.2.max(before.3) + 100);
        assert_eq!(cards.all[0].port().stats().resets, round);
    }
    let stats = cards.all[0].settled();
    let card = &mut cards.all[0];
    let queue = card.router.queues[0].stats_reader().unwrap().read();
    let (mut received, mut left) = (before.2, before.3);
    wait_for("the rest", || {
        received += card.received().len() as u64;
        left += card.left().len() as u64;
        (card.router.queues[0].in_flight() == 0 && card.received().is_empty()).then_some(())
    });
    assert!(
        queue.dropped[Reason::TxLinkDown] + left <= before.1,
        "{queue:?}"
    );
    assert!(stats.to_host >= received, "{stats:?}");
    assert_eq!(stats.to_host, received + stats.reset_lost, "{stats:?}");
    for card in cards.all {
        assert_eq!(card.close(), FRAMES as usize, "frames are conserved");
    }
}

#[test]
fn every_slot_of_every_bank_works() {
    let Some(model) = model() else { return };
    let mut cards = Cards::open(&model, CARDS);
    let slots = cards.all[0].port().slots();
    // 16 routes are more than five banks of three
    let routes = (0..slots).map(|slot| {
        Some(Route {
            address: [10, slot as u8, 0, 0].into(),
            len: 16,
            mac: [2, 7, 7, 7, 7, slot as u8],
        })
    });
    cards.all[0].port().set_routes(routes.collect());
    for number in 0..slots {
        let frame = packet(0, [10, number as u8, 0, 9], 0, number as u32, 80);
        wait_for("room", || cards.all[0].arrive(&frame).then_some(()));
    }
    let mut arrived = 0;
    wait_for("a frame by each slot", || {
        for to in 1..CARDS {
            let expected: Vec<usize> = cards.all[0].port().slots_to(to);
            for frame in cards.all[to].left() {
                let slot = number_of(&frame) as usize;
                assert!(expected.contains(&slot), "slot {slot} leads to card {to}");
                assert_eq!(frame[..6], [2, 7, 7, 7, 7, slot as u8]);
                arrived += 1;
            }
        }
        (arrived == slots).then_some(())
    });
    assert_eq!(cards.all[0].settled().fast, slots as u64);
    assert!(
        cards.all[0]
            .port()
            .load()
            .routes
            .iter()
            .all(|&count| count == 1)
    );
}

#[test]
fn the_fast_path_recovers_when_either_end_is_reset() {
    let Some(model) = model() else { return };
    let mut cards = Cards::open(&model, 2);
    let slot = cards.all[0].port().slots_to(1)[0];
    let mut routes = vec![None; cards.all[0].port().slots()];
    routes[slot] = Some(Route {
        address: [10, 1, 0, 0].into(),
        len: 16,
        mac: [2; 6],
    });
    cards.all[0].port().set_routes(routes);
    let (mut came, mut left, mut to_reset) = (0u64, 0u64, 0);
    for round in 1..=6u64 {
        // with 64 frames on the line a burst is always under way
        let enough = left + 150;
        wait_for("frames by the fast path", || {
            let frame = packet(0, [10, 1, 0, 1], 0, came as u32, 1514);
            came += u64::from(came < left + 64 && cards.all[0].arrive(&frame));
            let now = cards.all[1].left();
            assert!(
                now.iter()
                    .all(|frame| frame.len() == 1514 && frame[22] == 63)
            );
            left += now.len() as u64;
            came = came.max(left);
            (left >= enough).then_some(())
        });
        cards.all[to_reset].port().reset().unwrap();
        assert_eq!(cards.all[to_reset].port().stats().resets, round.div_ceil(2));
        to_reset = 1 - to_reset;
        came = left;
    }
    let stats = cards.all[0].settled();
    assert!(
        stats.fast >= left,
        "the route is back after each reset: {stats:?}"
    );
    assert!(cards.all[0].received().is_empty() && stats.to_host == 0);
}

#[test]
fn what_cannot_be_opened_is_named() {
    let open = |model: &Path, card| {
        let (region, frames) = Wire::memory().unwrap();
        let (_, far) = memory::pair(MAX_BATCH);
        let wire = Wire::over(Queue::Memory(far), region.clone(), frames).unwrap();
        let config = Config {
            model: model.into(),
            card,
            mac: mac(0),
            wire,
            offload: true,
        };
        Port::open(config, region).map(|(port, _queue)| port)
    };
    let error = open(Path::new("/nowhere/libhero.so"), 0).unwrap_err();
    assert!(error.to_string().contains("/nowhere/libhero.so"), "{error}");
    // a library that is not a model
    let error = open(Path::new("libc.so.6"), 0).unwrap_err();
    assert!(error.to_string().contains("hero_abi"), "{error}");
    assert!(matches!(
        open(Path::new("x"), CARDS),
        Err(OpenError::NoCard(CARDS))
    ));
    let Some(model) = model() else { return };
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let port = open(&model, 3).unwrap();
    assert!(matches!(open(&model, 3), Err(OpenError::InUse(3))));
    drop(port);
    let again = Arc::new(open(&model, 3).unwrap());
    assert_eq!(again.link_state(), LinkState::Up);
}
