//! Two hosts and a router between them; who forwards can be changed.

use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use bora_tester::clock;
use bora_tester::findings::StreamFindings;
use bora_tester::link::Link;
use bora_tester::live::{Receiver, Sender, Sent};
use bora_tester::schedule::Schedule;
use bora_tester::traffic::{self, FrameMix, Stream, Values};
use bora_tester::trial::TrialSpec;
use bora_wire::MacAddr;

use crate::netns::{Namespace, clean_up_on_signals, remove_leftovers};

/// CPU of the generator, and of the router and the sink.
const TESTER_CPU: u32 = 0;
const ROUTER_CPU: u32 = 1;

/// From the order to send to the first frame, ns.
const LEAD: u64 = 20_000_000;

/// Who forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Linux alone.
    Kernel,
    /// Bora's XDP program.
    Express,
    /// Bora's workers.
    Engine,
}

impl Subject {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Subject::Kernel => "kernel",
            Subject::Express => "express",
            Subject::Engine => "engine",
        }
    }
}

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
    pub arrived: StreamFindings,
    /// How long was sent.
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

/// host-a — router — host-b.
pub struct Testbed {
    network: Arc<Network>,
    receiver: Receiver,
    link: Link,
}

/// The namespaces, and the binary that runs in the middle one.
pub struct Network {
    host_a: Namespace,
    router: Namespace,
    /// Only kept: the receiver sits in it.
    _host_b: Namespace,
    bora: PathBuf,
}

/// A running Bora.
pub struct Daemon {
    child: Child,
}

impl Testbed {
    /// Builds the network; `bora` is the binary to run in it.
    pub fn new(bora: &Path) -> anyhow::Result<Self> {
        remove_leftovers();
        clean_up_on_signals()?;
        let (host_a, router, host_b) = (
            Namespace::new("a")?,
            Namespace::new("router")?,
            Namespace::new("b")?,
        );
        for (host, port, net) in [(&host_a, "ra", 1), (&host_b, "rb", 2)] {
            let add = [
                "ip", "link", "add", port, "type", "veth", "peer", "name", "e0", "netns",
            ];
            router.run(&[&add[..], &[host.name()]].concat())?;
            for (space, device, last) in [(&router, port, 1), (host, "e0", 2)] {
                let v4 = format!("10.66.{net}.{last}/24");
                let v6 = format!("fd66:{net}::{last}/64");
                space.run(&["ip", "addr", "add", &v4, "dev", device])?;
                space.run(&["ip", "addr", "add", &v6, "dev", device, "nodad"])?;
                // NAPI on a veth, so that XDP frames can be sent to it
                space.run(&["ethtool", "-K", device, "gro", "on"])?;
                space.run(&["ip", "link", "set", device, "up"])?;
            }
            let mac = MacAddr(host.mac("e0")?).to_string();
            for last in [format!("10.66.{net}.2"), format!("fd66:{net}::2")] {
                router.run(&["ip", "neigh", "replace", &last, "lladdr", &mac, "dev", port])?;
            }
        }
        for setting in ["net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"] {
            router.run(&["sysctl", "-qw", setting])?;
        }
        let index = host_b.ifindex("e0")?;
        let receiver = inside(&host_b, move || Receiver::new(index))?;
        let link = Link {
            source: MacAddr(host_a.mac("e0")?),
            next_hop: MacAddr(router.mac("ra")?),
        };
        let network = Arc::new(Network {
            host_a,
            router,
            _host_b: host_b,
            bora: bora.into(),
        });
        network.place_threads();
        Ok(Self {
            network,
            receiver,
            link,
        })
    }

    /// The network without the measuring part, to start and stop Bora during a measurement.
    pub fn network(&self) -> Arc<Network> {
        self.network.clone()
    }

    /// Sends for a time and counts what arrives. `rate` 0 is as fast as it goes; `during` runs
    /// meanwhile in this thread.
    pub fn measure(
        &mut self,
        traffic: Traffic,
        flows: u32,
        rate: u64,
        time: Duration,
        during: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<Measured> {
        let traffic = Arc::new(offered(traffic, flows));
        let rate = if rate == 0 {
            f64::INFINITY
        } else {
            rate as f64
        };
        let spec = TrialSpec::steady(traffic.clone(), rate, time);
        let schedule = Schedule::new(&spec)?;
        let receiver = &mut self.receiver;
        let host = &self.network.host_a;
        let index = host.ifindex("e0")?;
        let links = [self.link];
        let (sent, done) = thread::scope(|scope| {
            let sender = scope.spawn(move || {
                host.enter()?;
                pin(TESTER_CPU);
                let mut sender = Sender::new(index)?;
                sender.prepare(&traffic, 0, &links)?;
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
        self.measured(&sent, time)
    }

    /// Waits until nothing has arrived for a moment.
    fn measured(&self, sent: &Sent, time: Duration) -> anyhow::Result<Measured> {
        let mut before = self.receiver.arrived();
        for _ in 0..50 {
            thread::sleep(Duration::from_millis(40));
            let now = self.receiver.arrived();
            if now == before {
                break;
            }
            before = now;
        }
        let arrived = self.receiver.findings()?.streams.into_iter().next();
        Ok(Measured {
            sent: sent.streams.iter().sum(),
            refused: sent.refused.iter().sum(),
            arrived: arrived.context("no stream")?,
            time,
        })
    }
}

/// One stream from host-a to host-b.
fn offered(traffic: Traffic, flows: u32) -> traffic::Traffic {
    let v4 = [[10, 66, 1, 2], [10, 66, 2, 2]].map(IpAddr::from);
    let v6 = [[0xfd66, 1, 0, 0, 0, 0, 0, 2], [0xfd66, 2, 0, 0, 0, 0, 0, 2]].map(IpAddr::from);
    let (frames, [source, destination]) = match traffic {
        Traffic::V4(size) => (FrameMix::of(size), v4),
        Traffic::V6(size) => (FrameMix::of(size), v6),
        Traffic::Imix => (imix(), v4),
    };
    let stream = Stream {
        from: 0,
        to: 1,
        weight: 1,
        flows: flows.max(1),
        flow_length: None,
        sources: Values::List(vec![source]),
        destinations: Values::List(vec![destination]),
        source_ports: Values::Range(1024, u16::MAX),
        destination_ports: Values::List(vec![9]),
        dscp: 0,
        vlan: None,
    };
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

impl Network {
    /// Gives the router's interfaces NAPI threads on the router's CPU, so that the sender's CPU
    /// does not do the router's work; again after each change of programs, because a veth makes
    /// new threads then. The receiving host counts on the router's CPU, for every subject alike.
    fn place_threads(&self) {
        for device in ["ra", "rb"] {
            let script = format!(
                "echo 1 > /sys/class/net/{device}/threaded; \
                 for p in $(pgrep '^napi/{device}-'); do taskset -pc {ROUTER_CPU} $p; done"
            );
            // best effort: without it the measurement is only noisier
            let _ = self.router.run(&["sh", "-c", &script]);
        }
    }

    /// Starts Bora between the hosts and waits until it forwards.
    pub fn start(&self, path: &str, options: &[&str]) -> anyhow::Result<Daemon> {
        let cpu = ROUTER_CPU.to_string();
        let mut child = self
            .router
            .command(&self.bora.to_string_lossy())
            .args([
                "run", "--port", "ra", "--port", "rb", "--path", path, "--cores", &cpu,
            ])
            .args(options)
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start bora")?;
        let stderr = child.stderr.take().context("no output of bora")?;
        let (ready, is_ready) = mpsc::channel();
        thread::spawn(move || {
            let mut said = String::new();
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if line.contains("ready") {
                    let _ = ready.send(Ok(()));
                }
                said += &line;
                said.push('\n');
            }
            let _ = ready.send(Err(said));
        });
        let daemon = Daemon { child };
        match is_ready.recv_timeout(Duration::from_secs(20)) {
            Ok(Ok(())) => {}
            Ok(Err(said)) => bail!("bora ended: {said}"),
            Err(_) => bail!("bora is not ready after 20 s"),
        }
        self.place_threads();
        Ok(daemon)
    }

    /// Stops Bora and takes it off the interfaces.
    pub fn stop(&self, daemon: Daemon) -> anyhow::Result<()> {
        drop(daemon);
        self.router.run(&[&self.bora.to_string_lossy(), "stop"])?;
        self.place_threads();
        Ok(())
    }

    /// What `bora show WHAT --json` says.
    pub fn show(&self, what: &str) -> anyhow::Result<serde_json::Value> {
        let text = self
            .router
            .run(&[&self.bora.to_string_lossy(), "show", what, "--json"])?;
        Ok(serde_json::from_str(&text)?)
    }
}

impl Daemon {
    /// kill -9.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process(
            rustix::process::Pid::from_child(&self.child),
            rustix::process::Signal::TERM,
        );
        for _ in 0..200 {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            thread::sleep(Duration::from_millis(25));
        }
        let _ = self.kill();
    }
}

/// Runs something on a thread of its own inside a namespace.
fn inside<T: Send>(
    space: &Namespace,
    run: impl FnOnce() -> anyhow::Result<T> + Send,
) -> anyhow::Result<T> {
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            space.enter()?;
            run()
        });
        worker
            .join()
            .map_err(|_| anyhow::anyhow!("a thread failed"))?
    })
}

fn pin(cpu: u32) {
    let mut cpus = rustix::thread::CpuSet::new();
    cpus.set(cpu as usize);
    // best effort: without it the measurement is only noisier
    let _ = rustix::thread::sched_setaffinity(None, &cpus);
}
