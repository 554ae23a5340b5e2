//! Which receive queue is next, and how much it may bring.

use std::collections::VecDeque;

/// A queue's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Number of the queue.
    pub queue: usize,
    /// Most packets it may bring now.
    pub allowance: u32,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    quota: u32,
    /// What is left of the quota of a turn that a round's end cut short.
    left: u32,
    listed: bool,
}

/// NAPI's poll list (Bianco05): round robin over the queues that have packets, at most a quota for
/// each turn and a budget for each round. Under overload the shares are max-min fair, in
/// proportion to the quotas; drops happen on the reception rings, where they cost nothing.
#[derive(Debug)]
pub struct PollList {
    queues: Vec<Entry>,
    list: VecDeque<usize>,
    budget: u32,
    /// Left of the round's budget.
    left: u32,
    /// Turns left in the round: everybody on the list at its start has one.
    turns: usize,
}

impl PollList {
    /// An empty list for queues with these quotas, packets a turn; `budget` is packets a round.
    /// Zeros are taken as 1.
    pub fn new(quotas: &[u32], budget: u32) -> Self {
        let entry = |&quota: &u32| Entry {
            quota: quota.max(1),
            left: quota.max(1),
            listed: false,
        };
        Self {
            queues: quotas.iter().map(entry).collect(),
            list: VecDeque::with_capacity(quotas.len()),
            budget: budget.max(1),
            left: 0,
            turns: 0,
        }
    }

    /// Puts a queue at the end of the list, because packets have come; once is enough.
    pub fn add(&mut self, queue: usize) {
        if let Some(entry) = self.queues.get_mut(queue)
            && !entry.listed
        {
            entry.listed = true;
            entry.left = entry.quota;
            self.list.push_back(queue);
        }
    }

    /// Whether every queue is asleep.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Begins a round: a new budget, and a turn for each queue on the list.
    pub fn start_round(&mut self) {
        self.left = self.budget;
        self.turns = self.list.len();
    }

    /// The next turn, `None` at the end of the round. [`Self::finish`] must follow.
    pub fn next_turn(&mut self) -> Option<Turn> {
        if self.turns == 0 || self.left == 0 {
            return None;
        }
        let &queue = self.list.front()?;
        let allowance = self.queues[queue].left.min(self.left);
        Some(Turn { queue, allowance })
    }

    /// Ends a turn that brought `received` packets. A queue that has used its quota goes to the end
    /// of the list; one that has brought less than it might is drained and leaves the list, unless
    /// `keep` says to go on polling it. A turn that the budget cut short goes on in the next round,
    /// so that the budget does not change the shares.
    pub fn finish(&mut self, turn: Turn, received: u32, keep: bool) {
        let Some(entry) = self.queues.get_mut(turn.queue) else {
            return;
        };
        self.left = self.left.saturating_sub(received);
        let drained = received < turn.allowance;
        if !drained && received < entry.left {
            entry.left -= received;
            return;
        }
        self.turns = self.turns.saturating_sub(1);
        entry.left = entry.quota;
        entry.listed = !drained || keep;
        let listed = entry.listed;
        self.list.pop_front();
        if listed {
            self.list.push_back(turn.queue);
        }
    }
}
