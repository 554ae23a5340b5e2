//! How long the control loop takes for a turn, in which it follows Linux and makes one step for a caller.

use std::mem;
use std::time::{Duration, Instant};

/// Parts of a turn that take at least this long are named.
const NOTABLE: Duration = Duration::from_millis(1);

/// The turn in progress, and the longest one.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// When the last part ended.
    mark: Option<Instant>,
    now: Turn,
    longest: Option<(Turn, Instant)>,
}

/// One turn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turn {
    /// How long it took.
    pub(crate) took: Duration,
    /// Its parts that took the most time, in order.
    pub(crate) parts: Vec<(&'static str, Duration)>,
}

impl Turns {
    /// A turn begins with what was done before now.
    pub(crate) fn begin(&mut self, what: &'static str, took: Duration) {
        self.now.took = Duration::ZERO;
        self.now.parts.clear();
        self.add(what, took);
        self.mark = Some(Instant::now());
    }

    /// A part of the turn has ended.
    pub(crate) fn next(&mut self, what: &'static str) {
        let now = Instant::now();
        let began = self.mark.replace(now).unwrap_or(now);
        self.add(what, now.duration_since(began));
    }

    /// The turn has ended.
    pub(crate) fn end(&mut self) {
        let longest = self
            .longest
            .as_ref()
            .map_or(Duration::ZERO, |(turn, _)| turn.took);
        if self.now.took > longest {
            self.longest = Some((mem::take(&mut self.now), Instant::now()));
        }
    }

    /// The longest turn since the start, and when it ended.
    pub(crate) fn longest(&self) -> Option<&(Turn, Instant)> {
        self.longest.as_ref()
    }

    fn add(&mut self, what: &'static str, took: Duration) {
        self.now.took += took;
        if took >= NOTABLE {
            self.now.parts.push((what, took));
        }
    }
}

impl Turn {
    /// What it did, for people.
    pub(crate) fn text(&self) -> String {
        let part = |(what, took): &(&str, Duration)| format!("{what} {} ms", took.as_millis());
        self.parts.iter().map(part).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_turn_says_what_it_did() {
        let mut turns = Turns::default();
        for milliseconds in [3, 70, 4] {
            turns.begin("events", Duration::from_millis(milliseconds));
            turns.next("nothing");
            turns.end();
        }
        let (turn, _) = turns.longest().unwrap();
        assert!(turn.took >= Duration::from_millis(70));
        assert_eq!(turn.parts[0], ("events", Duration::from_millis(70)));
        assert!(turn.text().starts_with("events 70 ms"), "{}", turn.text());
    }
}
