//! The commands of the control side, carried out between two rounds.

use std::sync::atomic::Ordering::Release;
use std::time::Instant;

use bora_buffer::Packet;
use bora_forward::schedule::{OutputConfig, OutputError};
use bora_forward::{Egress, Reason};

use crate::byte_limit::ByteLimit;
use crate::config::{Command, WorkerPort};
use crate::profile::Profiler;
use crate::share::Share;
use crate::watch::Watching;
use crate::worker::Worker;

impl Worker {
    pub(crate) fn take_commands(&mut self) {
        // to look is cheaper than to try: there is nearly never one
        let is_told = !self.config.commands.is_empty();
        if is_told {
            while let Some(command) = self.config.commands.pop() {
                self.execute(command);
            }
        }
        let is_outdated = self.config.tables.generation() != self.generation;
        if is_outdated {
            self.adopt();
        }
        if is_told || is_outdated {
            self.list_inputs();
        }
    }

    /// Goes by the latest tables from now on. What has not changed keeps its state: counters of rules, turns of queues, draws
    /// of captures.
    #[cold]
    fn adopt(&mut self) {
        let (generation, new) = self.config.tables.latest();
        let old = std::mem::replace(&mut self.tables, new);
        let new = &self.tables;
        if old.rule_set != new.rule_set {
            self.config.counters.forget_rules();
        }
        if !old.has_subscriptions(&new.subscriptions) {
            self.watching = Watching::new(&new.subscriptions);
        }
        let mut quotas = old.budget != new.budget;
        for (port, told) in self.config.ports.iter_mut().zip(&new.ports) {
            quotas |= told.as_ref().is_some_and(|told| port.take(told));
        }
        if quotas {
            self.list_queues();
        }
        self.generation = generation;
        self.config.counters.generation.store(generation, Release);
    }

    fn execute(&mut self, command: Command) {
        match command {
            Command::SetOutput { port, config } => self.set_output(port.0.into(), config),
            Command::AddPort(port) => {
                if let Err(error) = self.add_port(*port) {
                    log::error!("a port is not added: {error}");
                }
            }
            Command::Profile(time) => self.profiler = Some(Profiler::new(time)),
            Command::RemovePort(port) => self.start_draining(port.0.into()),
            Command::HandOver(handover) => self.start_handover(handover),
            Command::Stop => self.stopping = Some(Instant::now()),
        }
    }

    /// Adds a port, or fills the place of one that was removed; its receive rings get frames.
    pub(crate) fn add_port(&mut self, mut port: WorkerPort) -> Result<(), OutputError> {
        let mut egress = match port.share {
            Share::Alone => Egress::new(&port.output)?,
            Share::Owner(_) | Share::Member(_) => Egress::new(&port.output.unshaped())?,
        };
        let first = match &mut port.share {
            Share::Owner(owner) => &mut owner.egress,
            Share::Alone | Share::Member(_) => &mut egress,
        };
        port.held.drain(..).for_each(|packet| first.stage(packet));
        for queue in port.queues.iter_mut().chain(&mut port.twin) {
            queue.refill(&mut self.config.pool);
        }
        let number = usize::from(port.ingress.port.0);
        if let Some(Some(told)) = self.tables.ports.get(number) {
            port.take(told); // they may have come before the port
        }
        let min_frame = port.min_frame;
        if number < self.egress.len() {
            self.egress[number] = egress;
            self.byte_limits[number] = ByteLimit::default();
            self.min_frames[number] = min_frame;
            self.config.ports[number] = port;
        } else {
            self.egress.push(egress);
            self.byte_limits.push(ByteLimit::default());
            self.min_frames.push(min_frame);
            self.config.ports.push(port);
        }
        self.list_queues();
        Ok(())
    }

    fn set_output(&mut self, number: usize, config: OutputConfig) {
        let (Some(egress), Some(port)) = (
            self.egress.get_mut(number),
            self.config.ports.get_mut(number),
        ) else {
            return;
        };
        let dropped = &self.config.counters.ports[number].dropped[Reason::QueueFull];
        let mut refused = |packet: Packet| {
            dropped.add(1);
            self.config
                .pool
                .give(packet.into_frame(&self.config.region));
        };
        let done = match &mut port.share {
            Share::Alone => egress.configure(&config, refused),
            Share::Member(_) => egress.configure(&config.unshaped(), refused),
            Share::Owner(owner) => {
                owner.configure(&config, &mut refused);
                egress.configure(&config.unshaped(), refused)
            }
        };
        match done {
            Ok(()) => port.output = config,
            Err(error) => log::error!("the queues of an output are not changed: {error}"),
        }
    }
}
