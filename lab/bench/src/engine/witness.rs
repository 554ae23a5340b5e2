//! Checks every packet that leaves: its input, the order of its flow, its latency.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bora_apparatus::{Observer, Stamp};
use bora_buffer::{Packet, Region};
use hdrhistogram::Histogram;

use crate::packets::input_of;

/// Longest latency that the histogram records: 10 s.
const LONGEST_NS: u64 = 10_000_000_000;

/// What was observed.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Packets of each input.
    pub packets: Vec<u64>,
    /// Packets that came after a later one of their flow, or without a stamp.
    pub disordered: u64,
    /// Nanoseconds from arrival to departure, if requested.
    pub latency: Option<Histogram<u64>>,
}

/// Observes an output.
#[derive(Debug)]
pub struct Witness {
    start: Instant,
    /// For each input and flow, the lowest number that its next packet may have.
    next: Vec<Vec<u64>>,
    seen: Seen,
    result: Arc<Mutex<Seen>>,
}

impl Witness {
    /// A witness for inputs with these numbers of flows (powers of two), whose packets arrive from
    /// `start` on. The result is complete when the witness has been dropped.
    pub fn new(start: Instant, flows: &[u32], latency: bool) -> (Self, Arc<Mutex<Seen>>) {
        let result: Arc<Mutex<Seen>> = Arc::default();
        let histogram = || Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("valid bounds");
        let next = |&flows: &u32| vec![0; flows.next_power_of_two() as usize];
        let witness = Self {
            start,
            next: flows.iter().map(next).collect(),
            seen: Seen {
                packets: vec![0; flows.len()],
                disordered: 0,
                latency: latency.then(histogram),
            },
            result: result.clone(),
        };
        (witness, result)
    }

    fn one(&mut self, octets: &[u8], now_ns: u64) {
        let input = input_of(octets);
        let (Some(stamp), Some(flows)) = (Stamp::read(octets), self.next.get_mut(input)) else {
            self.seen.disordered += 1;
            return;
        };
        self.seen.packets[input] += 1;
        let last = flows.len() - 1;
        let next = &mut flows[stamp.number as usize & last];
        self.seen.disordered += u64::from(stamp.number < *next);
        *next = stamp.number + 1;
        if let Some(histogram) = &mut self.seen.latency {
            histogram.saturating_record(now_ns.saturating_sub(stamp.arrival_ns));
        }
    }
}

impl Observer for Witness {
    fn observe(&mut self, region: &Region, packets: &[Packet]) {
        let now_ns = match self.seen.latency {
            Some(_) => self.start.elapsed().as_nanos() as u64,
            None => 0,
        };
        for packet in packets {
            self.one(region.octets(packet), now_ns);
        }
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        let mut result = self.result.lock().unwrap_or_else(PoisonError::into_inner);
        *result = std::mem::take(&mut self.seen);
    }
}
