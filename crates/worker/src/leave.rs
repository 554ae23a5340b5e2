//! Workers that end while Bora goes on: what they have goes to those that come after them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::share::Share;
use crate::spread::Reception;
use crate::worker::{Worker, WorkerPort};

/// How long drivers may take for what they have. More is no loss: the queue goes over with it; but
/// a flow that changes its transmit ring then may overtake itself.
const SETTLE: Duration = Duration::from_millis(10);

/// Workers that are to leave together ([`crate::Command::Leave`]). What one has received may be in
/// another one's ring, so none may go before all have stopped to receive.
#[derive(Debug)]
pub struct Departure(AtomicUsize);

const CALLED_OFF: usize = usize::MAX;

impl Departure {
    /// Of this many workers.
    pub fn new(workers: usize) -> Self {
        Self(AtomicUsize::new(workers))
    }

    /// Whether all of them have stopped to receive: from now on they end by themselves, soon.
    pub fn is_certain(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }

    /// Lets all stay, unless it [is certain](Self::is_certain) that they go; whether they stay.
    pub fn call_off(&self) -> bool {
        let change = |missing| (missing != 0).then_some(CALLED_OFF);
        let (done, read) = (Ordering::Relaxed, Ordering::Relaxed);
        self.0.fetch_update(done, read, change).is_ok()
    }

    /// One more does not receive any more. Release: its last packets in others' rings come first.
    fn join(&self) {
        let change = |missing| (missing != CALLED_OFF).then(|| missing - 1);
        let (done, read) = (Ordering::AcqRel, Ordering::Relaxed);
        let _ = self.0.fetch_update(done, read, change);
    }

    fn is_called_off(&self) -> bool {
        self.0.load(Ordering::Relaxed) == CALLED_OFF
    }
}

/// A worker that is about to leave.
#[derive(Debug)]
pub(crate) struct Exodus {
    departure: Arc<Departure>,
    /// Since when everything that was received is forwarded.
    through: Option<Instant>,
}

impl Worker {
    /// Stops to receive from ports.
    pub(crate) fn begin_to_leave(&mut self, departure: Arc<Departure>) {
        departure.join();
        self.exodus = Some(Exodus {
            departure,
            through: None,
        });
    }

    /// Whether the worker may go: what was received is forwarded, and what is forwarded is sent as
    /// far as it can be soon.
    pub(crate) fn may_go(&mut self, now: Instant) -> bool {
        let Some(exodus) = &mut self.exodus else {
            return false;
        };
        if exodus.departure.is_called_off() {
            self.exodus = None;
            return false;
        }
        let ports = self.config.ports.iter_mut();
        let mut rings = ports.filter(|port| !port.reception.is_direct());
        if !exodus.departure.is_certain()
            || !self.backlog.is_empty()
            || rings.any(|port| port.queues.iter_mut().any(|queue| queue.waiting(1) > 0))
        {
            return false;
        }
        let through = *exodus.through.get_or_insert(now);
        let queues = self.config.ports.iter().flat_map(|port| &port.queues);
        let in_flight: u64 = queues.map(|queue| u64::from(queue.in_flight())).sum();
        in_flight + self.held() == 0 || now.duration_since(through) >= SETTLE
    }

    /// What the worker had of each port, by number, with the packets that still wait to be sent.
    pub(crate) fn hand_over(mut self, now: Instant) -> Vec<WorkerPort> {
        for (port, exit) in self.config.ports.iter_mut().zip(&mut self.exits) {
            exit.clear(|packet| port.held.push(packet));
        }
        self.publish(now);
        self.publish_details();
        std::mem::take(&mut self.config.ports)
    }
}

/// Puts together what workers that have left had of one port, in the order of the workers: its
/// queues in the order in which they were dealt out, and what is still to be sent, so that no flow is
/// reordered. Rings between the workers end here. `None` of no parts.
pub fn reunite(parts: impl IntoIterator<Item = WorkerPort>) -> Option<WorkerPort> {
    let (mut whole, mut twin) = (None, None);
    let (mut hands, mut next, mut later) = (Vec::new(), Vec::new(), Vec::new());
    for mut part in parts {
        let queues = std::mem::take(&mut part.queues);
        match std::mem::take(&mut part.share) {
            Share::Alone | Share::Member(_) => {}
            Share::Owner(owner) => owner.give_up(&mut next),
        }
        if part.reception.is_direct() {
            hands.push(queues.into_iter());
        }
        part.reception = Reception::Own;
        later.append(&mut part.held);
        twin = twin.or(part.twin.take());
        whole.get_or_insert(part);
    }
    let mut whole = whole?;
    loop {
        let before = whole.queues.len();
        let round = hands.iter_mut().filter_map(Iterator::next);
        whole.queues.extend(round);
        if whole.queues.len() == before {
            break;
        }
    }
    next.append(&mut later);
    (whole.twin, whole.held) = (twin, next);
    Some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_go_or_none() {
        let departure = Departure::new(2);
        departure.join();
        assert!(!departure.is_certain());
        assert!(departure.call_off() && departure.is_called_off());
        departure.join();
        assert!(!departure.is_certain() && departure.is_called_off());

        let departure = Departure::new(1);
        departure.join();
        assert!(departure.is_certain() && !departure.call_off() && departure.is_certain());
    }
}
