//! One run of a worker over paced inputs and one output.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bora_apparatus::{Arrivals, Pace, Paced, observed, paced};
use bora_forward::schedule::OutputConfig;
use bora_port::Queue;
use bora_worker::{Mode, QUOTA};
use hdrhistogram::Histogram;

use super::witness::Witness;
use crate::cpu::Usage;
use crate::machine::{self, Loop, Memory, Port, Settings, Tables};
use crate::outcome::Outcome;
use crate::packets;

/// Packets that a receive ring holds.
pub(super) const RING: usize = 1024;
/// Most attempts to get an undisturbed run.
const TRIES: usize = 4;
/// A run is undisturbed if the worker waits for a CPU for less than 1/`UNDISTURBED` of the time.
const UNDISTURBED: u32 = 200;
/// A rate that no worker reaches, packets/s.
const BEYOND: f64 = 300e6;

/// An input.
#[derive(Clone, Copy, Debug)]
pub struct Input {
    /// Packets that arrive per second.
    pub rate: f64,
    /// Flows, a power of two.
    pub flows: u32,
    /// Their code point.
    pub dscp: u8,
    /// Packets a turn.
    pub quota: u32,
}

impl Input {
    /// 1024 flows of best effort.
    pub fn of_rate(rate: f64) -> Self {
        Self {
            rate,
            flows: 1024,
            dscp: 0,
            quota: QUOTA,
        }
    }

    /// Its queue, as input `number`, from a moment on for some time.
    fn queue(
        &self,
        memory: &Memory,
        number: usize,
        (start, time): (Instant, Duration),
        jitter: bool,
    ) -> anyhow::Result<(Queue, Arrivals)> {
        let all = packets::flows(self.flows, number as u16, self.dscp);
        let all: Vec<&[u8]> = all.iter().map(<[u8; _]>::as_slice).collect();
        let pace = Pace {
            start,
            time,
            rate: self.rate,
            ring: RING,
            jitter: jitter.then_some(number as u64),
        };
        let source = Paced::new(memory.region.clone(), &all, pace)?;
        let source = source.context("packets that fit")?;
        let arrivals = source.arrivals();
        Ok((paced(memory.region.clone(), source).0, arrivals))
    }
}

/// The configuration of a run.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The inputs are ports 0, 1, ...
    pub inputs: Vec<Input>,
    /// The output is the port after these.
    pub output: OutputConfig,
    /// The loop that forwards.
    pub run: Loop,
    /// Its CPU, if it is to be pinned.
    pub core: Option<usize>,
    /// When the first packet arrives, if that matters; then there is only one attempt.
    pub start: Option<Instant>,
    /// For how long packets arrive.
    pub time: Duration,
    /// Whether packets arrive at random moments of their intervals.
    pub jitter: bool,
    /// Whether to measure latencies, which itself takes time.
    pub latency: bool,
}

/// The results.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The worker's numbers.
    pub outcome: Outcome,
    /// Packets that arrived, by input.
    pub arrived: Vec<u64>,
    /// Packets that left, by input.
    pub delivered: Vec<u64>,
    /// Nanoseconds from arrival to departure.
    pub latency: Option<Histogram<u64>>,
    /// The time without that in which the worker waited for a CPU.
    pub time: Duration,
}

impl Measured {
    /// Packets that left per second in which the worker did not wait for a CPU.
    pub fn goodput(&self) -> f64 {
        self.delivered.iter().sum::<u64>() as f64 / self.time.as_secs_f64()
    }
}

impl Trial {
    /// One input, a plain output.
    pub fn single(rate: f64, run: Loop, time: Duration) -> Self {
        Self {
            inputs: vec![Input::of_rate(rate)],
            output: OutputConfig::default(),
            run,
            core: None,
            start: None,
            time,
            jitter: false,
            latency: false,
        }
    }

    /// Runs it, and checks that every loss is counted and no flow is out of order. On a busy
    /// machine, returns the least disturbed of several runs.
    ///
    /// # Errors
    /// A check failed, or a part refuses its configuration.
    pub fn run(&self) -> anyhow::Result<Measured> {
        let mut best = self.once()?;
        for _ in 1..TRIES {
            if self.start.is_some() || best.outcome.usage.waited <= self.time / UNDISTURBED {
                break;
            }
            let next = self.once()?;
            if next.outcome.usage.waited < best.outcome.usage.waited {
                best = next;
            }
        }
        Ok(best)
    }

    fn once(&self) -> anyhow::Result<Measured> {
        let tables = Tables::default_route(self.inputs.len() as u16)?;
        let memory = Memory::new(1)?;
        let start = self.start.unwrap_or_else(machine::soon);
        let (mut ports, mut arrivals) = (vec![], vec![]);
        for (number, input) in self.inputs.iter().enumerate() {
            let (queue, arrived) = input.queue(&memory, number, (start, self.time), self.jitter)?;
            arrivals.push(arrived);
            ports.push(Port {
                quota: input.quota,
                ..Port::from(queue)
            });
        }
        let flows: Vec<u32> = self.inputs.iter().map(|input| input.flows).collect();
        let (witness, seen) = Witness::new(start, &flows, self.latency);
        let (queue, _) = observed(memory.region.clone(), Box::new(witness));
        ports.push(Port {
            output: self.output.clone(),
            ..Port::from(queue)
        });
        let settings = Settings {
            run: self.run,
            core: self.core,
            ..Settings::default()
        };
        let job = machine::worker(&tables, &memory, &settings, ports)?;
        let end = start + self.time + Duration::from_millis(1);
        let outcome = job.start(start)?.stop_at(end)?;

        let seen = seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let arrived: Vec<u64> = arrivals.iter().map(Arrivals::arrived).collect();
        let lost: u64 = outcome.losses.iter().map(|port| port.received).sum();
        ensure!(
            arrived.iter().sum::<u64>() == outcome.received + lost,
            "packets were lost on reception and not counted: {arrived:?} arrived, {outcome:?}"
        );
        ensure!(
            seen.packets.iter().sum::<u64>() == outcome.sent,
            "{} packets sent, {:?} left",
            outcome.sent,
            seen.packets
        );
        ensure!(
            seen.disordered == 0,
            "{} packets out of order",
            seen.disordered
        );
        Ok(Measured {
            time: self.time.saturating_sub(outcome.usage.waited),
            outcome,
            arrived,
            delivered: seen.packets,
            latency: seen.latency,
        })
    }
}

/// Packets a second of the source and the sink of a [`Trial`] alone, under a load beyond any.
///
/// # Errors
/// No memory, or no clock.
pub(super) fn ends(time: Duration, latency: bool) -> anyhow::Result<f64> {
    let input = Input::of_rate(BEYOND);
    let memory = Memory::new(1)?;
    let mut pool = memory.pool();
    let (start, end) = (Instant::now(), Instant::now() + time);
    let mut source = input.queue(&memory, 0, (start, time), false)?.0;
    let (witness, _) = Witness::new(start, &[input.flows], latency);
    let (mut sink, seen) = observed(memory.region.clone(), Box::new(witness));
    let mut packets = Vec::with_capacity(QUOTA as usize);
    let before = Usage::of_this_thread()?;
    source.refill(&mut pool);
    while Instant::now() < end {
        source.receive(&mut packets, QUOTA as usize);
        source.refill(&mut pool);
        sink.transmit(&mut packets);
        sink.reclaim(&mut pool);
    }
    let used = Usage::of_this_thread()?.since(before);
    Ok(seen.packets() as f64 / used.ran.as_secs_f64())
}

/// The capacity: most packets that a polling worker forwards per second.
///
/// # Errors
/// As [`Trial::run`].
pub(super) fn capacity(time: Duration, latency: bool) -> anyhow::Result<f64> {
    let trial = Trial {
        latency,
        ..Trial::single(BEYOND, Loop::Worker(Mode::Poll), time)
    };
    Ok(trial.run()?.goodput())
}
