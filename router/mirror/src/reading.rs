//! A comparison of the model with the kernel's tables, in steps.
//!
//! While it is under way, events wait in their socket: those of its time are newer than what is read, or tell it once more.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::IpAddr;
use std::ops::Bound;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Instant;

use crate::compared::{Outcome, Table};
use crate::error::KernelError;
use crate::load::{Loader, note};
use crate::message::{Message, Neighbour, NextHopObject};
use crate::model::{Model, Stale};
use crate::read_routes::Routes;
use crate::reader::{self, Dump, Part, Piece};
use crate::sysctl::Unread;
use crate::waker::Waker;

/// Up to this many devices are compared one at a time, each with a walk through the tables. For
/// more it is cheaper to compare all routes at once.
const ONE_BY_ONE: usize = 4;
/// Neighbours between two looks at the clock.
const FEW: usize = 256;

/// A comparison that is under way.
pub(crate) struct Reading {
    pub(crate) stale: Stale,
    pub(crate) began: Instant,
    pub(crate) outcome: Outcome,
    inbox: Receiver<Piece>,
    /// The first is read or compared.
    tables: VecDeque<Box<dyn Table>>,
    /// Whether the first one's dump is whole, once it has ended.
    whole: Option<bool>,
    /// The thread that reads has nothing for us yet.
    pub(crate) waits: bool,
}

impl Reading {
    /// Begins to compare what is stale.
    pub(crate) fn begin(
        loader: &mut Loader,
        model: &mut Model,
        stale: Stale,
        waker: Option<Waker>,
    ) -> Self {
        if stale.all {
            loader.rules(model);
        }
        let dumps = dumps(model, &stale);
        Self {
            stale,
            began: Instant::now(),
            outcome: Outcome::default(),
            tables: dumps.iter().map(|&dump| table(dump)).collect(),
            inbox: reader::start(loader.open, dumps, waker),
            whole: None,
            waits: false,
        }
    }

    /// Goes on until it is late, or to the end if it may not be late. Returns whether all is compared.
    ///
    /// # Errors
    /// A table could not be read.
    pub(crate) fn step(
        &mut self,
        loader: &mut Loader,
        model: &mut Model,
        until: Option<Instant>,
    ) -> Result<bool, KernelError> {
        self.waits = false;
        while let Some(table) = self.tables.front_mut() {
            if let Some(whole) = self.whole {
                if table.compare(model, whole, &mut self.outcome) {
                    self.tables.pop_front();
                    self.whole = None;
                    model.settle();
                }
            } else {
                let piece = match until {
                    Some(_) => self.inbox.try_recv(),
                    None => self.inbox.recv().map_err(TryRecvError::from),
                };
                match piece {
                    Ok(piece) => self.take(loader, model, piece)?,
                    Err(TryRecvError::Empty) => {
                        self.waits = true;
                        return Ok(false);
                    }
                    Err(TryRecvError::Disconnected) => {
                        let (what, ended) = ("tables", "the thread that reads has ended");
                        let source = io::Error::other(ended);
                        return Err(KernelError::Dump { what, source });
                    }
                }
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return Ok(false);
            }
        }
        self.end(model);
        Ok(true)
    }

    fn take(
        &mut self,
        loader: &mut Loader,
        model: &mut Model,
        piece: Piece,
    ) -> Result<(), KernelError> {
        let Some(table) = self.tables.front_mut() else {
            return Ok(());
        };
        match piece {
            Piece::Messages(messages) => {
                messages.into_iter().for_each(|it| table.add(model, it));
            }
            Piece::Malformed(kind, error) => note(&mut loader.decode_errors, kind, error),
            Piece::Again => table.clear(model),
            Piece::End(whole) => {
                self.whole = Some(whole);
                self.outcome.overtaken |= !whole;
            }
            Piece::None => drop(self.tables.pop_front()),
            Piece::Failed(error) => return Err(error),
        }
        Ok(())
    }

    fn end(&mut self, model: &mut Model) {
        for &device in &self.stale.devices {
            if !model.world.links.contains_key(&device) {
                self.outcome.differences += model.drop_device(device);
            }
        }
        if reads_all_routes(&self.stale) && !self.outcome.overtaken {
            model.note_loaded();
        }
        if self.outcome.unordered {
            model.stale.routes = true;
            model.stale.reason = "routes of equal metric";
        }
    }

    /// Ends it before its time.
    pub(crate) fn abandon(&mut self, model: &mut Model) {
        self.tables.iter_mut().for_each(|table| table.clear(model));
    }
}

fn reads_all_neighbours(stale: &Stale) -> bool {
    stale.all || stale.devices.len() > ONE_BY_ONE
}

fn reads_all_routes(stale: &Stale) -> bool {
    stale.routes || reads_all_neighbours(stale)
}

/// What to read to bring the model in line with the kernel, in an order in which each is made of those before it.
fn dumps(model: &Model, stale: &Stale) -> Vec<Dump> {
    let mut dumps = Vec::new();
    let routes = |dumps: &mut Vec<Dump>, part| {
        dumps.extend([false, true].map(|v6| Dump::Routes { v6, part }));
    };
    if stale.all {
        dumps.extend([Dump::Links, Dump::Addresses]);
    }
    if stale.all || stale.objects {
        dumps.extend([Dump::Objects, Dump::Buckets]);
    }
    let all_neighbours = reads_all_neighbours(stale);
    let all_routes = reads_all_routes(stale);
    if all_neighbours {
        dumps.push(Dump::Neighbours(None));
    }
    if all_routes {
        routes(&mut dumps, Part::All);
    }
    let links = &model.world.links;
    for &device in stale.devices.iter().filter(|it| links.contains_key(it)) {
        if !all_neighbours {
            dumps.push(Dump::Neighbours(Some(device)));
        }
        if !all_routes {
            routes(&mut dumps, Part::Device(device));
        }
    }
    let protocols = stale.protocols.iter().filter(|_| !all_routes);
    dumps.extend(protocols.map(|&protocol| Dump::Routes {
        v6: true,
        part: Part::Protocol(protocol),
    }));
    dumps
}

fn table(dump: Dump) -> Box<dyn Table> {
    match dump {
        Dump::Links | Dump::Addresses | Dump::Objects | Dump::Buckets => Box::new(Small {
            dump,
            messages: Vec::new(),
        }),
        Dump::Neighbours(device) => Box::new(Neighbours {
            device,
            found: BTreeMap::new(),
            last: None,
            is_swept: false,
        }),
        Dump::Routes { v6: false, part } => Box::new(Routes::new(part, Model::side4)),
        Dump::Routes { v6: true, part } => Box::new(Routes::new(part, Model::side6)),
    }
}

/// A table of at most some thousands.
struct Small {
    dump: Dump,
    messages: Vec<Message>,
}

impl Table for Small {
    fn add(&mut self, _: &mut Model, message: Message) {
        self.messages.push(message);
    }

    fn clear(&mut self, _: &mut Model) {
        self.messages.clear();
    }

    fn compare(&mut self, model: &mut Model, whole: bool, outcome: &mut Outcome) -> bool {
        let messages = std::mem::take(&mut self.messages);
        outcome.differences += match self.dump {
            Dump::Links => links(model, messages, whole),
            Dump::Addresses => addresses(model, messages, whole),
            Dump::Objects => objects(model, messages, whole),
            _ => buckets(model, messages, whole),
        };
        true
    }
}

fn links(model: &mut Model, messages: Vec<Message>, whole: bool) -> usize {
    let index = |message: &Message| match message {
        Message::Link(link, false) => Some(link.index),
        _ => None,
    };
    let there: BTreeSet<u32> = messages.iter().filter_map(index).collect();
    let known = model.world.links.values().filter(|_| whole);
    let lost = known.filter(|link| !there.contains(&link.index)).cloned();
    let lost: Vec<_> = lost.map(|link| Message::Link(link, true)).collect();
    let found = messages.into_iter().filter(|it| index(it).is_some());
    let mut differences = 0;
    for message in lost.into_iter().chain(found) {
        let same = matches!(&message, Message::Link(link, false)
            if model.world.links.get(&link.index) == Some(link));
        differences += usize::from(!same);
        model.apply(message);
    }
    model.noticed.settings = Unread::everything();
    let vxlans = model.world.links.values().filter(|link| link.is_vxlan());
    model.noticed.stations.extend(vxlans.map(|link| link.index));
    differences
}

fn addresses(model: &mut Model, messages: Vec<Message>, whole: bool) -> usize {
    let found = messages.into_iter().filter_map(|message| match message {
        Message::Address(address, false) => Some(address),
        _ => None,
    });
    let mut new: BTreeSet<_> = found.collect();
    if !whole {
        new.extend(&model.world.addresses);
    }
    let old = std::mem::replace(&mut model.world.addresses, new);
    old.symmetric_difference(&model.world.addresses).count()
}

fn objects(model: &mut Model, messages: Vec<Message>, whole: bool) -> usize {
    let mut new: BTreeMap<u32, NextHopObject> = BTreeMap::new();
    if !whole {
        new.clone_from(&model.world.objects);
    }
    new.extend(messages.into_iter().filter_map(|message| match message {
        Message::NextHop(message, false) => Some((message.id, message.object)),
        _ => None,
    }));
    model.set_objects(new)
}

/// The buckets of resilient groups, if there are any.
fn buckets(model: &mut Model, messages: Vec<Message>, whole: bool) -> usize {
    if !whole {
        return 0;
    }
    let found = messages.into_iter().filter_map(|message| match message {
        Message::Bucket(bucket) => Some(bucket),
        _ => None,
    });
    let mut found: Vec<_> = found.collect();
    found.sort_by_key(|bucket| (bucket.group, bucket.index));
    let mut groups: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for bucket in found {
        groups
            .entry(bucket.group)
            .or_default()
            .push(bucket.next_hop);
    }
    model.set_buckets(groups)
}

/// The neighbours behind one device, or all.
struct Neighbours {
    device: Option<u32>,
    found: BTreeMap<(IpAddr, u32), Neighbour>,
    /// Which known one was the last to be looked for among those that were found.
    last: Option<(IpAddr, u32)>,
    is_swept: bool,
}

impl Neighbours {
    /// Removes some that were not found.
    fn sweep(&mut self, model: &mut Model) -> usize {
        let after = self.last.map_or(Bound::Unbounded, Bound::Excluded);
        let known = model.world.neighbours.range((after, Bound::Unbounded));
        let some: Vec<_> = known.map(|(&key, _)| key).take(FEW).collect();
        self.last = some.last().copied();
        self.is_swept = self.last.is_none();
        let concerned = |key: &(IpAddr, u32)| self.device.is_none_or(|device| device == key.1);
        let lost = |key: &(IpAddr, u32)| concerned(key) && !self.found.contains_key(key);
        let lost = some.into_iter().filter(lost);
        lost.filter(|&key| model.set_neighbour(key, None)).count()
    }
}

impl Table for Neighbours {
    fn add(&mut self, _: &mut Model, message: Message) {
        if let Message::Neighbour(neighbour, false) = message {
            let key = (neighbour.address, neighbour.device);
            self.found.insert(key, neighbour);
        }
    }

    fn clear(&mut self, _: &mut Model) {
        self.found.clear();
    }

    fn compare(&mut self, model: &mut Model, whole: bool, outcome: &mut Outcome) -> bool {
        if whole && !self.is_swept {
            outcome.differences += self.sweep(model);
            return false;
        }
        for _ in 0..FEW {
            let Some((key, neighbour)) = self.found.pop_first() else {
                return true;
            };
            outcome.differences += usize::from(model.set_neighbour(key, Some(neighbour)));
        }
        false
    }
}
