//! Two hosts, a router between them, and the measuring tools.

use std::net::IpAddr;
use std::path::Path as FilePath;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use bora_linux::netns;
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
/// Ways from host-a to host-b, and back.
const THERE: (usize, usize) = (0, 1);
const BACK: (usize, usize) = (1, 0);

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
    /// Frames that the interface refused, because its link was full.
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
    /// The way from host-b to host-a, once it was asked for.
    back: Option<Path>,
    direct: Path,
}

/// A way from one host to the other.
struct Path {
    /// The numbers of the hosts, from and to.
    ends: (usize, usize),
    /// The sender's interface.
    interface: u32,
    link: Link,
    receiver: Receiver,
}

impl Path {
    /// The way from the first host's interface of this name to the second's; `next_hop` is at the other end
    /// of the first one's cable.
    fn new(
        network: &Network,
        ends: (usize, usize),
        interface: &str,
        next_hop: MacAddr,
    ) -> anyhow::Result<Self> {
        let (from, to) = (&network.hosts()[ends.0], &network.hosts()[ends.1]);
        let index = to.ifindex(interface)?;
        Ok(Self {
            ends,
            interface: from.ifindex(interface)?,
            link: Link {
                source: MacAddr(from.mac(interface)?),
                next_hop,
            },
            receiver: netns::in_named(to.name(), move || Receiver::new(index))??,
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
    /// Length of the measurement.
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

    /// Builds the network with a router that receives there.
    pub fn receiving(bora: &FilePath, napi: Napi) -> anyhow::Result<Self> {
        clean_up_on_signals()?;
        let mut network = Network::new(2, bora)?;
        network.receive_in(napi);
        network.settle_neighbours()?;
        let through = MacAddr(network.router().mac("ra")?);
        let direct = network.connect_hosts()?;
        let through = Path::new(&network, THERE, HOST_PORT, through)?;
        let direct = Path::new(&network, THERE, DIRECT, direct)?;
        Ok(Self {
            through,
            back: None,
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

    /// Sends frames of this length of a stream through the router, from either host to the other, as fast as it goes,
    /// and counts what arrives.
    pub fn measure_stream(
        &mut self,
        stream: Stream,
        octets: u16,
        time: Duration,
    ) -> anyhow::Result<Measured> {
        let path = match (stream.from, stream.to) {
            BACK => match &mut self.back {
                Some(path) => path,
                back => {
                    let router = MacAddr(self.network.router().mac("rb")?);
                    back.insert(Path::new(&self.network, BACK, HOST_PORT, router)?)
                }
            },
            _ => &mut self.through,
        };
        let traffic = traffic::Traffic {
            streams: vec![stream],
            frames: FrameMix::of(octets),
        };
        send((&*self.network, path), traffic, 0, time, || Ok(()))
    }

    /// [`Self::measure`] without the router: what the sender and the receiver do by themselves.
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
    let (from, to) = path.ends;
    let (host, cpu) = (&network.hosts()[from], tester_cpus()[0]);
    let (sent, start, done) = thread::scope(|scope| {
        let sender = scope.spawn(move || {
            host.enter()?;
            pin(cpu);
            let mut sender = Sender::new()?;
            sender.add(index)?;
            sender.prepare(&traffic, &[from], &links)?;
            let start = clock::now() + LEAD;
            receiver.reset(&traffic, to, start)?;
            let sent = sender.run(&schedule, start, &AtomicBool::new(false))?;
            Ok((sent, start))
        });
        let done = during();
        match sender.join() {
            Ok(sent) => sent.map(|(sent, start)| (sent, start, done)),
            Err(_) => bail!("the sender's thread failed"),
        }
    })?;
    done?;
    // as fast as it goes, a call sends all of its frames, which takes long on slow machines
    let time = match rate.is_finite() {
        true => time,
        false => time.max(Duration::from_nanos(sent.ended.saturating_sub(start))),
    };
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
