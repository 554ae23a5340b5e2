//! Removed ports: their queues are drained, and then given back to the control side.

use std::time::{Duration, Instant};

use bora_port::Queue;

use crate::config::{Returned, WorkerPort};
use crate::share::Share;
use crate::spread::Reception;
use crate::worker::{Draining, Worker};

/// How long a removed port may hold packets that do not move: longer than any sensible rate makes a
/// frame wait. After that they are dropped.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

impl Worker {
    pub(crate) fn start_draining(&mut self, number: usize) {
        self.draining.push(Draining {
            number,
            held: u64::MAX,
            since: Instant::now(),
        });
    }

    /// Gives back the queues of removed ports that have nothing left to receive or send.
    pub(crate) fn drain_ports(&mut self, now: Instant) {
        let mut draining = std::mem::take(&mut self.draining);
        draining.retain_mut(|port| !self.drain_port(port, now));
        self.draining = draining;
    }

    /// Whether the port is drained and its queues are given back.
    fn drain_port(&mut self, draining: &mut Draining, now: Instant) -> bool {
        let first = self.config.ports.get(draining.number);
        let first = first.and_then(|port| port.queues.first());
        if first.is_some_and(Queue::is_cut_off) {
            // nothing takes them any more; dropped at once they make room for those of other workers
            self.drop_held(draining.number);
        }
        let Some(port) = self.config.ports.get_mut(draining.number) else {
            return true;
        };
        let to_receive: usize = port.queues.iter_mut().map(|queue| queue.waiting(1)).sum();
        let between_workers = port.reception.in_flight() + port.share.in_flight();
        if to_receive == 0 && port.reception.in_flight() == 0 && port.reception.is_direct() {
            port.reception = Reception::Own; // the other workers need not wait for more
        }
        let to_send: u64 = port.queues.iter().map(still_to_send).sum();
        let queued = self.egress[draining.number].held() as u64;
        let held = to_receive as u64 + between_workers + to_send + queued;
        if held != draining.held {
            (draining.held, draining.since) = (held, now);
        }
        let done = held == 0 && !may_receive_more(port) && port.share.is_drained();
        if !done && now.duration_since(draining.since) < DRAIN_TIMEOUT {
            return false;
        }
        self.drop_held(draining.number);
        self.return_queues(draining.number);
        true
    }

    fn return_queues(&mut self, number: usize) {
        let port = &mut self.config.ports[number];
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
    }
}

/// Whether another worker may still bring packets that the port received.
fn may_receive_more(port: &WorkerPort) -> bool {
    let is_fed = |queue: &Queue| matches!(queue, Queue::Memory(ring) if !ring.is_alone());
    !port.reception.is_direct() && port.queues.iter().any(is_fed)
}

/// Packets in a transmit ring that will still leave.
fn still_to_send(queue: &Queue) -> u64 {
    match queue.is_cut_off() {
        true => 0,
        false => queue.in_flight().into(),
    }
}
