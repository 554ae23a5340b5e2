//! A limit to the octets in a transmit ring, so that what comes next, whatever its class, leaves soon:
//! as Linux's byte queue limits (lib/dynamic_queue_limits.c), but by time.

use std::collections::VecDeque;

/// Longest that a packet is to wait behind what the ring has, ns.
const WAIT_NS: u64 = 1_000_000;
/// What a ring of 1 Gbit/s sends in that time, octets: the limit at the start.
const FIRST: u64 = 125_000;
/// What a ring of 100 Mbit/s sends in that time: the limit never falls below.
const LEAST: u64 = 12_500;
/// More than any ring holds: no limit.
const MOST: u64 = 1 << 26;

/// The octets in one transmit ring and their limit: what the ring sends in [`WAIT_NS`], measured while
/// it is busy. Octets are those of frames without FCS.
#[derive(Debug)]
pub(crate) struct ByteLimit {
    /// Packets and octets of each call that handed some to the ring, the oldest call first.
    bursts: VecDeque<(u32, u64)>,
    packets: u32,
    octets: u64,
    limit: u64,
    /// Something waits only because of the limit.
    is_full: bool,
    /// Since when the ring has been busy and full.
    since_ns: u64,
    /// Octets sent since then.
    sent: u64,
}

impl Default for ByteLimit {
    fn default() -> Self {
        Self {
            bursts: VecDeque::with_capacity(64),
            packets: 0,
            octets: 0,
            limit: FIRST,
            is_full: false,
            since_ns: 0,
            sent: 0,
        }
    }
}

impl ByteLimit {
    /// Octets that may be handed to the ring now. An empty ring has room for any frame.
    #[inline]
    pub(crate) fn room(&self) -> u64 {
        self.limit.saturating_sub(self.octets)
    }

    /// Counts what was handed to the ring.
    #[inline]
    pub(crate) fn add(&mut self, packets: u32, octets: u64) {
        if packets > 0 {
            self.bursts.push_back((packets, octets));
            self.packets += packets;
            self.octets += octets;
        }
    }

    /// Notes whether packets wait only because there is no room.
    #[inline]
    pub(crate) fn set_full(&mut self, is_full: bool) {
        self.is_full = is_full;
    }

    /// Takes out what was sent, from the number of packets in flight at this time, and adapts the limit.
    #[inline]
    pub(crate) fn update(&mut self, in_flight: u32, now_ns: u64) {
        let sent = self.take_out(self.packets.saturating_sub(in_flight));
        if !self.is_full {
            (self.since_ns, self.sent) = (now_ns, 0);
            return;
        }
        self.sent += sent;
        let time = now_ns - self.since_ns;
        if self.octets == 0 {
            // the ring ran dry: it could have sent more
            self.limit = (2 * self.limit).min(MOST);
        } else if self.sent >= self.limit && time >= WAIT_NS {
            self.limit = (self.sent * WAIT_NS / time).clamp(LEAST, MOST);
        } else {
            return;
        }
        (self.since_ns, self.sent) = (now_ns, 0);
    }

    /// Takes the oldest packets out; returns their octets. Packets of one burst count as equally long.
    fn take_out(&mut self, mut packets: u32) -> u64 {
        let before = self.octets;
        self.packets -= packets;
        while let Some((count, octets)) = self.bursts.front_mut().filter(|_| packets > 0) {
            let taken = packets.min(*count);
            // a burst mostly goes as a whole, and a division takes long
            let share = if taken == *count {
                *octets
            } else {
                *octets * u64::from(taken) / u64::from(*count)
            };
            (*count, *octets) = (*count - taken, *octets - share);
            packets -= taken;
            self.octets -= share;
            if *count == 0 {
                self.bursts.pop_front();
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
        limit: ByteLimit,
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
                limit: ByteLimit::default(),
                rate,
                now_ns: 0,
                sent: 0,
                free_ns: 0,
                frames: VecDeque::new(),
            }
        }

        /// Looks every `pause_ns` during `time_ns`; returns the longest that a frame waited in the ring.
        fn run(&mut self, time_ns: u64, pause_ns: u64) -> u64 {
            let (end, mut longest) = (self.now_ns + time_ns, 0);
            while self.now_ns < end {
                self.now_ns += pause_ns;
                while self.frames.front().is_some_and(|&at| at <= self.now_ns) {
                    self.frames.pop_front();
                    self.sent += FRAME;
                }
                self.limit.update(self.frames.len() as u32, self.now_ns);
                while self.limit.room() >= FRAME {
                    let start = self.free_ns.max(self.now_ns);
                    longest = longest.max(start - self.now_ns);
                    self.free_ns = start + FRAME * 8_000_000_000 / self.rate;
                    self.frames.push_back(self.free_ns);
                    self.limit.add(1, FRAME);
                }
                self.limit.set_full(true);
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

    /// A worker that looks every 3 ms gets more than a millisecond's worth: otherwise the link would be
    /// idle two thirds of the time.
    #[test]
    fn a_ring_that_runs_dry_gets_more() {
        let mut link = Link::new(1_000_000_000);
        link.run(50 * WAIT_NS, 3 * WAIT_NS);
        link.sent = 0;
        link.run(60 * WAIT_NS, 3 * WAIT_NS);
        assert!(link.sent * 8 > 39_000_000, "{} octets in 60 ms", link.sent);
    }

    #[test]
    fn octets_of_bursts_add_up() {
        let mut limit = ByteLimit::default();
        limit.add(3, 1000);
        limit.add(2, 7);
        for (in_flight, octets) in [(4, 674), (2, 7), (2, 7), (1, 4), (0, 0)] {
            limit.update(in_flight, 0);
            assert_eq!(limit.octets, octets, "{in_flight}");
        }
    }
}
