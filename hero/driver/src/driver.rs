//! The driver of one card: bring-up, interrupts and polling, packets, counters, recovery.
//!
//! It works like a NAPI driver: the first packet interrupts. Then the card's interrupts are off and
//! the rings are polled, that of high priority first, until a poll finds less than its quota.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bora_contract::Reason;
use bora_port::QueueStats;

use bora_port::offload::Route;

use crate::counters::MAX_ROUTES;
use crate::device::Device;
use crate::queue::Exchange;
use crate::registers::{
    self as reg, CMD, COUNTERS, Counter, IRQ_BUS, IRQ_COUNTED, IRQ_RXHI, IRQ_RXLO, IRQ_TX, PEERS,
    STATUS_BROKEN,
};
use crate::ring::{self, BUFFER, OutOfStep, Ring, VECTOR, Which};
use crate::rules;

/// Most frames of a poll: NAPI's weight.
const QUOTA: usize = 64;
/// With this many receive buffers outstanding on a ring, the driver gives no more: two vectors
/// wait, and the card works on a third.
const ENOUGH: u64 = 3 * VECTOR;
/// Reads of STATUS before a reset counts as failed; each takes some cycles of the card's clock.
const RESET_PATIENCE: usize = 10_000;
/// Transmit watchdog, in ns of the card's time: the longest time in which frames wait and none is
/// sent. One frame of maximum length takes 12 us at 1 Gbit/s.
const TX_PATIENCE: u64 = 2_000_000;

/// Why a card does not work.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    /// Register 0 has another value.
    #[error("there is no HERO card: its register ID reads {0:#010x}")]
    NoCard(u32),
    /// Another version of the registers.
    #[error("the card's interface has version {0}, the driver's {v}", v = reg::VERSION)]
    Version(u32),
    /// The card stays in reset.
    #[error("the card does not come back from its reset")]
    Reset,
    /// A completion makes no sense.
    #[error("card and driver are out of step: {0}")]
    OutOfStep(String),
    /// The host's memory refused completions.
    #[error("completions were lost: memory refused them ({})", rings(*.0))]
    LostCompletions(u32),
    /// Frames wait to be sent, and the card sends none.
    #[error("the card has not sent a frame in {} ms", TX_PATIENCE / 1_000_000)]
    Stuck,
}

/// Names of the broken rings, from the bits of STATUS.
fn rings(status: u32) -> String {
    let names = ["low priority", "high priority", "transmit"];
    let broken = names.iter().enumerate();
    let broken = broken
        .filter(|(ring, _)| status >> (STATUS_BROKEN.trailing_zeros() as usize + ring) & 1 != 0);
    broken.map(|(_, name)| *name).collect::<Vec<_>>().join(", ")
}

impl From<OutOfStep> for DriverError {
    fn from(error: OutOfStep) -> Self {
        Self::OutOfStep(error.to_string())
    }
}

/// The card's counters when they were last read; a reset clears them.
#[derive(Debug)]
struct Last {
    named: [u32; COUNTERS],
    routes: [u32; MAX_ROUTES],
    to_host: u32,
    /// Frames for the host since the reset.
    host_frames: u64,
}

impl Default for Last {
    fn default() -> Self {
        Self {
            named: [0; COUNTERS],
            routes: [0; MAX_ROUTES],
            to_host: 0,
            host_frames: 0,
        }
    }
}

/// The driver of a card.
#[derive(Debug)]
pub(crate) struct Driver {
    card: usize,
    mac: [u8; 6],
    exchange: Arc<Exchange>,
    low: Ring,
    high: Ring,
    tx: Ring,
    /// Routes by slot, one entry for each slot of the card.
    routes: Vec<Option<Route>>,
    /// Interrupts are off, and the driver polls the rings.
    polling: bool,
    /// Interrupts that are enabled while it does not poll.
    events: u32,
    last: Last,
    /// When frames to send last made progress, ns.
    progress: u64,
}

/// The card's receiver, transmitter and fast path on.
const ENABLED: u32 = reg::CMD_RX | reg::CMD_TX | reg::CMD_FAST;

impl Driver {
    /// Resets a card and starts it.
    ///
    /// # Errors
    /// See [`DriverError`].
    pub(crate) fn start(
        device: &mut impl Device,
        card: usize,
        mac: [u8; 6],
        exchange: Arc<Exchange>,
    ) -> Result<Self, DriverError> {
        let id = device.read(reg::ID);
        if id != reg::ID_VALUE {
            return Err(DriverError::NoCard(id));
        }
        let version = reg::status_version(device.read(reg::STATUS));
        if version != reg::VERSION {
            return Err(DriverError::Version(version));
        }
        let ring = |device: &mut _, which| Ring::new(device, card, which);
        let mut driver = Self {
            low: ring(device, Which::Low),
            high: ring(device, Which::High),
            tx: ring(device, Which::Transmit),
            card,
            mac,
            exchange,
            routes: Vec::new(),
            polling: false,
            events: 0,
            last: Last::default(),
            progress: 0,
        };
        driver.bring_up(device)?;
        Ok(driver)
    }

    /// Resets the card and configures it again. What its queues and rings held is lost and counted.
    ///
    /// # Errors
    /// The card stays in reset.
    pub(crate) fn reset(&mut self, device: &mut impl Device) -> Result<(), DriverError> {
        self.read_counters(device);
        let completed = self.low.completed() + self.high.completed();
        let lost = self.last.host_frames.saturating_sub(completed);
        let counters = &self.exchange.counters;
        counters.reset_lost.fetch_add(lost, Relaxed);
        counters.resets.fetch_add(1, Relaxed);
        self.exchange
            .tally
            .take_back(Reason::TxLinkDown, self.tx.out());
        self.bring_up(device)
    }

    fn bring_up(&mut self, device: &mut impl Device) -> Result<(), DriverError> {
        self.exchange.up.store(false, Relaxed);
        shut_down(device)?;
        for (ring, which) in [
            (&mut self.low, Which::Low),
            (&mut self.high, Which::High),
            (&mut self.tx, Which::Transmit),
        ] {
            *ring = Ring::new(device, self.card, which);
        }
        self.last = Last::default();
        self.polling = false;
        self.progress = device.now();
        let slots = reg::status_routes(device.read(reg::STATUS)).min(MAX_ROUTES);
        self.routes.resize(slots, None);
        ring::place(device, self.card);
        self.set_mac(device, self.mac);
        for peer in 0..PEERS {
            let base = reg::aperture(reg::card_of_peer(self.card, peer));
            device.write(reg::peer_base(peer), base);
        }
        rules::set_classes(device);
        for (slot, route) in self.routes.iter().enumerate() {
            rules::set_route(device, 0, slot, route.as_ref());
        }
        self.supply(device);
        rules::commit(device, ENABLED);
        self.events = IRQ_RXLO | IRQ_RXHI | IRQ_COUNTED;
        device.write(reg::IRQ_MASK, self.events);
        self.exchange.up.store(true, Relaxed);
        Ok(())
    }

    /// Whether the card reports a link.
    pub(crate) fn has_link(&self, device: &mut impl Device) -> bool {
        device.read(reg::STATUS) & reg::STATUS_LINK != 0
    }

    /// Number of route slots.
    pub(crate) fn slots(&self) -> usize {
        self.routes.len()
    }

    /// Sets the Ethernet address.
    pub(crate) fn set_mac(&mut self, device: &mut impl Device, mac: [u8; 6]) {
        self.mac = mac;
        let [low, high] = reg::mac_words(mac);
        device.write(reg::MAC_LOW, low);
        device.write(reg::MAC_HIGH, high | (self.card as u32) << 16);
    }

    /// Sets the routes, slot by slot; slots beyond the list get none.
    pub(crate) fn set_routes(&mut self, device: &mut impl Device, routes: &[Option<Route>]) {
        self.read_counters(device);
        for slot in 0..self.routes.len() {
            let route = routes.get(slot).copied().flatten();
            if self.routes[slot] == route {
                continue;
            }
            self.routes[slot] = route;
            rules::set_route(device, ENABLED, slot, route.as_ref());
            self.exchange.counters.routes[slot].store(0, Relaxed);
        }
        rules::commit(device, ENABLED);
    }

    /// Sends, and receives if it polls or if the card interrupts. Returns whether there was, or
    /// will be, something to do.
    ///
    /// # Errors
    /// The card needs a reset.
    pub(crate) fn turn(
        &mut self,
        device: &mut impl Device,
        interrupt: bool,
    ) -> Result<bool, DriverError> {
        let sent = self.transmit(device)?;
        if interrupt && !self.polling {
            let counters = &self.exchange.counters;
            counters.interrupts.fetch_add(1, Relaxed);
            let events = device.read(reg::IRQ_MASKED);
            device.write(reg::IRQ_MASK, 0);
            if events & IRQ_COUNTED != 0 {
                self.events &= !IRQ_COUNTED; // enabled again when the counters are read
            }
            self.polling = true;
            if events & IRQ_BUS != 0 {
                whole_rings(device)?;
            }
        }
        let mut received = 0;
        if self.polling {
            let (count, more) = self.poll(device)?;
            received = count;
            if !more {
                self.polling = false;
                device.write(reg::IRQ_MASK, self.events);
            }
        }
        Ok(sent > 0 || received > 0 || self.polling || self.tx.out() > 0)
    }

    /// Receives up to the quota, high priority first. Also returns whether there may be more.
    fn poll(&mut self, device: &mut impl Device) -> Result<(usize, bool), DriverError> {
        let (high, starved) = receive(&mut self.high, &self.exchange, device, QUOTA)?;
        let rest = if starved { 0 } else { QUOTA - high };
        let (low, low_starved) = receive(&mut self.low, &self.exchange, device, rest)?;
        self.supply(device);
        let received = high + low;
        if received > 0 {
            self.exchange.worker.ring();
        }
        Ok((received, received == QUOTA || starved || low_starved))
    }

    /// Gives the card receive buffers, in as many vectors as it accepts.
    fn supply(&mut self, device: &mut impl Device) {
        for (ring, which) in [(&mut self.high, Which::High), (&mut self.low, Which::Low)] {
            while ring.out() <= ENOUGH && room_for_vectors(device, which) > 0 {
                ring.give(device, &[BUFFER as u16; VECTOR as usize]);
            }
        }
    }

    /// Takes sent buffers back, and gives the card frames to send.
    fn transmit(&mut self, device: &mut impl Device) -> Result<usize, DriverError> {
        let now = device.now();
        if self.tx.out() == 0 {
            self.progress = now;
        }
        while let Some(completion) = self.tx.take(device)? {
            self.progress = now;
            let good = u64::from(!completion.error);
            self.exchange.counters.from_host.fetch_add(good, Relaxed);
        }
        if now.saturating_sub(self.progress) > TX_PATIENCE {
            return Err(DriverError::Stuck);
        }
        let mut count = 0;
        while !self.exchange.to_send.is_empty()
            && self.tx.room() > 0
            && room_for_vectors(device, Which::Transmit) > 0
        {
            count += self.send_vector(device);
        }
        // interrupt at the next completion only if frames are left over
        let waits = u32::from(!self.exchange.to_send.is_empty()) * IRQ_TX;
        if self.events & IRQ_TX != waits {
            self.events ^= IRQ_TX;
            if !self.polling {
                device.write(reg::IRQ_MASK, self.events);
            }
        }
        Ok(count)
    }

    fn send_vector(&mut self, device: &mut impl Device) -> usize {
        let exchange = &*self.exchange;
        let mut lengths = Vec::with_capacity(VECTOR as usize);
        while (lengths.len() as u64) < VECTOR.min(self.tx.room()) {
            let Some(packet) = exchange.to_send.pop() else {
                break;
            };
            let octets = exchange.region.octets(&packet);
            if octets.len() <= BUFFER as usize {
                let buffer = self.tx.buffer(self.tx.next() + lengths.len() as u64);
                let target = device.octets_mut(buffer, octets.len());
                target.copy_from_slice(octets);
                lengths.push(octets.len() as u16);
            } else {
                exchange.tally.take_back(Reason::TxRefused, 1);
            }
            let frame = packet.into_frame(&exchange.region);
            // it has a place for each packet that the worker has in flight
            let _ = exchange.sent.push(frame).is_ok();
        }
        if !lengths.is_empty() {
            self.tx.give(device, &lengths);
        }
        lengths.len()
    }

    /// Reads the card's counters. Call it at least every 30 s of the card's time, because they wrap
    /// at 2^32.
    pub(crate) fn read_counters(&mut self, device: &mut impl Device) {
        if device.read(reg::STATUS) == u32::MAX {
            return; // the card does not answer, so the values would be wrong
        }
        let counters = &self.exchange.counters;
        for counter in Counter::ALL {
            let index = counter as usize;
            device.write(reg::DROP_CNT, index as u32);
            let new = device.read(reg::DROP_CNT);
            let more = new.wrapping_sub(self.last.named[index]);
            counters.named[index].fetch_add(more.into(), Relaxed);
            self.last.named[index] = new;
        }
        for slot in 0..self.routes.len() {
            if slot % PEERS == 0 {
                device.write(CMD, ENABLED | reg::cmd_bank(slot / PEERS));
            }
            let new = device.read(reg::forwarded(slot % PEERS));
            let more = new.wrapping_sub(self.last.routes[slot]);
            counters.routes[slot].fetch_add(more.into(), Relaxed);
            counters.fast.fetch_add(more.into(), Relaxed);
            self.last.routes[slot] = new;
        }
        let new = device.read(reg::FWD_HOST);
        let more = new.wrapping_sub(self.last.to_host);
        counters.to_host.fetch_add(more.into(), Relaxed);
        self.last.host_frames += u64::from(more);
        self.last.to_host = new;
        if self.events & IRQ_COUNTED == 0 {
            self.events |= IRQ_COUNTED;
            if !self.polling {
                device.write(reg::IRQ_MASK, self.events);
            }
        }
    }

    /// Records what was lost between the card and the interface at the other end of its cable.
    pub(crate) fn count_wire(&self, lost: &QueueStats) {
        let counters = &self.exchange.counters;
        // packet sockets and TAP interfaces count only losses as `received`
        counters.wire_full.store(lost.received, Relaxed);
        let refused = lost.dropped[Reason::TxRefused] + lost.dropped[Reason::TxLinkDown];
        counters.wire_refused.store(refused, Relaxed);
    }

    /// Whether it polls the rings.
    pub(crate) fn is_polling(&self) -> bool {
        self.polling
    }

    /// Whether the card has frames to send.
    pub(crate) fn sends(&self) -> bool {
        self.tx.out() > 0
    }

    /// Whether it needs no turn before the next interrupt or bell.
    pub(crate) fn is_idle(&self) -> bool {
        !self.polling && self.exchange.to_send.is_empty()
    }

    /// Stops the card for good. What it held is lost.
    pub(crate) fn stop(mut self, device: &mut impl Device) {
        self.exchange.up.store(false, Relaxed);
        self.read_counters(device);
        self.exchange
            .tally
            .take_back(Reason::TxLinkDown, self.tx.out());
        if let Err(error) = shut_down(device) {
            log::warn!("card {}: {error}", self.card);
        }
    }
}

/// Resets a card and waits until the reset is done.
fn shut_down(device: &mut impl Device) -> Result<(), DriverError> {
    device.write(CMD, reg::CMD_RESET);
    let back = (0..RESET_PATIENCE).any(|_| {
        let (status, cmd) = (device.read(reg::STATUS), device.read(CMD));
        status != u32::MAX && status & reg::STATUS_READY != 0 && cmd & reg::CMD_RESET == 0
    });
    back.then_some(()).ok_or(DriverError::Reset)
}

/// Fails if a completion was lost, because such a ring makes no progress any more.
fn whole_rings(device: &mut impl Device) -> Result<(), DriverError> {
    match device.read(reg::STATUS) {
        status if status == u32::MAX || status & STATUS_BROKEN == 0 => Ok(()),
        status => Err(DriverError::LostCompletions(status & STATUS_BROKEN)),
    }
}

/// Vectors that a ring of the card can take now.
fn room_for_vectors(device: &mut impl Device, which: Which) -> u32 {
    match device.read(reg::LEVELS) {
        u32::MAX => 0, // the card does not answer
        levels => levels >> which.register().1 & 0xF,
    }
}

/// Takes frames out of a ring. Returns how many, and whether more wait for packet buffers.
fn receive(
    ring: &mut Ring,
    exchange: &Exchange,
    device: &impl Device,
    max: usize,
) -> Result<(usize, bool), DriverError> {
    let (region, tally) = (&exchange.region, &exchange.tally);
    let mut count = 0;
    while count < max {
        if exchange.free.is_empty() {
            return Ok((count, ring.has_completion(device)));
        }
        let Some(done) = ring.take(device)? else {
            break;
        };
        count += 1;
        if done.error || done.octets == 0 {
            tally.lost(Reason::RxMalformed, 1);
            continue;
        }
        let Some(frame) = exchange.free.pop() else {
            continue; // nobody else takes frames, so there is one
        };
        // both have one place more than there are frames
        let _ = match frame.into_packet(region, done.octets) {
            Ok(mut packet) => {
                let octets = device.octets(done.address, done.octets);
                region.octets_mut(&mut packet).copy_from_slice(octets);
                exchange.counters.remember(octets);
                exchange.received.push(packet).is_ok()
            }
            Err(frame) => {
                tally.lost(Reason::RxTooLong, 1);
                exchange.free.push(frame).is_ok()
            }
        };
    }
    Ok((count, false))
}

#[cfg(test)]
mod tests;
