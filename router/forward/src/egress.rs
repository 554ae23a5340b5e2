//! The way out of one port.

use bora_buffer::{MAX_BATCH, Packet};

use crate::class::{Class, MAX_CLASSES};
use crate::schedule::{Output, OutputConfig, OutputError, QueueStats};

/// Most packets that are taken out of their queues at once, for the transmit ring.
pub const BURST: usize = 64;

/// The way out of one port: queues, and a bypass around them. Packets wait in queues only for a full
/// transmit ring or for a rate, so they take the bypass while the queues are empty and no rate is set.
#[derive(Debug)]
pub struct Egress {
    /// Packets of the last batch, not queued yet; the mark of each is its class, which may be beyond the
    /// last one here.
    staged: Vec<Packet>,
    /// The next packets for the transmit ring.
    ready: Vec<Packet>,
    /// The ready packets took the bypass.
    bypassed: bool,
    queues: Output,
    rates: bool,
    /// Packets that took the bypass, by class.
    direct: [u64; MAX_CLASSES],
}

impl Egress {
    /// An egress that holds nothing.
    ///
    /// # Errors
    /// See [`OutputError`].
    pub fn new(config: &OutputConfig) -> Result<Self, OutputError> {
        Ok(Self {
            staged: Vec::with_capacity(MAX_BATCH),
            ready: Vec::with_capacity(MAX_BATCH),
            bypassed: false,
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

    /// Adds a batch, as [`Egress::stage`], and leaves an empty one.
    #[inline]
    pub(crate) fn stage_all(&mut self, packets: &mut Vec<Packet>) {
        if self.staged.is_empty() {
            // both have room for a batch
            std::mem::swap(&mut self.staged, packets);
        } else {
            self.staged.append(packets);
        }
    }

    /// Queues what is staged, for outputs whose packets another worker sends: [`Egress::ready`] is not used
    /// then.
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

    /// The packets that the transmit ring is to take now, from the front, and their octets, at most `room`.
    /// [`Egress::settle`] must follow. `refused` gets what full queues do not take.
    #[inline]
    pub fn ready(
        &mut self,
        now_ns: u64,
        room: u64,
        refused: impl FnMut(Packet),
    ) -> (&mut Vec<Packet>, u64) {
        if !self.staged.is_empty() {
            let may_pass = !self.rates && self.ready.is_empty() && self.queues.held() == 0;
            let staged = octets(&self.staged);
            if may_pass && staged <= room {
                std::mem::swap(&mut self.staged, &mut self.ready);
                self.bypassed = true;
                self.count(u64::wrapping_add);
                return (&mut self.ready, staged);
            }
            push_all(&mut self.queues, &mut self.staged, refused);
        }
        if self.ready.is_empty() {
            self.queues.pull(now_ns, BURST, room, &mut self.ready);
        }
        let octets = octets(&self.ready);
        (&mut self.ready, octets)
    }

    /// Queues the packets that took the bypass and found the transmit ring full.
    #[inline]
    pub fn settle(&mut self, refused: impl FnMut(Packet)) {
        // packets out of the queues stay ready: they are at most a burst
        if std::mem::take(&mut self.bypassed) && !self.ready.is_empty() {
            self.count(u64::wrapping_sub);
            push_all(&mut self.queues, &mut self.ready, refused);
        }
    }

    /// Adds the ready packets to the counts of the bypass, or subtracts them. It goes class by class,
    /// because packet by packet each addition would wait for the one before.
    #[inline]
    fn count(&mut self, change: impl Fn(u64, u64) -> u64) {
        let mut rest = self.ready.len() as u64;
        let last = self.queues.last_class();
        for class in (1..=last).rev() {
            let members = self.ready.iter();
            let members = members.filter(|packet| packet.mark().min(last) == class);
            let members = members.count() as u64;
            let direct = &mut self.direct[usize::from(class)];
            *direct = change(*direct, members);
            rest -= members;
        }
        self.direct[0] = change(self.direct[0], rest);
    }

    /// Packets that wait here; those in the transmit ring do not count.
    #[inline]
    pub fn held(&self) -> usize {
        self.staged.len() + self.ready.len() + self.queues.held()
    }

    /// Packets that are held, by class.
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

    /// Takes all packets out, in the order of each class; the mark of each packet is its class.
    pub fn clear(&mut self, taken: impl FnMut(Packet)) {
        // the ready packets came first, then the queued ones, then the staged ones
        self.queues.drain(&mut self.ready);
        self.ready.append(&mut self.staged);
        self.ready.drain(..).for_each(taken);
    }

    /// When the next packet may leave, as [`Output::next_ready_ns`].
    pub fn next_ready_ns(&mut self, now_ns: u64) -> Option<u64> {
        if self.ready.is_empty() {
            self.queues.next_ready_ns(now_ns)
        } else {
            Some(now_ns)
        }
    }

    /// The packets of each class so far; those that took the bypass count as queued and pulled.
    pub fn stats(&self) -> impl Iterator<Item = QueueStats> {
        let queues = self.queues.stats();
        queues.zip(self.direct).map(|(queue, direct)| QueueStats {
            enqueued: queue.enqueued + direct,
            pulled: queue.pulled + direct,
            ..queue
        })
    }

    /// Takes a new configuration. The held packets move to the new queues; `refused` gets those that
    /// these have no room for. Counters start from zero.
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
    // in four sums, because each addition waits for the one before
    let (fours, rest) = packets.as_chunks::<4>();
    let mut sums = [0; 4];
    for four in fours {
        for (sum, packet) in sums.iter_mut().zip(four) {
            *sum += packet.length() as u64;
        }
    }
    let rest = rest.iter().map(|packet| packet.length() as u64);
    sums.iter().sum::<u64>() + rest.sum::<u64>()
}

fn push_all(queues: &mut Output, packets: &mut Vec<Packet>, mut refused: impl FnMut(Packet)) {
    for packet in packets.drain(..) {
        if let Err(packet) = queues.push(Class(packet.mark()), packet) {
            refused(packet);
        }
    }
}
