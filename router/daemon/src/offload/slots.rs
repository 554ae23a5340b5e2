//! Keeps the busiest destinations on the cards' fast path, and only those that may be there.
//!
//! How busy a destination is, the cards' own counters say: on the fast path that of its slot; on
//! the slow path that of frames for the host, divided by the destinations of the latest of them.

use std::collections::BTreeMap;
use std::time::Instant;

use bora_fib::PortId;
use bora_port::offload::Load;
use bora_prove::CardRoute;
use serde::Serialize;

use super::candidate::{Candidate, Surroundings, card};
use super::choose::{Slot, choose};
use crate::ports::Port;

/// Destinations of the slow path that are reported.
const REPORTED: usize = 8;

/// A destination that comes in by a card.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct OffloadReport {
    /// The port it comes in by.
    port: String,
    /// Its prefix, or an address where that does not matter.
    destination: String,
    /// `fast`: from card to card; `slow`: through the engine.
    path: &'static str,
    /// The port it leaves by, or `-`.
    out: String,
    /// Packets a second, at the last look.
    packets_per_second: u64,
    /// Packets since it is on the fast path.
    packets: Option<u64>,
    /// Why it is on the slow path.
    why: &'static str,
}

/// What is on the fast path, by the port it comes in.
#[derive(Debug, Default)]
pub(crate) struct Offload {
    ports: BTreeMap<PortId, Card>,
}

/// The fast path of one card.
#[derive(Debug)]
struct Card {
    slots: Vec<Option<Installed>>,
    last: Load,
    looked: Instant,
    /// Busy destinations that are not on the fast path, busiest first.
    slow: Vec<Slow>,
}

/// A destination in a slot.
#[derive(Clone, Copy, Debug)]
struct Installed {
    candidate: Candidate,
    /// Packets a second, at the last look.
    rate: u64,
    /// It has been there since before the last look.
    measured: bool,
}

/// A destination on the slow path.
#[derive(Debug)]
struct Slow {
    destination: String,
    rate: u64,
    candidate: Result<Candidate, &'static str>,
}

impl Card {
    fn new(load: Load) -> Self {
        Self {
            slots: vec![None; load.routes.len()],
            last: load,
            looked: Instant::now(),
            slow: Vec::new(),
        }
    }

    fn holds(&self, candidate: &Candidate) -> bool {
        self.slots
            .iter()
            .flatten()
            .any(|one| one.candidate == *candidate)
    }

    /// Puts what the slots say in force.
    fn install(&self, port: &Port) {
        if let Some(card) = card(port) {
            let route = |one: &Option<Installed>| one.map(|one| one.candidate.route());
            card.set_routes(self.slots.iter().map(route).collect());
        }
    }
}

impl Offload {
    /// Measures, and moves destinations to the fast path that are busier than those there. To be
    /// called about once a second.
    pub(crate) fn choose(&mut self, around: &Surroundings<'_>) {
        let there = |id: &PortId| around.ports.iter().any(|port| port.id == *id);
        self.ports.retain(|id, _| there(id));
        for port in around.ports {
            let Some(load) = card(port).map(|card| card.load()) else {
                continue;
            };
            match self.ports.get_mut(&port.id) {
                None => drop(self.ports.insert(port.id, Card::new(load))),
                Some(card) => around.choose_for(port, card, load),
            }
        }
    }

    /// Takes from the fast path what may no longer be there. `routes_changed`: ask anew what hides
    /// what.
    pub(crate) fn check(&mut self, around: &Surroundings<'_>, routes_changed: bool) {
        for port in around.ports {
            if let Some(card) = self.ports.get_mut(&port.id) {
                around.check_card(port, card, routes_changed);
            }
        }
    }

    /// What the card of a port forwards by itself.
    pub(crate) fn routes_of(&self, port: PortId) -> impl Iterator<Item = CardRoute> {
        let slots = self.ports.get(&port).into_iter();
        let slots = slots.flat_map(|card| &card.slots).flatten();
        slots.map(|one| one.candidate.card_route())
    }

    /// What is on the fast path, and what is busy and is not.
    pub(crate) fn report(&self, around: &Surroundings<'_>) -> Vec<OffloadReport> {
        let ports = around.ports.iter();
        let known = ports.filter_map(|port| Some((port, self.ports.get(&port.id)?)));
        let reports = known.map(|(port, card)| around.report_of(port, card));
        reports.flatten().collect()
    }
}

impl Surroundings<'_> {
    fn choose_for(&self, port: &Port, state: &mut Card, load: Load) {
        let elapsed = state.looked.elapsed().as_secs_f64().max(0.001);
        let a_second = |packets: u64| (packets as f64 / elapsed) as u64;
        for (slot, installed) in state.slots.iter_mut().enumerate() {
            let Some(installed) = installed else { continue };
            // a route that was just set counts from 0
            let before = if installed.measured {
                state.last.routes[slot]
            } else {
                0
            };
            installed.rate = a_second(load.routes[slot].saturating_sub(before));
            installed.measured = true;
        }
        let slow = a_second(load.to_host.saturating_sub(state.last.to_host));
        state.slow = self.slow_destinations(port, &load, state.last.seen, slow);
        (state.last, state.looked) = (load, Instant::now());
        if self.held_back(port).is_some() {
            return;
        }
        let mut moved = false;
        for out in self.ports {
            moved |= self.choose_between(port, out, state);
        }
        if moved {
            state.install(port);
        }
    }

    /// Gives slots that lead from one card to another to the busiest destinations there.
    fn choose_between(&self, port: &Port, out: &Port, state: &mut Card) -> bool {
        let (Some(from), Some(to)) = (card(port), card(out)) else {
            return false;
        };
        let slots = from.slots_to(to.place()).into_iter().map(|number| Slot {
            number,
            rate: state.slots[number].map(|one| one.rate),
        });
        let slots = slots.collect();
        let wanting: Vec<(Candidate, u64)> = state
            .slow
            .iter()
            .filter_map(|slow| match slow.candidate {
                Ok(candidate) => Some((candidate, slow.rate)),
                Err(_) => None, // the report says why
            })
            .filter(|(candidate, _)| candidate.out == out.id && !state.holds(candidate))
            .collect();
        let rates: Vec<u64> = wanting.iter().map(|(_, rate)| *rate).collect();
        let given = choose(slots, &rates);
        for &(slot, index) in &given {
            let (candidate, rate) = wanting[index];
            log::info!(
                "{}: {} goes to the fast path, {rate} packets a second",
                port.name,
                candidate.route()
            );
            state.slots[slot] = Some(Installed {
                candidate,
                rate,
                measured: false,
            });
        }
        !given.is_empty()
    }

    /// The busiest destinations on the slow path of a card that took `rate` packets a second.
    fn slow_destinations(&self, port: &Port, load: &Load, seen: u64, rate: u64) -> Vec<Slow> {
        let new = load.seen.saturating_sub(seen);
        let recent = &load.recent[..new.min(load.recent.len() as u64) as usize];
        let mut counts: BTreeMap<String, (u64, Result<Candidate, &'static str>)> = BTreeMap::new();
        for &to in recent {
            let candidate = self.candidate(port, to);
            let name = match candidate {
                Ok(one) => one.prefix.to_string(),
                Err(_) => to.to_string(), // it is counted with why
            };
            counts.entry(name).or_insert((0, candidate)).0 += 1;
        }
        let slow = counts
            .into_iter()
            .map(|(destination, (count, candidate))| Slow {
                destination,
                rate: rate * count / recent.len().max(1) as u64,
                candidate: candidate.and_then(|one| match self.hides_others(&one) {
                    true => Err("it hides more specific routes"),
                    false => Ok(one),
                }),
            });
        let mut slow: Vec<Slow> = slow.filter(|slow| slow.rate > 0).collect();
        slow.sort_by_key(|slow| std::cmp::Reverse(slow.rate));
        slow
    }

    fn check_card(&self, port: &Port, state: &mut Card, routes_changed: bool) {
        let held_back = self.held_back(port);
        let mut moved = false;
        for slot in &mut state.slots {
            let Some(installed) = slot else { continue };
            let old = installed.candidate;
            let address = old.route().address;
            let now = match held_back {
                Some(why) => Err(why),
                None => self.candidate(port, address),
            };
            let why = match now {
                Err(why) => why,
                Ok(now) if now != old => "its route or neighbour is another",
                Ok(_) if routes_changed && self.hides_others(&old) => {
                    "it hides more specific routes"
                }
                Ok(_) => continue,
            };
            log::info!("{}: {} leaves the fast path: {why}", port.name, old.route());
            *slot = None;
            moved = true;
        }
        if moved {
            state.install(port);
        }
    }

    fn report_of(&self, port: &Port, state: &Card) -> Vec<OffloadReport> {
        let counts = card(port).map(|card| card.load().routes);
        let slots = state.slots.iter().zip(counts.unwrap_or_default());
        let fast = slots.filter_map(|(one, packets)| {
            let one = one.as_ref()?;
            Some(OffloadReport {
                port: port.name.clone(),
                destination: one.candidate.prefix.to_string(),
                path: "fast",
                out: self.name_of(one.candidate.out),
                packets_per_second: one.rate,
                packets: Some(packets),
                why: "",
            })
        });
        let held_back = self.held_back(port);
        let slow = state.slow.iter().take(REPORTED).map(|slow| {
            let why = match (held_back, slow.candidate) {
                (Some(why), _) | (None, Err(why)) => why,
                (None, Ok(one)) if state.holds(&one) => "it has just left it",
                (None, Ok(_)) => "less busy than those on the fast path, or hardly busy",
            };
            let out = match slow.candidate {
                Ok(one) => self.name_of(one.out),
                Err(_) => "-".into(), // `why` says it
            };
            OffloadReport {
                port: port.name.clone(),
                destination: slow.destination.clone(),
                path: "slow",
                out,
                packets_per_second: slow.rate,
                packets: None,
                why,
            }
        });
        fast.chain(slow).collect()
    }

    fn name_of(&self, id: PortId) -> String {
        let port = self.ports.iter().find(|port| port.id == id);
        port.map_or_else(|| "-".into(), |port| port.name.clone())
    }
}
