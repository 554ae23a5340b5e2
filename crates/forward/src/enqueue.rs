//! Last stage: what leaves is queued by output and class.

use bora_buffer::{MAX_BATCH, Packet};

use crate::batch::{Batch, Meta};
use crate::class::{Class, MAX_CLASSES};
use crate::schedule::{Output, OutputConfig, OutputError, QueueStats};
use crate::{Drop, Verdict};

/// Most packets that have left their queues and wait for room in the transmit ring.
pub const BURST: usize = 64;

/// The way out by one port: queues, and a short cut past them while they are empty and no rate
/// is set. A queue is the place to wait for a full ring, so where there is room nobody waits.
#[derive(Debug)]
pub struct Exit {
    /// From the batch that was forwarded last; their class is their mark.
    staged: Vec<Packet>,
    /// Next for the transmit ring.
    ready: Vec<Packet>,
    /// What is ready took the short cut.
    short_cut: bool,
    queues: Output,
    rates: bool,
    /// Packets that took the short cut, by class.
    direct: [u64; MAX_CLASSES],
}

impl Exit {
    /// An empty one.
    ///
    /// # Errors
    /// See [`OutputError`].
    pub fn new(config: &OutputConfig) -> Result<Self, OutputError> {
        Ok(Self {
            staged: Vec::with_capacity(MAX_BATCH),
            ready: Vec::with_capacity(MAX_BATCH),
            short_cut: false,
            queues: Output::new(config)?,
            rates: config.has_rates(),
            direct: [0; MAX_CLASSES],
        })
    }

    /// Adds a packet, whose class is its mark.
    #[inline]
    pub fn stage(&mut self, packet: Packet) {
        self.staged.push(packet);
    }

    /// Queues what is staged: for exits whose packets go on by another way than [`Exit::ready`].
    #[inline]
    pub fn queue_all(&mut self, refused: impl FnMut(Packet)) {
        push_all(&mut self.queues, &mut self.staged, refused);
    }

    /// Its queues.
    pub fn queues(&self) -> &Output {
        &self.queues
    }

    /// Its queues.
    pub fn queues_mut(&mut self) -> &mut Output {
        &mut self.queues
    }

    /// The packets that the transmit ring is to take now, from the front; none that would exceed
    /// `room` octets. [`Exit::settle`] must follow. `refused` gets what full queues do not
    /// take.
    #[inline]
    pub fn ready(
        &mut self,
        now_ns: u64,
        room: u64,
        refused: impl FnMut(Packet),
    ) -> &mut Vec<Packet> {
        if !self.staged.is_empty() {
            let may_pass = !self.rates && self.ready.is_empty() && self.queues.held() == 0;
            if may_pass && octets(&self.staged) <= room {
                std::mem::swap(&mut self.staged, &mut self.ready);
                self.short_cut = true;
                self.count(u64::wrapping_add);
                return &mut self.ready;
            }
            push_all(&mut self.queues, &mut self.staged, refused);
        }
        if self.ready.is_empty() {
            self.queues.pull(now_ns, BURST, room, &mut self.ready);
        }
        &mut self.ready
    }

    /// Queues what took the short cut and found the transmit ring full.
    #[inline]
    pub fn settle(&mut self, refused: impl FnMut(Packet)) {
        // what was pulled is at most a burst and stays ready
        if std::mem::take(&mut self.short_cut) && !self.ready.is_empty() {
            self.count(u64::wrapping_sub);
            push_all(&mut self.queues, &mut self.ready, refused);
        }
    }

    /// Adds what is ready to the counts of the short cut, or takes it off. Class by class, because
    /// packet by packet each addition would wait for the one before.
    #[inline]
    fn count(&mut self, change: impl Fn(u64, u64) -> u64) {
        let mut rest = self.ready.len() as u64;
        for class in (1..=self.queues.last_class()).rev() {
            let members = self.ready.iter().filter(|packet| packet.mark() == class);
            let members = members.count() as u64;
            let direct = &mut self.direct[usize::from(class)];
            *direct = change(*direct, members);
            rest -= members;
        }
        self.direct[0] = change(self.direct[0], rest);
    }

    /// Packets on their way out that no transmit ring has.
    #[inline]
    pub fn held(&self) -> usize {
        self.staged.len() + self.ready.len() + self.queues.held()
    }

    /// The same, by class.
    pub fn held_by_class(&self) -> [u32; MAX_CLASSES] {
        let mut held = [0; MAX_CLASSES];
        for (class, held) in held.iter_mut().enumerate() {
            let queue = self.queues.queue(Class(class as u8));
            *held = queue.map_or(0, |queue| queue.len() as u32);
        }
        let last = self.queues.last_class();
        for packet in self.staged.iter().chain(&self.ready) {
            held[usize::from(packet.mark().min(last))] += 1;
        }
        held
    }

    /// Empties it; `taken` gets what it held, class by class in order, each packet's mark its class.
    pub fn clear(&mut self, taken: impl FnMut(Packet)) {
        // who was pulled is before who waits, and who waits before who came last
        self.queues.drain(&mut self.ready);
        self.ready.append(&mut self.staged);
        self.ready.drain(..).for_each(taken);
    }

    /// When a held packet may leave, as [`Output::next_ready_ns`].
    pub fn next_ready_ns(&mut self, now_ns: u64) -> Option<u64> {
        if self.ready.is_empty() {
            self.queues.next_ready_ns(now_ns)
        } else {
            Some(now_ns)
        }
    }

    /// What went through each class; those that took the short cut were queued for no time.
    pub fn stats(&self) -> impl Iterator<Item = QueueStats> {
        let queues = self.queues.stats();
        queues.zip(self.direct).map(|(queue, direct)| QueueStats {
            enqueued: queue.enqueued + direct,
            pulled: queue.pulled + direct,
            ..queue
        })
    }

    /// Takes a new configuration; what is held goes over to the new queues as far as these have
    /// room. Counters start anew.
    ///
    /// # Errors
    /// See [`OutputError`]; nothing is changed then.
    pub fn configure(
        &mut self,
        config: &OutputConfig,
        refused: impl FnMut(Packet),
    ) -> Result<(), OutputError> {
        let mut next = Self::new(config)?;
        self.queues.drain(&mut next.staged);
        next.staged.append(&mut self.staged);
        std::mem::swap(&mut self.ready, &mut next.ready);
        push_all(&mut next.queues, &mut next.staged, refused);
        *self = next;
        Ok(())
    }
}

/// Octets of packets, without FCS.
#[inline]
pub fn octets(packets: &[Packet]) -> u64 {
    packets.iter().map(|packet| packet.length() as u64).sum()
}

fn push_all(queues: &mut Output, packets: &mut Vec<Packet>, mut refused: impl FnMut(Packet)) {
    for packet in packets.drain(..) {
        if let Err(packet) = queues.push(Class(packet.mark()), packet) {
            refused(packet);
        }
    }
}

/// Empties the batch. Packets to forward go to the exit of their port; `rest` gets everything
/// else with its verdict. A port that has no exit is [`Drop::NoOutput`].
#[inline]
pub fn enqueue(batch: &mut Batch, exits: &mut [Exit], mut rest: impl FnMut(Packet, Verdict)) {
    let Batch { packets, meta, .. } = batch;
    // mostly all go one way
    if let Some(Meta { verdict, .. }) = meta.first()
        && let Verdict::Forward(port) = *verdict
        && let Some(exit) = exits.get_mut(usize::from(port.0))
        && meta.iter().all(|meta| meta.verdict == *verdict)
    {
        let last = exit.queues.last_class();
        let marked = packets.drain(..).zip(meta).map(|(mut packet, meta)| {
            packet.set_mark(meta.class.0.min(last));
            packet
        });
        return exit.staged.extend(marked);
    }
    for (mut packet, meta) in packets.drain(..).zip(meta) {
        match meta.verdict {
            Verdict::Forward(port) => match exits.get_mut(usize::from(port.0)) {
                Some(exit) => {
                    packet.set_mark(meta.class.0.min(exit.queues.last_class()));
                    exit.staged.push(packet);
                }
                None => rest(packet, Verdict::Drop(Drop::NoOutput)),
            },
            verdict => rest(packet, verdict),
        }
    }
}
