//! Packets on their way: each with the time at which it is due.

use std::collections::BTreeMap;

use super::LONGEST_HOLD;

/// Something that waits for others to overtake it.
#[derive(Debug)]
struct Behind<T> {
    /// When it goes on in any case.
    latest: u64,
    /// How many have still to pass it.
    left: u32,
    overtaken: bool,
    item: T,
}

/// What is on its way.
#[derive(Debug)]
pub(super) struct Hold<T> {
    /// What waits, by the time at which it is due, and among equals in the order in which it was put.
    due: BTreeMap<(u64, u64), T>,
    behind: Vec<Behind<T>>,
    next: u64,
    reordered: u64,
}

impl<T> Hold<T> {
    pub(super) fn new() -> Self {
        Self {
            due: BTreeMap::new(),
            behind: Vec::new(),
            next: 0,
            reordered: 0,
        }
    }

    /// How many are on their way.
    pub(super) fn len(&self) -> usize {
        self.due.len() + self.behind.len()
    }

    /// How many have been let go after one that was put later.
    pub(super) fn reordered(&self) -> u64 {
        self.reordered
    }

    /// Lets it go at its time.
    pub(super) fn put(&mut self, item: T, due: u64) {
        self.push(item, due);
        let mut at = 0;
        while at < self.behind.len() {
            let waiting = &mut self.behind[at];
            waiting.overtaken = true;
            waiting.left -= 1;
            if waiting.left == 0 {
                self.release(at, due);
            } else {
                at += 1;
            }
        }
    }

    /// Lets it go right behind the `packets`-th (1 or more) that is put from now on, but late by
    /// no more than [`LONGEST_HOLD`].
    pub(super) fn put_behind(&mut self, item: T, due: u64, packets: u32) {
        self.behind.push(Behind {
            latest: due + LONGEST_HOLD.as_nanos() as u64,
            left: packets,
            overtaken: false,
            item,
        });
    }

    /// The next that is due at or before a time.
    pub(super) fn take(&mut self, now: u64) -> Option<T> {
        while let Some(at) = self.behind.iter().position(|it| it.latest <= now) {
            let latest = self.behind[at].latest;
            self.release(at, latest);
        }
        let first = self.due.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    /// All, in no order.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        let behind = self.behind.drain(..).map(|it| it.item);
        std::mem::take(&mut self.due).into_values().chain(behind)
    }

    fn release(&mut self, at: usize, due: u64) {
        let waiting = self.behind.remove(at);
        self.reordered += u64::from(waiting.overtaken);
        self.push(waiting.item, due);
    }

    fn push(&mut self, item: T, due: u64) {
        let number = self.next;
        self.next += 1;
        self.due.insert((due, number), item);
    }
}
