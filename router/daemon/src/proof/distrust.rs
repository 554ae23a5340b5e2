//! Prefixes that are left to Linux because it does something else there than Bora.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// How long a prefix is left to Linux before it is asked about again; twice as long each time that it still differs.
const FIRST: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(3600);
/// Prefixes that are left to Linux; with more of them the oldest are tried again.
const MOST: usize = 1000;

/// The prefixes, by address and length.
#[derive(Debug, Default)]
pub(super) struct Distrust(BTreeMap<(IpAddr, u8), Term>);

/// How long a prefix is left to Linux.
#[derive(Clone, Copy, Debug)]
struct Term {
    until: Instant,
    time: Duration,
}

impl Distrust {
    /// Leaves a prefix to Linux from `now` on.
    pub(super) fn add(&mut self, prefix: (IpAddr, u8), now: Instant) {
        let before = self.0.get(&prefix);
        let time = before.map_or(FIRST, |term| LONGEST.min(2 * term.time));
        let until = now + time;
        self.0.insert(prefix, Term { until, time });
        while self.0.len() > MOST {
            let oldest = self.0.iter().min_by_key(|(_, term)| term.until);
            let Some((&oldest, _)) = oldest else { return };
            self.0.remove(&oldest);
        }
    }

    /// The prefixes that are left to Linux now. What has been well for long after its term is forgotten.
    pub(super) fn now(&mut self, now: Instant) -> Vec<(IpAddr, u8)> {
        self.0.retain(|_, term| term.until + LONGEST > now);
        let left = self.0.iter().filter(|(_, term)| term.until > now);
        left.map(|(prefix, _)| *prefix).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(number: u32) -> (IpAddr, u8) {
        (IpAddr::V4(number.into()), 32)
    }

    #[test]
    fn what_still_differs_is_distrusted_for_twice_as_long() {
        let (mut distrust, mut now) = (Distrust::default(), Instant::now());
        for time in [60, 120, 240, 480, 960, 1920, 3600, 3600] {
            let time = Duration::from_secs(time);
            distrust.add(prefix(1), now);
            assert_eq!(distrust.now(now + time / 2), [prefix(1)]);
            now += time;
            assert_eq!(distrust.now(now), [], "{time:?}");
            now += Duration::from_secs(5); // until it is known to differ
        }
        now += 2 * LONGEST;
        assert_eq!(distrust.now(now), []);
        distrust.add(prefix(1), now);
        assert_eq!(distrust.now(now + FIRST), [], "it was well for long");
    }

    #[test]
    fn with_too_many_the_oldest_are_tried_again() {
        let (mut distrust, now) = (Distrust::default(), Instant::now());
        let most = MOST as u32;
        for number in (0..=most).rev() {
            let later = Duration::from_millis((most - number).into());
            distrust.add(prefix(number), now + later);
        }
        let left = distrust.now(now);
        assert_eq!(left.len(), MOST);
        assert!(!left.contains(&prefix(most)) && left.contains(&prefix(0)));
    }
}
