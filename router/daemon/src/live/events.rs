//! What happened lately.

use std::collections::VecDeque;
use std::time::SystemTime;

use super::report::{Event, EventKind, Severity};
use crate::process::clock::since_1970;

/// Events that are kept.
const MOST: usize = 100;
/// Longest text, characters: names and rules are others'.
const LONGEST: usize = 500;

/// The last events, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct EventLog(VecDeque<Event>);

impl EventLog {
    /// Keeps an event and writes it to the log.
    pub(crate) fn tell(&mut self, severity: Severity, kind: EventKind, text: String) {
        let level = match severity {
            Severity::Info => log::Level::Info,
            Severity::Warning => log::Level::Warn,
            Severity::Error => log::Level::Error,
        };
        log::log!(level, event:? = kind; "{text}");
        self.note(severity, kind, text);
    }

    /// Keeps an event that is in the log already.
    pub(crate) fn note(&mut self, severity: Severity, kind: EventKind, text: String) {
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        let text = match text.char_indices().nth(LONGEST) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        };
        self.0.push_back(Event {
            time: milliseconds(SystemTime::now()),
            severity,
            kind,
            text,
        });
    }

    pub(crate) fn all(&self) -> Vec<Event> {
        self.0.iter().cloned().collect()
    }
}

/// Milliseconds since 1970.
pub(crate) fn milliseconds(time: SystemTime) -> u64 {
    since_1970(time).as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_and_long_ones_are_cut() {
        let mut log = EventLog::default();
        for number in 0..=MOST {
            log.note(Severity::Info, EventKind::Port, number.to_string());
        }
        let events = log.all();
        assert_eq!(events.len(), MOST);
        assert_eq!(events[0].text, "1");
        log.note(Severity::Info, EventKind::Port, "ü".repeat(2 * LONGEST));
        assert_eq!(log.all()[MOST - 1].text.chars().count(), LONGEST + 1);
    }
}
