//! The queues of one output, and which packet is next.

use bora_buffer::Packet;

use super::bucket::{Shaping, ShapingError, TokenBucket};
use super::drr::{Drr, Head, MIN_QUANTUM};
use super::queue::{QueueLimits, QueueStats, Voq};
use crate::class::{Class, MAX_CLASSES};

/// One class of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassConfig {
    /// What its queue may hold.
    pub limits: QueueLimits,
    /// Its strict priority: the higher level goes first. Classes of one level share.
    pub level: u8,
    /// Its share within the level, in octets a round; at least [`MIN_QUANTUM`].
    pub quantum: u32,
    /// Its highest rate, if it has one.
    pub shaping: Option<Shaping>,
}

impl ClassConfig {
    /// A queue of the default length on a level of its own.
    pub fn strict(level: u8) -> Self {
        Self {
            limits: QueueLimits::default(),
            level,
            quantum: MIN_QUANTUM,
            shaping: None,
        }
    }
}

/// An output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputConfig {
    /// By class number; packets of a class beyond the last go to the last.
    pub classes: Vec<ClassConfig>,
    /// The port's highest rate, if it has one.
    pub shaping: Option<Shaping>,
}

impl Default for OutputConfig {
    /// Two strict priorities (HERO09) with queues of 1000 packets.
    fn default() -> Self {
        Self {
            classes: vec![ClassConfig::strict(0), ClassConfig::strict(1)],
            shaping: None,
        }
    }
}

impl OutputConfig {
    /// Whether the port or a class has a rate.
    pub fn has_rates(&self) -> bool {
        self.shaping.is_some() || self.classes.iter().any(|class| class.shaping.is_some())
    }

    /// These queues without rates, for workers whose packets another worker sends: that one applies the
    /// rates.
    #[must_use]
    pub fn unshaped(&self) -> Self {
        let class = |class: &ClassConfig| ClassConfig {
            shaping: None,
            ..*class
        };
        Self {
            classes: self.classes.iter().map(class).collect(),
            shaping: None,
        }
    }
}

/// Why an [`OutputConfig`] was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputError {
    /// No class, or more than [`MAX_CLASSES`].
    Classes(usize),
    /// Below [`MIN_QUANTUM`].
    Quantum(u32),
    /// An impossible rate or burst.
    Shaping(ShapingError),
}

impl std::fmt::Display for OutputError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Classes(count) => write!(f, "{count} classes; 1 to {MAX_CLASSES} are possible"),
            Self::Quantum(quantum) => {
                write!(f, "a quantum of {quantum} octets is below {MIN_QUANTUM}")
            }
            Self::Shaping(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OutputError {}

impl From<ShapingError> for OutputError {
    fn from(error: ShapingError) -> Self {
        Self::Shaping(error)
    }
}

#[derive(Debug)]
struct Queue {
    voq: Voq,
    shaper: Option<TokenBucket>,
}

impl Queue {
    #[inline]
    fn head(&self) -> Head {
        match (self.voq.head(), &self.shaper) {
            (None, _) => Head::Empty,
            (Some(octets), Some(shaper)) if !shaper.allows(octets) => Head::Waiting,
            (Some(octets), _) => Head::Ready(octets),
        }
    }
}

/// The queues of one output of one worker, and their scheduler. Nothing here allocates after
/// [`Output::new`] as long as `out` has room.
#[derive(Debug)]
pub struct Output {
    queues: Vec<Queue>,
    /// Highest priority first.
    levels: Vec<Drr>,
    shaper: Option<TokenBucket>,
    held: usize,
}

impl Output {
    /// Empty queues.
    ///
    /// # Errors
    /// What [`OutputError`] says.
    pub fn new(config: &OutputConfig) -> Result<Self, OutputError> {
        let classes = &config.classes;
        if classes.is_empty() || classes.len() > MAX_CLASSES {
            return Err(OutputError::Classes(classes.len()));
        }
        if let Some(class) = classes.iter().find(|class| class.quantum < MIN_QUANTUM) {
            return Err(OutputError::Quantum(class.quantum));
        }
        let mut numbers: Vec<u8> = classes.iter().map(|class| class.level).collect();
        numbers.sort_unstable_by(|one, other| other.cmp(one));
        numbers.dedup();
        let level = |&level: &u8| {
            let members = classes.iter().enumerate();
            let members = members.filter(move |(_, class)| class.level == level);
            Drr::new(members.map(|(number, class)| (number, class.quantum)))
        };
        let queue = |class: &ClassConfig| {
            Ok(Queue {
                voq: Voq::new(class.limits),
                shaper: class.shaping.map(TokenBucket::new).transpose()?,
            })
        };
        Ok(Self {
            queues: classes
                .iter()
                .map(queue)
                .collect::<Result<_, OutputError>>()?,
            levels: numbers.iter().map(level).collect(),
            shaper: config.shaping.map(TokenBucket::new).transpose()?,
            held: 0,
        })
    }

    /// Appends a packet to the queue of its class, or gives it back if that is full.
    #[inline]
    pub fn push(&mut self, class: Class, packet: Packet) -> Result<(), Packet> {
        let class = usize::from(class.0.min(self.last_class()));
        self.queues[class].voq.push(packet)?;
        self.held += 1;
        Ok(())
    }

    /// Moves up to `budget` packets that may leave at `now_ns` to `out`, in the order they are to
    /// leave, until the next one would exceed `room` octets; returns how many. Times never go back.
    pub fn pull(
        &mut self,
        now_ns: u64,
        budget: usize,
        mut room: u64,
        out: &mut Vec<Packet>,
    ) -> usize {
        let mut pulled = 0;
        if self.held > 0 {
            self.advance(now_ns);
        }
        while pulled < budget && self.held > 0 {
            let count = match self.unshaped() {
                Some(class) => {
                    let voq = &mut self.queues[class].voq;
                    voq.pop_many(budget - pulled, room, out)
                }
                None => usize::from(self.pull_one(room, out)),
            };
            if count == 0 {
                break;
            }
            let moved = out[out.len() - count..].iter();
            room -= moved.map(|packet| packet.length() as u64).sum::<u64>();
            self.held -= count;
            pulled += count;
        }
        pulled
    }

    /// When to pull next: `None` if nothing is held, `now_ns` or earlier if a packet may leave at
    /// once. Never too late as long as nothing is pushed. If both port and classes have rates it may
    /// be too early: another class may become ready first and need more of the port's tokens. Then
    /// the next call gives a later time.
    pub fn next_ready_ns(&mut self, now_ns: u64) -> Option<u64> {
        self.advance(now_ns);
        let next = self.select();
        let port = |octets| {
            self.shaper
                .as_ref()
                .map_or(0, |shaper| shaper.ready_ns(octets))
        };
        // the packet that is next, or one that its class's rate lets go first
        let waiting = self.queues.iter().filter_map(|queue| {
            let (Head::Waiting, Some(shaper)) = (queue.head(), &queue.shaper) else {
                return None;
            };
            let octets = queue.voq.head()?;
            Some(shaper.ready_ns(octets).max(port(octets)))
        });
        let next = next.map(|(_, _, octets)| port(octets).max(now_ns));
        waiting.chain(next).min()
    }

    /// Takes all packets out, class by class; the mark of each is its class.
    pub(crate) fn drain(&mut self, out: &mut Vec<Packet>) {
        for (class, queue) in self.queues.iter_mut().enumerate() {
            while let Some(mut packet) = queue.voq.pop() {
                packet.set_mark(class as u8);
                out.push(packet);
            }
        }
        self.held = 0;
    }

    /// The class that packets of this and all classes beyond go to.
    #[inline]
    pub fn last_class(&self) -> u8 {
        self.queues.len() as u8 - 1
    }

    /// The queue of a class, if the output has it.
    pub fn queue(&self, class: Class) -> Option<&Voq> {
        Some(&self.queues.get(usize::from(class.0))?.voq)
    }

    /// What went through each queue, by class.
    pub fn stats(&self) -> impl Iterator<Item = QueueStats> {
        self.queues.iter().map(|queue| queue.voq.stats())
    }

    /// Packets held in all queues.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Octets that wait in each class.
    pub(super) fn octets_by_class(&self) -> impl Iterator<Item = u64> {
        self.queues.iter().map(|queue| queue.voq.octets())
    }

    /// Moves packets of a class to `out`, at most this many octets and packets; returns their octets. The
    /// mark of each packet is its class.
    pub(super) fn take(
        &mut self,
        class: usize,
        octets: u32,
        packets: u32,
        out: &mut Vec<Packet>,
    ) -> u32 {
        let Some(queue) = self.queues.get_mut(class) else {
            return 0;
        };
        let (before, waiting) = (out.len(), queue.voq.octets());
        let count = queue.voq.pop_many(packets as usize, octets.into(), out);
        for packet in &mut out[before..] {
            packet.set_mark(class as u8);
        }
        self.held -= count;
        (waiting - queue.voq.octets()) as u32
    }

    fn advance(&mut self, now_ns: u64) {
        let shapers = self.queues.iter_mut().map(|queue| &mut queue.shaper);
        for shaper in shapers.chain([&mut self.shaper]).flatten() {
            shaper.advance(now_ns);
        }
    }

    /// The class of all packets that come next, if neither turns nor rates matter.
    #[inline]
    fn unshaped(&self) -> Option<usize> {
        if self.shaper.is_some() {
            return None;
        }
        for level in &self.levels {
            let class = level.single()?;
            let queue = &self.queues[class];
            match queue.shaper {
                None if queue.voq.is_empty() => {}
                None => return Some(class),
                Some(_) => return None,
            }
        }
        None
    }

    /// Level, class and length of the next packet by priority, turns and class rates.
    #[inline]
    fn select(&mut self) -> Option<(usize, usize, u32)> {
        let queues = &self.queues;
        for (number, level) in self.levels.iter_mut().enumerate() {
            if let Some(class) = level.select(|class| queues[class].head()) {
                return Some((number, class, queues[class].voq.head()?));
            }
        }
        None
    }

    fn pull_one(&mut self, room: u64, out: &mut Vec<Packet>) -> bool {
        let Some((level, class, octets)) = self.select() else {
            return false;
        };
        if u64::from(octets) > room {
            return false;
        }
        // the port's rate is asked last: a shorter packet of a lower class must not overtake
        if self
            .shaper
            .as_ref()
            .is_some_and(|shaper| !shaper.allows(octets))
        {
            return false;
        }
        let queue = &mut self.queues[class];
        let Some(packet) = queue.voq.pop() else {
            return false;
        };
        for shaper in [&mut self.shaper, &mut queue.shaper].into_iter().flatten() {
            shaper.charge(octets);
        }
        self.levels[level].sent(octets);
        out.push(packet);
        true
    }
}
