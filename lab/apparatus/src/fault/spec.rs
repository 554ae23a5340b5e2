//! What a faulty link does to its packets.

use std::time::Duration;

/// The faults of a link, each of which can be left out; they act in the order of the fields. The
/// same packets at the same times meet the same fate with the same seed, and each fault draws its
/// own random numbers, so that none changes what another does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// Seed of everything drawn at random.
    pub seed: u64,
    /// Losses at random.
    pub loss: Option<Loss>,
    /// A server of limited rate with a buffer.
    pub capacity: Option<Capacity>,
    /// How long each packet takes.
    pub delay: Duration,
    /// How much longer some take.
    pub jitter: Option<Jitter>,
    /// Packets that others overtake.
    pub reordering: Option<Reordering>,
    /// Share of packets that come twice, the copy right behind the first; 0 to 1.
    pub duplication: f64,
    /// Damage.
    pub corruption: Option<Corruption>,
}

/// Losses by the model of Gilbert (1960) and Elliott (1963): the link is in a good or a bad state,
/// each with its own probability of loss. All values are probabilities for each packet, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loss {
    /// Probability of a loss in the good state.
    pub good: f64,
    /// Probability of a loss in the bad state.
    pub bad: f64,
    /// Probability of going from the good state to the bad one.
    pub to_bad: f64,
    /// Probability of going from the bad state to the good one; losses come 1 / `to_good` at a time if all
    /// packets are lost in the bad state.
    pub to_good: f64,
}

impl Loss {
    /// Each packet with the same probability.
    pub fn random(probability: f64) -> Self {
        Self {
            good: probability,
            bad: 0.0,
            to_bad: 0.0,
            to_good: 1.0,
        }
    }
}

/// A server that takes the packets one after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Capacity {
    /// Packets a second.
    pub rate: f64,
    /// Most packets that wait or are served; a packet that meets a full buffer is lost.
    pub buffer: u64,
}

/// A random part of the delay, drawn for each packet. Packets overtake each other with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Jitter {
    /// Evenly from 0 to this.
    Uniform(Duration),
    /// Exponential with this mean.
    Exponential(Duration),
}

/// Packets that are held back until later ones have overtaken them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reordering {
    /// Share of the packets, 0 to 1.
    pub share: f64,
    /// By how many later packets, at least 1; those that are held back themselves do not count. Where fewer
    /// come, the packet goes on [`super::LONGEST_HOLD`] late.
    pub packets: u32,
}

/// Bits that come out wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Corruption {
    /// Share of the packets, 0 to 1.
    pub share: f64,
    /// Octets at the beginning that stay whole; a packet that is no longer stays whole.
    pub whole: usize,
    /// How many bits are flipped, each anywhere behind the whole octets; at least 1. Internet
    /// checksums see any single flip, but miss one in 32 pairs.
    pub bits: u32,
}

impl Faults {
    /// Whether all values make sense.
    ///
    /// # Errors
    /// The first one that does not.
    pub fn check(&self) -> Result<(), String> {
        let loss = self.loss.unwrap_or(Loss::random(0.0));
        let shares = [
            ("loss in the good state", loss.good),
            ("loss in the bad state", loss.bad),
            ("probability of the bad state", loss.to_bad),
            ("probability of the good state", loss.to_good),
            ("reordering", self.reordering.map_or(0.0, |it| it.share)),
            ("duplication", self.duplication),
            ("corruption", self.corruption.map_or(0.0, |it| it.share)),
        ];
        let wrong = shares
            .iter()
            .find(|(_, share)| !(0.0..=1.0).contains(share));
        if let Some((name, share)) = wrong {
            return Err(format!("{name} is {share}, which is not between 0 and 1"));
        }
        let rate = self.capacity.map_or(1.0, |it| it.rate);
        if !(rate > 0.0 && rate <= 1e9) {
            return Err(format!(
                "capacity is {rate} packets/s; it must be above 0 and at most 1e9"
            ));
        }
        let problems = [
            (
                self.capacity.is_some_and(|it| it.buffer == 0),
                "the buffer holds no packet, so all would be lost; it must hold 1 at least",
            ),
            (
                self.reordering.is_some_and(|it| it.packets == 0),
                "reordering by 0 packets is none; it must be 1 at least",
            ),
            (
                self.corruption.is_some_and(|it| it.bits == 0),
                "corruption of 0 bits is none; it must be 1 at least",
            ),
        ];
        match problems.into_iter().find(|(is_wrong, _)| *is_wrong) {
            Some((_, what)) => Err(what.into()),
            None => Ok(()),
        }
    }
}
