//! What is in flight in a transmit ring: little enough that what comes next, whatever its class, soon
//! leaves. As Linux's byte queue limits (lib/dynamic_queue_limits.c), but by time.

use std::collections::VecDeque;

/// Longest that a packet is to wait behind what the ring has, ns.
const WAIT_NS: u64 = 1_000_000;
/// Octets that this is at 1 Gbit/s: the limit at first.
const FIRST: u64 = 125_000;
/// The same at 100 Mbit/s: the limit never falls below.
const LEAST: u64 = 12_500;
/// No limit: more than any ring holds.
const MOST: u64 = 1 << 26;

/// Octets in flight of one ring, and how many there may be: what the ring sends in [`WAIT_NS`], as it
/// is seen to send while it is busy. Octets are those of frames without FCS.
#[derive(Debug)]
pub(crate) struct Flight {
    /// What was handed over at once and is still in flight: packets and octets, the oldest first.
    parts: VecDeque<(u32, u64)>,
    packets: u32,
    octets: u64,
    limit: u64,
    /// Something waits only because of the limit.
    is_full: bool,
    /// Since when the ring has been busy and full,
    since_ns: u64,
    /// and the octets it has sent since then.
    done: u64,
}

impl Default for Flight {
    fn default() -> Self {
        Self {
            parts: VecDeque::with_capacity(64),
            packets: 0,
            octets: 0,
            limit: FIRST,
            is_full: false,
            since_ns: 0,
            done: 0,
        }
    }
}

impl Flight {
    /// Octets that may be handed over now. Where nothing is in flight that is more than any frame.
    #[inline]
    pub(crate) fn room(&self) -> u64 {
        self.limit.saturating_sub(self.octets)
    }

    /// So much was handed over.
    #[inline]
    pub(crate) fn add(&mut self, packets: u32, octets: u64) {
        if packets > 0 {
            self.parts.push_back((packets, octets));
            self.packets += packets;
            self.octets += octets;
        }
    }

    /// Whether more could leave, but for want of room.
    #[inline]
    pub(crate) fn set_full(&mut self, is_full: bool) {
        self.is_full = is_full;
    }

    /// So many packets are in flight at this time; sets the limit.
    #[inline]
    pub(crate) fn update(&mut self, in_flight: u32, now_ns: u64) {
        let sent = self.take(self.packets.saturating_sub(in_flight));
        if !self.is_full {
            (self.since_ns, self.done) = (now_ns, 0);
            return;
        }
        self.done += sent;
        let time = now_ns - self.since_ns;
        if self.octets == 0 {
            // it could have sent more
            self.limit = (2 * self.limit).min(MOST);
        } else if self.done >= self.limit && time >= WAIT_NS {
            self.limit = (self.done * WAIT_NS / time).clamp(LEAST, MOST);
        } else {
            return;
        }
        (self.since_ns, self.done) = (now_ns, 0);
    }

    /// Takes the oldest packets out; returns their octets, of a part its share.
    fn take(&mut self, mut packets: u32) -> u64 {
        let before = self.octets;
        self.packets -= packets;
        while let Some((count, octets)) = self.parts.front_mut().filter(|_| packets > 0) {
            let taken = packets.min(*count);
            let share = *octets * u64::from(taken) / u64::from(*count);
            (*count, *octets) = (*count - taken, *octets - share);
            packets -= taken;
            self.octets -= share;
            if *count == 0 {
                self.parts.pop_front();
            }
        }
        before - self.octets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: u64 = 1514;

    /// A ring that sends frames at a rate, and a worker that looks every so often and always has more.
    struct Link {
        flight: Flight,
        rate: u64,
        now_ns: u64,
        /// Octets that left, and when the last frame did.
        sent: u64,
        free_ns: u64,
        frames: VecDeque<u64>,
    }

    impl Link {
        fn new(rate: u64) -> Self {
            Self {
                flight: Flight::default(),
                rate,
                now_ns: 0,
                sent: 0,
                free_ns: 0,
                frames: VecDeque::new(),
            }
        }

        /// Looks every `pause_ns` for so long; returns the longest that a frame waited in the ring.
        fn run(&mut self, time_ns: u64, pause_ns: u64) -> u64 {
            let (end, mut longest) = (self.now_ns + time_ns, 0);
            while self.now_ns < end {
                self.now_ns += pause_ns;
                while self.frames.front().is_some_and(|&at| at <= self.now_ns) {
                    self.frames.pop_front();
                    self.sent += FRAME;
                }
                self.flight.update(self.frames.len() as u32, self.now_ns);
                while self.flight.room() >= FRAME {
                    let start = self.free_ns.max(self.now_ns);
                    longest = longest.max(start - self.now_ns);
                    self.free_ns = start + FRAME * 8_000_000_000 / self.rate;
                    self.frames.push_back(self.free_ns);
                    self.flight.add(1, FRAME);
                }
                self.flight.set_full(true);
            }
            longest
        }
    }

    #[test]
    fn nothing_waits_longer_than_a_millisecond() {
        for (rate, pause_ns) in [
            (100_000_000, 50_000),
            (1_000_000_000, 20_000),
            (10_000_000_000, 5000),
        ] {
            let mut link = Link::new(rate);
            link.run(100 * WAIT_NS, pause_ns);
            link.sent = 0;
            let longest = link.run(100 * WAIT_NS, pause_ns);
            assert!(longest <= WAIT_NS + WAIT_NS / 20, "{longest} ns at {rate}");
            let used = link.sent as f64 * 8e9 / (100 * WAIT_NS) as f64 / rate as f64;
            assert!(used > 0.98, "{used} of {rate} bit/s");
        }
    }

    #[test]
    fn a_link_that_becomes_slower_is_noticed() {
        let mut link = Link::new(10_000_000_000);
        link.run(100 * WAIT_NS, 5000);
        link.rate = 1_000_000_000;
        link.run(20 * WAIT_NS, 5000);
        let longest = link.run(20 * WAIT_NS, 5000);
        assert!(longest <= WAIT_NS + WAIT_NS / 20, "{longest} ns");
    }

    /// Who looks seldom gets more than a millisecond's worth, which would leave the link idle two
    /// thirds of the time.
    #[test]
    fn a_ring_that_runs_dry_gets_more() {
        let mut link = Link::new(1_000_000_000);
        link.run(50 * WAIT_NS, 3 * WAIT_NS);
        link.sent = 0;
        link.run(60 * WAIT_NS, 3 * WAIT_NS);
        assert!(link.sent * 8 > 39_000_000, "{} octets in 60 ms", link.sent);
    }

    #[test]
    fn octets_of_parts_add_up() {
        let mut flight = Flight::default();
        flight.add(3, 1000);
        flight.add(2, 7);
        for (in_flight, octets) in [(4, 674), (2, 7), (2, 7), (1, 4), (0, 0)] {
            flight.update(in_flight, 0);
            assert_eq!(flight.octets, octets, "{in_flight}");
        }
    }
}
