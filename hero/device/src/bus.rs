//! Four cards as PCI functions, their guests, their cables, and virtual time.

use std::fs::File;

use bora_hero::map::{
    CMD, CMD_FAST, CMD_RESET, IRQ_MASK, IRQ_MASKED, IRQ_UNMASKED, PEER_BASE, STATUS, STATUS_READY,
};
use bora_hero::{CARDS, Model, PEERS, aperture};

use crate::config::{APERTURE, Config, PAGE, PENDING};
use crate::guest::Guests;
use crate::interrupts::{Edges, Vectors};
use crate::wires::Wire;

/// Virtual time between two visits of cables and virtual machines, ns. It is what a register access waits at most
/// while there is traffic, times some 200 for the simulation's pace.
const QUANTUM: u64 = 2_000;
/// If nothing has happened for this long in virtual time, nothing is under way, ns; with an open fast path, more
/// than the cards' time-out for each other, 65536 cycles.
const TAIL: u64 = 100_000;
const TAIL_FAST: u64 = 1_000_000;
/// Reads of STATUS until a card's reset has failed; each takes some cycles, and a reset a hundred.
const RESET_READS: usize = 1_000;
/// A bus address where nothing answers: what a base that leads nowhere becomes.
const NOWHERE: u32 = 0xC000_0000;
/// Registers of a card; BAR 0 is empty above them.
const REGISTERS: u64 = 64;

/// The regions of a PCI device in VFIO (linux/vfio.h): BARs, then the configuration space.
pub(crate) const REGION_REGISTERS: u32 = 0;
pub(crate) const REGION_APERTURE: u32 = 2;
pub(crate) const REGION_MSIX: u32 = 4;
pub(crate) const REGION_CONFIG: u32 = 7;

/// One card, as its virtual machine sees it.
struct Function {
    config: Config,
    edges: Edges,
    vectors: Vectors,
    /// IRQ_MASK and CMD, as the card has them.
    mask: u32,
    command: u32,
    /// The peers' bases as the driver wrote them, and as the card has them.
    peers: [u32; PEERS],
    translated: [Option<u32>; PEERS],
    /// Accesses to BARs that have no effect: wrong size, not aligned, no register.
    odd_accesses: u64,
}

impl Function {
    fn new() -> Self {
        Self {
            config: Config::new(),
            edges: Edges::default(),
            vectors: Vectors::default(),
            mask: 0,
            command: 0,
            peers: [0; PEERS],
            translated: [None; PEERS],
            odd_accesses: 0,
        }
    }

    /// The registers after the card's reset.
    fn forget_registers(&mut self) {
        self.edges = Edges::default();
        (self.mask, self.command) = (0, 0);
        self.peers = [0; PEERS];
        self.translated = [None; PEERS];
    }
}

/// All of it.
pub(crate) struct Bus {
    model: Model,
    guests: Guests,
    functions: [Function; CARDS],
    wires: [Wire; CARDS],
    /// Virtual time when something last happened, and the words that cards had accessed then.
    busy: u64,
    words: u64,
}

impl Bus {
    /// Cards after power-on, with their cables.
    pub(crate) fn new(mut model: Model, wires: [Wire; CARDS]) -> Self {
        let guests = Guests::default();
        model.set_host(Box::new(guests.clone()));
        let mut bus = Self {
            busy: model.now(),
            model,
            guests,
            functions: std::array::from_fn(|_| Function::new()),
            wires,
            words: 0,
        };
        bus.connect_peers();
        bus
    }

    pub(crate) fn wires(&mut self) -> &mut [Wire; CARDS] {
        &mut self.wires
    }

    /// Tells the cards whether the other ends of their cables have links.
    pub(crate) fn look_at_links(&mut self) {
        for (card, wire) in self.wires.iter().enumerate() {
            self.model.set_link(card, wire.has_link());
        }
    }

    /// Whether something is under way.
    pub(crate) fn is_busy(&self) -> bool {
        let is_fast = |one: &Function| one.command & CMD_FAST != 0;
        let tail = match self.functions.iter().any(is_fast) {
            true => TAIL_FAST,
            false => TAIL,
        };
        self.model.now() - self.busy < tail
    }

    /// Runs `ns` of virtual time while nothing happens.
    pub(crate) fn pass(&mut self, ns: u64) {
        let end = self.model.now() + ns;
        while self.model.now() < end && !self.quantum() {}
    }

    /// Runs a quantum of virtual time; returns whether anything happened.
    pub(crate) fn quantum(&mut self) -> bool {
        let (model, mut count) = (&mut self.model, 0);
        for (card, wire) in self.wires.iter_mut().enumerate() {
            count += wire.deliver(model, card);
        }
        let untold = |(_, one): &(usize, &Function)| one.mask != 0 && !one.edges.are_told();
        let listeners = self.functions.iter().enumerate().filter(untold);
        let lines = listeners.fold(0, |lines, (card, _)| lines | 1 << card);
        model.run_until_irq(QUANTUM, lines);
        for (card, wire) in self.wires.iter_mut().enumerate() {
            count += wire.collect(model, card) + model.arriving(card);
        }
        for card in 0..CARDS {
            self.tell(card);
        }
        let words = self.guests.words();
        let happened = count > 0 || words != self.words;
        self.words = words;
        if happened {
            self.busy = self.model.now();
        }
        happened
    }

    /// Sends the messages of events that a card has, or that its mask now lets through.
    fn tell(&mut self, card: usize) {
        let one = &mut self.functions[card];
        if one.mask == 0 && !one.edges.are_told() {
            return;
        }
        let events = self.model.read_register(card, IRQ_UNMASKED);
        one.vectors.send(one.edges.look(events, one.mask));
    }

    /// Reads a region; all ones where there is nothing.
    pub(crate) fn read(&mut self, card: usize, region: u32, offset: u64, data: &mut [u8]) {
        let one = &mut self.functions[card];
        data.fill(0xFF);
        match region {
            REGION_CONFIG => one.config.read(offset, data),
            REGION_REGISTERS => {
                if let Some(register) = self.register(card, offset, data.len()) {
                    let value = self.read_register(card, register);
                    data.copy_from_slice(&value.to_le_bytes());
                }
            }
            REGION_MSIX => {
                // the virtual machine has the table itself
                data.fill(0);
                let pending = one.vectors.pending().to_le_bytes();
                let from = offset
                    .checked_sub(PENDING)
                    .and_then(|at| pending.get(at as usize..));
                for (to, from) in data.iter_mut().zip(from.into_iter().flatten()) {
                    *to = *from;
                }
            }
            _ => one.odd_accesses += 1,
        }
    }

    /// Writes a region.
    pub(crate) fn write(&mut self, card: usize, region: u32, offset: u64, data: &[u8]) {
        match region {
            REGION_CONFIG => self.write_config(card, offset, data),
            REGION_REGISTERS => {
                let register = self.register(card, offset, data.len());
                if let (Some(register), Some(value)) = (register, data.first_chunk()) {
                    self.write_register(card, register, u32::from_le_bytes(*value));
                }
            }
            REGION_MSIX => {}
            _ => self.functions[card].odd_accesses += 1,
        }
    }

    /// The register that an access to BAR 0 means; `None`, and counted, if it means none.
    fn register(&mut self, card: usize, offset: u64, octets: usize) -> Option<u8> {
        let one = &mut self.functions[card];
        let number = offset / 4;
        if octets == 4 && offset.is_multiple_of(4) && number < REGISTERS && one.config.answers() {
            return Some(number as u8);
        }
        one.odd_accesses += 1;
        None
    }

    fn read_register(&mut self, card: usize, register: u8) -> u32 {
        self.busy = self.model.now();
        if let Some(peer) = peer(register) {
            return self.functions[card].peers[peer];
        }
        let value = self.model.read_register(card, register);
        if register == IRQ_MASKED {
            let one = &mut self.functions[card];
            one.vectors.send(one.edges.clear(value));
            self.tell(card);
        }
        value
    }

    fn write_register(&mut self, card: usize, register: u8, value: u32) {
        self.busy = self.model.now();
        if let Some(peer) = peer(register) {
            self.functions[card].peers[peer] = value;
            return self.connect_peers();
        }
        if register == CMD && value & CMD_RESET != 0 {
            return self.reset_card(card);
        }
        self.model.write_register(card, register, value);
        let one = &mut self.functions[card];
        match register {
            CMD => one.command = value,
            IRQ_MASK => {
                one.mask = self.model.read_register(card, IRQ_MASK);
                self.tell(card);
            }
            _ => {}
        }
    }

    /// Gives each card the addresses on the model's bus that its driver's addresses of peers mean: those of apertures, if
    /// they are in the BAR 2 of a card, else one where nothing answers.
    fn connect_peers(&mut self) {
        let apertures = self.functions.each_ref().map(|one| one.config.aperture());
        for (card, one) in self.functions.iter_mut().enumerate() {
            let masters = one.config.masters();
            for peer in 0..PEERS {
                let found = translate(&apertures, one.peers[peer]).filter(|_| masters);
                let address = found.unwrap_or(NOWHERE);
                if one.translated[peer].replace(address) != Some(address) {
                    let register = PEER_BASE + peer as u8;
                    self.model.write_register(card, register, address);
                }
            }
        }
    }

    fn write_config(&mut self, card: usize, offset: u64, data: &[u8]) {
        if self.functions[card].config.write(offset, data) {
            log::info!("card {card}: function level reset");
            self.functions[card].config.reset_function();
            self.functions[card].vectors.forget();
            self.update_master(card);
            self.reset_card(card);
        } else {
            self.update_master(card);
            self.connect_peers();
        }
    }

    fn update_master(&self, card: usize) {
        self.guests.lock()[card].masters = self.functions[card].config.masters();
    }

    /// Resets a card by its register, and waits until it is back.
    fn reset_card(&mut self, card: usize) {
        self.model.write_register(card, CMD, CMD_RESET);
        let is_ready = |model: &mut Model| {
            let status = model.read_register(card, STATUS);
            status != u32::MAX && status & STATUS_READY != 0
        };
        if !(0..RESET_READS).any(|_| is_ready(&mut self.model)) {
            log::error!("card {card} does not come back from its reset");
        }
        self.functions[card].forget_registers();
        self.connect_peers();
    }

    /// Resets a function as power-on does.
    pub(crate) fn reset_function(&mut self, card: usize) {
        self.functions[card].config = Config::new();
        self.functions[card].vectors.forget();
        self.update_master(card);
        self.reset_card(card);
    }

    /// Sets the eventfds of MSI-X vectors; false if there are no such vectors.
    pub(crate) fn set_triggers(
        &mut self,
        card: usize,
        first: u32,
        count: u32,
        fds: Vec<File>,
    ) -> bool {
        self.functions[card].vectors.set(first, count, fds)
    }

    /// Forgets the eventfds of all vectors.
    pub(crate) fn release_triggers(&mut self, card: usize) {
        self.functions[card].vectors.release();
    }

    /// The memory of the cards' guests.
    pub(crate) fn guests(&self) -> &Guests {
        &self.guests
    }

    /// A virtual machine is gone: its card is as after power-on. Returns what is to be said of the connection.
    pub(crate) fn disconnect(&mut self, card: usize) -> String {
        self.release_triggers(card);
        self.reset_function(card);
        let mut guests = self.guests.lock();
        let guest = std::mem::take(&mut guests[card]);
        drop(guests);
        let odd = std::mem::take(&mut self.functions[card].odd_accesses);
        // words are summed over the guests that are there
        self.words = self.guests.words();
        match odd {
            0 => guest.to_string(),
            odd => format!(
                "{guest}, {odd} accesses to BARs without effect (size, alignment, or no register)"
            ),
        }
    }
}

/// The peer whose base a register is.
fn peer(register: u8) -> Option<usize> {
    let peer = usize::from(register.checked_sub(PEER_BASE)?);
    (peer < PEERS).then_some(peer)
}

/// The address on the model's bus of one in a BAR 2. A register has the lower 32 bits of the guest's address.
fn translate(apertures: &[Option<u64>; CARDS], base: u32) -> Option<u32> {
    let mut cards = apertures.iter().enumerate();
    cards.find_map(|(card, start)| {
        let offset = base.wrapping_sub((*start)? as u32);
        (u64::from(offset) < APERTURE).then(|| aperture(card) + offset)
    })
}

/// Octets of each region of a function, in their order; 0: there is none.
pub(crate) fn region_octets(region: u32) -> u64 {
    match region {
        REGION_REGISTERS | REGION_MSIX => PAGE,
        REGION_APERTURE => APERTURE,
        REGION_CONFIG => crate::config::SIZE as u64,
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
