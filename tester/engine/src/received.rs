//! What one port received of all streams; those of all ports together are the outcome of a trial.

use hdrhistogram::Histogram;

use crate::trial::new_histogram;

/// What one port received in a trial.
#[derive(Clone, Debug)]
pub struct Received {
    /// Counts in the order of [`crate::traffic::Traffic::streams`].
    pub streams: Vec<StreamReceived>,
    /// Damaged frames whose stream cannot be told.
    pub unknown_damaged: u64,
    /// Frames that are none of this trial's.
    pub foreign: u64,
    /// [`crate::trial::Trial::variation`] of what came here.
    pub variation: Histogram<u64>,
}

/// What one port received of one stream.
#[derive(Clone, Debug)]
pub struct StreamReceived {
    /// Frames, whole and where they should be, each counted once.
    pub received: u64,
    /// Copies beyond the first.
    pub duplicated: u64,
    /// RFC 4737.
    pub reordered: u64,
    /// [`crate::trial::Counts::extent_sum`].
    pub extent_sum: u64,
    /// [`crate::trial::Counts::extent_max`].
    pub extent_max: u64,
    /// Damaged, but with a readable stream.
    pub corrupted: u64,
    /// Came here, but should have come out of another port.
    pub misrouted: u64,
    /// ns from the stamp to reception.
    pub latency: Histogram<u64>,
    /// Due time of the latest frame received so far, ns (48 bits, [`crate::clock::now`]); 0: none.
    pub latest: u64,
    /// Highest sequence number received, plus one.
    pub next: u64,
    /// Longest time between due times of frames received one after the other, ns.
    pub longest_gap: u64,
    /// Due time of the first frame received after the last hole in the sequence numbers, ns.
    pub last_hole: Option<u64>,
}

impl Default for StreamReceived {
    fn default() -> Self {
        Self {
            received: 0,
            duplicated: 0,
            reordered: 0,
            extent_sum: 0,
            extent_max: 0,
            corrupted: 0,
            misrouted: 0,
            latency: new_histogram(),
            latest: 0,
            next: 0,
            longest_gap: 0,
            last_hole: None,
        }
    }
}
