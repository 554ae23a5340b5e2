//! Four cards without a virtual machine: its accesses are made by hand, its memory is a file. Needs the library of hero/model.

use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

use bora_hero::map::{
    CPL_BASE, DROP_CNT, FWD_CNT, ID, ID_VALUE, IRQ_RXLO, MAC_HIGH, MAC_LOW, NEXTHOP_MAC, ROUTE,
    RXLO_DESC, TX_DESC,
};
use bora_hero::{Counter, FAULTLESS, Sent};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

use super::*;

const MEMORY: u64 = 1 << 20;
/// Places in a card's memory: completion rings, vectors, buffers.
const VECTORS: u64 = 0x4000;
const BUFFERS: u64 = 0x1_0000;
const PATIENCE: usize = 2_000;

/// The cards of a guest, with memory and everything enabled; `None`, said aloud, without the library.
struct Machine {
    bus: Bus,
    memory: [File; CARDS],
}

impl Machine {
    fn new() -> Option<Self> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/hero/libhero-xbar.so");
        if !path.exists() {
            let path = path.display();
            bora_testing::skip(format!("no {path}; `make hero-model` builds it"));
            return None;
        }
        let model = Model::load(&path).unwrap();
        let mut machine = Self {
            bus: Bus::new(model, [const { Wire::None }; CARDS]),
            memory: std::array::from_fn(|_| memory()),
        };
        (0..CARDS).for_each(|card| machine.connect(card));
        Some(machine)
    }

    /// What QEMU and the firmware do.
    fn connect(&mut self, card: usize) {
        let file = self.memory[card].try_clone().unwrap();
        let mut guests = self.bus.guests().lock();
        guests[card].map((0, MEMORY), Some(file), 0, true).unwrap();
        drop(guests);
        let aperture = guest_aperture(card);
        self.bus
            .write(card, REGION_CONFIG, 0x18, &aperture.to_le_bytes());
        self.command(card, 6);
    }

    fn command(&mut self, card: usize, value: u16) {
        self.bus.write(card, REGION_CONFIG, 4, &value.to_le_bytes());
    }

    fn get(&mut self, card: usize, register: u8) -> u32 {
        let mut data = [0; 4];
        self.bus
            .read(card, REGION_REGISTERS, u64::from(register) * 4, &mut data);
        u32::from_le_bytes(data)
    }

    fn set(&mut self, card: usize, register: u8, value: u32) {
        let offset = u64::from(register) * 4;
        self.bus
            .write(card, REGION_REGISTERS, offset, &value.to_le_bytes());
    }

    fn counter(&mut self, card: usize, counter: Counter) -> u32 {
        self.set(card, DROP_CNT, counter as u32);
        self.get(card, DROP_CNT)
    }

    fn word(&self, card: usize, address: u64) -> u64 {
        let mut word = [0; 8];
        self.memory[card].read_exact_at(&mut word, address).unwrap();
        u64::from_le_bytes(word)
    }

    /// Gives a vector of one descriptor.
    fn give(&mut self, card: usize, register: u8, buffer: u64, octets: u64) {
        let vector = VECTORS + u64::from(register) * 0x100;
        let word = (octets << 32 | buffer).to_le_bytes();
        self.memory[card].write_all_at(&word, vector).unwrap();
        self.set(card, register, vector as u32 | 1);
    }

    /// Gives a card its address, rings and one buffer, and starts it.
    fn start(&mut self, card: usize, command: u32) {
        self.set(card, MAC_LOW, 2);
        self.set(card, MAC_HIGH, (card as u32) << 8 | (card as u32) << 16);
        self.set(card, CPL_BASE, 0);
        self.give(card, RXLO_DESC, BUFFERS, 2048);
        self.set(card, CMD, command);
    }

    /// Lets 200 us pass, whatever happens.
    fn go_on(&mut self) {
        for _ in 0..100 {
            self.bus.quantum();
        }
    }

    fn until(&mut self, mut is_true: impl FnMut(&mut Self) -> bool) -> bool {
        (0..PATIENCE).any(|_| {
            self.bus.quantum();
            is_true(self)
        })
    }

    fn receive(&mut self, card: usize, frame: &[u8]) {
        assert!(self.bus.model.receive(card, frame, FAULTLESS));
    }
}

fn memory() -> File {
    let fd = memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&fd, MEMORY).unwrap();
    fd.into()
}

/// Above 4 GiB, as firmware puts it.
fn guest_aperture(card: usize) -> u64 {
    0xC0_0000_0000 + card as u64 * 0x2000_0000
}

fn broadcast() -> Vec<u8> {
    let mut frame = vec![0xFF; 6];
    frame.extend([2, 0, 0, 0, 1, 0, 0x88, 0xB5]);
    frame.resize(80, 0x5A);
    frame
}

#[test]
fn registers_answer_only_whole_words() {
    let Some(mut machine) = Machine::new() else {
        return;
    };
    assert_eq!(machine.get(3, ID), ID_VALUE);
    machine.set(3, MAC_LOW, 0x1234_5678);
    for (offset, octets) in [
        (12, 1),
        (12, 2),
        (12, 8),
        (13, 4),
        (14, 2),
        (0x100, 4),
        (0xFFC, 4),
    ] {
        let mut data = vec![0; octets];
        machine.bus.read(3, REGION_REGISTERS, offset, &mut data);
        assert!(
            data.iter().all(|&octet| octet == 0xFF),
            "{offset:#x} {octets}"
        );
        machine
            .bus
            .write(3, REGION_REGISTERS, offset, &vec![0; octets]);
    }
    for region in 0..12 {
        machine.bus.read(3, region, u64::MAX - 3, &mut [0; 4]);
        machine.bus.write(3, region, u64::MAX - 3, &[0; 4]);
    }
    assert_eq!(machine.get(3, MAC_LOW), 0x1234_5678);
    machine.command(3, 4);
    assert_eq!(machine.get(3, ID), u32::MAX, "memory is not enabled");
    let report = machine.bus.disconnect(3);
    assert!(
        report.contains("accesses to BARs without effect"),
        "{report}"
    );
}

#[test]
fn a_frame_comes_into_the_guests_memory_and_is_told() {
    let Some(mut machine) = Machine::new() else {
        return;
    };
    let trigger = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
    let mut trigger = File::from(trigger);
    let theirs = trigger.try_clone().unwrap();
    assert!(machine.bus.set_triggers(1, 0, 1, vec![theirs]));
    machine.start(1, 2 | 4);
    machine.set(1, IRQ_MASK, IRQ_RXLO);
    machine.receive(1, &broadcast());
    assert!(machine.until(|machine| machine.word(1, 0) >> 50 & 1 == 1));
    let completion = machine.word(1, 0);
    assert_eq!(
        (completion as u32, completion >> 32 & 0xFFFF),
        (BUFFERS as u32, 80)
    );
    let mut frame = [0; 80];
    machine.memory[1]
        .read_exact_at(&mut frame, BUFFERS)
        .unwrap();
    assert_eq!(frame[..], broadcast());
    machine.bus.pass(10_000);
    let mut told = [0; 8];
    trigger.read_exact(&mut told).unwrap();
    assert_eq!(u64::from_ne_bytes(told), 1);
    assert_eq!(machine.get(1, IRQ_MASKED) & IRQ_RXLO, IRQ_RXLO);
    assert_eq!(
        machine.word(0, 0),
        0,
        "the other cards' guests see nothing of it"
    );
}

#[test]
fn nothing_is_read_or_written_without_bus_mastering() {
    let Some(mut machine) = Machine::new() else {
        return;
    };
    machine.command(0, 2);
    machine.start(0, 2 | 4);
    machine.receive(0, &broadcast());
    machine.bus.pass(50_000);
    machine.go_on();
    assert_eq!(machine.word(0, 0), 0);
    assert!(machine.counter(0, Counter::BusError) > 0);
    let report = machine.bus.disconnect(0);
    assert!(report.contains("refused (bus mastering off)"), "{report}");
}

#[test]
fn hostile_addresses_and_lengths_do_no_harm() {
    let Some(mut machine) = Machine::new() else {
        return;
    };
    let addresses = [
        MEMORY as u32,
        0x7FFF_FF00,
        0x8000_0000,
        0x8020_0000,
        0xC000_0000,
        0xFFFF_FF00,
    ];
    for address in addresses {
        machine.start(2, 2 | 4 | 8);
        for count in [1, 32, 0, 33, 255] {
            machine.set(2, TX_DESC, address | count);
            machine.set(2, RXLO_DESC, address | count);
        }
        machine.set(2, CPL_BASE, address);
        for octets in [0, 13, 2049, 0xFFFF] {
            machine.give(2, TX_DESC, u64::from(address) | 0xFF9, octets);
        }
        machine.receive(2, &broadcast());
        machine.go_on();
        assert_eq!(machine.get(2, ID), ID_VALUE, "{address:#x}");
        machine.set(2, CMD, CMD_RESET);
    }
    machine.memory[2].set_len(0x1000).unwrap();
    machine.start_again(2);
    let report = machine.bus.disconnect(2);
    assert!(report.contains("outside of memory"), "{report}");
    machine.start(3, 2 | 4);
    machine.receive(3, &broadcast());
    assert!(
        machine.until(|machine| machine.word(3, 0) >> 50 & 1 == 1),
        "the others go on"
    );
}

impl Machine {
    /// Starts a card whose memory has become too short.
    fn start_again(&mut self, card: usize) {
        self.set(card, TX_DESC, 0x8000 | 1);
        self.go_on();
        assert!(self.counter(card, Counter::BusError) > 0);
    }
}

/// Everything that sends a packet from card 0 to card `peer` by the fast path.
fn route(machine: &mut Machine, peer: u8) {
    for card in 0..CARDS {
        machine.start(card, 2 | 4);
        let others = (0..CARDS).filter(|other| *other != card);
        for (slot, other) in others.enumerate() {
            machine.set(card, PEER_BASE + slot as u8, guest_aperture(other) as u32);
        }
        machine.set(card, CMD, 2 | 4 | 8);
    }
    let slot = 2 * (peer - 1);
    machine.set(0, ROUTE + slot, 0x0A01_0200);
    machine.set(0, ROUTE + slot + 1, 0xFFFF_FF00);
    machine.set(0, NEXTHOP_MAC + slot, 0x0303_0306);
    machine.set(0, CMD, 2 | 4 | 8 | 32);
}

/// UDP in IPv4 to 10.1.2.3.
fn packet() -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 8, 0];
    let mut header = [
        0x45, 0, 0, 46, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 2, 10, 1, 2, 3,
    ];
    let words = header
        .chunks(2)
        .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum: u32 = words.sum();
    let checksum = !((sum & 0xFFFF) + (sum >> 16)) as u16;
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    frame.extend(header);
    frame.resize(60, 1);
    frame
}

/// What card `card` sends next.
fn sent(machine: &mut Machine, card: usize) -> Option<usize> {
    let mut found = None;
    for _ in 0..200 {
        machine.bus.model.run_until_irq(QUANTUM, 0);
        if let Some(sent) = machine.bus.model.transmitted(card, &mut [0; 2048]) {
            found = Some(sent);
            break;
        }
    }
    match found {
        Some(Sent::Frame(octets)) => Some(octets),
        _ => None,
    }
}

#[test]
fn peers_bases_are_those_of_the_guest() {
    let Some(mut machine) = Machine::new() else {
        return;
    };
    route(&mut machine, 3);
    let base = guest_aperture(3) as u32;
    assert_eq!(machine.get(0, PEER_BASE + 2), base, "as it was written");
    machine.receive(0, &packet());
    assert_eq!(sent(&mut machine, 3), Some(60));
    assert_eq!(machine.get(0, FWD_CNT + 2), 1);
}

#[test]
fn a_base_that_leads_nowhere_is_a_bus_error() {
    let Some(mut machine) = Machine::new() else {
        return;
    };
    route(&mut machine, 1);
    machine.set(0, PEER_BASE, 0x1000);
    machine.receive(0, &packet());
    assert_eq!(sent(&mut machine, 1), None);
    assert!(machine.counter(0, Counter::BusError) > 0);
    // the card asks again after a time-out; then its peer is there
    machine.set(0, PEER_BASE, guest_aperture(1) as u32);
    machine.bus.pass(1_000_000);
    assert!(machine.until(|machine| machine.counter(1, Counter::Sent) == 1));
}

#[test]
fn a_peers_aperture_moves_and_goes() {
    let one = |address| [None, Some(address), None, None];
    assert_eq!(
        translate(&one(0xC0_2000_0000), 0x2000_0008),
        Some(0x8010_0008)
    );
    assert_eq!(translate(&one(0xFE60_0000), 0xFE6F_FFFF), Some(0x801F_FFFF));
    assert_eq!(translate(&one(0xFE60_0000), 0xFE70_0000), None);
    assert_eq!(translate(&one(0xFE60_0000), 0xFE5F_FFFF), None);
    assert_eq!(translate(&[None; CARDS], 0), None);
}

#[test]
fn a_reset_function_is_as_after_power_on() {
    let Some(mut machine) = Machine::new() else {
        return;
    };
    route(&mut machine, 1);
    machine.bus.write(0, REGION_CONFIG, 0x68, &[0x10, 0xA8]);
    assert_eq!(machine.get(0, ID), u32::MAX, "memory is off");
    machine.command(0, 6);
    let registers = [CMD, IRQ_MASK, ROUTE, PEER_BASE].map(|register| machine.get(0, register));
    assert_eq!(registers, [0; 4]);
    let mut bar = [0; 8];
    machine.bus.read(0, REGION_CONFIG, 0x18, &mut bar);
    assert_eq!(
        u64::from_le_bytes(bar),
        guest_aperture(0) | 0xC,
        "BARs stay"
    );
    machine.bus.reset_function(0);
    machine.bus.read(0, REGION_CONFIG, 0x18, &mut bar);
    assert_eq!(u64::from_le_bytes(bar), 0xC, "and go with the power");
    machine.bus.disconnect(0);
    machine.connect(0);
    machine.start(0, 2 | 4);
    machine.receive(0, &broadcast());
    assert!(machine.until(|machine| machine.word(0, 0) >> 50 & 1 == 1));
}

#[test]
fn random_accesses_do_no_harm() {
    let Some(mut machine) = Machine::new() else {
        return;
    };
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..1_000 {
        let card = random.usize(..CARDS);
        let region = [
            REGION_REGISTERS,
            REGION_REGISTERS,
            REGION_CONFIG,
            random.u32(..),
        ];
        let region = region[random.usize(..4)];
        let offset = match random.u8(..8) {
            0 => random.u64(..),
            1 => random.u64(..5000),
            _ => random.u64(..64) * 4,
        };
        let mut data = vec![0; [4, 4, 4, 1, 2, 8, 0, 300][random.usize(..8)]];
        random.fill(&mut data);
        match random.u8(..8) {
            0 => machine.receive(card, &broadcast()),
            1 => machine.command(card, 6),
            2 => machine.bus.read(card, region, offset, &mut data),
            3 => _ = machine.bus.quantum(),
            _ => machine.bus.write(card, region, offset, &data),
        }
    }
    for card in 0..CARDS {
        machine.bus.disconnect(card);
        machine.connect(card);
        machine.start(card, 2 | 4);
        machine.bus.write(card, REGION_REGISTERS, 0, &[0; 4]);
        assert_eq!(machine.get(card, ID), ID_VALUE);
        machine.receive(card, &broadcast());
        assert!(machine.until(|machine| machine.word(card, 0) >> 50 & 1 == 1));
    }
}
