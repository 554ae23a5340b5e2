//! XDP ports in a trial: those that one thread serves share a second thread for sending, and the
//! kernel judges the frames they receive.

use anyhow::Context;

use super::common::{self, Common, Unfinished};
use crate::analyse::Analyser;
use crate::link::Link;
use crate::ports::PortInfo;
use crate::ports::netns::inside;
use crate::received::Received;
use crate::traffic::Traffic;
use crate::xdp::{Receiver, Sender, Sent};

/// Where the frames that a port receives are judged.
pub(super) enum Judge<'a> {
    /// Here.
    Analyser(Box<Analyser>),
    /// In the kernel, and how many it had judged when last asked.
    Kernel(&'a Receiver, u64),
}

impl Judge<'_> {
    /// Judges a frame that came through a queue.
    pub(super) fn receive(&mut self, frame: &[u8], arrival: u64) {
        match self {
            Self::Analyser(analyser) => analyser.receive(frame, arrival),
            // only what the kernel's judge has let pass comes here, and it has counted it
            Self::Kernel(..) => {}
        }
    }

    /// Frames that were judged elsewhere since the last call.
    pub(super) fn elsewhere(&mut self) -> usize {
        match self {
            Self::Analyser(_) => 0,
            Self::Kernel(receiver, known) => {
                let arrived = receiver.arrived();
                let more = arrived.saturating_sub(*known);
                *known = arrived;
                more as usize
            }
        }
    }

    pub(super) fn finish(self) -> anyhow::Result<Received> {
        match self {
            Self::Analyser(analyser) => Ok(analyser.finish()),
            Self::Kernel(receiver, _) => receiver.findings(),
        }
    }
}

/// Sends for the XDP ports of one thread.
pub(super) struct LiveSender {
    sender: Sender,
    cpu: Option<u32>,
    /// Ports by number of the trials.
    ports: Vec<usize>,
}

impl LiveSender {
    /// A sender for ports by their numbers, with the index of their interfaces.
    pub(super) fn new<'a>(
        cpu: Option<u32>,
        ports: impl Iterator<Item = (usize, &'a PortInfo, u32)>,
    ) -> anyhow::Result<Self> {
        let mut sender = Sender::new()?;
        let mut numbers = Vec::new();
        for (number, info, ifindex) in ports {
            inside(info.netns.as_deref(), || sender.add(ifindex))
                .with_context(|| format!("port {}", info.name))?;
            numbers.push(number);
        }
        Ok(Self {
            sender,
            cpu,
            ports: numbers,
        })
    }

    /// What it sends in a trial; `None`: nothing.
    pub(super) fn prepare<'a>(
        &'a mut self,
        traffic: &Traffic,
        links: &[Link],
        common: &'a Common,
    ) -> anyhow::Result<Option<Live<'a>>> {
        let senders = traffic.senders();
        if !self.ports.iter().any(|port| senders.contains(port)) {
            return Ok(None);
        }
        self.sender.prepare(traffic, &self.ports, links)?;
        Ok(Some(Live {
            sender: &mut self.sender,
            cpu: self.cpu,
            unfinished: common.unfinished(),
        }))
    }
}

/// What XDP ports send in a trial.
pub(super) struct Live<'a> {
    sender: &'a mut Sender,
    cpu: Option<u32>,
    unfinished: Unfinished<'a>,
}

impl Live<'_> {
    /// Sends all of the trial; to be called on a thread of its own.
    pub(super) fn send(self, common: &Common) -> anyhow::Result<Sent> {
        let Self {
            sender,
            cpu,
            unfinished,
        } = self;
        common::place(cpu);
        common::raise_priority();
        let sent = sender.run(&common.schedule, common.start, common.stop());
        // also if it failed: the others must not wait for it
        drop(unfinished);
        sent
    }
}
