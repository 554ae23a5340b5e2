//! A source that keeps its own time: packets arrive by the clock whether or not they are fetched,
//! in a ring that loses what it has no room for, as those of network cards do.
//!
//! Nothing runs between two calls: what has arrived and what was lost since the last one follows
//! from the clock.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bora_buffer::{Frame, Packet, Pool, Region};
use bora_contract::Reason;
use bora_port::{Queue, QueueStats, ReadStats, StatsReader};
use crossbeam_utils::CachePadded;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::STOCK;
use crate::queue::{Source, with_sink};
use crate::sink::SinkCounter;
use crate::template::Templates;

/// Octets before a packet's [`Stamp`]: behind the headers of Ethernet, IPv4 and UDP.
const STAMP: Range<usize> = 42..58;

/// A queue that presents the packets of `paced` as they arrive, loses by name what is not fetched in time
/// ([`Reason::RxRingFull`]), and swallows what it transmits.
pub fn paced(region: Arc<Region>, paced: Paced) -> (Queue, SinkCounter) {
    with_sink(paced, region, None)
}

/// When packets arrive: evenly, from `start` on.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// When the first one arrives, or its interval begins.
    pub start: Instant,
    /// Time for which packets arrive.
    pub time: Duration,
    /// Packets a second, above 0.
    pub rate: f64,
    /// Packets that may wait; what comes while the ring is full is lost.
    pub ring: usize,
    /// With a seed, each packet arrives at a random moment of its interval: sources of one rate
    /// would otherwise always meet a queue in the same order.
    pub jitter: Option<u64>,
}

impl Pace {
    /// How many have arrived at a time.
    fn arrived(&self, at: Instant) -> u64 {
        let Some(elapsed) = at.checked_duration_since(self.start) else {
            return 0;
        };
        let elapsed = elapsed.min(self.time).as_nanos() as f64;
        let intervals = elapsed * self.rate / 1e9;
        let whole = intervals as u64;
        whole + u64::from(self.delay(whole) <= intervals.fract())
    }

    /// When a packet arrives, in nanoseconds after the start.
    fn due(&self, number: u64) -> u64 {
        ((number as f64 + self.delay(number)) * 1e9 / self.rate).ceil() as u64
    }

    /// By what part of its interval a packet is late.
    #[inline]
    fn delay(&self, number: u64) -> f64 {
        let Some(seed) = self.jitter else { return 0.0 };
        // splitmix64 (Steele, Lea, Flood 2014)
        let mut bits = (seed.wrapping_add(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// What a [`Paced`] source writes into each packet, from octet 42 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Number among all that arrived at this source, lost ones included.
    pub number: u64,
    /// When it arrived, in nanoseconds after [`Pace::start`].
    pub arrival_ns: u64,
}

impl Stamp {
    /// The stamp of a packet's octets, `None` if they are too few.
    #[inline]
    pub fn read(octets: &[u8]) -> Option<Self> {
        let (number, arrival) = octets.get(STAMP)?.split_at(8);
        Some(Self {
            number: u64::from_ne_bytes(number.try_into().ok()?),
            arrival_ns: u64::from_ne_bytes(arrival.try_into().ok()?),
        })
    }

    #[inline]
    fn write(self, octets: &mut [u8]) {
        let (number, arrival) = octets[STAMP].split_at_mut(8);
        number.copy_from_slice(&self.number.to_ne_bytes());
        arrival.copy_from_slice(&self.arrival_ns.to_ne_bytes());
    }
}

/// What came to a [`Paced`] source, readable from any thread.
#[derive(Clone, Debug, Default)]
pub struct Arrivals(Arc<CachePadded<Numbers>>);

#[derive(Debug, Default)]
struct Numbers {
    arrived: AtomicU64,
    lost: AtomicU64,
}

impl Arrivals {
    /// Packets that arrived, as of the last look at the queue.
    pub fn arrived(&self) -> u64 {
        self.0.arrived.load(Relaxed)
    }

    /// Packets of these that met a full ring.
    pub fn lost(&self) -> u64 {
        self.0.lost.load(Relaxed)
    }
}

impl ReadStats for Arrivals {
    fn read(&self) -> QueueStats {
        let mut stats = QueueStats {
            received: self.lost(),
            ..QueueStats::default()
        };
        stats.dropped[Reason::RxRingFull] = self.lost();
        stats
    }
}

/// Presents the same packets in turn, by the clock, each with a [`Stamp`].
#[derive(Debug)]
pub struct Paced {
    region: Arc<Region>,
    templates: Templates,
    pace: Pace,
    /// Numbers of the packets that wait, oldest first; ranges, so that a ring's loss costs nothing.
    ring: VecDeque<Range<u64>>,
    waiting: usize,
    arrived: u64,
    lost: u64,
    arrivals: Arrivals,
    free: Vec<Frame>,
    timer: OwnedFd,
}

impl Paced {
    /// A source of `packets` (Ethernet frames without FCS, the n-th flow's every n-th), of which
    /// the octets from 42 to 57 are the stamp's. `None` if there is none, or one that is shorter
    /// or does not fit a frame of `region`.
    ///
    /// # Errors
    /// No more file descriptors.
    pub fn new(region: Arc<Region>, packets: &[&[u8]], pace: Pace) -> io::Result<Option<Self>> {
        let templates = Templates::new(&region, packets);
        let Some(templates) = templates.filter(|all| all.shortest() >= STAMP.end) else {
            return Ok(None);
        };
        Ok(Some(Self {
            region,
            templates,
            ring: VecDeque::with_capacity(pace.ring + 1),
            pace,
            waiting: 0,
            arrived: 0,
            lost: 0,
            arrivals: Arrivals::default(),
            free: Vec::with_capacity(STOCK),
            timer: timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?,
        }))
    }

    /// What came, to be read from any thread.
    pub fn arrivals(&self) -> Arrivals {
        self.arrivals.clone()
    }

    /// Lets arrive what has arrived since the last call.
    #[inline]
    fn catch_up(&mut self) {
        let arrived = self.pace.arrived(Instant::now());
        let new = arrived - self.arrived;
        if new == 0 {
            return;
        }
        let taken = new.min((self.pace.ring - self.waiting) as u64);
        if taken > 0 {
            match self.ring.back_mut().filter(|last| last.end == self.arrived) {
                Some(last) => last.end += taken,
                None => self.ring.push_back(self.arrived..self.arrived + taken),
            }
            self.waiting += taken as usize;
        }
        self.lost += new - taken;
        self.arrived = arrived;
        self.arrivals.0.arrived.store(arrived, Relaxed);
        self.arrivals.0.lost.store(self.lost, Relaxed);
    }
}

impl Source for Paced {
    #[inline]
    fn receive(&mut self, out: &mut Vec<Packet>, max: usize) -> usize {
        self.catch_up();
        let max = max.min(self.free.len());
        let mut count = 0;
        while count < max {
            let Some(first) = self.ring.front_mut() else {
                break;
            };
            let end = first.end.min(first.start + (max - count) as u64);
            let numbers = first.start..end;
            first.start = end;
            if first.is_empty() {
                self.ring.pop_front();
            }
            count += (numbers.end - numbers.start) as usize;
            self.templates.seek(numbers.start);
            for number in numbers {
                let Some(frame) = self.free.pop() else { break };
                let mut packet = self.templates.present(&self.region, frame);
                let arrival_ns = self.pace.due(number);
                let stamp = Stamp { number, arrival_ns };
                stamp.write(self.region.octets_mut(&mut packet));
                out.push(packet);
            }
        }
        self.waiting -= count;
        count
    }

    fn waiting(&mut self, enough: usize) -> usize {
        self.catch_up();
        self.waiting.min(enough)
    }

    fn frames(&self) -> usize {
        self.free.len()
    }

    #[inline]
    fn refill(&mut self, pool: &mut Pool) {
        pool.take_many(STOCK - self.free.len(), &mut self.free);
    }

    /// A descriptor that is readable when the next packet has arrived, as an interrupt would tell.
    fn wait(&mut self) -> Option<BorrowedFd<'_>> {
        self.catch_up();
        let next = self.pace.start + Duration::from_nanos(self.pace.due(self.arrived));
        let left = if self.waiting > 0 {
            Duration::ZERO
        } else {
            next.saturating_duration_since(Instant::now())
        };
        let left = left.max(Duration::from_nanos(1)); // zero would disarm it
        let seconds = |time: Duration| Timespec {
            tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: time.subsec_nanos().into(),
        };
        let time = Itimerspec {
            it_interval: seconds(Duration::ZERO),
            it_value: seconds(left),
        };
        // on failure the worker looks again after its longest sleep
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &time);
        Some(self.timer.as_fd())
    }

    fn stats_reader(&self) -> StatsReader {
        StatsReader::new(self.arrivals())
    }
}
