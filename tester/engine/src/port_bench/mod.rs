//! Trials over real ports.

mod common;
mod lane;
mod serve;
mod xdp;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};

use crate::analyse::{Analyser, conclude};
use crate::clock;
use crate::environment::CpuTimes;
use crate::generate::Generator;
use crate::link::Link;
use crate::ports::{Neighbours, Port, PortInfo, learn};
use crate::received::Received;
use crate::traffic::Traffic;
use crate::trial::{Action, Bench, Trial, TrialSpec, merged, new_histogram};
use crate::xdp::Sent;
use common::{Common, VIRTUAL_DRAIN};
use lane::{Lane, Sending};
use xdp::{Judge, Live, LiveSender};

const PATIENCE: Duration = Duration::from_secs(5);
/// RFC 2544, 26.1: wait for two seconds.
const DRAIN: Duration = Duration::from_secs(2);

/// How trials are carried out.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// CPUs for ports that have none of their own; empty: threads as there are CPUs, less one, and
    /// Linux places them.
    pub cpus: Vec<u32>,
    /// Never sleeps, which makes low rates more exact and keeps the CPUs busy.
    pub busy: bool,
    /// Silence that ends a trial; `None`: 200 ms where all links are virtual, otherwise 2 s.
    pub drain: Option<Duration>,
    /// How long a router may take to answer ARP or neighbour solicitations; `None`: 5 s, as long as
    /// a switch may need to let a port forward.
    pub patience: Option<Duration>,
    /// Set from anywhere to end a trial early, with what was counted so far.
    pub stop: Arc<AtomicBool>,
}

/// Open ports, ready for trials.
pub struct PortBench {
    ports: Vec<Port>,
    options: Options,
    /// Made for the first trial: which ports share one is a matter of the options.
    senders: Option<Vec<LiveSender>>,
}

impl fmt::Debug for PortBench {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PortBench {:?}", self.ports)
    }
}

impl PortBench {
    /// Takes over open ports.
    pub fn new(ports: Vec<Port>, options: Options) -> Self {
        Self {
            ports,
            options,
            senders: None,
        }
    }

    /// Changes how trials are carried out from now on.
    pub fn set_options(&mut self, options: Options) {
        self.options = options;
        self.senders = None;
    }

    /// What the ports are, in order.
    pub fn ports(&self) -> impl Iterator<Item = &PortInfo> {
        self.ports.iter().map(|port| &port.info)
    }

    /// Ports by the thread that serves them, with its CPU.
    fn threads(&self) -> Vec<(Option<u32>, Vec<usize>)> {
        let mut threads: Vec<(Option<u32>, Vec<usize>)> = Vec::new();
        let mut free = Vec::new();
        for (index, port) in self.ports.iter().enumerate() {
            let Some(cpu) = port.spec.cpu else {
                free.push(index);
                continue;
            };
            match threads.iter_mut().find(|(other, _)| *other == Some(cpu)) {
                Some((_, ports)) => ports.push(index),
                None => threads.push((Some(cpu), vec![index])),
            }
        }
        let mut common: Vec<_> = match &self.options.cpus[..] {
            [] => {
                let cpus = thread::available_parallelism().map_or(1, usize::from);
                let count = free.len().min(cpus.saturating_sub(1).max(1));
                vec![(None, Vec::new()); count]
            }
            cpus => cpus.iter().map(|&cpu| (Some(cpu), Vec::new())).collect(),
        };
        let count = common.len().max(1);
        for (turn, index) in free.into_iter().enumerate() {
            common[turn % count].1.push(index);
        }
        threads.extend(common.into_iter().filter(|(_, ports)| !ports.is_empty()));
        threads
    }

    /// One for each of [`Self::threads`] that has XDP ports.
    fn senders(&self) -> anyhow::Result<Vec<LiveSender>> {
        let mut senders = Vec::new();
        for (cpu, ports) in self.threads() {
            let live = |&port: &usize| {
                let Port { info, live, .. } = &self.ports[port];
                live.as_ref().map(|(ifindex, _)| (port, info, *ifindex))
            };
            let mut live = ports.iter().filter_map(live).peekable();
            if live.peek().is_some() {
                senders.push(LiveSender::new(cpu, live)?);
            }
        }
        Ok(senders)
    }

    fn drain(&self) -> Duration {
        let all_virtual = self.ports().all(|port| port.is_virtual);
        let usual = if all_virtual { VIRTUAL_DRAIN } else { DRAIN };
        self.options.drain.unwrap_or(usual)
    }

    /// Refuses what the ports cannot send.
    fn check(&self, traffic: &Traffic) -> anyhow::Result<()> {
        traffic.check()?;
        let longest = traffic.frames.lengths.iter().copied().max().unwrap_or(0);
        for (number, stream) in traffic.streams.iter().enumerate() {
            for end in [stream.from, stream.to] {
                let port = self.ports.get(end).with_context(|| {
                    let count = self.ports.len();
                    format!("stream {number} is of port {end}, and there are {count}")
                })?;
                let info = &port.info;
                ensure!(
                    usize::from(longest) <= info.longest_frame,
                    "frames of {longest} octets do not fit port {}, which takes {} at most; raise \
                     the MTU of its interface, or send shorter ones",
                    info.name,
                    info.longest_frame
                );
            }
        }
        Ok(())
    }

    fn missed(&self) -> anyhow::Result<u64> {
        self.ports.iter().map(Port::missed).sum()
    }
}

impl Bench for PortBench {
    fn trial(&mut self, spec: &TrialSpec) -> anyhow::Result<Trial> {
        self.check(&spec.traffic)?;
        let stop = self.options.stop.clone();
        let (neighbours, links) = learn(
            &mut self.ports,
            &spec.traffic,
            self.options.patience.unwrap_or(PATIENCE),
            &stop,
        )?;
        if self.senders.is_none() {
            self.senders = Some(self.senders()?);
        }
        let missed = self.missed()?;
        let cpu = CpuTimes::now();
        let common = Common::new(
            spec,
            self.ports.len(),
            self.drain(),
            self.options.busy,
            &stop,
        )?;
        let threads = self.threads();
        let mut live = Vec::new();
        for sender in self.senders.iter_mut().flatten() {
            live.extend(sender.prepare(&spec.traffic, &links, &common)?);
        }
        let mut lanes = Vec::with_capacity(self.ports.len());
        for (index, (port, neighbours)) in self.ports.iter_mut().zip(&neighbours).enumerate() {
            let part = Part {
                traffic: &spec.traffic,
                index,
                links: &links,
            };
            lanes.push(Some(part.of(port, neighbours, &common)?));
        }
        let done = carry_out(threads, lanes, live, spec.action.clone(), &common)?;
        let mut trial = assemble(&spec.traffic, done, &common)?;
        trial.missed = self.missed()?.saturating_sub(missed);
        trial.steal = CpuTimes::now().stolen_since(&cpu);
        Ok(trial)
    }
}

/// What the threads of a trial have when it is over.
#[derive(Default)]
struct Done<'a> {
    lanes: Vec<Lane<'a>>,
    live: Vec<Sent>,
}

/// Runs the threads until the trial is over.
fn carry_out<'a>(
    threads: Vec<(Option<u32>, Vec<usize>)>,
    mut lanes: Vec<Option<Lane<'a>>>,
    live: Vec<Live<'a>>,
    action: Option<Action>,
    common: &Common,
) -> anyhow::Result<Done<'a>> {
    let mut done = Done::default();
    thread::scope(|scope| {
        let action = action.map(|action| {
            let unfinished = common.unfinished();
            scope.spawn(move || {
                let _unfinished = unfinished;
                act(action, common)
            })
        });
        let serve = |(cpu, ports): (_, Vec<usize>)| {
            let own: Vec<_> = ports
                .iter()
                .filter_map(|&port| lanes[port].take())
                .collect();
            scope.spawn(move || serve::serve(own, cpu, common))
        };
        let servers: Vec<_> = threads.into_iter().map(serve).collect();
        let send = |live: Live<'a>| scope.spawn(move || live.send(common));
        let senders: Vec<_> = live.into_iter().map(send).collect();
        for sender in senders {
            let sent = sender.join().map_err(|_| anyhow!("a thread failed"))?;
            done.live.push(sent?);
        }
        for server in servers {
            let lanes = server.join().map_err(|_| anyhow!("a thread failed"))?;
            done.lanes.extend(lanes);
        }
        match action {
            Some(action) => {
                let acted = action.join().map_err(|_| anyhow!("the action failed"))?;
                acted.context("the action of the trial")
            }
            None => Ok(()),
        }
    })?;
    Ok(done)
}

/// What concerns one port of a trial.
struct Part<'a> {
    traffic: &'a Traffic,
    index: usize,
    links: &'a [Link],
}

impl Part<'_> {
    /// The port's lane; an XDP port's frames are sent beside it.
    fn of<'a>(
        &self,
        port: &'a mut Port,
        neighbours: &'a Neighbours,
        common: &'a Common,
    ) -> anyhow::Result<Lane<'a>> {
        let Self {
            traffic,
            index,
            links,
        } = *self;
        let (info, start) = (&port.info, common.start);
        let mut sending = None;
        let judge = match &mut port.live {
            Some((_, receiver)) => {
                receiver.reset(traffic, index, start)?;
                Judge::Kernel(receiver, 0)
            }
            None => {
                if traffic.senders().contains(&index) {
                    let generator = Generator::new(traffic, index, links);
                    let generator = generator.with_context(|| format!("port {}", info.name))?;
                    sending = Some(Sending::new(generator, common.unfinished()));
                }
                Judge::Analyser(Box::new(Analyser::new(traffic, index, start)))
            }
        };
        Ok(Lane {
            side: &mut port.side,
            neighbours,
            judge,
            sending,
        })
    }
}

/// Does something at its time, unless the trial is stopped before, and waits for its end, which may
/// not come: then the thread that does it is left alone when the trial is stopped.
fn act(action: Action, common: &Common) -> anyhow::Result<()> {
    const LOOK: u64 = 10_000_000;
    let due = common.start + u64::try_from(action.after.as_nanos()).unwrap_or(u64::MAX);
    loop {
        let now = clock::now();
        if common.is_stopped() {
            return Ok(());
        }
        if now >= due {
            break;
        }
        thread::sleep(Duration::from_nanos((due - now).min(LOOK)));
    }
    let (done, outcome) = mpsc::channel();
    thread::spawn(move || done.send((action.run)()));
    loop {
        match outcome.recv_timeout(Duration::from_nanos(LOOK)) {
            Ok(outcome) => return outcome,
            Err(RecvTimeoutError::Disconnected) => bail!("it panicked"),
            Err(RecvTimeoutError::Timeout) => ensure!(
                !common.is_given_up(clock::now()),
                "it did not end although the trial was stopped"
            ),
        }
    }
}

/// Puts the parts of all ports together.
fn assemble(traffic: &Traffic, done: Done, common: &Common) -> anyhow::Result<Trial> {
    let mut sent = vec![0; traffic.streams.len()];
    let mut last_due = sent.clone();
    let (mut elapsed, mut lateness) = (0, new_histogram());
    let mut add = |own: &[u64], due: &[u64], time: u64, late| {
        sent.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
        let last = last_due.iter_mut().zip(due);
        last.for_each(|(last, &due)| *last = due.max(*last));
        elapsed = elapsed.max(time);
        // both have the same bounds
        let _ = lateness.add(late);
    };
    for sending in done.lanes.iter().filter_map(|lane| lane.sending.as_ref()) {
        let (own, due) = (sending.generator.sent(), sending.generator.last_due());
        add(&own, &due, sending.elapsed(common), &sending.lateness);
    }
    for live in &done.live {
        // on a virtual link, what the interface refused is what the router's ring had no room for
        let frames = live.streams.iter().zip(&live.refused);
        let frames: Vec<u64> = frames.map(|(taken, refused)| taken + refused).collect();
        let time = common.elapsed(frames.iter().sum(), live.ended);
        add(&frames, &live.last_due, time, &live.lateness);
    }
    let findings = done.lanes.into_iter().map(|lane| lane.judge.finish());
    let findings: Vec<Received> = findings.collect::<anyhow::Result<_>>()?;
    let (streams, unknown_damaged, foreign) =
        conclude(traffic, common.start, &sent, &last_due, &findings);
    Ok(Trial {
        streams,
        elapsed: Duration::from_nanos(elapsed),
        lateness,
        variation: merged(findings.iter().map(|findings| &findings.variation)),
        steal: None,
        unknown_damaged,
        foreign,
        missed: 0,
        interrupted: common.is_stopped(),
    })
}
