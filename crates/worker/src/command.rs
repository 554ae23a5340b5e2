//! What the control side says, carried out between two rounds.

use std::time::{Duration, Instant};

use bora_buffer::Packet;
use bora_forward::schedule::{OutputConfig, OutputError};
use bora_forward::{Drop, Exit, RuleHits};
use bora_port::Queue;

use crate::flight::Flight;
use crate::share::Share;
use crate::spread::Reception;
use crate::worker::{Command, Returned, Worker, WorkerPort};

/// Longest that a removed port may hold packets that do not move: beyond what any sensible rate
/// makes a frame wait.
const GIVE_UP: Duration = Duration::from_secs(10);

/// A removed port whose queues are not given back yet.
pub(crate) struct Leaving {
    number: usize,
    /// Packets it held, and since when that many.
    held: u64,
    since: Instant,
}

impl Worker {
    pub(crate) fn take_commands(&mut self) {
        while let Some(command) = self.config.commands.pop() {
            self.obey(command);
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::SetIngress(ingress) => {
                if let Some(port) = self.config.ports.get_mut(usize::from(ingress.port.0)) {
                    port.ingress = ingress;
                }
            }
            Command::SetHash(v4, v6) => self.config.hash = (v4, v6),
            Command::SetMode(mode) => self.config.mode = mode,
            Command::SetRules(classifier) => {
                self.hits.clear();
                self.hits.resize(classifier.rules(), RuleHits::default());
                self.config.classifier = classifier;
            }
            Command::SetQuota { port, quota } => {
                if let Some(port) = self.config.ports.get_mut(usize::from(port.0)) {
                    port.quota = quota;
                    self.list_queues();
                }
            }
            Command::SetBudget(budget) => {
                self.config.budget = budget;
                self.list_queues();
            }
            Command::SetOutput { port, config } => self.set_output(port.0.into(), config),
            Command::AddPort(port) => {
                if let Err(error) = self.add_port(*port) {
                    log::error!("a port without queues: {error}");
                }
            }
            Command::RemovePort(port) => self.leaving.push(Leaving {
                number: port.0.into(),
                held: u64::MAX,
                since: Instant::now(),
            }),
            Command::Leave(departure) => self.begin_to_leave(departure),
            Command::Stop => self.stopping = true,
        }
    }

    /// Adds a port, or fills the place of one that was removed; its receive rings get frames.
    pub(crate) fn add_port(&mut self, mut port: WorkerPort) -> Result<(), OutputError> {
        let mut exit = match port.share {
            Share::Alone => Exit::new(&port.output)?,
            Share::Owner(_) | Share::Member(_) => Exit::new(&port.output.unshaped())?,
        };
        let first = match &mut port.share {
            Share::Owner(owner) => &mut owner.last,
            Share::Alone | Share::Member(_) => &mut exit,
        };
        port.held.drain(..).for_each(|packet| first.stage(packet));
        for queue in port.queues.iter_mut().chain(&mut port.twin) {
            queue.refill(&mut self.pool);
        }
        let number = usize::from(port.ingress.port.0);
        let min_frame = port.min_frame;
        if number < self.exits.len() {
            self.exits[number] = exit;
            self.flights[number] = Flight::default();
            self.min_frames[number] = min_frame;
            self.config.ports[number] = port;
        } else {
            self.exits.push(exit);
            self.flights.push(Flight::default());
            self.min_frames.push(min_frame);
            self.config.ports.push(port);
        }
        self.list_queues();
        Ok(())
    }

    fn set_output(&mut self, number: usize, config: OutputConfig) {
        let (Some(exit), Some(port)) = (
            self.exits.get_mut(number),
            self.config.ports.get_mut(number),
        ) else {
            return;
        };
        let dropped = &self.config.counters.ports[number].dropped[Drop::QueueFull as usize];
        let mut refused = |packet: Packet| {
            dropped.add(1);
            self.pool.give(packet.into_frame(&self.config.region));
        };
        let done = match &mut port.share {
            Share::Alone => exit.configure(&config, refused),
            Share::Member(_) => exit.configure(&config.unshaped(), refused),
            Share::Owner(owner) => {
                owner.configure(&config, &mut refused);
                exit.configure(&config.unshaped(), refused)
            }
        };
        match done {
            Ok(()) => port.output = config,
            Err(error) => log::error!("queues stay as they were: {error}"),
        }
    }

    /// Gives back the queues of removed ports that have nothing left to receive or send.
    pub(crate) fn give_ports_back(&mut self, now: Instant) {
        let mut leaving = std::mem::take(&mut self.leaving);
        leaving.retain_mut(|port| !self.give_port_back(port, now));
        self.leaving = leaving;
    }

    fn give_port_back(&mut self, leaving: &mut Leaving, now: Instant) -> bool {
        let Some(port) = self.config.ports.get_mut(leaving.number) else {
            return true;
        };
        let to_come: usize = port.queues.iter_mut().map(|queue| queue.waiting(1)).sum();
        let on_the_way = port.reception.in_flight() + port.share.in_flight();
        if to_come == 0 && port.reception.in_flight() == 0 && port.reception.is_direct() {
            port.reception = Reception::Own; // others need not wait for more
        }
        let held = to_come as u64 + on_the_way + port.queues.iter().map(to_leave).sum::<u64>();
        let held = held + self.exits[leaving.number].held() as u64 + self.backlog.len() as u64;
        if held != leaving.held {
            (leaving.held, leaving.since) = (held, now);
        }
        let done = held == 0 && !awaits_more(port) && port.share.may_leave();
        if !done && now.duration_since(leaving.since) < GIVE_UP {
            return false;
        }
        self.drop_held(leaving.number);
        let port = &mut self.config.ports[leaving.number];
        let mut queues = std::mem::take(&mut port.queues);
        queues.extend(port.twin.take());
        let returned = Returned {
            port: port.ingress.port,
            queues,
        };
        (port.reception, port.share) = (Reception::Own, Share::Alone);
        if self.config.returns.push(returned).is_err() {
            log::error!("nobody takes the queues of a removed port; they are closed here");
        }
        self.list_queues();
        true
    }
}

/// Whether another worker may still bring packets that the port received.
fn awaits_more(port: &WorkerPort) -> bool {
    let is_fed = |queue: &Queue| matches!(queue, Queue::Memory(ring) if !ring.is_alone());
    !port.reception.is_direct() && port.queues.iter().any(is_fed)
}

/// Packets in a transmit ring that will still leave.
fn to_leave(queue: &Queue) -> u64 {
    match queue.is_cut_off() {
        true => 0,
        false => queue.in_flight().into(),
    }
}
