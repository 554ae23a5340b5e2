//! The thread that runs the cards: their drivers, their cables, and virtual time.
//!
//! Virtual time advances in quanta, never faster than the wall clock (the simulation is two orders
//! of magnitude slower). It stands still while no frame is under way.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::{Duration, Instant};

use bora_port::Bell;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use bora_port::offload::Route;

use crate::driver::{Driver, DriverError};
use crate::link::LinkState;
use crate::model::Model;
use crate::queue::Exchange;
use crate::registers::CARDS;
use crate::wire::Wire;

/// Virtual time between two visits of cables and queues, ns.
const QUANTUM: u64 = 10_000;
/// If nothing has happened for this long in virtual time, nothing is under way, ns. It is more than
/// the cards' time-out for each other, 65536 cycles.
const TAIL: u64 = 1_000_000;
/// How often the cards' counters are read while there is traffic.
const COUNTERS: Duration = Duration::from_millis(200);
/// Longest sleep, because the queues of some cables cannot wake us.
const SLEEP: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

/// Pause while a cable's interface is gone, because poll would return at once.
const GONE: Duration = Duration::from_millis(50);

/// All senders of commands are gone.
struct Ended;

/// Requests of other threads.
pub(crate) enum Command {
    /// Starts a card; the answer is its number of route slots.
    Attach {
        card: usize,
        mac: [u8; 6],
        wire: Box<Wire>,
        exchange: Arc<Exchange>,
        reply: Sender<Result<(usize, LinkState), DriverError>>,
    },
    /// Stops it.
    Detach(usize, Sender<()>),
    /// Sets its Ethernet address.
    SetMac(usize, [u8; 6]),
    /// Sets its routes.
    SetRoutes(usize, Vec<Option<Route>>, Sender<()>),
    /// Resets it.
    Reset(usize, Sender<Result<(), DriverError>>),
    /// Reads its counters now.
    ReadCounters(usize, Sender<()>),
    /// Puts a frame with faults on the line to it.
    Inject(usize, Vec<u8>, u32),
}

/// A card that is a port.
struct Attached {
    driver: Driver,
    wire: Wire,
    /// It has failed and is not used until it is reset.
    dead: bool,
}

/// The state of the thread.
pub(crate) struct Simulation {
    model: Model,
    cards: [Option<Attached>; CARDS],
    commands: Receiver<Command>,
    bell: Arc<Bell>,
    /// Wall clock and virtual time when it last woke up.
    woken: (Instant, u64),
    /// Virtual time when something last happened.
    busy: u64,
    counted: Instant,
}

impl Simulation {
    pub(crate) fn new(model: Model, commands: Receiver<Command>, bell: Arc<Bell>) -> Self {
        let now = (Instant::now(), model.now());
        Self {
            model,
            cards: Default::default(),
            commands,
            bell,
            woken: now,
            busy: now.1,
            counted: now.0,
        }
    }

    /// Runs until nobody can send commands any more.
    pub(crate) fn run(mut self) {
        loop {
            match self.obey_next() {
                Ok(true) => continue,
                Ok(false) => {}
                Err(Ended) => return,
            }
            let busy = self.quantum();
            let now = self.model.now();
            if busy {
                self.busy = now;
            }
            if self.counted.elapsed() >= COUNTERS {
                self.read_counters();
            }
            if now - self.busy > TAIL {
                self.read_counters();
                self.sleep();
            } else {
                self.keep_pace(now);
            }
        }
    }

    /// Cards whose interrupts are waited for, one bit each.
    fn listeners(&self) -> u32 {
        let listens = |one: &Attached| !one.dead && !one.driver.is_polling();
        let cards = self.cards.iter().enumerate();
        let listening = cards.filter(|(_, one)| one.as_ref().is_some_and(listens));
        listening.fold(0, |bits, (card, _)| bits | 1 << card)
    }

    /// Runs one quantum of virtual time; returns whether anything happened.
    fn quantum(&mut self) -> bool {
        let busy = self.before_quantum();
        let interrupts = self.model.run_until_irq(QUANTUM, self.listeners());
        busy | self.after_quantum(interrupts)
    }

    /// Lets a card send what it has accepted, within limits. Once it is stopped, it is not known how much of
    /// it was sent.
    fn finish(&mut self, card: usize) {
        let end = self.model.now() + TAIL;
        let sends = |one: &Attached| !one.dead && one.driver.sends();
        while self.cards[card].as_ref().is_some_and(sends) && self.model.now() < end {
            self.quantum();
        }
    }

    /// Moves frames from cables and workers to cards.
    fn before_quantum(&mut self) -> bool {
        let mut busy = false;
        for (card, one) in self.cards.iter_mut().enumerate() {
            let Some(one) = one else { continue };
            busy |= one.wire.deliver(&mut self.model, card) > 0;
            busy |= one.turn(&mut self.model, card, false);
        }
        busy
    }

    /// Moves frames from cards to workers and cables.
    fn after_quantum(&mut self, interrupts: u32) -> bool {
        let mut busy = false;
        for (card, one) in self.cards.iter_mut().enumerate() {
            let Some(one) = one else { continue };
            if interrupts >> card & 1 == 1 {
                busy |= one.turn(&mut self.model, card, true);
            }
            busy |= one.wire.collect(&mut self.model, card) > 0;
            busy |= self.model.arriving(card) > 0;
        }
        busy
    }

    fn read_counters(&mut self) {
        self.counted = Instant::now();
        for (card, one) in self.cards.iter_mut().enumerate() {
            if let Some(one) = one {
                one.read_counters(&mut self.model, card);
            }
        }
    }

    /// Waits while virtual time is ahead of the wall clock.
    fn keep_pace(&self, now: u64) {
        let virtually = Duration::from_nanos(now - self.woken.1);
        let ahead = virtually.saturating_sub(self.woken.0.elapsed());
        if !ahead.is_zero() {
            std::thread::sleep(ahead);
        }
    }

    /// Sleeps until there is something to do.
    fn sleep(&mut self) {
        self.bell.before_sleep();
        // a command may have come before the bell was armed
        if !matches!(self.obey_next(), Ok(false)) {
            return self.bell.after_sleep();
        }
        let waiting = |one: &Attached| !one.driver.is_idle();
        let mut idle = !self.cards.iter().flatten().any(waiting);
        let mut fds = vec![PollFd::new(&*self.bell, PollFlags::IN)];
        for one in self.cards.iter_mut().flatten() {
            match one.wire.wait() {
                Some(fd) => fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN)),
                None => idle = false,
            }
        }
        // some cables cannot wake us, hence the time-out; a signal only wakes us early
        let _ = poll(&mut fds, (!idle).then_some(&SLEEP));
        let broken = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
        if fds.iter().any(|fd| fd.revents().intersects(broken)) {
            // poll would return at once while an interface is gone
            std::thread::sleep(GONE);
        }
        drop(fds);
        self.bell.after_sleep();
        self.woken = (Instant::now(), self.model.now());
    }

    /// Executes the next command; returns whether there was one.
    fn obey_next(&mut self) -> Result<bool, Ended> {
        match self.commands.try_recv() {
            Ok(command) => {
                self.obey(command);
                self.busy = self.model.now();
                Ok(true)
            }
            Err(TryRecvError::Empty) => Ok(false),
            Err(TryRecvError::Disconnected) => Err(Ended),
        }
    }

    fn obey(&mut self, command: Command) {
        // sending an answer fails if the asking thread is gone, which does no harm
        match command {
            Command::Attach {
                card,
                mac,
                wire,
                exchange,
                reply,
            } => {
                let attached = self.attach(card, mac, *wire, exchange);
                let _ = reply.send(attached);
            }
            Command::Detach(card, reply) => {
                self.finish(card);
                if let Some(one) = self.cards[card].take() {
                    one.driver.stop(&mut self.model.card(card));
                }
                let _ = reply.send(());
            }
            Command::SetMac(card, mac) => {
                if let Some(one) = &mut self.cards[card] {
                    one.driver.set_mac(&mut self.model.card(card), mac);
                }
            }
            Command::SetRoutes(card, routes, reply) => {
                if let Some(one) = &mut self.cards[card] {
                    one.driver.set_routes(&mut self.model.card(card), &routes);
                }
                let _ = reply.send(());
            }
            Command::Reset(card, reply) => {
                let done = match &mut self.cards[card] {
                    Some(one) => one.reset(&mut self.model, card),
                    None => Ok(()),
                };
                let _ = reply.send(done);
            }
            Command::ReadCounters(card, reply) => {
                if let Some(one) = &mut self.cards[card] {
                    one.read_counters(&mut self.model, card);
                }
                let _ = reply.send(());
            }
            Command::Inject(card, frame, faults) => {
                self.model.receive(card, &frame, faults);
            }
        }
    }

    fn attach(
        &mut self,
        card: usize,
        mac: [u8; 6],
        wire: Wire,
        exchange: Arc<Exchange>,
    ) -> Result<(usize, LinkState), DriverError> {
        let mut device = self.model.card(card);
        let driver = Driver::start(&mut device, card, mac, exchange)?;
        let state = match driver.has_link(&mut device) {
            true => LinkState::Up,
            false => LinkState::Down("the card has no link".into()),
        };
        let slots = driver.slots();
        self.cards[card] = Some(Attached {
            driver,
            wire,
            dead: false,
        });
        Ok((slots, state))
    }
}

impl Attached {
    /// Calls a card's driver, and resets the card if it fails.
    fn turn(&mut self, model: &mut Model, card: usize, interrupt: bool) -> bool {
        if self.dead {
            return false;
        }
        match self.driver.turn(&mut model.card(card), interrupt) {
            Ok(busy) => busy,
            Err(error) => {
                log::warn!("card {card}: {error}; it is reset");
                let _ = self.reset(model, card);
                true
            }
        }
    }

    fn reset(&mut self, model: &mut Model, card: usize) -> Result<(), DriverError> {
        let done = self.driver.reset(&mut model.card(card));
        self.dead = done.is_err();
        if let Err(error) = &done {
            log::error!("card {card}: {error}; it is not used until it is reset again");
        }
        done
    }

    fn read_counters(&mut self, model: &mut Model, card: usize) {
        if !self.dead {
            let lost = self.wire.stats();
            self.driver.count_wire(&lost);
            self.driver.read_counters(&mut model.card(card));
        }
    }
}
