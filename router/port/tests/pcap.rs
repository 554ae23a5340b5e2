//! Capture files in and out.

mod common;

use std::fs;
use std::path::PathBuf;

use bora_contract::Reason;
use bora_port::Queue;
use bora_port::pcap::{self, Repeat};
use common::{Side, fill, seed_of};

/// A file that goes with the test.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("bora-pcap-{}-{name}", std::process::id())))
    }

    fn with(name: &str, octets: &[u8]) -> Self {
        let file = Self::new(name);
        fs::write(&file.0, octets).unwrap();
        file
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn open(input: Option<(&Temporary, Repeat)>, output: Option<&Temporary>) -> Side {
    Side::open(2048, |region| {
        let input = input.map(|(file, repeat)| (file.0.as_path(), repeat));
        let output = output.map(|file| file.0.as_path());
        vec![Queue::Pcap(
            pcap::Queue::open(input, output, region.clone()).unwrap(),
        )]
    })
}

fn refused(octets: &[u8]) -> String {
    let file = Temporary::with("refused", octets);
    let mut error = String::new();
    Side::open(2048, |region| {
        let input = Some((file.0.as_path(), Repeat::Once));
        error = pcap::Queue::open(input, None, region.clone())
            .unwrap_err()
            .to_string();
        Vec::new()
    });
    error
}

/// A pcap header for this link type, in big-endian order and microseconds.
fn header(link_type: u32) -> Vec<u8> {
    let mut octets = vec![0xa1, 0xb2, 0xc3, 0xd4, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0];
    octets.extend(262_144u32.to_be_bytes());
    octets.extend(link_type.to_be_bytes());
    octets
}

fn record(octets: &[u8], length: u32) -> Vec<u8> {
    let mut record = vec![0; 8];
    record.extend((octets.len() as u32).to_be_bytes());
    record.extend(length.to_be_bytes());
    record.extend(octets);
    record
}

fn filled(seed: u32, length: usize) -> Vec<u8> {
    let mut octets = vec![0; length];
    fill(&mut octets, seed);
    octets
}

#[test]
fn what_is_transmitted_is_received_from_the_file() {
    const COUNT: u32 = 2000;
    let file = Temporary::new("there-and-back");
    let mut writer = open(None, Some(&file));
    for seed in 0..COUNT {
        let packet = writer.packet(seed, 60 + seed as usize % 1700).unwrap();
        assert_eq!(writer.send(0, &mut vec![packet]), 1);
    }
    assert_eq!(writer.receive(0, |_| {}), 0);
    assert!(writer.queues[0].wait().is_none()); // before a worker sleeps: all is in the file
    for repeat in [Repeat::Once, Repeat::Forever] {
        let mut reader = open(Some((&file, repeat)), None);
        reader.settle();
        let rounds = if repeat == Repeat::Once { 1 } else { 3 };
        for round in 0..rounds {
            for seed in 0..COUNT {
                let mut packets = Vec::new();
                assert_eq!(
                    reader.queues[0].receive(&mut packets, 1),
                    1,
                    "{round} {seed}"
                );
                let octets = reader.region.octets(&packets[0]);
                assert_eq!(
                    (seed_of(octets), octets.len()),
                    (Some(seed), 60 + seed as usize % 1700)
                );
                reader.send(0, &mut packets);
                reader.settle();
            }
        }
        let left = reader.queues[0].waiting(10);
        assert_eq!(left, if repeat == Repeat::Once { 0 } else { 10 });
        assert_eq!(reader.receive(0, |_| {}) == 0, repeat == Repeat::Once);
        assert_eq!(reader.stats().read().dropped.sum(), 0);
    }
}

#[test]
fn losses_have_names() {
    let mut octets = header(1);
    for (seed, length, whole) in [
        (1, 100, true),
        (2, 100, false),
        (3, 1793, true),
        (4, 60, true),
    ] {
        let packet = filled(seed, length);
        let length = packet.len() as u32 + u32::from(!whole);
        octets.extend(record(&packet, length));
    }
    let file = Temporary::with("losses", &octets);
    let mut side = open(Some((&file, Repeat::Once)), None);
    side.settle();
    let mut seeds = Vec::new();
    side.receive(0, |octets| seeds.extend(seed_of(octets)));
    assert_eq!(seeds, [1, 4]);
    let losses = side.stats().read();
    assert_eq!(
        (
            losses.dropped[Reason::RxMalformed],
            losses.dropped[Reason::RxTooLong]
        ),
        (1, 1)
    );

    let full = open(None, None);
    drop(full);
    let mut full = Side::open(2048, |region| {
        let output = Some(std::path::Path::new("/dev/full"));
        vec![Queue::Pcap(
            pcap::Queue::open(None, output, region.clone()).unwrap(),
        )]
    });
    let mut packets: Vec<_> = (0..64).map(|n| full.packet(n, 1000).unwrap()).collect();
    assert_eq!(full.send(0, &mut packets), 64);
    full.queues[0].wait();
    assert!(full.stats().read().dropped[Reason::TxRefused] > 0);
}

#[test]
fn a_pcapng_file_is_read() {
    let packet = filled(7, 64);
    let mut octets = vec![0x0a, 0x0d, 0x0d, 0x0a]; // section header
    octets.extend([28u32, 0x1a2b_3c4d].map(u32::to_le_bytes).as_flattened());
    octets.extend([1, 0, 0, 0]);
    octets.extend([0xff; 8]);
    octets.extend(28u32.to_le_bytes());
    octets.extend([1u32, 20, 1, 0, 20].map(u32::to_le_bytes).as_flattened()); // Ethernet
    octets.extend(
        [6u32, 96, 0, 0, 0, 64, 64]
            .map(u32::to_le_bytes)
            .as_flattened(),
    );
    octets.extend(&packet);
    octets.extend(96u32.to_le_bytes());
    let file = Temporary::with("ng", &octets);
    let mut side = open(Some((&file, Repeat::Once)), None);
    side.settle();
    let mut got = Vec::new();
    assert_eq!(side.receive(0, |octets| got = octets.to_vec()), 1);
    assert_eq!(got, packet);
}

#[test]
fn files_that_are_none_are_named() {
    assert!(refused(&[1, 2]).contains("refused"));
    assert!(refused(&[0x55; 64]).contains("packet 0"));
    assert!(refused(&header(1)).contains("no packets"));
    assert!(refused(&header(101)).contains("not of Ethernet"));
    let mut cut = header(1);
    cut.extend(record(&filled(1, 60), 60));
    cut.extend(&record(&filled(2, 60), 60)[..30]);
    assert!(refused(&cut).contains("packet 1"), "{}", refused(&cut));
}
