//! What a program says of a packet. Bora's XDP program follows the same steps (`router/xdp/bpf/rules.h`).

use super::{Action, FIELDS, Program, Start};

/// Most entries whose conditions a packet may meet.
pub const MOST_STEPS: usize = 64;
/// Most chains that are entered from each other (NFT_JUMP_STACK_SIZE).
pub const DEPTH: usize = 16;

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is forwarded.
    Forward,
    /// It is dropped by this entry.
    Drop(usize),
    /// Linux decides.
    Linux,
}

impl Program {
    /// What becomes of a packet whose fields have these values, in the order of [`Field::ALL`](super::Field::ALL), and the entries
    /// whose conditions it meets.
    pub fn decide(&self, values: &[u128; FIELDS]) -> (Decision, Vec<usize>) {
        let mut path = Vec::new();
        let decision = self.follow(values, &mut path);
        (decision, path)
    }

    fn follow(&self, values: &[u128; FIELDS], path: &mut Vec<usize>) -> Decision {
        let mut untracked = false;
        for start in &self.starts {
            if start.untracked && !untracked {
                return Decision::Linux;
            }
            match self.chain(start, values, &mut untracked, path) {
                Decision::Forward => {}
                other => return other,
            }
        }
        Decision::Forward
    }

    /// Follows a packet through a base chain.
    fn chain(
        &self,
        start: &Start,
        values: &[u128; FIELDS],
        untracked: &mut bool,
        path: &mut Vec<usize>,
    ) -> Decision {
        let mut at = start.entry;
        let mut stack = Vec::new();
        while path.len() < MOST_STEPS {
            let mut rest = self.entries[at..].iter();
            let Some(skipped) = rest.position(|entry| entry.conditions.hold(values)) else {
                break;
            };
            let found = at + skipped;
            path.push(found);
            at = found + 1;
            match self.entries[found].action {
                Action::Continue => {}
                Action::Notrack => *untracked = true,
                Action::Accept => return Decision::Forward,
                Action::Drop => return Decision::Drop(found),
                Action::Linux => break,
                Action::Goto(to) => at = to,
                Action::Jump(_) if stack.len() == DEPTH => break,
                Action::Jump(to) => {
                    stack.push(at);
                    at = to;
                }
                Action::Return => match stack.pop() {
                    Some(back) => at = back,
                    None if start.accepts => return Decision::Forward,
                    None => return Decision::Drop(found),
                },
            }
        }
        Decision::Linux
    }
}
