//! The rings to the slow path, and the budgets of what may go there.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::Thread;
use std::time::{Duration, Instant};

use bora_buffer::Packet;
use bora_contract::{BUDGET_WINDOW_NS, MAX_PORTS, Reason, budget_of_window};
use bora_fib::PortId;
use bora_forward::Urgency;
use crossbeam_queue::ArrayQueue;

/// Places for packets of each urgency. Those of the last, which Linux forwards, are some milliseconds of its work.
/// The region has frames for all, so that punts do not starve reception.
const PLACES: [usize; Urgency::COUNT] = [1024, 1024, 1024, 4096];
/// How many of 16 packets that go to Linux at once each urgency may be when all wait. Those that come first leave the others
/// something, so that a flood of packets for the router does not stop what Linux forwards.
const SHARES: [usize; Urgency::COUNT] = [8, 4, 2, 2];

/// A packet on its way to Linux.
#[derive(Debug)]
pub struct Punted {
    /// The packet, unchanged since it was received.
    pub packet: Packet,
    /// The port it came in by.
    pub port: PortId,
    /// Why it goes to Linux.
    pub reason: Reason,
    /// Whether the sender may have left its checksum to others.
    pub partial_checksum: bool,
}

/// Packets of one urgency.
#[derive(Debug)]
struct Ring {
    packets: ArrayQueue<Punted>,
    /// How many of them each port brought.
    of_port: Vec<AtomicUsize>,
}

impl Ring {
    fn new(places: usize) -> Self {
        Self {
            packets: ArrayQueue::new(places),
            of_port: (0..MAX_PORTS).map(|_| AtomicUsize::new(0)).collect(),
        }
    }

    /// Adds a packet. A port may have twice the places that are free, so one that floods leaves room to others, and all
    /// that flood have equally many (Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet
    /// switches", 1998).
    #[allow(clippy::result_large_err)] // the packet goes back to the caller
    fn push(&self, punted: Punted) -> Result<(), Punted> {
        let of_port = &self.of_port[usize::from(punted.port.0)];
        let free = self.packets.capacity() - self.packets.len();
        if of_port.load(Relaxed) >= 2 * free {
            return Err(punted);
        }
        of_port.fetch_add(1, Relaxed);
        self.packets.push(punted).inspect_err(|_| {
            of_port.fetch_sub(1, Relaxed);
        })
    }

    fn pop(&self) -> Option<Punted> {
        let punted = self.packets.pop()?;
        self.of_port[usize::from(punted.port.0)].fetch_sub(1, Relaxed);
        Some(punted)
    }
}

/// The rings from all workers to the slow-path thread, by urgency. If Linux cannot keep up, they are full and
/// packets are dropped.
#[derive(Debug)]
pub struct PuntRings {
    rings: [Ring; Urgency::COUNT],
    /// The slow-path thread, once it has slept.
    reader: OnceLock<Thread>,
}

impl Default for PuntRings {
    fn default() -> Self {
        Self {
            rings: PLACES.map(Ring::new),
            reader: OnceLock::new(),
        }
    }
}

impl PuntRings {
    /// Places of all rings.
    pub const PLACES: usize = PLACES[0] + PLACES[1] + PLACES[2] + PLACES[3];

    /// Adds a packet.
    ///
    /// # Errors
    /// The packet, if there is no room.
    #[allow(clippy::result_large_err)] // the packet goes back to the caller
    pub fn push(&self, punted: Punted, urgency: Urgency) -> Result<(), Punted> {
        self.rings[urgency as usize].push(punted)
    }

    /// Wakes the slow-path thread after packets were added.
    pub fn announce(&self) {
        if let Some(reader) = self.reader.get() {
            reader.unpark();
        }
    }

    /// Sleeps until packets are announced, at most `longest`; for the slow-path thread.
    pub fn wait(&self, longest: Duration) {
        self.reader.get_or_init(std::thread::current);
        if self.held() == 0 {
            std::thread::park_timeout(longest);
        }
    }

    /// Packets in the rings.
    pub fn held(&self) -> usize {
        self.rings.iter().map(|ring| ring.packets.len()).sum()
    }

    /// Takes up to `most` packets: first the share of each urgency, then the most urgent.
    pub fn take(&self, batch: &mut Vec<Punted>, most: usize) {
        let shares = SHARES.map(|share| most.saturating_mul(share).div_ceil(16));
        for (ring, share) in self.rings.iter().zip(shares) {
            let left = most.saturating_sub(batch.len());
            batch.extend(std::iter::from_fn(|| ring.pop()).take(share.min(left)));
        }
        for ring in &self.rings {
            let left = most.saturating_sub(batch.len());
            batch.extend(std::iter::from_fn(|| ring.pop()).take(left));
        }
    }
}

const WINDOW: Duration = Duration::from_nanos(BUDGET_WINDOW_NS);

/// One worker's punt budgets, by reason, in packets a window: the protection of the control plane.
#[derive(Debug)]
pub struct Budgets {
    limit: u64,
    left: [u64; Reason::COUNT],
    window: Instant,
}

impl Budgets {
    /// A budget of this many packets a second for each reason.
    pub fn new(packets_per_second: u64) -> Self {
        let limit = budget_of_window(packets_per_second);
        Self {
            left: [limit; Reason::COUNT],
            limit,
            window: Instant::now(),
        }
    }

    /// Starts a new window if it is time; called once a loop.
    pub(crate) fn tick(&mut self, now: Instant) {
        if now.duration_since(self.window) >= WINDOW {
            self.window = now;
            self.left.fill(self.limit);
        }
    }

    /// Takes one packet from a budget; `false` if the budget is spent.
    pub(crate) fn take(&mut self, reason: Reason) -> bool {
        let left = &mut self.left[reason as usize];
        let some = *left > 0;
        *left -= u64::from(some);
        some
    }
}

#[cfg(test)]
mod tests {
    use bora_buffer::{Pool, Region, SharedFrames};

    use super::*;

    #[test]
    fn a_budget_ends_and_comes_back() {
        let mut budgets = Budgets::new(200);
        assert!(budgets.take(Reason::NoRoute) && budgets.take(Reason::NoRoute));
        assert!(!budgets.take(Reason::NoRoute));
        assert!(budgets.take(Reason::Options), "reasons do not share");
        budgets.tick(Instant::now() + WINDOW);
        assert!(budgets.take(Reason::NoRoute));
    }

    fn put(
        rings: &PuntRings,
        pool: &mut Pool,
        region: &Region,
        port: u16,
        urgency: Urgency,
    ) -> bool {
        let punted = Punted {
            packet: pool.take().unwrap().into_packet(region, 60).unwrap(),
            port: PortId(port),
            reason: Reason::Local,
            partial_checksum: false,
        };
        match rings.push(punted, urgency) {
            Ok(()) => true,
            Err(punted) => {
                pool.give(punted.packet.into_frame(region));
                false
            }
        }
    }

    fn memory() -> (Region, Pool) {
        let region = Region::new(8192, 2048).unwrap();
        let pool = Pool::new(SharedFrames::of_new_region(&region), 8192);
        (region, pool)
    }

    /// Whatever floods, a port or a less urgent kind of packet, the next packet of another has room.
    #[test]
    fn no_flood_takes_all_places() {
        let (region, mut pool) = memory();
        let rings = PuntRings::default();
        let mut flood = |port, urgency| {
            let all =
                (0..PuntRings::PLACES).map(|_| put(&rings, &mut pool, &region, port, urgency));
            all.filter(|&taken| taken).count()
        };
        let bulk = flood(1, Urgency::Bulk);
        assert!(bulk > 2000, "{bulk}");
        let [first, second] = [1, 2].map(|port| flood(port, Urgency::Control));
        assert!(first > 500 && second > 100, "{first}, {second}");
        assert!(flood(3, Urgency::Control) > 0 && flood(3, Urgency::Local) > 0);
        let mut batch = Vec::new();
        rings.take(&mut batch, 8192);
        assert_eq!(rings.held(), 0);
        // what has left makes room again
        drop(batch);
        assert_eq!(flood(1, Urgency::Control), first);
    }

    /// The most urgent come first, and leave the others their share.
    #[test]
    fn batches_are_taken_by_urgency() {
        use Urgency::{Bulk, Control, Exception, Local};
        let (region, mut pool) = memory();
        let rings = PuntRings::default();
        // the port's number stands for the urgency
        let all = [(3, Bulk), (2, Exception), (1, Local), (0, Control)];
        for (port, urgency) in all.into_iter().cycle().take(400) {
            assert!(put(&rings, &mut pool, &region, port, urgency));
        }
        let counts = || {
            let mut batch = Vec::new();
            rings.take(&mut batch, 16);
            [0, 1, 2, 3].map(|port| batch.iter().filter(|one| one.port.0 == port).count())
        };
        assert_eq!(counts(), [8, 4, 2, 2]);
        for _ in 0..11 {
            counts();
        }
        assert_eq!(counts(), [4, 8, 2, 2], "96 and 48 have left before");
    }
}
