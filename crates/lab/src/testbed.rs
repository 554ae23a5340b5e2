//! Two hosts, a router between them, and the measuring tools.

use std::net::IpAddr;
use std::path::Path as FilePath;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use bora_port::netns;
use bora_tester::clock;
use bora_tester::link::Link;
use bora_tester::received::StreamReceived;
use bora_tester::schedule::Schedule;
use bora_tester::traffic::{self, FrameMix, Stream, Values};
use bora_tester::trial::TrialSpec;
use bora_tester::xdp::{Receiver, Sender, Sent};
use bora_wire::MacAddr;

use crate::network::{DIRECT, HOST_PORT, Napi, Network, tester_cpus, v4, v6};

/// Time from the order to send to the first frame, ns.
const LEAD: u64 = 20_000_000;

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// IPv4 frames of one size in octets, FCS included.
    V4(u16),
    /// IPv6 frames of one size.
    V6(u16),
    /// IPv4 of 64, 594 and 1518 octets, 7:4:1.
    Imix,
}

/// One measurement.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Frames that the sender's interface took.
    pub sent: u64,
    /// Frames that it refused, as its link was full.
    pub refused: u64,
    /// What arrived.
    pub arrived: StreamReceived,
    /// How long frames were sent.
    pub time: Duration,
}

impl Measured {
    /// Packets a second that arrived.
    pub fn rate(&self) -> f64 {
        self.arrived.received as f64 / self.time.as_secs_f64()
    }

    /// The latency that this share of the packets, 0 to 1, did not exceed, from when they were due to
    /// leave to the receiver; `None` without packets.
    pub fn latency(&self, share: f64) -> Option<Duration> {
        let latency = &self.arrived.latency;
        (!latency.is_empty()).then(|| Duration::from_nanos(latency.value_at_quantile(share)))
    }
}

/// host-a — router — host-b, and a cable from host-a to host-b that leaves the router out.
pub struct Testbed {
    network: Arc<Network>,
    through: Path,
    direct: Path,
}

/// A way from host-a to host-b.
struct Path {
    /// host-a's interface.
    interface: u32,
    link: Link,
    receiver: Receiver,
}

impl Path {
    /// From host-a's interface of this name to host-b's; `next_hop` is at the other end of host-a's cable.
    fn new(network: &Network, interface: &str, next_hop: MacAddr) -> anyhow::Result<Self> {
        let [host_a, host_b] = [0, 1].map(|index| &network.hosts()[index]);
        let index = host_b.ifindex(interface)?;
        Ok(Self {
            interface: host_a.ifindex(interface)?,
            link: Link {
                source: MacAddr(host_a.mac(interface)?),
                next_hop,
            },
            receiver: netns::in_named(host_b.name(), move || Receiver::new(index))??,
        })
    }
}

/// What a measurement offers.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// Frames.
    pub traffic: Traffic,
    /// Their flows.
    pub flows: u32,
    /// Frames a second; 0 is as fast as it goes.
    pub rate: u64,
    /// For how long.
    pub time: Duration,
}

impl Offer {
    fn frames(self) -> traffic::Traffic {
        frames(self.traffic, self.flows)
    }
}

impl Testbed {
    /// Builds the network; `bora` is the binary to run in it.
    pub fn new(bora: &FilePath) -> anyhow::Result<Self> {
        Self::receiving(bora, Napi::Threads)
    }

    /// The same with a router that receives there.
    pub fn receiving(bora: &FilePath, napi: Napi) -> anyhow::Result<Self> {
        clean_up_on_signals()?;
        let mut network = Network::new(2, bora)?;
        network.receive_in(napi);
        network.settle_neighbours()?;
        let through = MacAddr(network.router().mac("ra")?);
        let direct = network.connect_hosts()?;
        let through = Path::new(&network, HOST_PORT, through)?;
        let direct = Path::new(&network, DIRECT, direct)?;
        Ok(Self {
            through,
            direct,
            network: Arc::new(network),
        })
    }

    /// The network without the measuring part, to start and stop Bora during a measurement.
    pub fn network(&self) -> Arc<Network> {
        self.network.clone()
    }

    /// Sends for a time and counts what arrives; `during` runs meanwhile in this thread.
    pub fn measure(
        &mut self,
        offer: Offer,
        during: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<Measured> {
        let path = (&*self.network, &mut self.through);
        send(path, offer.frames(), offer.rate, offer.time, during)
    }

    /// Sends IPv4 of 64 octets to these destinations in turn, as fast as it goes, and counts what
    /// arrives.
    pub fn measure_to(
        &mut self,
        destinations: Vec<IpAddr>,
        time: Duration,
    ) -> anyhow::Result<Measured> {
        let flows = destinations.len() as u32;
        let mut traffic = frames(Traffic::V4(64), flows);
        for stream in &mut traffic.streams {
            stream.destinations = Values::List(destinations.clone());
        }
        let path = (&*self.network, &mut self.through);
        send(path, traffic, 0, time, || Ok(()))
    }

    /// The same without the router: what the sender and the receiver do by themselves.
    pub fn measure_ends(&mut self, offer: Offer) -> anyhow::Result<Measured> {
        let path = (&*self.network, &mut self.direct);
        send(path, offer.frames(), offer.rate, offer.time, || Ok(()))
    }
}

fn send(
    (network, path): (&Network, &mut Path),
    traffic: traffic::Traffic,
    rate: u64,
    time: Duration,
    during: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<Measured> {
    let traffic = Arc::new(traffic);
    let rate = match rate {
        0 => f64::INFINITY,
        rate => rate as f64,
    };
    let spec = TrialSpec::steady(traffic.clone(), rate, time);
    let schedule = Schedule::new(&spec)?;
    let (receiver, index, links) = (&mut path.receiver, path.interface, [path.link]);
    let (host, cpu) = (&network.hosts()[0], tester_cpus()[0]);
    let (sent, done) = thread::scope(|scope| {
        let sender = scope.spawn(move || {
            host.enter()?;
            pin(cpu);
            let mut sender = Sender::new()?;
            sender.add(index)?;
            sender.prepare(&traffic, &[0], &links)?;
            let start = clock::now() + LEAD;
            receiver.reset(&traffic, 1, start)?;
            sender.run(&schedule, start, &AtomicBool::new(false))
        });
        let done = during();
        match sender.join() {
            Ok(sent) => Ok((sent?, done)),
            Err(_) => bail!("the sender's thread failed"),
        }
    })?;
    done?;
    measured(&mut path.receiver, &sent, time)
}

/// Waits until nothing has arrived for a moment.
fn measured(receiver: &mut Receiver, sent: &Sent, time: Duration) -> anyhow::Result<Measured> {
    let mut before = receiver.arrived();
    for _ in 0..50 {
        thread::sleep(Duration::from_millis(40));
        let now = receiver.arrived();
        if now == before {
            break;
        }
        before = now;
    }
    let arrived = receiver.findings()?.streams.into_iter().next();
    Ok(Measured {
        sent: sent.streams.iter().sum(),
        refused: sent.refused.iter().sum(),
        arrived: arrived.context("no stream")?,
        time,
    })
}

/// One stream from host-a to host-b.
fn frames(traffic: Traffic, flows: u32) -> traffic::Traffic {
    let v4 = [0, 1].map(|host| IpAddr::from(v4(host, 2)));
    let v6 = [0, 1].map(|host| IpAddr::from(v6(host, 2)));
    let (frames, [source, destination]) = match traffic {
        Traffic::V4(size) => (FrameMix::of(size), v4),
        Traffic::V6(size) => (FrameMix::of(size), v6),
        Traffic::Imix => (imix(), v4),
    };
    let stream = Stream::new((0, 1), source, destination).with_flows(flows.max(1));
    traffic::Traffic {
        streams: vec![stream],
        frames,
    }
}

fn imix() -> FrameMix {
    FrameMix {
        name: String::from("imix"),
        lengths: vec![64, 594, 64, 64, 594, 64, 64, 594, 64, 64, 594, 1518],
    }
}

/// Makes SIGINT and SIGTERM end this process, remove its namespaces, and tell processes in them to
/// stop.
fn clean_up_on_signals() -> anyhow::Result<()> {
    let set = ctrlc::set_handler(|| {
        netns::remove_own();
        std::process::exit(130);
    });
    match set {
        // an earlier network of this process
        Err(ctrlc::Error::MultipleHandlers) => Ok(()),
        set => set.context("cannot handle signals"),
    }
}

fn pin(cpu: u32) {
    let mut cpus = rustix::thread::CpuSet::new();
    cpus.set(cpu as usize);
    // best effort: without it the measurement is only noisier
    let _ = rustix::thread::sched_setaffinity(None, &cpus);
}
