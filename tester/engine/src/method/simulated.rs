//! A router that can be computed, instead of ports.

use std::time::Duration;

use crate::trial::{Bench, Counts, StreamOutcome, Trial, TrialSpec};

/// Each sending port has a router of its own.
pub(super) struct Router {
    /// Frames a second.
    pub(super) capacity: f64,
    /// Frames that may wait.
    pub(super) buffer: f64,
    /// Latency without load.
    pub(super) delay: Duration,
    /// Most that the tester itself sends, frames a second of each port.
    pub(super) fastest: f64,
    /// Part of all frames that is lost at any load.
    pub(super) loss: f64,
    /// How long it forwards nothing after an action.
    pub(super) outage: Duration,
    /// How long after an overload it goes on losing.
    pub(super) dizzy: Duration,
    /// The tester loses frames itself once in this many trials.
    pub(super) hiccup: Option<usize>,
    pub(super) trials: usize,
    /// How late the tester itself sends each frame.
    pub(super) late: Duration,
}

impl Default for Router {
    fn default() -> Self {
        Self {
            capacity: 1e5,
            buffer: 0.0,
            delay: Duration::from_micros(20),
            fastest: 1e6,
            loss: 0.0,
            outage: Duration::ZERO,
            dizzy: Duration::ZERO,
            hiccup: None,
            trials: 0,
            late: Duration::ZERO,
        }
    }
}

impl Bench for Router {
    fn trial(&mut self, spec: &TrialSpec) -> anyhow::Result<Trial> {
        self.trials += 1;
        let senders = spec.traffic.senders();
        let streams = spec.traffic.streams.len();
        let share = senders.len() as f64 / streams as f64;
        let (port, elapsed) = self.port(spec)?;
        let outcome = |_| {
            let part = |count: u64| (count as f64 * share).round() as u64;
            let mut outcome = StreamOutcome::of(part(port.sent), part(port.received));
            let waiting = Duration::from_secs_f64(self.buffer / self.capacity);
            let full = if port.lost() > 0 {
                waiting
            } else {
                Duration::ZERO
            };
            let latency = (self.delay + full + self.late).as_nanos() as u64;
            let measured = port.received.max(1);
            outcome.latency.saturating_record_n(latency, measured);
            outcome.longest_gap = match spec.action {
                Some(_) => self.outage.as_nanos() as u64,
                None => 10,
            };
            outcome.last_loss = self.last_loss(spec, &port);
            outcome
        };
        let mut trial = Trial::of((0..streams).map(outcome).collect(), elapsed);
        let late = self.late.as_nanos() as u64;
        trial.lateness.saturating_record_n(late, port.sent.max(1));
        trial.missed = match self.hiccup {
            Some(every) if self.trials.is_multiple_of(every) => 5,
            _ => 0,
        };
        Ok(trial)
    }
}

impl Router {
    /// Frames of one port, and for how long it sent.
    fn port(&self, spec: &TrialSpec) -> anyhow::Result<(Counts, Duration)> {
        let (mut sent, mut lost, mut elapsed) = (0.0, 0.0, 0.0);
        for step in &spec.steps {
            let rate = step.rate.min(self.fastest);
            let frames = match spec.limit {
                Some(limit) => limit as f64,
                None => rate * step.time.as_secs_f64(),
            };
            sent += frames;
            elapsed += frames / rate;
            let excess = frames * (1.0 - self.capacity / rate).max(0.0);
            lost += (excess - self.buffer).max(0.0) + frames * self.loss;
            if spec.limit.is_some() {
                break;
            }
        }
        if let Some(action) = &spec.action {
            (action.run)()?;
            lost += self.outage.as_secs_f64() * sent / elapsed;
        }
        let counts = Counts {
            sent: sent as u64,
            received: (sent - lost.round()) as u64,
            ..Counts::default()
        };
        Ok((counts, Duration::from_secs_f64(elapsed)))
    }

    fn last_loss(&self, spec: &TrialSpec, port: &Counts) -> Option<u64> {
        (port.lost() > 0).then(|| (spec.steps[0].time + self.dizzy).as_nanos() as u64)
    }
}
