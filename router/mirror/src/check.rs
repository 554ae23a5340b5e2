//! The background check: are the kernel's tables and ours still equal?
//!
//! Events may be lost and our tables may be wrong, so now and then a separate thread reads the kernel's
//! tables and makes digests of them. The mirror's thread always has the digests of our tables and
//! compares; only if they differ does it read the kernel's tables itself.

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use bora_fib::{Prefix4, Prefix6};

use crate::digest::{Sums, hash, of_neighbour, of_route, of_target};
use crate::error::KernelError;
use crate::family::is_of;
use crate::message::{
    self, Address, Frame, Link, Message, NextHopMessage, NextHopObject, RTM_GETNEXTHOP,
};
use crate::model::Model;
use crate::rib::{Key, Prefix, Table, number};
use crate::socket::Netlink;
use crate::waker::Waker;

/// Checks may take 1/`SHARE` of the time.
const SHARE: u32 = 200;

/// Linux sends some events later than it changes its tables: a moment later when an interface goes
/// down, one second later for a carrier, two for an IPv6 address under duplicate address detection.
/// A difference that lasts longer is a fault.
const LATE: Duration = Duration::from_secs(3);
/// Time between checks while tables differ.
const SOON: Duration = Duration::from_millis(500);

/// The further tables of IPv4 and IPv6 that the mirror has.
type FurtherTables = [BTreeSet<u32>; 2];

/// Digests of the kernel's tables; `None` where the dump was interrupted by changes or failed.
struct Found {
    routes4: Option<Sums>,
    routes6: Option<Sums>,
    neighbours: Option<Sums>,
    rest: Option<u64>,
    took: Duration,
}

/// Change counters of our own tables when a check began.
struct Marks {
    routes4: u64,
    routes6: u64,
    neighbours: u64,
    rest: u64,
}

/// The mirror's side.
pub(crate) struct Check {
    orders: Sender<FurtherTables>,
    results: Receiver<Found>,
    begun: Option<Marks>,
    /// A result that has arrived and has not been compared yet.
    found: Option<Found>,
    interval: Duration,
    next: Instant,
    /// Since when every check has found differences, and [`Model::rest_changes`] then.
    doubt: Option<(Instant, u64)>,
    /// How long differences may last before they count as a fault ([`LATE`]).
    pub(crate) late: Duration,
    /// Checks so far.
    pub(crate) count: u64,
    /// The last check found differences: the next reconciliation says how many.
    pub(crate) suspects: bool,
}

impl Check {
    /// Starts the thread, in the network namespace of the caller.
    pub(crate) fn start(interval: Duration, waker: Waker) -> Result<Self, KernelError> {
        let what = "tables for the background check";
        let socket = Netlink::open(libc::NETLINK_ROUTE, &[], 1 << 20, what)?;
        let (orders, inbox) = channel();
        let (outbox, results) = channel();
        std::thread::Builder::new()
            .name("bora-check".into())
            .spawn(move || {
                bora_confine::thread(bora_confine::KERNEL);
                run(socket, &inbox, &outbox, &waker);
            })
            .map_err(|source| KernelError::Open { what, source })?;
        Ok(Self {
            orders,
            results,
            begun: None,
            found: None,
            interval,
            next: Instant::now() + interval,
            doubt: None,
            late: LATE,
            count: 0,
            suspects: false,
        })
    }

    /// Asks the thread to read the tables, if a check is due and our own tables are complete.
    pub(crate) fn begin_if_due(&mut self, model: &Model) {
        if self.begun.is_none() && Instant::now() >= self.next && model.stale.is_empty() {
            self.begun = Some(Marks {
                routes4: model.v4.digest.now(),
                routes6: model.v6.digest.now(),
                neighbours: model.neighbours.now(),
                rest: model.rest_changes,
            });
            let further = [false, true].map(|v6| model.world.further(v6).clone());
            if let Err(error) = self.orders.send(further) {
                log::error!("the background check has ended ({error}); restart Bora");
            }
        }
    }

    /// Receives a result. Call it before reading events, because events may be newer than the
    /// result.
    pub(crate) fn receive(&mut self) {
        self.found = self.results.try_iter().last().or(self.found.take());
    }

    /// Compares a result with our tables, once all events are in them. Marks the tables that have
    /// to be compared in full.
    pub(crate) fn judge(&mut self, model: &mut Model) {
        let Some((found, marks)) = self.found.take().zip(self.begun.take()) else {
            return;
        };
        self.next = Instant::now() + self.interval.max(found.took * SHARE);
        if !model.stale.is_empty() {
            self.doubt = None; // a full comparison is due anyway
            return;
        }
        self.count += 1;
        let differs = |of: &Option<Sums>, ours: &crate::digest::Digest, since| {
            of.as_ref()
                .is_some_and(|dumped| ours.differs(dumped, since))
        };
        let unchanged = model.rest_changes == marks.rest;
        let rest = found.rest.filter(|_| unchanged);
        let all = differs(&found.neighbours, &model.neighbours, marks.neighbours)
            || rest.is_some_and(|rest| rest != rest_of_model(model));
        let routes = differs(&found.routes4, &model.v4.digest, marks.routes4)
            || differs(&found.routes6, &model.v6.digest, marks.routes6);
        if !all && !routes {
            self.doubt = None;
            return;
        }
        let changes = model.rest_changes;
        let known = self.doubt.filter(|&(_, then)| then == changes);
        let (since, _) = *self
            .doubt
            .insert(known.unwrap_or((Instant::now(), changes)));
        if since.elapsed() < self.late {
            self.next = self.next.min(Instant::now() + SOON);
        } else {
            self.doubt = None;
            (model.stale.all, model.stale.routes) = (all, routes);
            model.stale.reason = "the background check";
            self.suspects = true;
        }
    }
}

/// Links, addresses and next-hop objects together.
fn rest_of_model(model: &Model) -> u64 {
    let links = model.world.links.values().map(of_link);
    let addresses = model.world.addresses.iter().map(of_address);
    let objects = model.world.objects.iter();
    let objects = objects.map(|(&id, object)| of_object(id, object));
    links
        .chain(addresses)
        .chain(objects)
        .fold(0, u64::wrapping_add)
}

/// Hash of a link without its qdisc, which changes without a link event.
fn of_link(link: &Link) -> u64 {
    let state = (link.up, link.carrier, link.mtu, link.master, link.vrf_table);
    hash(&("link", link.index, &link.name, link.mac, state))
}

fn of_address(address: &Address) -> u64 {
    hash(&("address", address.device, address.address, address.len))
}

fn of_object(id: u32, object: &NextHopObject) -> u64 {
    hash(&("object", id, object))
}

fn run(
    mut socket: Netlink,
    orders: &Receiver<FurtherTables>,
    results: &Sender<Found>,
    waker: &Waker,
) {
    // without the mirror no more orders come
    for [further4, further6] in orders {
        let start = Instant::now();
        // links first: when a link is removed, its entries in the other tables are removed too
        let rest = rest(&mut socket);
        let found = Found {
            routes4: routes::<Prefix4>(&mut socket, &further4),
            routes6: routes::<Prefix6>(&mut socket, &further6),
            neighbours: neighbours(&mut socket),
            rest,
            took: start.elapsed(),
        };
        // an error is that the mirror is gone
        let Ok(()) = results.send(found) else {
            return;
        };
        waker.wake();
    }
}

/// Reads a table; `None` if the dump is not complete.
fn dump<S: Default>(
    socket: &mut Netlink,
    kind: u16,
    request: &[u8],
    mut each: impl FnMut(&mut S, Message),
) -> Option<S> {
    let mut state = S::default();
    let restart = |state: &mut S| *state = S::default();
    let each = |state: &mut S, frame: Frame<'_>| {
        // the mirror's tables lack what cannot be decoded, too, and it has told so
        if let Ok(message) = message::decode(&frame) {
            each(state, message);
        }
    };
    match socket.dump(kind, request, &mut state, restart, each) {
        Ok(whole) => whole.then_some(state),
        // this kernel has no such table
        Err(KernelError::Dump { source, .. })
            if source.raw_os_error() == Some(libc::EOPNOTSUPP) =>
        {
            Some(S::default())
        }
        Err(error) => {
            log::warn!("the background check compares only a part: {error}; Bora tries again");
            None
        }
    }
}

fn rest(socket: &mut Netlink) -> Option<u64> {
    let add = |sum: &mut u64, hash: u64| *sum = sum.wrapping_add(hash);
    let links = dump(socket, libc::RTM_GETLINK, &[0; 16], |sum, message| {
        if let Message::Link(link, false) = message {
            add(sum, of_link(&link));
        }
    })?;
    // the dump may show an address twice
    let addresses: BTreeSet<Address> = dump(
        socket,
        libc::RTM_GETADDR,
        &[0; 8],
        |found: &mut BTreeSet<_>, message| {
            if let Message::Address(address, false) = message {
                found.insert(address);
            }
        },
    )?;
    let objects = dump(socket, RTM_GETNEXTHOP, &[0; 8], |sum, message| {
        if let Message::NextHop(NextHopMessage { id, object }, false) = message {
            add(sum, of_object(id, &object));
        }
    })?;
    let addresses = addresses.iter().map(of_address);
    Some(
        addresses
            .fold(links, u64::wrapping_add)
            .wrapping_add(objects),
    )
}

fn neighbours(socket: &mut Netlink) -> Option<Sums> {
    dump(
        socket,
        libc::RTM_GETNEIGH,
        &[0; 12],
        |sums: &mut Sums, message| {
            if let Message::Neighbour(neighbour, false) = message {
                let (address, hash) = of_neighbour(&neighbour);
                sums.add(address, hash);
            }
        },
    )
}

/// Routes in the order of a dump, which has those of a prefix and table one after the other.
struct Routes<P> {
    sums: Sums,
    last: Option<(P, Table)>,
    /// Keys of the routes of `last` so far.
    keys: Vec<Key>,
}

impl<P> Default for Routes<P> {
    fn default() -> Self {
        Self {
            sums: Sums::default(),
            last: None,
            keys: Vec::new(),
        }
    }
}

fn routes<P: Prefix>(socket: &mut Netlink, further: &BTreeSet<u32>) -> Option<Sums> {
    let family = if P::V6 { libc::AF_INET6 } else { libc::AF_INET };
    let mut request = [0; 12];
    request[0] = family as u8;
    let each = |found: &mut Routes<P>, message: Message| {
        let Message::Route(route, false) = message else {
            return;
        };
        let table = Table::from_number(route.table, P::V6, further);
        let Some(table) = table.filter(|_| is_of::<P>(&route) && route.expires >= 0) else {
            return;
        };
        let prefix = P::masked(number(route.address), route.len);
        if found.last != Some((prefix, table)) {
            (found.last, found.keys) = (Some((prefix, table)), Vec::new());
        }
        let key = (table, route.tos, route.source_specific, route.metric);
        let index = found.keys.iter().filter(|&&other| other == key).count();
        found.keys.push(key);
        let target = of_target(&route.target);
        let marks = (route.protocol, route.preference);
        let hash = of_route(prefix, key, marks, target, index);
        found.sums.add(prefix.parts().0, hash);
    };
    let found: Routes<P> = dump(socket, libc::RTM_GETROUTE, &request, each)?;
    Some(found.sums)
}
