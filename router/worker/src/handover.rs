//! The agreement of workers that hand over together: all end, or none.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The workers that hand over together ([`crate::Command::HandOver`]). Packets that one has received
/// may be in another one's ring, so none ends before all have stopped receiving. Counts those that
/// still receive.
#[derive(Debug)]
pub struct Handover(AtomicUsize);

const CANCELLED: usize = usize::MAX;

impl Handover {
    /// A hand-over of this many workers.
    pub fn new(workers: usize) -> Self {
        Self(AtomicUsize::new(workers))
    }

    /// Whether all of them have stopped receiving: from now on they end by themselves, and soon.
    pub fn is_committed(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }

    /// Lets all workers go on, unless the hand-over [is committed](Self::is_committed). Returns whether
    /// they go on.
    pub fn cancel(&self) -> bool {
        let change = |receiving| (receiving != 0).then_some(CANCELLED);
        let (done, read) = (Ordering::Relaxed, Ordering::Relaxed);
        self.0.fetch_update(done, read, change).is_ok()
    }

    /// One more worker has stopped receiving. Release: its last packets are in the other workers'
    /// rings before.
    pub(crate) fn stop_receiving(&self) {
        let change = |receiving| (receiving != CANCELLED).then(|| receiving - 1);
        let (done, read) = (Ordering::AcqRel, Ordering::Relaxed);
        let _ = self.0.fetch_update(done, read, change);
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed) == CANCELLED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_workers_end_or_none() {
        let handover = Handover::new(2);
        handover.stop_receiving();
        assert!(!handover.is_committed());
        assert!(handover.cancel() && handover.is_cancelled());
        handover.stop_receiving();
        assert!(!handover.is_committed() && handover.is_cancelled());

        let handover = Handover::new(1);
        handover.stop_receiving();
        assert!(handover.is_committed() && !handover.cancel() && handover.is_committed());
    }
}
