//! The engine's stages in memory: what forwarding costs when packets cost nothing to get.
//!
//! Packets lie in a region and go round: their headers are put back to what they were, the stages
//! run over a batch, and the packets go back to the end of the queue. The same without the stages
//! is measured in turn and taken off.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bora_bench::{Results, publish};
use bora_buffer::{Packet, Pool, Region, SharedFrames};
use bora_fib::{Adjacency, FibConfig, FibReader, FibWriter, NextHop, NextHopId, PortId, Prefix4};
use bora_fib_bench::keys::{self, Pattern};
use bora_fib_bench::{Prefix, Route, tables};
use bora_forward::{Batch, Context, HashPolicy, Ingress, RpFilter, Verdict};
use bora_wire::MacAddr;
use clap::Parser;

/// Measures the engine's stages in memory.
#[derive(clap::Parser)]
struct Options {
    /// Times everything is measured, in turn
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Milliseconds of one measurement
    #[arg(long, default_value_t = 200)]
    time: u64,
}

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
/// Octets without FCS.
const FRAME: usize = 60;
/// Octets that a turn changes: Ethernet and IPv4 headers.
const HEADERS: usize = 34;
/// Frames that go round: more than the second-level cache holds.
const WIRE: usize = 8192;
const BATCHES: [usize; 3] = [32, 64, 256];

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let time = Duration::from_millis(options.time);
    let full = tables::synthetic::<Prefix4>(1, Prefix4::INTERNET);
    let one = vec![Route {
        prefix: "10.0.0.0/8".parse::<Prefix4>()?,
        next_hop: 1,
    }];
    let cases = [
        ("one route, one flow", &one, 1),
        ("one route, 8192 flows", &one, 8192),
        ("1.2 M routes, 65536 random destinations", &full, 65_536),
    ];
    let mut results = Results::default();
    let mut machines: Vec<Machine> = cases
        .iter()
        .map(|(_, routes, flows)| Machine::new(routes, *flows))
        .collect::<anyhow::Result<_>>()?;
    for _ in 0..options.rounds {
        for ((name, ..), machine) in cases.iter().zip(&mut machines) {
            for batch in BATCHES {
                let case = format!("{name}, batches of {batch}");
                results.add(&case, "packets alone", machine.run(batch, time, false));
                results.add(&case, "stages", machine.run(batch, time, true));
            }
        }
    }
    publish("engine", &results.rows("a packet", "ns", "packets alone"))
}

struct Machine {
    region: Region,
    wire: VecDeque<Packet>,
    batch: Batch,
    headers: Vec<[u8; HEADERS]>,
    /// Next header, next packet.
    turn: usize,
    fib: FibReader,
    _writer: FibWriter,
    ingress: Ingress,
}

impl Machine {
    fn new(routes: &[Route<Prefix4>], flows: usize) -> anyhow::Result<Self> {
        let (mut writer, handle) = bora_fib::new(FibConfig::default())?;
        let hops: Vec<NextHopId> = (0..tables::last_next_hop(routes))
            .map(|number| {
                writer.add_next_hop(NextHop::Forward(Adjacency {
                    port: PortId(1),
                    mtu: 1500,
                    l2: [number as u8; 14],
                }))
            })
            .collect::<Result<_, _>>()?;
        let routes_of: Vec<_> = routes
            .iter()
            .map(|route| (route.prefix, hops[route.next_hop as usize - 1]))
            .collect();
        writer.load4(&routes_of)?;
        let region = Region::new(WIRE as u32, 2048)?;
        let mut pool = Pool::new(SharedFrames::of_new_region(&region), WIRE);
        let wire = (0..WIRE)
            .filter_map(|_| pool.take()?.into_packet(&region, FRAME).ok())
            .collect();
        let headers = keys::generate(Pattern::Inside, routes, flows, 1)
            .into_iter()
            .filter(|key| (1..224).contains(&(key >> 24)) && key >> 24 != 127)
            .map(header)
            .collect();
        Ok(Self {
            region,
            wire,
            batch: Batch::new(),
            headers,
            turn: 0,
            fib: handle.reader()?,
            _writer: writer,
            ingress: Ingress {
                port: PortId(0),
                mac: MAC,
                forward4: true,
                forward6: true,
                rp_filter: RpFilter::Off,
                partial_checksum: false,
                send_redirects4: false,
                gate: None,
            },
        })
    }

    /// Nanoseconds a packet.
    fn run(&mut self, batch: usize, time: Duration, stages: bool) -> f64 {
        let start = Instant::now();
        let mut packets = 0;
        while start.elapsed() < time {
            for _ in 0..64 {
                self.turn(batch, stages);
            }
            packets += 64 * batch;
        }
        start.elapsed().as_nanos() as f64 / packets as f64
    }

    fn turn(&mut self, batch: usize, stages: bool) {
        self.batch.packets.extend(self.wire.drain(..batch));
        for packet in &mut self.batch.packets {
            self.turn = if self.turn + 1 < self.headers.len() {
                self.turn + 1
            } else {
                0
            };
            self.region.octets_mut(packet)[..HEADERS].copy_from_slice(&self.headers[self.turn]);
        }
        if stages {
            let context = Context {
                region: &self.region,
                fib: &self.fib,
                ingress: &self.ingress,
                min_frames: &[60, 60],
                hash4: HashPolicy::L4,
                hash6: HashPolicy::L4,
            };
            bora_forward::run(&mut self.batch, &context);
            self.fib.quiesce();
            for meta in &self.batch.meta {
                assert_eq!(meta.verdict, Verdict::Forward(PortId(1)));
            }
        }
        self.wire.extend(self.batch.packets.drain(..));
    }
}

/// Ethernet and IPv4 headers of a UDP packet to an address.
fn header(destination: u32) -> [u8; HEADERS] {
    let mut octets = [0; HEADERS];
    octets[..6].copy_from_slice(&MAC.0);
    octets[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    octets[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0x00]);
    octets[16..18].copy_from_slice(&((FRAME - 14) as u16).to_be_bytes());
    octets[22..24].copy_from_slice(&[64, 17]);
    octets[26..30].copy_from_slice(&[198, 18, 0, 1]);
    octets[30..34].copy_from_slice(&destination.to_be_bytes());
    let sum: u32 = octets[14..]
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    octets[24..26].copy_from_slice(&sum.to_be_bytes());
    octets
}
