//! Those who watch packets now: `bora capture`, `bora trace`. While nobody does, the program tests a
//! variable, and workers an empty list.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bora_capture::{Filter, Seen, Subscription};
use bora_linux::lock;
use bora_xdp::{Allowances, MAX_WATCHERS, ProgramError, SeenPackets};
use tokio::sync::mpsc::{Receiver, Sender, channel, error::TrySendError};

use crate::data_plane::DataPlane;

/// Time between two looks at what was seen.
const TURN: Duration = Duration::from_millis(10);
const TURNS_A_SECOND: u32 = 100;
/// Packets that may wait for a client.
const WAITING: usize = 4096;

/// What somebody wants to see.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) filter: Filter,
    /// One packet in this many.
    pub(crate) one_in: u32,
    /// Octets of each packet.
    pub(crate) snap: usize,
    /// Most packets a second.
    pub(crate) rate: u32,
    /// Only what comes in by this port.
    pub(crate) port: Option<String>,
}

/// Where somebody watches.
#[derive(Debug)]
pub(crate) struct View {
    /// For [`Watches::end`].
    pub(crate) number: u64,
    pub(crate) seen: Receiver<Seen>,
    /// Packets that were to be seen and were not.
    pub(crate) lost: Arc<AtomicU64>,
    /// Ports and devices by their numbers, as they were at the start.
    pub(crate) names: BTreeMap<u16, String>,
}

/// All who watch.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    slots: Arc<Mutex<Slots>>,
}

#[derive(Debug, Default)]
struct Slots {
    watchers: [Option<Slot>; MAX_WATCHERS],
    /// What they may see, while the thread runs that serves them.
    served: Option<Allowances>,
    /// How many have ever watched.
    started: u64,
}

/// Somebody who watches.
#[derive(Debug)]
struct Slot {
    number: u64,
    subscription: Arc<Subscription>,
    /// Most packets in a turn.
    allowed: u32,
    /// The ports to see, if not all.
    ports: Option<Vec<u16>>,
    to: Sender<Seen>,
    /// What found no room on the way to whoever watches.
    refused: u64,
    lost: Arc<AtomicU64>,
}

impl Watches {
    /// Lets somebody watch.
    ///
    /// # Errors
    /// There is no such port, too many watch already, or the kernel refuses.
    pub(crate) fn start(&mut self, plane: &mut DataPlane, wanted: Wanted) -> Result<View, String> {
        let ports = ports_to_watch(plane, wanted.port.as_deref())?;
        let subscription = Arc::new(Subscription::new(wanted.filter, wanted.one_in, wanted.snap));
        let mut slots = lock(&self.slots);
        let Some(place) = slots.watchers.iter().position(Option::is_none) else {
            return Err(format!(
                "{MAX_WATCHERS} already watch; end one of them first"
            ));
        };
        let allowances = match slots.served {
            Some(allowances) => allowances,
            None => serve(&self.slots, plane)?,
        };
        slots.served = Some(allowances);
        let allowed = wanted.rate.div_ceil(TURNS_A_SECOND);
        allowances.begin(place, allowed);
        subscription.allow(allowed);
        slots.started += 1;
        let number = slots.started;
        let (to, seen) = channel(WAITING);
        let lost = Arc::new(AtomicU64::new(0));
        slots.watchers[place] = Some(Slot {
            number,
            subscription,
            allowed,
            ports,
            to,
            refused: 0,
            lost: lost.clone(),
        });
        drop(slots);
        if let Err(error) = self.tell(plane) {
            self.end(plane, number);
            return Err(refused(&error));
        }
        Ok(View {
            number,
            seen,
            lost,
            names: plane.names_by_number(),
        })
    }

    /// Ends a watch.
    pub(crate) fn end(&mut self, plane: &mut DataPlane, number: u64) {
        for slot in lock(&self.slots).watchers.iter_mut() {
            slot.take_if(|slot| slot.number == number);
        }
        if let Err(error) = self.tell(plane) {
            log::error!("nobody sees packets any more: {error}");
        }
    }

    /// Tells program and workers who watches.
    fn tell(&self, plane: &mut DataPlane) -> Result<(), ProgramError> {
        let slots = lock(&self.slots);
        let taken = slots.watchers.iter().enumerate();
        let subscriptions: Vec<(usize, Arc<Subscription>)> = taken
            .filter_map(|(place, slot)| Some((place, slot.as_ref()?.subscription.clone())))
            .collect();
        drop(slots);
        plane.show_to(&subscriptions)
    }
}

/// Starts the thread that serves those who watch.
fn serve(slots: &Arc<Mutex<Slots>>, plane: &mut DataPlane) -> Result<Allowances, String> {
    let (seen_packets, allowances) = plane.seen_packets().map_err(|error| refused(&error))?;
    let slots = slots.clone();
    let thread = std::thread::Builder::new().name("bora-watch".into());
    let thread = thread.spawn(move || {
        bora_confine::thread(bora_confine::KERNEL);
        collect(&slots, seen_packets, &allowances);
    });
    thread.map_err(|error| format!("no thread for it: {error}"))?;
    Ok(allowances)
}

fn refused(error: &ProgramError) -> String {
    format!("the program shows no packets: {error}")
}

/// The number of a port, if there is to be only one.
fn ports_to_watch(plane: &DataPlane, name: Option<&str>) -> Result<Option<Vec<u16>>, String> {
    let Some(name) = name else {
        return Ok(None);
    };
    let mut names = plane.names().into_iter();
    let port = names.find(|(_, known)| *known == name);
    let port = port.ok_or_else(|| format!("{name} is no port: see `bora show ports`"))?;
    Ok(Some(vec![port.0.0]))
}

/// Brings what both tiers have seen to those who watch, until nobody does.
fn collect(slots: &Mutex<Slots>, mut seen_packets: SeenPackets, allowances: &Allowances) {
    loop {
        let mut slots = lock(slots);
        let watching = &mut slots.watchers;
        if watching.iter().all(Option::is_none) {
            slots.served = None;
            return;
        }
        for (place, seen) in seen_packets.take() {
            if let Some(Some(slot)) = watching.get_mut(place) {
                slot.give(seen);
            }
        }
        for (place, slot) in watching.iter_mut().enumerate() {
            if let Some(slot) = slot {
                slot.turn(place, allowances);
            }
        }
        drop(slots);
        std::thread::sleep(TURN);
    }
}

impl Slot {
    /// Takes what workers have seen, and lets all see more.
    fn turn(&mut self, place: usize, allowances: &Allowances) {
        while let Some(seen) = self.subscription.take() {
            self.give(seen);
        }
        let lost = allowances.lost(place) + self.subscription.lost() + self.refused;
        self.lost.store(lost, Relaxed);
        allowances.allow(place, self.allowed);
        self.subscription.allow(self.allowed);
    }

    fn give(&mut self, mut seen: Seen) {
        let ports = self.ports.as_ref();
        if ports.is_some_and(|ports| !ports.contains(&seen.input)) {
            return;
        }
        seen.now.truncate(self.subscription.snap);
        if let Err(TrySendError::Full(_)) = self.to.try_send(seen) {
            self.refused += 1;
        }
    }
}
