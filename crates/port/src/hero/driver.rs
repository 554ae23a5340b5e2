//! The driver of one card: bring-up, interrupts and polling, packets, counters, recovery.
//!
//! As a NAPI driver: the first packet interrupts; then the card's interrupts are off and the rings
//! are polled, the high priority's first, until a poll gives less than its quota.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::counters::MAX_ROUTES;
use super::device::Device;
use super::queue::Exchange;
use super::registers::{
    self as reg, CMD, COUNTERS, Counter, IRQ_BUS, IRQ_COUNTED, IRQ_RXHI, IRQ_RXLO, IRQ_TX, PEERS,
    STATUS_BROKEN,
};
use super::ring::{self, BUFFER, OutOfStep, Ring, VECTOR, Which};
use super::rules::{self, Route};
use crate::QueueStats;

/// Most frames of a poll: NAPI's weight.
const QUOTA: usize = 64;
/// Receive buffers a ring has given and not back when it is worth to ask the card for room for a
/// vector: two vectors waiting, and one of those it holds.
const ENOUGH: u64 = 3 * VECTOR;
/// Looks at STATUS before a card that resets has failed; each takes some cycles of its clock.
const RESET_PATIENCE: usize = 10_000;
/// How long frames to send may wait without one being sent, ns: as Linux's watchdog, in the card's
/// time. Three hundred longest frames take 4 ms at line rate, but one is soon done.
const TX_PATIENCE: u64 = 2_000_000;

/// Why a card does not work.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    /// Register 0 says something else.
    #[error("there is no HERO card: its register ID reads {0:#010x}")]
    NoCard(u32),
    /// Another version of the registers.
    #[error("the card's interface has version {0}, the driver's {v}", v = reg::VERSION)]
    Version(u32),
    /// It stays in reset.
    #[error("the card does not come back from its reset")]
    Reset,
    /// A completion makes no sense.
    #[error("card and driver are out of step: {0}")]
    OutOfStep(String),
    /// The host's memory refused completions.
    #[error("completions were lost: memory refused them ({})", rings(*.0))]
    LostCompletions(u32),
    /// Frames to send wait, and nothing is sent.
    #[error("the card has not sent a frame in {} ms", TX_PATIENCE / 1_000_000)]
    Stuck,
}

/// Names of the rings in STATUS's bits of broken ones.
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

/// The card's counters as read last; they begin anew with a reset.
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
pub(super) struct Driver {
    card: usize,
    mac: [u8; 6],
    exchange: Arc<Exchange>,
    low: Ring,
    high: Ring,
    tx: Ring,
    /// Routes by slot; as many as the card has.
    routes: Vec<Option<Route>>,
    /// Interrupts are off, and the rings are looked at.
    polling: bool,
    /// What may interrupt when it does not poll.
    events: u32,
    last: Last,
    /// When frames to send last made progress, ns.
    progress: u64,
}

/// The card's receiver, transmitter and fast path on.
const ENABLED: u32 = reg::CMD_RX | reg::CMD_TX | reg::CMD_FAST;

impl Driver {
    /// Resets a card and sets it to work.
    ///
    /// # Errors
    /// See [`DriverError`].
    pub(super) fn start(
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

    /// Resets the card and gives it all it needs. What its queues and rings held is lost, by name.
    ///
    /// # Errors
    /// It does not come back.
    pub(super) fn reset(&mut self, device: &mut impl Device) -> Result<(), DriverError> {
        self.read_counters(device);
        let completed = self.low.completed() + self.high.completed();
        let lost = self.last.host_frames.saturating_sub(completed);
        let counters = &self.exchange.counters;
        counters.reset_lost.fetch_add(lost, Relaxed);
        counters.resets.fetch_add(1, Relaxed);
        self.exchange.losses.tx_link_down.add(self.tx.out());
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

    /// Whether the card says that it has a link.
    pub(super) fn has_link(&self, device: &mut impl Device) -> bool {
        device.read(reg::STATUS) & reg::STATUS_LINK != 0
    }

    /// Number of route slots.
    pub(super) fn slots(&self) -> usize {
        self.routes.len()
    }

    /// Sets the Ethernet address.
    pub(super) fn set_mac(&mut self, device: &mut impl Device, mac: [u8; 6]) {
        self.mac = mac;
        let [low, high] = reg::mac_words(mac);
        device.write(reg::MAC_LOW, low);
        device.write(reg::MAC_HIGH, high | (self.card as u32) << 16);
    }

    /// Puts other routes in force, slot by slot; slots beyond those given have none.
    pub(super) fn set_routes(&mut self, device: &mut impl Device, routes: &[Option<Route>]) {
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

    /// Does what there is to do: sends, and receives if it polls or `interrupt` says that the card
    /// wants it. Whether there was, or will be, something to do.
    ///
    /// # Errors
    /// The card needs a reset.
    pub(super) fn turn(
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
                self.events &= !IRQ_COUNTED; // until they are read
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

    /// Receives up to the quota, the high priority first; also says whether there may be more.
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

    /// Gives the card receive buffers, as many vectors ahead as it takes.
    fn supply(&mut self, device: &mut impl Device) {
        for (ring, which) in [(&mut self.high, Which::High), (&mut self.low, Which::Low)] {
            while ring.out() <= ENOUGH && room_for_vectors(device, which) > 0 {
                ring.give(device, &[BUFFER as u16; VECTOR as usize]);
            }
        }
    }

    /// Takes back what was sent and gives the card what is to be sent.
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
        // with frames left over, the next completion matters; otherwise there is no hurry
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
                exchange.losses.tx_refused.add(1);
            }
            let frame = packet.into_frame(&exchange.region);
            // as many places as the worker has packets in flight
            let _ = exchange.sent.push(frame).is_ok();
        }
        if !lengths.is_empty() {
            self.tx.give(device, &lengths);
        }
        lengths.len()
    }

    /// Reads the card's counters. They wrap at 2^32: to be called at least every half minute of the
    /// card's time.
    pub(super) fn read_counters(&mut self, device: &mut impl Device) {
        if device.read(reg::STATUS) == u32::MAX {
            return; // a card that does not answer has counted nothing
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

    /// Notes what was lost between the card and what its cable is joined to.
    pub(super) fn count_wire(&self, lost: &QueueStats) {
        let counters = &self.exchange.counters;
        let full = lost.rx_ring_full + lost.rx_dropped + lost.rx_too_long + lost.rx_malformed;
        counters.wire_full.store(full, Relaxed);
        counters
            .wire_refused
            .store(lost.tx_refused + lost.tx_link_down, Relaxed);
    }

    /// Whether it looks at the rings without being interrupted.
    pub(super) fn is_polling(&self) -> bool {
        self.polling
    }

    /// Whether the card has frames to send.
    pub(super) fn sends(&self) -> bool {
        self.tx.out() > 0
    }

    /// Whether nothing waits for it that does not ring.
    pub(super) fn is_idle(&self) -> bool {
        !self.polling && self.exchange.to_send.is_empty()
    }

    /// Stops the card for good. What it held is lost.
    pub(super) fn stop(mut self, device: &mut impl Device) {
        self.exchange.up.store(false, Relaxed);
        self.read_counters(device);
        self.exchange.losses.tx_link_down.add(self.tx.out());
        if let Err(error) = shut_down(device) {
            log::warn!("card {}: {error}", self.card);
        }
    }
}

/// Resets a card and waits until it is back.
fn shut_down(device: &mut impl Device) -> Result<(), DriverError> {
    device.write(CMD, reg::CMD_RESET);
    let back = (0..RESET_PATIENCE).any(|_| {
        let (status, cmd) = (device.read(reg::STATUS), device.read(CMD));
        status != u32::MAX && status & reg::STATUS_READY != 0 && cmd & reg::CMD_RESET == 0
    });
    back.then_some(()).ok_or(DriverError::Reset)
}

/// Fails if a ring lacks a completion: nothing would come of it any more.
fn whole_rings(device: &mut impl Device) -> Result<(), DriverError> {
    match device.read(reg::STATUS) {
        status if status == u32::MAX || status & STATUS_BROKEN == 0 => Ok(()),
        status => Err(DriverError::LostCompletions(status & STATUS_BROKEN)),
    }
}

/// Vectors that a ring of the card can take now.
fn room_for_vectors(device: &mut impl Device, which: Which) -> u32 {
    match device.read(reg::LEVELS) {
        u32::MAX => 0, // no answer
        levels => levels >> which.register().1 & 0xF,
    }
}

/// Takes frames out of a ring; says how many, and whether more wait for packet buffers.
fn receive(
    ring: &mut Ring,
    exchange: &Exchange,
    device: &impl Device,
    max: usize,
) -> Result<(usize, bool), DriverError> {
    let (region, losses) = (&exchange.region, &exchange.losses);
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
            losses.rx_malformed.add(1);
            continue;
        }
        let Some(frame) = exchange.free.pop() else {
            continue; // nobody else takes any, so there is one
        };
        // both have a place more than there are frames
        let _ = match frame.into_packet(region, done.octets) {
            Ok(mut packet) => {
                let octets = device.octets(done.address, done.octets);
                region.octets_mut(&mut packet).copy_from_slice(octets);
                exchange.counters.remember(octets);
                exchange.received.push(packet).is_ok()
            }
            Err(frame) => {
                losses.rx_too_long.add(1);
                exchange.free.push(frame).is_ok()
            }
        };
    }
    Ok((count, false))
}

#[cfg(test)]
#[path = "driver_tests.rs"]
mod tests;
