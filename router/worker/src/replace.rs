//! Workers that end while Bora goes on: they hand their ports over to the workers that follow.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::config::WorkerPort;
use crate::handover::Handover;
use crate::share::Share;
use crate::spread::Reception;
use crate::worker::{HandingOver, Worker};

/// How long drivers may take to send what they have. After that the queue is handed over with its
/// packets: nothing is lost, but the packets of a flow that changes its transmit ring then may be
/// reordered.
const SETTLE: Duration = Duration::from_millis(10);

impl Worker {
    /// Stops receiving from ports.
    pub(crate) fn start_handover(&mut self, handover: Arc<Handover>) {
        handover.stop_receiving();
        self.handing_over = Some(HandingOver {
            handover,
            forwarded: None,
        });
    }

    /// Whether the worker may end: what all workers received is forwarded, and it is sent as far as
    /// that can be done soon.
    pub(crate) fn may_hand_over(&mut self, now: Instant) -> bool {
        let Some(state) = &mut self.handing_over else {
            return false;
        };
        if state.handover.is_cancelled() {
            self.handing_over = None;
            return false;
        }
        let ports = self.config.ports.iter_mut();
        let mut rings = ports.filter(|port| !port.reception.is_direct());
        if !state.handover.is_committed()
            || rings.any(|port| port.queues.iter_mut().any(|queue| queue.waiting(1) > 0))
        {
            return false;
        }
        let forwarded = *state.forwarded.get_or_insert(now);
        self.in_flight() + self.held() == 0 || now.duration_since(forwarded) >= SETTLE
    }

    /// The worker's part of each port, by number, with the packets that still wait to be sent.
    pub(crate) fn into_parts(mut self, now: Instant) -> Vec<WorkerPort> {
        for (port, egress) in self.config.ports.iter_mut().zip(&mut self.egress) {
            egress.clear(|packet| port.held.push(packet));
        }
        self.publish(now);
        self.publish_details();
        std::mem::take(&mut self.config.ports)
    }
}

/// Merges the parts that workers had of one port, in the order of the workers: the queues in the
/// order in which they were dealt out, and the packets that are still to be sent so that no flow is
/// reordered. The rings between the workers end here. `None` if there are no parts.
pub fn merge_parts(parts: impl IntoIterator<Item = WorkerPort>) -> Option<WorkerPort> {
    let (mut whole, mut twin) = (None, None);
    let (mut hands, mut held_by_owner, mut held) = (Vec::new(), Vec::new(), Vec::new());
    for mut part in parts {
        let queues = std::mem::take(&mut part.queues);
        match std::mem::take(&mut part.share) {
            Share::Alone | Share::Member(_) => {}
            Share::Owner(owner) => owner.into_packets(&mut held_by_owner),
        }
        if part.reception.is_direct() {
            hands.push(queues.into_iter());
        }
        part.reception = Reception::Own;
        held.append(&mut part.held);
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
    // what the owner had already taken in goes first
    held_by_owner.append(&mut held);
    (whole.twin, whole.held) = (twin, held_by_owner);
    Some(whole)
}
