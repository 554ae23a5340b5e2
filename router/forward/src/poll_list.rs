//! Which receive queue is next, and how much it may bring.

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
    /// What is left of the quota, if the end of a round cut the queue's turn short.
    left: u32,
}

/// NAPI's poll list (Bianco05): round robin over the queues, at most a quota for each turn and a
/// budget for each round. Under overload the shares are max-min fair, in proportion to the quotas;
/// drops happen on the reception rings, where they cost nothing. A queue stays on the list when it is
/// empty: looking at it costs no interrupt.
#[derive(Debug)]
pub struct PollList {
    queues: Vec<Entry>,
    /// Whose turn is next.
    next: usize,
    budget: u32,
    /// Left of the round's budget.
    left: u32,
    /// Turns left in the round: every queue has one.
    turns: usize,
}

impl PollList {
    /// A list of queues with these quotas, packets a turn; `budget` is packets a round. Zeros are
    /// taken as 1.
    pub fn new(quotas: &[u32], budget: u32) -> Self {
        let entry = |&quota: &u32| Entry {
            quota: quota.max(1),
            left: quota.max(1),
        };
        Self {
            queues: quotas.iter().map(entry).collect(),
            next: 0,
            budget: budget.max(1),
            left: 0,
            turns: 0,
        }
    }

    /// Begins a round: a new budget, and a turn for each queue.
    pub fn start_round(&mut self) {
        self.left = self.budget;
        self.turns = self.queues.len();
    }

    /// The next turn, `None` at the end of the round. [`Self::finish`] must follow.
    pub fn next_turn(&mut self) -> Option<Turn> {
        if self.turns == 0 || self.left == 0 {
            return None;
        }
        let entry = self.queues.get(self.next)?;
        Some(Turn {
            queue: self.next,
            allowance: entry.left.min(self.left),
        })
    }

    /// Ends a turn that brought `received` packets. A turn that only the budget cut short goes on in
    /// the next round, so that the budget does not change the shares.
    pub fn finish(&mut self, turn: Turn, received: u32) {
        let Some(entry) = self.queues.get_mut(turn.queue) else {
            return;
        };
        self.left = self.left.saturating_sub(received);
        let is_drained = received < turn.allowance;
        if !is_drained && received < entry.left {
            entry.left -= received;
            return;
        }
        entry.left = entry.quota;
        self.turns = self.turns.saturating_sub(1);
        self.next = match turn.queue + 1 {
            end if end == self.queues.len() => 0,
            next => next,
        };
    }
}
