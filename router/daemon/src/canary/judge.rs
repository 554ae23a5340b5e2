//! What this Bora does with a packet, without the packet: its XDP program says it, or, for what that gives to the engine, the stages
//! of a worker.

use bora_capture::{HEAD, Tier};
use bora_forward::{self as stages, Reason};
use bora_prove::{Decider, Input, ProveError};
use bora_xdp::{ProgramAnswer, Questions};

use super::verdict::{Asked, Outcome, Verdict};
use crate::hex;
use crate::proof::facts::{Facts, Parts};
use crate::reports::trace::tier_name;

/// Longest frame, octets; the kernel takes no longer ones than a page.
const LONGEST: usize = 4096;

/// Program and stages.
pub(super) struct Judge {
    decider: Decider,
    program: Questions,
    inputs: Vec<Input>,
}

impl Judge {
    /// Loads them. [`Judge::adopt`] must follow.
    ///
    /// # Errors
    /// There is no memory, or the kernel refuses the program.
    pub(super) fn new(parts: Parts) -> Result<Self, ProveError> {
        let (decider, program) = parts.load()?;
        Ok(Self {
            decider,
            program,
            inputs: Vec::new(),
        })
    }

    /// Decides by these tables from now on.
    pub(super) fn adopt(&mut self, facts: Facts) {
        self.decider.adopt(&facts.inputs, facts.tables);
        self.inputs = facts.inputs;
    }

    /// What becomes of each packet.
    pub(super) fn decide(&mut self, asked: &[Asked]) -> Vec<Verdict> {
        let verdicts = asked.iter().map(|one| self.decide_one(one));
        let verdicts = verdicts.map(|one| one.unwrap_or(Verdict::of(Outcome::Unknown)));
        verdicts.collect()
    }

    fn decide_one(&mut self, asked: &Asked) -> Option<Verdict> {
        let input = self.inputs.iter().find(|input| input.name == asked.input)?;
        let frame = frame(asked)?;
        if let Some(entry) = &input.entry {
            let (answer, left) = match self.program.ask(entry.ifindex, &entry.tagged(&frame)) {
                Ok(answered) => answered,
                Err(error) => {
                    log::debug!("{}: {error}", input.name);
                    return None;
                }
            };
            let verdict = match answer {
                ProgramAnswer::ToEngine => None,
                ProgramAnswer::ToLinux => Some(Verdict::of(Outcome::ToLinux)),
                ProgramAnswer::Dropped => Some(Verdict::of(Outcome::Dropped)),
                ProgramAnswer::Sent => Some(sent(&left)),
            };
            if let Some(verdict) = verdict {
                return Some(by(Tier::Express, verdict));
            }
        }
        let (verdict, left) = self.decider.decide(input.number, &frame)?;
        let because = |outcome, reason: Reason| Verdict {
            reason: Some(reason.name().into()),
            ..Verdict::of(outcome)
        };
        let verdict = match verdict {
            stages::Verdict::Forward(output) => {
                let output = self.inputs.iter().find(|known| known.number == output);
                Verdict {
                    output: output.map(|output| output.name.clone()),
                    ..sent(&left)
                }
            }
            stages::Verdict::Punt(reason) => because(Outcome::ToLinux, reason),
            stages::Verdict::Drop(reason) => because(Outcome::Dropped, reason),
            stages::Verdict::Pending => Verdict::of(Outcome::Dropped),
        };
        Some(by(Tier::Engine, verdict))
    }
}

fn by(tier: Tier, verdict: Verdict) -> Verdict {
    Verdict {
        tier: Some(tier_name(tier).into()),
        ..verdict
    }
}

/// The whole frame; `None` if it is none.
fn frame(asked: &Asked) -> Option<Vec<u8>> {
    let mut octets = hex::octets(&asked.head)?;
    let length = asked.length as usize;
    let fits = octets.len() <= length && length <= LONGEST;
    octets.resize(length.min(LONGEST), 0);
    fits.then_some(octets)
}

fn sent(left: &[u8]) -> Verdict {
    Verdict {
        frame: Some(hex::of(&left[..left.len().min(HEAD)])),
        length: Some(left.len()),
        ..Verdict::of(Outcome::Sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_follow_the_head() {
        let asked = |head: &str, length| Asked {
            input: "r0".into(),
            head: head.into(),
            length,
        };
        assert_eq!(frame(&asked("0102", 4)), Some(vec![1, 2, 0, 0]));
        assert_eq!(frame(&asked("0102", 1)), None);
        assert_eq!(frame(&asked("01", u32::MAX)), None);
        assert_eq!(frame(&asked("0", 4)), None);
    }
}
