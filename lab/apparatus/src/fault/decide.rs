//! What becomes of each packet: everything that is drawn or computed before it moves.

use fastrand::Rng;

use super::spec::{Capacity, Corruption, Faults, Jitter, Loss};

/// What becomes of one packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fate {
    /// Lost at random.
    Lost,
    /// Lost because the buffer was full.
    BufferFull,
    /// Comes through.
    Passes {
        /// When, ns.
        due: u64,
        /// Behind how many later packets; 0 is in its turn.
        behind: u32,
        /// Whether a copy follows.
        twice: bool,
    },
}

/// Decides the fates of a link's packets.
#[derive(Debug)]
pub(super) struct Decider {
    faults: Faults,
    loss: Option<LossState>,
    server: Option<Server>,
    jitter: Rng,
    reordering: Rng,
    duplication: Rng,
    corruption: Rng,
}

impl Decider {
    pub(super) fn new(faults: Faults) -> Self {
        let mut seeds = Rng::with_seed(faults.seed);
        let [loss, jitter, reordering, duplication, corruption] =
            std::array::from_fn(|_| seeds.fork());
        Self {
            loss: faults.loss.map(|it| LossState::new(it, loss)),
            jitter,
            reordering,
            duplication,
            corruption,
            server: faults.capacity.map(Server::new),
            faults,
        }
    }

    /// The fate of a packet that arrives at a time, ns.
    pub(super) fn decide(&mut self, arrival: u64) -> Fate {
        if self.loss.as_mut().is_some_and(LossState::loses) {
            return Fate::Lost;
        }
        let served = match &mut self.server {
            Some(server) => server.serve(arrival),
            None => Some(arrival),
        };
        let Some(served) = served else {
            return Fate::BufferFull;
        };
        let behind = match self.faults.reordering {
            Some(it) if self.reordering.f64() < it.share => it.packets,
            _ => 0,
        };
        Fate::Passes {
            due: served + self.faults.delay.as_nanos() as u64 + self.draw_jitter(),
            behind,
            twice: self.duplication.f64() < self.faults.duplication,
        }
    }

    fn draw_jitter(&mut self) -> u64 {
        let (scale, drawn) = match self.faults.jitter {
            None => return 0,
            Some(Jitter::Uniform(most)) => (most, self.jitter.f64()),
            // inverse of the distribution function; f64() is below 1, so the logarithm is finite
            Some(Jitter::Exponential(mean)) => (mean, -(1.0 - self.jitter.f64()).ln()),
        };
        (scale.as_nanos() as f64 * drawn) as u64
    }

    /// Flips bits of a packet if its turn has come; tells whether it did.
    pub(super) fn corrupt(&mut self, octets: &mut [u8]) -> bool {
        let Some(Corruption { share, whole, bits }) = self.faults.corruption else {
            return false;
        };
        let Some(open) = octets.get_mut(whole..).filter(|open| !open.is_empty()) else {
            return false;
        };
        if self.corruption.f64() >= share {
            return false;
        }
        let size = open.len() * 8;
        // at different places, so that no flip undoes another
        for bit in self.corruption.choose_multiple(0..size, bits as usize) {
            open[bit / 8] ^= 1 << (bit % 8);
        }
        true
    }
}

/// The model of Gilbert and Elliott at work.
#[derive(Debug)]
struct LossState {
    loss: Loss,
    is_bad: bool,
    rng: Rng,
}

impl LossState {
    fn new(loss: Loss, rng: Rng) -> Self {
        let is_bad = false;
        Self { loss, is_bad, rng }
    }

    /// Whether the next packet is lost.
    fn loses(&mut self) -> bool {
        let change = if self.is_bad {
            self.loss.to_good
        } else {
            self.loss.to_bad
        };
        self.is_bad ^= self.rng.f64() < change;
        let probability = if self.is_bad {
            self.loss.bad
        } else {
            self.loss.good
        };
        self.rng.f64() < probability
    }
}

/// Serves packets at a steady rate. Picoseconds since the first packet, so that the rate is exact
/// to a millionth up to 1e6 packets a second, and the numbers last for 200 days.
#[derive(Debug)]
struct Server {
    interval: u64,
    buffer: u64,
    first: Option<u64>,
    free: u64,
}

impl Server {
    fn new(capacity: Capacity) -> Self {
        Self {
            interval: (1e12 / capacity.rate).round() as u64,
            buffer: capacity.buffer,
            first: None,
            free: 0,
        }
    }

    /// When a packet that arrives now has been served, ns; `None` if it meets a full buffer.
    fn serve(&mut self, arrival: u64) -> Option<u64> {
        let first = *self.first.get_or_insert(arrival);
        let now = arrival.saturating_sub(first).saturating_mul(1000);
        let waiting = self.free.saturating_sub(now).div_ceil(self.interval);
        if waiting >= self.buffer {
            return None;
        }
        self.free = self.free.max(now).saturating_add(self.interval);
        Some(first + self.free / 1000)
    }
}
