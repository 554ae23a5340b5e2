//! A difference that is asked about again, because it may come of a change that one of both just follows.

use std::time::{Duration, Instant};

/// How long to wait before it is asked about again: after each attempt with the same answers.
pub const PATIENCE: [Duration; 5] = [
    Duration::from_millis(20),
    Duration::from_millis(100),
    Duration::from_millis(400),
    Duration::from_millis(1000),
    Duration::from_millis(2500),
];
/// How often a difference is asked about that is another one each time.
const MOST_ATTEMPTS: usize = 12;

/// Answers that differ, and how often they were given.
#[derive(Clone, Debug)]
pub struct Doubt<A> {
    answers: A,
    due: Instant,
    attempts: usize,
    repeated: usize,
}

/// What comes of a doubt when both were asked again and differ still.
#[derive(Clone, Debug)]
pub enum Doubted<A> {
    /// They are to be asked again.
    Again(Doubt<A>),
    /// The answers stay these.
    Differs(A),
    /// The answers are others each time.
    Unsettled,
}

impl<A: PartialEq> Doubt<A> {
    /// Answers that have differed once.
    pub fn new(answers: A, now: Instant) -> Self {
        Self {
            answers,
            due: now + PATIENCE[0],
            attempts: 1,
            repeated: 1,
        }
    }

    /// When to ask again.
    pub fn due(&self) -> Instant {
        self.due
    }

    /// The answers differ again.
    pub fn again(self, answers: A, now: Instant) -> Doubted<A> {
        let repeated = match self.answers == answers {
            true => self.repeated + 1,
            false => 1,
        };
        let attempts = self.attempts + 1;
        match PATIENCE.get(repeated - 1) {
            None => Doubted::Differs(answers),
            Some(_) if attempts >= MOST_ATTEMPTS => Doubted::Unsettled,
            Some(&wait) => Doubted::Again(Self {
                answers,
                due: now + wait,
                attempts,
                repeated,
            }),
        }
    }
}
