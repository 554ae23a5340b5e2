//! What a test found, as it is kept in JSON. Reports and comparisons read nothing else.

use serde::{Deserialize, Serialize};

/// The whole of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Version of this format: 1.
    pub format: u32,
    /// Bora's version.
    pub bora: String,
    /// The plan's title.
    pub title: String,
    /// The plan as it was read, with everything typed beside it.
    pub plan: String,
    /// Seed of everything drawn at random.
    pub seed: u64,
    /// RFC 3339.
    pub started: String,
    /// RFC 3339.
    pub ended: String,
    /// Whether every test of the plan was carried out.
    pub complete: bool,
    /// Whether the user stopped it.
    #[serde(default)]
    pub stopped: bool,
    /// The machine that measured.
    pub environment: Environment,
    /// What is under test, as far as the plan and the machine tell.
    pub subject: Vec<(String, String)>,
    /// Ports in the plan's order.
    pub ports: Vec<Port>,
    /// What the tester itself can do, measured without a router.
    pub calibration: Vec<Calibration>,
    /// Tests in the order they were done.
    pub tests: Vec<Test>,
    /// What the reader must know: virtual links, a late tester, limits reached.
    pub notes: Vec<String>,
}

/// The machine that measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Environment {
    /// Host name.
    pub host: String,
    /// Processor.
    pub processor: String,
    /// Logical CPUs.
    pub cpus: u32,
    /// Memory, octets.
    pub memory: u64,
    /// Linux's version.
    pub kernel: String,
    /// Linux's clock source.
    pub clock: String,
    /// Hypervisor, if any.
    pub hypervisor: Option<String>,
}

/// One port of the tester.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Port {
    /// Its name in the plan.
    pub name: String,
    /// Kind and interface: `xdp e0`, `memif /run/a.sock`.
    pub kind: String,
    /// Driver, firmware, mode (zero-copy, copy, generic), CPU.
    pub details: Vec<(String, String)>,
    /// Nominal speed, bits a second.
    pub speed: f64,
    /// Whether the link exists only in memory, so that its speed means nothing.
    pub is_virtual: bool,
}

/// What the tester can send and count from one port to another, without a router between.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Calibration {
    /// [`crate::traffic::FrameMix::name`].
    pub frames: String,
    /// `ipv4` or `ipv6`.
    #[serde(default)]
    pub family: String,
    /// Ports that sent.
    #[serde(default)]
    pub senders: u32,
    /// Frames a second of each sending port that were sent and counted without a loss.
    pub rate: f64,
    /// Latency of the tester with itself: median and 99th percentile, ns.
    pub latency: (u64, u64),
    /// How it was measured: `loopback cable`, `own links`, `memory`.
    pub how: String,
}

/// One method on one frame mix.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Test {
    /// The test's name in the plan, unique with `frames` and `family`.
    pub name: String,
    /// `throughput`, `latency`, `frame-loss`, `back-to-back`, …
    pub method: String,
    /// The standard: `RFC 2544, 26.1`.
    pub reference: String,
    /// Frame mix.
    pub frames: String,
    /// Its mean length, octets with FCS.
    pub frame_length: f64,
    /// `ipv4` or `ipv6`.
    pub family: String,
    /// `one way`, `both ways`, `full mesh`, …
    pub pattern: String,
    /// Ports that send.
    pub senders: u32,
    /// Line rate of one port, frames a second; `None` on virtual links.
    pub line_rate: Option<f64>,
    /// What was found.
    pub findings: Vec<Finding>,
    /// Latency distributions, one for each load they were measured at.
    pub latencies: Vec<Latency>,
    /// Every trial, in order.
    pub trials: Vec<TrialRecord>,
    /// What the reader must know about this test.
    pub notes: Vec<String>,
}

/// One number that was found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Finding {
    /// `throughput`, `outage`, `longest burst`, …; unique in its test together with `goal`.
    pub metric: String,
    /// What it is subject to: `loss 0 %`, `load 50 %`; may be empty.
    pub goal: String,
    /// `frames/s` (of all sending ports together), `ms`, `frames`, `%`, `us`.
    pub unit: String,
    /// `None` if it could not be found; a note of the test says why. With one bound only, that is all
    /// that is known.
    pub value: Option<f64>,
    /// Bounds it is certain to lie between, or of its 95 % confidence interval.
    pub low: Option<f64>,
    /// See `low`.
    pub high: Option<f64>,
    /// Repeated measurements behind it, if there were any; comparisons test these.
    pub samples: Vec<f64>,
    /// Whether more is better (`Some(true)`), or less, or neither.
    pub more_is_better: Option<bool>,
    /// Whether it tells of the router. If not, the tester itself was the limit, and there is no value.
    #[serde(default = "yes")]
    pub valid: bool,
    /// Why it is not valid; otherwise empty.
    #[serde(default)]
    pub reason: String,
    /// The trials it is of, by their places in [`Test::trials`]: what was lost, duplicated, reordered and
    /// corrupted in them belongs to it.
    #[serde(default)]
    pub trials: Vec<usize>,
}

impl Default for Finding {
    fn default() -> Self {
        Self {
            metric: String::new(),
            goal: String::new(),
            unit: String::new(),
            value: None,
            low: None,
            high: None,
            samples: Vec::new(),
            more_is_better: None,
            valid: true,
            reason: String::new(),
            trials: Vec::new(),
        }
    }
}

/// Latencies at one load.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    /// `50 % of throughput`.
    pub load: String,
    /// Offered, frames a second of each sending port.
    pub rate: f64,
    /// Frames measured.
    pub count: u64,
    /// ns.
    pub min: u64,
    /// ns.
    pub mean: f64,
    /// ns.
    pub max: u64,
    /// Packet delay variation, D99.9 − Dmin (RFC 5481, RFC 8219), ns.
    pub pdv: u64,
    /// Inter-packet delay variation without its sign (RFC 3393, RFC 5481): median, 99.9th percentile and
    /// most, ns; `None` if no two frames that followed each other came.
    #[serde(default)]
    pub ipdv: Option<(u64, u64, u64)>,
    /// Quantile (0 to 1) and latency in ns, ascending: 0.5, 0.9, 0.99, 0.999, 0.9999 and as many
    /// more as draw the curve.
    pub quantiles: Vec<(f64, u64)>,
}

/// Reports from before [`TrialRecord::valid`] and [`Finding::valid`] do not say it.
fn yes() -> bool {
    true
}

/// One trial.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TrialRecord {
    /// What it was for.
    pub purpose: String,
    /// Offered, frames a second of each sending port; `None`: as fast as it goes.
    pub rate: Option<f64>,
    /// Sending time asked for, s.
    pub time: f64,
    /// Frames a second that left, all ports together.
    pub sent_rate: f64,
    /// Frames a second that came back, all ports together.
    pub received_rate: f64,
    /// Frames.
    pub sent: u64,
    /// Frames, each counted once.
    pub received: u64,
    /// Frames.
    pub lost: u64,
    /// Frames.
    pub duplicated: u64,
    /// Frames.
    pub reordered: u64,
    /// Mean and largest reordering extent of those, frames (RFC 4737, 4.2); 0 without any.
    #[serde(default)]
    pub extent: (f64, u64),
    /// Frames, those without a stream included.
    pub corrupted: u64,
    /// Frames.
    pub misrouted: u64,
    /// Frames the tester's own ports lost.
    pub missed: u64,
    /// The tester kept the load up and lost nothing itself: the trial tells of the router.
    #[serde(default = "yes")]
    pub valid: bool,
    /// Why it is not valid; otherwise empty.
    #[serde(default)]
    pub reason: String,
    /// Stopped before its end.
    #[serde(default)]
    pub interrupted: bool,
    /// Median and 99th percentile of latency, ns, if any frame came.
    pub latency: Option<(u64, u64)>,
    /// 99th percentile of how late frames left, ns.
    pub lateness: u64,
    /// The most, ns.
    #[serde(default)]
    pub lateness_max: u64,
    /// [`crate::trial::Trial::steal`].
    #[serde(default)]
    pub steal: Option<f64>,
    /// Each stream's part.
    pub streams: Vec<StreamRecord>,
}

/// One stream's part of a trial.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StreamRecord {
    /// Port name.
    pub from: String,
    /// Port name.
    pub to: String,
    /// Frames.
    pub sent: u64,
    /// Frames.
    pub received: u64,
    /// Frames.
    pub reordered: u64,
    /// Frames.
    pub duplicated: u64,
    /// Frames.
    #[serde(default)]
    pub corrupted: u64,
    /// Frames.
    #[serde(default)]
    pub misrouted: u64,
    /// Largest reordering extent, frames.
    #[serde(default)]
    pub extent: u64,
}
