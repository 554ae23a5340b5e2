//! Compares what two Boras do with packets. Where they differ both are asked again with patience, because routes may be changing;
//! only what stays different counts.

use std::mem;
use std::time::Instant;

use bora_daemon::{Asked, Doubt, Doubted, MOST, Outcome, Verdict};
use bora_terminal::say;

/// Packets that may wait to be asked about again.
const DOUBTS: usize = MOST / 2;
/// Differences that are kept; the others are counted.
const KEPT: usize = 10;

/// A packet that both are asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    pub(super) asked: Asked,
    /// Its addresses and ports, for people.
    pub(super) flow: String,
}

/// What both do with a packet: the Bora that runs, and the new one.
type Verdicts = (Verdict, Verdict);

/// A packet on which both differed.
type Doubtful = (Packet, Doubt<Verdicts>);

/// Packets to ask both about at once.
#[derive(Debug, Default)]
pub(super) struct Round {
    fresh: Vec<Packet>,
    again: Vec<Doubtful>,
}

/// What was found so far.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    /// Packets on which both agree.
    pub(super) equal: u64,
    /// Packets of which neither could say what becomes of them.
    unknown: u64,
    /// Packets whose verdicts changed all the time.
    unsettled: u64,
    /// Packets on which both differ.
    differ: u64,
    differences: Vec<(Packet, Verdicts)>,
    doubts: Vec<Doubtful>,
}

impl Round {
    /// The packets, in the order of the verdicts that [`Comparison::judge`] wants.
    pub(super) fn asked(&self) -> Vec<Asked> {
        let again = self.again.iter().map(|(packet, _)| packet);
        let packets = self.fresh.iter().chain(again);
        packets.map(|packet| packet.asked.clone()).collect()
    }
}

impl Comparison {
    /// Whether nothing differs, and nothing is in doubt.
    pub(super) fn is_equal(&self) -> bool {
        self.differ == 0 && self.doubts.is_empty()
    }

    /// Whether something differs.
    pub(super) fn differs(&self) -> bool {
        self.differ > 0
    }

    /// How many new packets may be asked about.
    pub(super) fn room(&self) -> usize {
        DOUBTS.saturating_sub(self.doubts.len())
    }

    /// New packets, and those that are to be asked about again by now.
    pub(super) fn round(&mut self, fresh: Vec<Packet>, now: Instant) -> Round {
        let doubts = mem::take(&mut self.doubts);
        let (again, later) = doubts
            .into_iter()
            .partition(|(_, doubt)| doubt.due() <= now);
        self.doubts = later;
        Round { fresh, again }
    }

    /// Takes what both said.
    pub(super) fn judge(
        &mut self,
        round: Round,
        verdicts: impl Iterator<Item = Verdicts>,
        now: Instant,
    ) {
        let fresh = round.fresh.into_iter().map(|packet| (packet, None));
        let again = round.again.into_iter();
        let again = again.map(|(packet, doubt)| (packet, Some(doubt)));
        for ((packet, before), verdicts) in fresh.chain(again).zip(verdicts) {
            let (running, new) = &verdicts;
            if running.outcome == Outcome::Unknown && new.outcome == Outcome::Unknown {
                self.unknown += 1;
            } else if running.is_same(new) {
                self.equal += 1;
            } else {
                self.doubt(packet, before, verdicts, now);
            }
        }
    }

    fn doubt(
        &mut self,
        packet: Packet,
        before: Option<Doubt<Verdicts>>,
        verdicts: Verdicts,
        now: Instant,
    ) {
        let doubted = match before {
            None => Doubted::Again(Doubt::new(verdicts, now)),
            Some(before) => before.again(verdicts, now),
        };
        match doubted {
            Doubted::Again(doubt) => self.doubts.push((packet, doubt)),
            Doubted::Unsettled => self.unsettled += 1,
            Doubted::Differs(verdicts) => {
                self.differ += 1;
                if self.differences.len() < KEPT {
                    self.differences.push((packet, verdicts));
                }
            }
        }
    }

    /// Prints what was found.
    pub(super) fn report(&self) -> anyhow::Result<()> {
        for (packet, (running, new)) in &self.differences {
            let Asked {
                input,
                head,
                length,
            } = &packet.asked;
            say!("differs: {}", packet.flow)?;
            say!("  packet by {input}, {length} octets: {head}")?;
            say!("  the Bora that runs: {running}")?;
            say!("  this binary:        {new}")?;
        }
        say!(
            "{} packets with equal verdicts, {} differ, {} changed all the time, {} of which neither can say",
            self.equal,
            self.differ,
            self.unsettled,
            self.unknown
        )?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bora_daemon::PATIENCE;

    use super::*;

    fn packets(count: usize) -> Vec<Packet> {
        let packet = |number| Packet {
            asked: Asked {
                input: "r0".into(),
                head: format!("{number:02x}"),
                length: 60,
            },
            flow: String::new(),
        };
        (0..count).map(packet).collect()
    }

    fn verdict(outcome: Outcome, output: &str) -> Verdict {
        Verdict {
            output: Some(output.into()),
            ..Verdict::of(outcome)
        }
    }

    fn sent(output: &str) -> Verdict {
        verdict(Outcome::Sent, output)
    }

    /// Asks until no doubt is left; `say` has the verdicts of an attempt.
    fn settle(count: usize, say: impl Fn(usize) -> Verdicts) -> (Comparison, Duration) {
        let mut comparison = Comparison::default();
        let (begin, mut fresh) = (Instant::now(), packets(count));
        let mut now = begin;
        for attempt in 0.. {
            let round = comparison.round(mem::take(&mut fresh), now);
            assert_eq!(round.asked().len(), count);
            comparison.judge(round, std::iter::repeat_n(say(attempt), count), now);
            match comparison.doubts.iter().map(|(_, doubt)| doubt.due()).max() {
                Some(due) => now = due,
                None => break,
            }
        }
        (comparison, now - begin)
    }

    #[test]
    fn what_is_equal_counts_at_once() {
        let (found, took) = settle(3, |_| (sent("r1"), sent("r1")));
        assert_eq!((found.equal, took), (3, Duration::ZERO));
        assert!(found.is_equal() && !found.differs());
    }

    #[test]
    fn what_stays_different_differs() {
        let to_linux = || verdict(Outcome::ToLinux, "");
        let (found, took) = settle(20, |_| (sent("r1"), to_linux()));
        assert_eq!((found.equal, found.differ), (0, 20));
        assert_eq!(found.differences.len(), KEPT);
        assert_eq!(found.differences[0].1, (sent("r1"), to_linux()));
        assert_eq!(took, PATIENCE.iter().sum());
        assert!(found.differs() && !found.is_equal());
    }

    #[test]
    fn routes_that_change_are_no_difference() {
        let (found, _) = settle(1, |attempt| match attempt {
            0..4 => (sent("r1"), sent("r2")),
            _ => (sent("r2"), sent("r2")),
        });
        assert_eq!((found.equal, found.differ), (1, 0));
        let (found, _) = settle(1, |attempt| {
            (sent("r1"), sent(&format!("r{}", attempt + 2)))
        });
        assert_eq!((found.unsettled, found.differ), (1, 0));
    }

    #[test]
    fn what_neither_knows_is_no_agreement() {
        let unknown = || verdict(Outcome::Unknown, "");
        let (found, _) = settle(1, |_| (unknown(), unknown()));
        assert_eq!((found.unknown, found.equal), (1, 0));
        let (found, _) = settle(1, |_| (sent("r1"), unknown()));
        assert_eq!(found.differ, 1);
    }

    #[test]
    fn doubts_leave_no_room_for_more() {
        let mut comparison = Comparison::default();
        let now = Instant::now();
        let round = comparison.round(packets(comparison.room()), now);
        comparison.judge(round, std::iter::repeat((sent("r1"), sent("r2"))), now);
        assert_eq!(comparison.room(), 0);
        assert!(comparison.round(Vec::new(), now).asked().is_empty());
    }
}
