//! One trial: what was offered, what came back.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::traffic::Traffic;

/// What one trial is to do.
#[derive(Clone, Debug)]
pub struct TrialSpec {
    /// What is sent.
    pub traffic: Arc<Traffic>,
    /// How fast for how long, in turn; most trials have one step.
    pub steps: Vec<Step>,
    /// Frames sent back to back, at the link's rate or as fast as the port goes, before the sender
    /// waits to keep the rate on average; 1 is evenly.
    pub burst: u32,
    /// Each sending port stops after this many frames.
    pub limit: Option<u64>,
    /// Done once while frames are sent.
    pub action: Option<Action>,
    /// What reports call the trial: `warm-up`, `search`, `confirmation`.
    pub purpose: &'static str,
}

/// A part of a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Frames a second of each sending port; infinite is as fast as it goes.
    pub rate: f64,
    /// How long it takes.
    pub time: Duration,
}

impl TrialSpec {
    /// A trial at one rate, evenly.
    pub fn steady(traffic: Arc<Traffic>, rate: f64, time: Duration) -> Self {
        Self {
            traffic,
            steps: vec![Step { rate, time }],
            burst: 1,
            limit: None,
            action: None,
            purpose: "trial",
        }
    }

    /// How long it sends at most.
    pub fn time(&self) -> Duration {
        self.steps.iter().map(|step| step.time).sum()
    }

    /// When the last frame is due: at the limit of frames, if it comes first.
    pub fn sending(&self) -> Duration {
        let (time, rate) = (self.time(), self.steps.first().map(|step| step.rate));
        match (self.limit, rate) {
            (Some(limit), Some(rate)) if rate.is_finite() => {
                let sent = limit as f64 / rate;
                time.min(Duration::try_from_secs_f64(sent).unwrap_or(time))
            }
            _ => time,
        }
    }
}

/// Something that is done to the router.
pub type Hook = Arc<dyn Fn() -> anyhow::Result<()> + Send + Sync>;

/// Something done to the router during a trial: a restart, a route change.
#[derive(Clone)]
pub struct Action {
    /// How long after the first frame.
    pub after: Duration,
    /// What; runs on a thread of its own, and the trial waits for its end.
    pub run: Hook,
}

impl fmt::Debug for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "action after {:?}", self.after)
    }
}

/// What became of the frames of one stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames handed to the sending port.
    pub sent: u64,
    /// Frames that came out where they should, whole, each counted once.
    pub received: u64,
    /// Copies beyond the first.
    pub duplicated: u64,
    /// Came after a later one of their flow (RFC 4737, type-P-reordered).
    pub reordered: u64,
    /// Sum of the reordering extents of those frames (RFC 4737, 4.2): how many frames of the stream came
    /// from the first one on that was sent later. In a stream of several flows that may be one of
    /// another flow.
    pub extent_sum: u64,
    /// The largest of those extents.
    pub extent_max: u64,
    /// Came out damaged: the signature's check or the UDP checksum is wrong. Where the damage
    /// hides the stream, they are in [`Trial::unknown_damaged`] instead.
    pub corrupted: u64,
    /// Came out of another port than they should.
    pub misrouted: u64,
}

impl Counts {
    /// Frames that never came, whole, where they should.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.received)
    }

    /// Lost of those sent, 0 to 1; 0 if none was sent.
    pub fn loss_ratio(&self) -> f64 {
        self.lost() as f64 / self.sent.max(1) as f64
    }

    /// Adds those of another stream.
    pub fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.received += other.received;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
        self.extent_sum += other.extent_sum;
        self.extent_max = self.extent_max.max(other.extent_max);
        self.corrupted += other.corrupted;
        self.misrouted += other.misrouted;
    }
}

/// One stream's part of a trial.
#[derive(Clone, Debug)]
pub struct StreamOutcome {
    /// Its frames.
    pub counts: Counts,
    /// From the moment a frame was due to leave until it was received, ns. Counting from when it was
    /// due and not from when it left is what keeps coordinated omission out.
    pub latency: Histogram<u64>,
    /// Longest time between the due times of two frames that came, one after the other, or of the
    /// last that came (the trial's start if none did) and the last that was sent, ns: how long the
    /// path was away.
    pub longest_gap: u64,
    /// Whether the path was away at the end: no frame came of those that were due in the last 20 ms
    /// of sending or longer. Then `longest_gap` and `last_loss` may be less than the truth.
    pub tail_lost: bool,
    /// When the first frame behind the last loss was due, or the last frame that was sent if that
    /// never came: ns after the trial's start; `None` if nothing was lost.
    pub last_loss: Option<u64>,
}

/// What a trial found.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Outcomes in the order of [`Traffic::streams`].
    pub streams: Vec<StreamOutcome>,
    /// Sending time from the first frame to the last, as it was; what rates are of. See
    /// [`Self::on_schedule`].
    pub elapsed: Duration,
    /// How late frames left the sender, ns: the tester's own part of the latencies.
    pub lateness: Histogram<u64>,
    /// Inter-packet delay variation (RFC 3393, RFC 5481), ns without its sign: by how much the latencies
    /// of two frames differ, of those that were sent one after the other in a stream and also came so.
    pub variation: Histogram<u64>,
    /// CPU time that a hypervisor took from this machine meanwhile, of all its CPU time, 0 to 1; `None`:
    /// not known.
    pub steal: Option<f64>,
    /// Damaged frames whose stream cannot be told.
    pub unknown_damaged: u64,
    /// Frames that are none of the tester's (ARP, routing protocols …).
    pub foreign: u64,
    /// Frames that the tester's own ports lost, by their counters: the result cannot be trusted if
    /// there are any.
    pub missed: u64,
    /// Whether the user asked to stop before the end.
    pub interrupted: bool,
}

impl Trial {
    /// All streams together.
    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for stream in &self.streams {
            sum.add(&stream.counts);
        }
        sum
    }

    /// Latencies of all streams.
    pub fn latency(&self) -> Histogram<u64> {
        merged(self.streams.iter().map(|stream| &stream.latency))
    }

    /// Frames a second that all ports together sent.
    pub fn sent_rate(&self) -> f64 {
        self.counts().sent as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Frames a second that all ports together received.
    pub fn received_rate(&self) -> f64 {
        self.counts().received as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// Longest latency that is told apart from longer ones, ns: a minute.
pub const LONGEST_LATENCY: u64 = 60_000_000_000;

/// A histogram of nanoseconds, to a thousandth; record with `saturating_record`.
pub fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_LATENCY, 3).expect("bounds that hold")
}

/// All that is in some histograms of [`new_histogram`].
pub fn merged<'a>(parts: impl IntoIterator<Item = &'a Histogram<u64>>) -> Histogram<u64> {
    let mut all = new_histogram();
    for part in parts {
        // all have the same bounds
        let _ = all.add(part);
    }
    all
}

/// Whatever can carry out trials: real ports, or a model of a router.
pub trait Bench {
    /// Carries out one trial: learns addresses if it must, sends, waits until nothing more comes,
    /// counts.
    ///
    /// # Errors
    /// The trial could not be carried out, for instance because a port is gone or the router's
    /// address cannot be resolved.
    fn trial(&mut self, spec: &TrialSpec) -> anyhow::Result<Trial>;
}

#[cfg(test)]
impl StreamOutcome {
    /// An outcome of this many frames, without latencies.
    pub(crate) fn of(sent: u64, received: u64) -> Self {
        Self {
            counts: Counts {
                sent,
                received,
                ..Counts::default()
            },
            latency: new_histogram(),
            longest_gap: 0,
            tail_lost: false,
            last_loss: None,
        }
    }
}

#[cfg(test)]
impl Trial {
    /// A trial with these streams, and nothing else to tell.
    pub(crate) fn of(streams: Vec<StreamOutcome>, elapsed: Duration) -> Self {
        Self {
            streams,
            elapsed,
            lateness: new_histogram(),
            variation: new_histogram(),
            steal: None,
            unknown_damaged: 0,
            foreign: 0,
            missed: 0,
            interrupted: false,
        }
    }
}
