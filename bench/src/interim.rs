//! Stands in for the worker where it has no quotas, classes and rates yet: a plain loop over the
//! same stages, poll list and scheduler. To be removed when the worker has them.

use std::sync::Arc;
use std::time::Instant;

use bora_buffer::{MAX_BATCH, Packet, Pool, Region, SharedFrames};
use bora_fib::FibReader;
use bora_forward::schedule::Output;
use bora_forward::{
    Batch, Classifier, Context, Drop, HashPolicy, Ingress, PollList, RuleHits, Turn, Verdict,
    enqueue, run_classified,
};
use bora_port::Queue;
use bora_worker::{Command, Commands};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::machine::{Outcome, Port, Settings, ingress};
use crate::packets::FRAME;

/// Packets moved from the queues to a transmit ring at once.
const PULL: usize = 256;
/// Empty rounds before it ends.
const IDLE_ROUNDS: u32 = 64;

/// One forwarding thread.
pub struct Interim {
    region: Arc<Region>,
    fib: FibReader,
    pool: Pool,
    batch: Batch,
    core: Option<usize>,
    queues: Vec<Queue>,
    ingress: Vec<Ingress>,
    min_frames: Vec<u16>,
    outputs: Vec<Output>,
    list: PollList,
    classifier: Classifier,
    hits: Vec<RuleHits>,
    sending: Vec<Packet>,
    commands: Commands,
    start: Instant,
    received: u64,
    sent: u64,
    dropped: Vec<u64>,
    punted: u64,
}

impl Interim {
    pub(crate) fn new(
        (region, frames): (Arc<Region>, SharedFrames),
        fib: FibReader,
        settings: &Settings,
        ports: Vec<Port>,
        commands: Commands,
    ) -> anyhow::Result<Self> {
        let quotas: Vec<u32> = ports.iter().map(|port| port.quota).collect();
        let outputs = ports.iter().map(|port| Output::new(&port.output));
        let outputs = outputs.collect::<Result<_, _>>()?;
        let classifier = settings.rules.compile()?;
        let mut interim = Self {
            pool: Pool::new(frames, 2048),
            region,
            fib,
            batch: Batch::new(),
            core: settings.core,
            ingress: (0..ports.len()).map(ingress).collect(),
            min_frames: vec![FRAME as u16; ports.len()],
            queues: ports.into_iter().map(|port| port.queue).collect(),
            outputs,
            list: PollList::new(&quotas, settings.budget),
            hits: vec![RuleHits::default(); classifier.rules()],
            classifier,
            sending: Vec::with_capacity(PULL),
            commands,
            start: Instant::now(),
            received: 0,
            sent: 0,
            dropped: vec![0; Drop::ALL.len()],
            punted: 0,
        };
        for queue in &mut interim.queues {
            queue.refill(&mut interim.pool);
        }
        Ok(interim)
    }

    /// Polls until it is stopped and its sources have dried up.
    pub(crate) fn run(mut self) -> Outcome {
        if let Some(core) = self.core {
            let mut cpus = CpuSet::new();
            cpus.set(core);
            // elsewhere the measurement is as good, only less comparable
            let _ = sched_setaffinity(None, &cpus);
        }
        let (mut idle, mut stopping) = (0, false);
        while !(stopping && idle >= IDLE_ROUNDS) {
            stopping |= matches!(self.commands.pop(), Some(Command::Stop));
            let received = self.round();
            let held: usize = self.outputs.iter().map(Output::held).sum();
            idle = if received == 0 && held == 0 {
                idle + 1
            } else {
                0
            };
            self.fib.quiesce();
        }
        let dropped = Drop::ALL.iter().map(|reason| reason.name());
        let mut dropped: Vec<_> = dropped.zip(self.dropped).collect();
        dropped.push(("to the slow path", self.punted));
        dropped.retain(|(_, count)| *count > 0);
        Outcome {
            received: self.received,
            sent: self.sent,
            dropped,
            ..Outcome::default()
        }
    }

    fn round(&mut self) -> usize {
        (0..self.queues.len()).for_each(|queue| self.list.add(queue));
        self.list.start_round();
        let mut received = 0;
        while let Some(turn) = self.list.next_turn() {
            let count = self.turn(turn);
            self.list.finish(turn, count, true);
            received += count as usize;
        }
        self.received += received as u64;
        if received == 0 {
            self.send();
        }
        received
    }

    /// A turn may be more than a batch.
    fn turn(&mut self, turn: Turn) -> u32 {
        let mut received = 0;
        while received < turn.allowance {
            let wanted = ((turn.allowance - received) as usize).min(MAX_BATCH);
            let queue = &mut self.queues[turn.queue];
            let count = queue.receive(&mut self.batch.packets, wanted);
            queue.refill(&mut self.pool);
            if count > 0 {
                self.forward(turn.queue);
                self.send();
            }
            received += count as u32;
            if count < wanted {
                break;
            }
        }
        received
    }

    fn forward(&mut self, port: usize) {
        let context = Context {
            region: &self.region,
            fib: &self.fib,
            ingress: &self.ingress[port],
            min_frames: &self.min_frames,
            hash4: HashPolicy::L4,
            hash6: HashPolicy::L4,
        };
        run_classified(&mut self.batch, &context, &self.classifier, &mut self.hits);
        enqueue(&mut self.batch, &mut self.outputs, |packet, verdict| {
            match verdict {
                Verdict::Drop(reason) => self.dropped[reason as usize] += 1,
                _ => self.punted += 1,
            }
            self.pool.give(packet.into_frame(&self.region));
        });
    }

    fn send(&mut self) {
        let now = self.start.elapsed().as_nanos() as u64;
        for (output, queue) in self.outputs.iter_mut().zip(&mut self.queues) {
            queue.reclaim(&mut self.pool);
            while output.pull(now, PULL, &mut self.sending) > 0 {
                self.sent += queue.transmit(&mut self.sending) as u64;
                queue.kick();
                self.dropped[Drop::TxRingFull as usize] += self.sending.len() as u64;
                for packet in self.sending.drain(..) {
                    self.pool.give(packet.into_frame(&self.region));
                }
                queue.reclaim(&mut self.pool);
            }
        }
    }
}
