//! Both ends of a memif in one thread: what the port itself costs, without a loop, and without packets
//! that move between CPUs.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bora_buffer::{Packet, Pool, Region, SharedFrames};
use bora_fib_bench::report::Report;
use bora_fib_bench::run::Observer;
use bora_port::Queue;
use bora_port::memif::{Port as Memif, Role};

use super::memif::{Folder, PATIENCE, config};
use super::{Plan, Section};
use crate::packets::FRAME;

const COST: (&str, &str) = ("time a packet", "ns");
const BURST: usize = 64;
const FRAMES: u32 = 4096;

/// One end.
struct End {
    _port: Memif,
    queue: Queue,
    region: Arc<Region>,
    pool: Pool,
    packets: Vec<Packet>,
    spent: Duration,
}

/// Runs the benchmark.
///
/// # Errors
/// The link does not come up, or packets are lost.
pub fn run(plan: Plan) -> anyhow::Result<Section> {
    let folder = Folder::new()?;
    let mut report = Report::default();
    for round in 1..=plan.rounds {
        eprintln!("memif-alone: round {round} of {}", plan.rounds);
        let socket = folder.0.join(format!("alone{round}"));
        let [client, server] = measure(&socket, plan.time)?;
        report.sample(COST, "receive, refill, send, reclaim", "client", client);
        report.sample(COST, "receive, refill, send, reclaim", "server", server);
    }
    let mut section = Section::new("memif, both ends in one thread");
    section.notes.push(format!(
        "{FRAME} octets, bursts of {BURST}, to and fro. What each end takes to receive a packet and to send one; \
         the server copies it twice."
    ));
    section.rows = report.rows("client");
    Ok(section)
}

/// Nanoseconds for each packet that client and server receive and send.
fn measure(socket: &Path, time: Duration) -> anyhow::Result<[f64; 2]> {
    // the server first, because it makes the socket
    let mut server = End::open(Role::Server, socket)?;
    let mut client = End::open(Role::Client, socket)?;
    let begin = Instant::now();
    while !(server.queue.is_connected() && client.queue.is_connected()) {
        ensure!(begin.elapsed() < PATIENCE, "no link after {PATIENCE:?}");
        server.queue.refill(&mut server.pool);
        client.queue.refill(&mut client.pool);
    }
    client.make_packets()?;
    let (begin, mut packets) = (Instant::now(), 0);
    while begin.elapsed() < time {
        client.send();
        server.receive()?;
        server.send();
        client.receive()?;
        packets += BURST;
    }
    Ok([client, server].map(|end| end.spent.as_nanos() as f64 / packets as f64))
}

impl End {
    fn open(role: Role, socket: &Path) -> anyhow::Result<Self> {
        let region = Arc::new(Region::new(FRAMES, 2048)?);
        let (port, mut queues) = Memif::open(config(role, socket), region.clone())?;
        Ok(Self {
            _port: port,
            queue: Queue::Memif(queues.pop().context("a memif with a queue")?),
            pool: Pool::new(SharedFrames::of_new_region(&region), 1024),
            region,
            packets: Vec::with_capacity(BURST),
            spent: Duration::ZERO,
        })
    }

    fn make_packets(&mut self) -> anyhow::Result<()> {
        while self.packets.len() < BURST {
            let frame = self.pool.take().context("a free frame")?;
            let packet = frame.into_packet(&self.region, FRAME);
            self.packets.extend(packet.ok());
        }
        Ok(())
    }

    fn send(&mut self) {
        let start = Instant::now();
        self.queue.transmit(&mut self.packets);
        self.queue.kick();
        self.queue.reclaim(&mut self.pool);
        self.spent += start.elapsed();
    }

    fn receive(&mut self) -> anyhow::Result<()> {
        let start = Instant::now();
        self.queue.receive(&mut self.packets, BURST);
        self.queue.refill(&mut self.pool);
        self.spent += start.elapsed();
        ensure!(self.packets.len() == BURST, "packets were lost");
        Ok(())
    }
}
