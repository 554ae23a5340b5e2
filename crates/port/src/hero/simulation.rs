//! The thread that runs the cards: their drivers, their cables, and virtual time.
//!
//! Virtual time goes in quanta, never faster than the wall clock (the simulation is slower by two
//! orders of magnitude), and stands still while nothing is on its way.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::driver::{Driver, DriverError};
use super::model::Model;
use super::port::LinkState;
use super::queue::Exchange;
use super::registers::CARDS;
use super::rules::Route;
use super::wire::Wire;
use crate::Bell;

/// Virtual time between two looks at cables and queues, ns.
const QUANTUM: u64 = 10_000;
/// Virtual time after which nothing is on its way if nothing was seen, ns: more than the cards' time-out
/// for each other, 65536 cycles.
const TAIL: u64 = 1_000_000;
/// How often the cards' counters are read while there is traffic.
const COUNTERS: Duration = Duration::from_millis(200);
/// Longest sleep; queues of cables that cannot wake are looked at then.
const SLEEP: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

/// Pause where a cable's interface is gone and poll would return at once.
const GONE: Duration = Duration::from_millis(50);

/// Nobody is left who could send commands.
struct Ended;

/// What other threads want of the cards.
pub(super) enum Command {
    /// Start a card; the answer is its number of route slots.
    Attach {
        card: usize,
        mac: [u8; 6],
        wire: Box<Wire>,
        exchange: Arc<Exchange>,
        reply: Sender<Result<(usize, LinkState), DriverError>>,
    },
    /// Stop it.
    Detach(usize, Sender<()>),
    /// Set its Ethernet address.
    SetMac(usize, [u8; 6]),
    /// Put other routes in force.
    SetRoutes(usize, Vec<Option<Route>>, Sender<()>),
    /// Reset it.
    Reset(usize, Sender<Result<(), DriverError>>),
    /// Read its counters now.
    ReadCounters(usize, Sender<()>),
    /// Put a frame with faults on the line to it.
    Inject(usize, Vec<u8>, u32),
}

/// A card that is a port.
struct Attached {
    driver: Driver,
    wire: Wire,
    /// Failed, and left alone.
    dead: bool,
}

/// The thread's own.
pub(super) struct Simulation {
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
    pub(super) fn new(model: Model, commands: Receiver<Command>, bell: Arc<Bell>) -> Self {
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
    pub(super) fn run(mut self) {
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

    /// Cards whose interrupts somebody waits for, a bit a card.
    fn listeners(&self) -> u32 {
        let listens = |one: &Attached| !one.dead && !one.driver.is_polling();
        let cards = self.cards.iter().enumerate();
        let listening = cards.filter(|(_, one)| one.as_ref().is_some_and(listens));
        listening.fold(0, |bits, (card, _)| bits | 1 << card)
    }

    /// Some of the cards' time; whether anything happened.
    fn quantum(&mut self) -> bool {
        let busy = self.before_quantum();
        let interrupts = self.model.run_until_irq(QUANTUM, self.listeners());
        busy | self.after_quantum(interrupts)
    }

    /// Lets a card send what it has taken, if that does not take long: nobody can tell how much of it has
    /// left once the card is stopped.
    fn finish(&mut self, card: usize) {
        let end = self.model.now() + TAIL;
        let sends = |one: &Attached| !one.dead && one.driver.sends();
        while self.cards[card].as_ref().is_some_and(sends) && self.model.now() < end {
            self.quantum();
        }
    }

    /// Cables to cards, and packets from workers to cards.
    fn before_quantum(&mut self) -> bool {
        let mut busy = false;
        for (card, one) in self.cards.iter_mut().enumerate() {
            let Some(one) = one else { continue };
            busy |= one.wire.deliver(&mut self.model, card) > 0;
            busy |= one.turn(&mut self.model, card, false);
        }
        busy
    }

    /// Packets from cards to workers and cables.
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
        self.bell.lie_down();
        // a command that came before rang no bell
        if !matches!(self.obey_next(), Ok(false)) {
            return self.bell.get_up();
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
        // a cable that cannot wake us is looked at again soon; a signal only wakes us early
        let _ = poll(&mut fds, (!idle).then_some(&SLEEP));
        let broken = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
        if fds.iter().any(|fd| fd.revents().intersects(broken)) {
            // an interface that is gone stays so
            std::thread::sleep(GONE);
        }
        drop(fds);
        self.bell.get_up();
        self.woken = (Instant::now(), self.model.now());
    }

    /// Takes a command, if there is one; whether there was.
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
        // who asked may be gone
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
    /// The driver's turn; a card that fails is reset.
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
            log::error!("card {card}: {error}; it is left alone until it is reset again");
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
