//! Ports on simulated cards. All ports of a process with the same library share one simulation.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};

use bora_buffer::Region;
use bora_port::offload::{Load, Offload, Route};
use bora_port::{Bell, Queue};

use crate::counters::CardStats;
use crate::driver::DriverError;
use crate::link::LinkState;
use crate::model::{Model, ModelError};
use crate::queue::{self, Exchange};
use crate::registers::CARDS;
use crate::simulation::{Command, Simulation};
use crate::wire::{Wire, WireError};

/// Why a port cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The model cannot be loaded.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A number beyond the last card.
    #[error("there is no card {0}: 0 to {last}", last = CARDS - 1)]
    NoCard(usize),
    /// Another port has the card.
    #[error("card {0} has a port already")]
    InUse(usize),
    /// The cable cannot be connected.
    #[error("wire: {0}")]
    Wire(#[from] WireError),
    /// The card does not work.
    #[error("card {0}: {1}")]
    Card(usize, DriverError),
    /// The process has no more threads or file descriptors.
    #[error("cannot start the simulation: {0}")]
    System(#[from] io::Error),
    /// The simulation's thread has ended.
    #[error("the simulation of the cards has ended")]
    Ended,
}

/// The configuration of a port.
#[derive(Debug)]
pub struct Config {
    /// The library with the model; ports with the same share their bus.
    pub model: PathBuf,
    /// Which card, 0 to 3.
    pub card: usize,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// What its cable is joined to.
    pub wire: Wire,
    /// Whether the router may let it forward by itself.
    pub offload: bool,
}

/// Four cards on a bus, with the thread that runs them.
#[derive(Debug)]
struct System {
    commands: Option<Sender<Command>>,
    bell: Arc<Bell>,
    taken: Mutex<[bool; CARDS]>,
    thread: Option<JoinHandle<()>>,
}

/// The systems of this process, by their library.
static SYSTEMS: Mutex<BTreeMap<PathBuf, Weak<System>>> = Mutex::new(BTreeMap::new());

impl System {
    /// The system of a library, started if it does not run.
    fn of(library: &Path) -> Result<Arc<Self>, OpenError> {
        let mut systems = SYSTEMS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(system) = systems.get(library).and_then(Weak::upgrade) {
            return Ok(system);
        }
        let system = Arc::new(Self::start(library)?);
        systems.insert(library.into(), Arc::downgrade(&system));
        Ok(system)
    }

    fn start(library: &Path) -> Result<Self, OpenError> {
        let model = Model::load(library)?;
        let fact = |name| model.parameter(name).unwrap_or(-1);
        log::info!(
            "four simulated HERO cards, {} routes each, bus {}, {} MHz ({})",
            fact(c"routes"),
            ["pcix", "crossbar"][usize::from(fact(c"bus") == 1)],
            fact(c"sys_mhz"),
            library.display()
        );
        let bell = Arc::new(Bell::new()?);
        let (commands, inbox) = mpsc::channel();
        let simulation = Simulation::new(model, inbox, bell.clone());
        let thread = thread::Builder::new()
            .name("bora-hero".into())
            .spawn(move || simulation.run())?;
        Ok(Self {
            commands: Some(commands),
            bell,
            taken: Mutex::default(),
            thread: Some(thread),
        })
    }

    fn tell(&self, command: Command) {
        if let Some(commands) = &self.commands {
            let _ = commands.send(command); // if the thread has ended, there is nothing to do
        }
        self.bell.ring();
    }

    /// Waits for the answer to a command; `None` if the thread has ended.
    fn ask<T>(&self, command: impl FnOnce(Sender<T>) -> Command) -> Option<T> {
        let (reply, answer) = mpsc::channel();
        self.tell(command(reply));
        answer.recv().ok()
    }

    fn set_taken(&self, card: usize, taken: bool) -> bool {
        let mut all = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut all[card], taken)
    }
}

impl Drop for System {
    fn drop(&mut self) {
        self.commands = None;
        self.bell.ring();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// An open port. Dropping it stops the card; drop it before closing its queue.
#[derive(Debug)]
pub struct Port {
    system: Arc<System>,
    card: usize,
    slots: usize,
    state: LinkState,
    exchange: Arc<Exchange>,
    offload: bool,
}

impl Port {
    /// Starts a card and returns its queue, whose packets are in `region`.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(config: Config, region: Arc<Region>) -> Result<(Self, Queue), OpenError> {
        let Config {
            model,
            card,
            mac,
            wire,
            offload,
        } = config;
        if card >= CARDS {
            return Err(OpenError::NoCard(card));
        }
        let system = System::of(&model)?;
        if system.set_taken(card, true) {
            return Err(OpenError::InUse(card));
        }
        let attached = Exchange::new(region, system.bell.clone())
            .map_err(OpenError::from)
            .and_then(|exchange| {
                let exchange = Arc::new(exchange);
                let attach = |reply| Command::Attach {
                    card,
                    mac,
                    wire: Box::new(wire),
                    exchange: exchange.clone(),
                    reply,
                };
                let answer = system.ask(attach).ok_or(OpenError::Ended)?;
                let (slots, state) = answer.map_err(|error| OpenError::Card(card, error))?;
                Ok((exchange, slots, state))
            });
        let (exchange, slots, state) = match attached {
            Ok(parts) => parts,
            Err(error) => {
                system.set_taken(card, false);
                return Err(error);
            }
        };
        let queue = Queue::other(queue::Queue::new(exchange.clone()));
        let port = Self {
            system,
            card,
            slots,
            state,
            exchange,
            offload,
        };
        Ok((port, queue))
    }

    /// Whether packets can pass.
    pub fn link_state(&self) -> LinkState {
        use std::sync::atomic::Ordering::Relaxed;
        match self.exchange.up.load(Relaxed) {
            true => self.state.clone(),
            false => LinkState::Down("the card does not answer".into()),
        }
    }

    /// Number of route slots. Slot k leads to the other card number k modulo 3.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Sets the Ethernet address.
    pub fn set_mac(&self, mac: [u8; 6]) {
        self.system.tell(Command::SetMac(self.card, mac));
    }

    /// Resets the card and starts it again. What it held is lost and counted.
    ///
    /// # Errors
    /// The card stays in reset.
    pub fn reset(&self) -> Result<(), OpenError> {
        let done = self.system.ask(|reply| Command::Reset(self.card, reply));
        let done = done.ok_or(OpenError::Ended)?;
        done.map_err(|error| OpenError::Card(self.card, error))
    }

    /// The card's counters, read now.
    pub fn stats(&self) -> CardStats {
        self.system
            .ask(|reply| Command::ReadCounters(self.card, reply));
        self.exchange.counters.stats()
    }

    /// Puts a frame on the line to the card, with [`crate::BAD_FCS`] or [`crate::NO_PAD`]: for tests
    /// of bad input.
    pub fn inject(&self, frame: &[u8], faults: u32) {
        self.system
            .tell(Command::Inject(self.card, frame.into(), faults));
    }
}

impl Offload for Port {
    fn is_allowed(&self) -> bool {
        self.offload
    }

    fn bus(&self) -> usize {
        Arc::as_ptr(&self.system).addr()
    }

    fn place(&self) -> usize {
        self.card
    }

    fn slots_to(&self, card: usize) -> Vec<usize> {
        let own = self.card;
        let leads = |slot: &usize| crate::registers::card_of_peer(own, slot % 3) == card;
        (0..self.slots).filter(leads).collect()
    }

    fn load(&self) -> Load {
        self.exchange.counters.load(self.slots)
    }

    fn set_routes(&self, routes: Vec<Option<Route>>) {
        let card = self.card;
        self.system
            .ask(|reply| Command::SetRoutes(card, routes, reply));
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        let card = self.card;
        self.system.ask(|reply| Command::Detach(card, reply));
        self.system.set_taken(card, false);
    }
}
