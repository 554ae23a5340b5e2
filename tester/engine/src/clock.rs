//! The one clock of generator, analyser and BPF programs.

use rustix::time::{ClockId, clock_gettime};

/// CLOCK_MONOTONIC in ns, as `bpf_ktime_get_ns` has it. Read without a system call: from the TSC,
/// where that is Linux's clock source.
#[inline]
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
