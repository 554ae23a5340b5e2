//! False sharing: two workers count in different cache lines.

use std::collections::HashSet;
use std::ptr;
use std::sync::Arc;

use bora_worker::WorkerCounters;

/// Octets that a CPU takes away from the others when it writes one of them.
const LINE: usize = 64;

/// The cache lines of a worker's counters.
fn lines(counters: &WorkerCounters) -> impl Iterator<Item = usize> {
    let ports = &*counters.ports;
    let own = (ptr::from_ref(counters) as usize, size_of_val(counters));
    let places = [own, (ports.as_ptr() as usize, size_of_val(ports))];
    let lines = |(start, length): (usize, usize)| start / LINE..=(start + length - 1) / LINE;
    places.into_iter().flat_map(lines)
}

#[test]
fn workers_count_in_different_lines() {
    // many lengths, so that none is a multiple of a line by chance
    let lengths = 1..16;
    let all: Vec<_> = lengths
        .map(|ports| Arc::new(WorkerCounters::new(ports)))
        .collect();
    let mut seen = HashSet::new();
    for line in all.iter().flat_map(|counters| lines(counters)) {
        assert!(seen.insert(line), "a line has counters of two workers");
    }
}
