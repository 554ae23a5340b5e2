//! Which share of the packets in transit Bora forwards, and what keeps the rest with Linux.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use bora_contract::{Counts, Reason};
use serde::{Deserialize, Serialize};

/// Time between two samples.
const PERIOD: Duration = Duration::from_secs(5);
/// Samples that span a minute.
const SAMPLES: usize = 13;
/// Packets that are not in transit.
const NOT_IN_TRANSIT: [Reason; 4] = [
    Reason::NotIp,
    Reason::ForeignMac,
    Reason::Local,
    Reason::SpecialAddress,
];

/// All packets until a moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    /// Sent by either tier.
    pub(crate) sent: u64,
    /// Handed to Linux.
    pub(crate) passed: Counts,
}

/// Samples of the last minute, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct LastMinute {
    samples: VecDeque<Sample>,
    taken: Option<Instant>,
}

/// Packets in transit of the last minute; drops do not count.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shares {
    /// Forwarded by Bora.
    by_bora: u64,
    /// Forwarded by Linux or for it to answer, by reason.
    to_linux: BTreeMap<String, u64>,
}

impl LastMinute {
    /// Takes a sample, if it is time to.
    pub(crate) fn follow(&mut self, now: Instant, take: impl FnOnce() -> Sample) {
        let is_new = |taken| now.saturating_duration_since(taken) < PERIOD;
        if self.taken.is_some_and(is_new) {
            return;
        }
        self.taken = Some(now);
        self.samples.push_back(take());
        if self.samples.len() > SAMPLES {
            self.samples.pop_front();
        }
    }

    /// What has come since the oldest sample.
    pub(crate) fn shares(&self) -> Shares {
        let (Some(first), Some(last)) = (self.samples.front(), self.samples.back()) else {
            return Shares::default();
        };
        let reasons = last.passed.iter().zip(first.passed.iter());
        let reasons = reasons.map(|((reason, now), (_, then))| (reason, now.saturating_sub(then)));
        let in_transit =
            reasons.filter(|(reason, count)| *count > 0 && !NOT_IN_TRANSIT.contains(reason));
        Shares {
            by_bora: last.sent.saturating_sub(first.sent),
            to_linux: in_transit
                .map(|(reason, count)| (reason.name().into(), count))
                .collect(),
        }
    }
}

impl Shares {
    /// In one line; nothing while there are no packets.
    pub(crate) fn told(&self) -> Option<String> {
        let all = self.by_bora + self.to_linux.values().sum::<u64>();
        if all == 0 {
            return None;
        }
        let percent = |count: u64| format!("{:.1} %", count as f64 * 100.0 / all as f64);
        let mut line = format!(
            "last minute: {} of {all} packets in transit by Bora",
            percent(self.by_bora)
        );
        let mut reasons: Vec<_> = self.to_linux.iter().collect();
        reasons.sort_by_key(|&(_, &count)| std::cmp::Reverse(count));
        for (name, &count) in reasons {
            line += &format!(", {} to Linux ({name})", percent(count));
        }
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(sent: u64, guard: u64, local: u64) -> Sample {
        let mut passed = Counts::default();
        passed[Reason::Guard] = guard;
        passed[Reason::Local] = local;
        Sample { sent, passed }
    }

    #[test]
    fn a_minute_is_what_came_since_its_oldest_sample() {
        let (mut minute, start) = (LastMinute::default(), Instant::now());
        assert_eq!(minute.shares().told(), None);
        minute.follow(start, || sample(1000, 50, 7));
        minute.follow(start + PERIOD / 2, || sample(0, 0, 0)); // too soon
        minute.follow(start + PERIOD, || sample(1900, 150, 900));
        let told = minute.shares().told().unwrap();
        let expected =
            "last minute: 90.0 % of 1000 packets in transit by Bora, 10.0 % to Linux (guard)";
        assert_eq!(told, expected);
        for number in 2..=SAMPLES as u32 {
            minute.follow(start + PERIOD * number, || sample(1900, 150, 900));
        }
        assert_eq!(minute.shares().told(), None, "it is longer ago");
    }
}
