//! The mirror: the caller's thread polls it, and it makes the FIB follow the kernel.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Bound;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bora_fib::{FibWriter, NextHopId};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

use crate::bridge::{self, BridgeWatch, Bridges};
use crate::check::Check;
use crate::confirm::TURN;
use crate::error::KernelError;
use crate::exceptions::Exceptions;
use crate::guard::{FlowOffload, Guard, GuardReport};
use crate::keys::HopKey;
use crate::load::{Loader, note};
use crate::message::bridge::BridgeEvent;
use crate::message::{self, Link, Neighbour, RTPROT_RA};
use crate::model::{Model, Noticed, Stale};
use crate::path_mtu::PathMtus;
use crate::reading::Reading;
use crate::resolve::Resolver;
use crate::socket::{Netlink, Received};
use crate::status::Reconciliation;
use crate::sysctl::{Settings, Unread};
use crate::waker::Waker;
use crate::world::{LocalAddresses, Port};

/// Groups whose events the mirror reads.
const EVENTS: [u32; 13] = [
    libc::RTNLGRP_LINK,
    libc::RTNLGRP_NEIGH,
    libc::RTNLGRP_TC,
    libc::RTNLGRP_IPV4_IFADDR,
    libc::RTNLGRP_IPV4_ROUTE,
    libc::RTNLGRP_IPV4_RULE,
    libc::RTNLGRP_IPV6_IFADDR,
    libc::RTNLGRP_IPV6_ROUTE,
    libc::RTNLGRP_IPV6_RULE,
    libc::RTNLGRP_IPV4_NETCONF,
    libc::RTNLGRP_IPV6_NETCONF,
    libc::RTNLGRP_NEXTHOP,
    libc::RTNLGRP_BRVLAN,
];
/// How long to wait for more events before a reconciliation, because events rarely come alone.
const SETTLE: Duration = Duration::from_millis(50);
/// How long an incomplete reconciliation waits before it is repeated: the first value, then twice
/// as long each time, at most the second.
const REPEAT: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];
/// How long after its end an expiring IPv6 route is read again: well past the kernel's clock tick,
/// because a route with exactly no time left looks like one without an end.
const EXPIRED: Duration = Duration::from_millis(50);
/// How often to read the routes of router advertisements while their preferences decide, which change without an
/// event.
const PREFERENCE: Duration = Duration::from_secs(5);
/// How often to read what sends no events.
const TICK: Duration = Duration::from_secs(1);
/// How long the gateways of a new route may take to answer before it is used.
const ANSWER: Duration = Duration::from_millis(5);
/// How soon to try again the gateways that could not be asked for.
const RETRY: Duration = Duration::from_millis(100);
/// Most events of the time of a comparison to apply before the FIB is updated.
const BATCH: usize = 16_384;
/// How long a turn reads events, compares tables, and writes to the FIB; the rest waits for the next turn.
pub(crate) const SHARE: Duration = Duration::from_millis(3);
/// Interfaces whose sysctls are read in one turn, which takes some milliseconds.
const INTERFACES: usize = 64;
/// How long to leave the CPU to the thread of a verification.
const BREAK: Duration = Duration::from_millis(1);
/// Events between two looks at the clock.
const FEW: usize = 64;

/// Settings of a mirror.
#[derive(Clone, Copy, Debug)]
pub struct MirrorConfig {
    /// Size of the socket buffer for events, octets. The kernel fills it while we are busy: a full
    /// dump of the Internet's table takes about a second.
    pub event_buffer: usize,
    /// How often the kernel's tables are compared with ours without an event; less often if that
    /// takes long.
    pub check_interval: Duration,
    /// Whether it leaves Linux's neighbours as they are: another mirror looks after them.
    pub only_looks: bool,
}

impl Default for MirrorConfig {
    fn default() -> Self {
        Self {
            event_buffer: 256 << 20,
            check_interval: Duration::from_secs(60),
            only_looks: false,
        }
    }
}

/// What changed in a [`Mirror::poll`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Entries of the FIB that changed.
    pub fib: usize,
    /// Interfaces came, went or changed ([`Mirror::links`]).
    pub links: bool,
    /// [`Mirror::local_addresses`] changed.
    pub local_addresses: bool,
    /// [`Mirror::settings`] changed.
    pub settings: bool,
    /// [`Mirror::bridges`] changed.
    pub bridges: bool,
    /// [`Mirror::guard`] changed.
    pub guard: bool,
    /// More events wait: poll again at once.
    pub more: bool,
    /// How long that took, without the wait.
    pub took: Duration,
}

impl Changes {
    /// For a caller that has followed nothing yet.
    pub fn everything() -> Self {
        Self {
            fib: 1,
            links: true,
            local_addresses: true,
            settings: true,
            bridges: true,
            guard: true,
            more: false,
            took: Duration::ZERO,
        }
    }
}

/// A next hop that something other than a route uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldHop {
    /// Interface index.
    pub device: u32,
    /// The neighbour.
    pub gateway: IpAddr,
    /// Whether it is for IPv6 packets; the neighbour's address may be of the other version.
    pub v6: bool,
}

impl HeldHop {
    fn key(self) -> HopKey {
        HopKey {
            device: self.device,
            gateway: Some(self.gateway),
            v6: self.v6,
            mtu: 0,
        }
    }
}

/// Counters for the status.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) events: u64,
    pub(crate) events_at_tick: u64,
    pub(crate) events_per_second: u64,
    pub(crate) overflows: u64,
    pub(crate) reconciliations: u64,
}

/// Keeps a FIB equal to the kernel's tables of one network namespace: that of the thread that
/// opens it, and only that thread (or one in the same namespace) may poll it.
pub struct Mirror {
    pub(crate) model: Model,
    pub(crate) loader: Loader,
    pub(crate) guard: Guard,
    resolver: Resolver,
    path_mtus: PathMtus,
    exceptions: Exceptions,
    bridges: BridgeWatch,
    pub(crate) check: Check,
    /// Entries of the FIB and of our tables that checks have corrected.
    pub(crate) mended: u64,
    events: Netlink,
    wakeup: Arc<OwnedFd>,
    /// The reconciliation that is under way; events wait until it has ended.
    reading: Option<Reading>,
    /// How many events of its time to apply before the FIB is updated: they may tell once more what was read.
    replay: usize,
    /// A verification waits for its thread, and needs no step at once.
    pub(crate) awaits_second: bool,
    /// When the pending reconciliation is due.
    due: Option<Instant>,
    /// How long to pause after the last reconciliation, and until when.
    pause: Duration,
    not_before: Instant,
    /// When the next IPv6 route expires, or has to be read again, by protocol.
    expiry: BTreeMap<u8, Instant>,
    next_tick: Instant,
    /// Whether the sysctls of the ports are being read, some in each turn.
    sweeps: bool,
    /// The last read did not empty the event socket.
    pub(crate) more: bool,
    pub(crate) decode_errors: u64,
    pub(crate) counters: Counters,
    pub(crate) last: Option<Reconciliation>,
    pub(crate) in_sync: (bool, SystemTime),
    /// When all events had been read and were in the FIB.
    caught_up: Instant,
    /// Whether the caller hashes flows as the kernel does; IPv4, IPv6.
    pub(crate) hashed: [bool; 2],
}

impl Mirror {
    /// Subscribes to the kernel's events, then loads its tables into the FIB.
    ///
    /// # Errors
    /// [`KernelError::Open`], [`KernelError::Dump`]; [`KernelError::Fib`] where the FIB has no
    /// room even for its fixed entries.
    pub fn open(config: MirrorConfig, fib: FibWriter) -> Result<Self, KernelError> {
        let events = Netlink::open(
            libc::NETLINK_ROUTE,
            &EVENTS,
            config.event_buffer,
            "routing events",
        )?;
        let wakeup = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|e| {
            KernelError::Open {
                what: "wake-ups",
                source: e.into(),
            }
        })?;
        let wakeup = Arc::new(wakeup);
        let mut mirror = Self {
            model: Model::new(fib)?,
            loader: Loader::open()?,
            guard: Guard::open()?,
            resolver: Resolver::open(config.only_looks)?,
            path_mtus: PathMtus::default(),
            exceptions: Exceptions::start(Waker::new(Arc::clone(&wakeup)))?,
            bridges: BridgeWatch::new(),
            check: Check::start(config.check_interval, Waker::new(Arc::clone(&wakeup)))?,
            mended: 0,
            events,
            wakeup,
            reading: None,
            replay: 0,
            awaits_second: false,
            due: None,
            pause: Duration::ZERO,
            not_before: Instant::now(),
            expiry: BTreeMap::new(),
            next_tick: Instant::now() + TICK,
            sweeps: false,
            more: false,
            decode_errors: 0,
            counters: Counters::default(),
            last: None,
            in_sync: (false, SystemTime::now()),
            caught_up: Instant::now(),
            hashed: [true; 2],
        };
        mirror.first_load()?;
        Ok(mirror)
    }

    fn first_load(&mut self) -> Result<(), KernelError> {
        self.model.stale = Stale {
            all: true,
            reason: "start",
            ..Stale::default()
        };
        self.reconcile()?;
        self.model.reread_settings(&Unread::everything());
        self.loader.noticed_stations(&mut self.model);
        self.model.sync();
        self.guard.evaluate(&self.model.world);
        let Model { world, hops, .. } = &self.model;
        // entries that an earlier, killed Bora asked for
        let keep = |device, address| hops.gateways.contains(device, address);
        self.resolver.release_others(world, keep);
        self.model.noticed = Noticed {
            rules: true, // an event may have come after the dump
            ..Noticed::default()
        };
        self.replay = 0; // nobody has seen the FIB yet
        self.update_status();
        Ok(())
    }

    /// Whether stations behind a VXLAN device are behind other far ends than this one.
    pub fn has_far_ends(&self, device: u32, than: Ipv4Addr) -> bool {
        let stations = self.model.world.stations.get(&device);
        let mut far_ends = stations
            .into_iter()
            .flat_map(|known| known.values().flatten());
        far_ends.any(|&far| far != Some(than))
    }

    /// The MTU of the path to a tunnel's far end, if Linux knows one of its own.
    pub fn path_mtu(&self, far: Ipv4Addr) -> Option<u32> {
        self.model.world.path_mtus.get(&far).copied()
    }

    /// Sets which interfaces are Bora's ports, by interface index. Replaces the previous set. Returns whether
    /// [`Mirror::guard`] changed thereby.
    ///
    /// # Errors
    /// [`KernelError::Wait`].
    pub fn set_ports(&mut self, ports: BTreeMap<u32, Port>) -> Result<bool, KernelError> {
        if ports == self.model.world.ports {
            return Ok(false);
        }
        self.model.set_ports(ports);
        self.resolve()?;
        self.write();
        let guard = self.guard.evaluate(&self.model.world);
        self.update_status();
        Ok(guard)
    }

    /// Follows the bridges that these interfaces belong to, and no others.
    pub fn follow_bridges(&mut self, ports: impl Iterator<Item = u32>) {
        let links = &self.model.world.links;
        let wanted = bridge::of_ports(ports, |index| links.get(&index));
        if self.bridges.want(wanted) {
            self.bridges.follow(&mut self.loader.socket);
        }
    }

    /// The bridges of [`Mirror::follow_bridges`].
    pub fn bridges(&self) -> &Bridges {
        &self.bridges.bridges
    }

    /// Waits for events, at most `timeout`, and updates the FIB. Call it in a loop; it returns
    /// early whenever there was something to do, even without changes. If the kernel refuses a
    /// dump, it is repeated later; until then [`Self::status`] says so.
    ///
    /// # Errors
    /// [`KernelError::Wait`]: there will be no more events.
    pub fn poll(&mut self, timeout: Duration) -> Result<Changes, KernelError> {
        self.wait(timeout)?;
        let began = Instant::now();
        let before = (
            self.model.local.generation,
            self.model.world.settings.generation,
        );
        self.check.receive();
        if let Some(found) = self.exceptions.take() {
            self.model.set_exceptions(found);
        }
        self.read_some()?;
        self.model.settle();
        let guard_events = self.guard.drain()?;
        if self.reading.is_none() && self.is_due() {
            self.begin_reading();
        }
        self.go_on_reading();
        let rules = self.follow_rules();
        self.loader.noticed_stations(&mut self.model);
        if !self.more {
            self.check.judge(&mut self.model);
        }
        let tick = Instant::now() >= self.next_tick;
        let mut noticed = std::mem::take(&mut self.model.noticed);
        if tick {
            // what events ask for does not stand for the ports
            if !self.sweeps {
                let ports = self.model.world.ports.keys();
                noticed.settings.devices.extend(ports);
                self.sweeps = true;
            }
            self.tick();
        }
        if tick || !noticed.settings.is_empty() {
            let links = self.model.world.links.keys().copied();
            let some = noticed.settings.take(links, INTERFACES);
            self.model.reread_settings(&some);
            self.sweeps &= !noticed.settings.is_empty();
            self.model.noticed.settings = noticed.settings;
        }
        self.model.end_holds();
        self.resolve()?;
        self.confirm();
        let fib = self.write();
        if tick && self.model.is_written() && !self.is_between() {
            self.audit();
        }
        if self.reading.is_none() {
            self.check.begin_if_due(&self.model);
        }
        let doubted = self.bridges.note_changes(noticed.bridges);
        // what is doubted goes first: reading takes its time
        let bridges = doubted || self.bridges.follow(&mut self.loader.socket);
        if guard_events || noticed.guard || rules || (tick && self.guard.is_due()) {
            self.guard.note_change();
        }
        let settings = before.1 != self.model.world.settings.generation;
        let guard = self.guard.follow_changes(&self.model.world)
            | ((noticed.links || settings) && self.guard.follow_links(&self.model.world));
        self.schedule();
        self.update_status();
        Ok(Changes {
            fib,
            links: noticed.links,
            local_addresses: before.0 != self.model.local.generation,
            settings,
            bridges,
            guard,
            more: self.is_busy(),
            took: began.elapsed(),
        })
    }

    /// Goes on with the reconciliation that is under way.
    fn go_on_reading(&mut self) {
        let until = Some(Instant::now() + SHARE);
        let Some(reading) = &mut self.reading else {
            return;
        };
        match reading.step(&mut self.loader, &mut self.model, until) {
            Ok(false) => {}
            Ok(true) => self.end_reading(None),
            Err(error) => self.end_reading(Some(&error)),
        }
    }

    /// Whether the model is between what it was and what was read, or is made of events that are older than that.
    fn is_between(&self) -> bool {
        self.reading.is_some() || self.replay > 0
    }

    /// Writes changes to the FIB, as many as a turn may take. Returns how many.
    fn write(&mut self) -> usize {
        if self.is_between() {
            return 0;
        }
        self.model.sync_until(Some(Instant::now() + SHARE))
    }

    /// Whether there is work that nothing has to be waited for.
    fn is_busy(&self) -> bool {
        match &self.reading {
            Some(reading) => !reading.waits || self.model.has_small_work(),
            None => self.more || self.model.has_work(),
        }
    }

    /// Whether the FIB is made of all that Linux has told so far.
    pub(crate) fn is_current(&self) -> bool {
        !self.is_between() && !self.is_busy() && self.model.stale.is_empty()
    }

    /// Has what is stale compared in the next turn; returns why that was not possible the last time.
    pub(crate) fn hasten(&mut self) -> Option<&str> {
        if self.reading.is_none() && !self.model.stale.is_empty() {
            self.due = Some(Instant::now());
        }
        self.last.as_ref()?.failure.as_deref()
    }

    /// Reads the rules again if they have changed, or could not be read; returns whether it did.
    fn follow_rules(&mut self) -> bool {
        let rules = &self.model.world.rules;
        let unread = rules.iter().any(|rules| rules.unread.is_some());
        let again = unread && Instant::now() >= self.next_tick;
        let changed = std::mem::take(&mut self.model.noticed.rules) || again;
        if changed {
            self.loader.rules(&mut self.model);
        }
        changed
    }

    /// Reads the sysctls now. Most of them change without an event and are otherwise read once a
    /// second. Returns whether any changed.
    pub fn reread_settings(&mut self) -> bool {
        self.model.reread_settings(&Unread::everything())
    }

    /// Notes that what the caller made of the mirror was wrong, and is corrected.
    pub fn note_mended(&mut self) {
        self.mended += 1;
    }

    /// Asks for the gateways of new routes and gives them a moment to answer. Packets that come
    /// before the neighbour is known go to Linux, and later packets could overtake them.
    fn resolve(&mut self) -> Result<(), KernelError> {
        let mut unknown = self
            .resolver
            .follow(&self.model.world, &mut self.model.hops);
        let until = Instant::now() + ANSWER;
        while !unknown.is_empty() && self.reading.is_none() && Instant::now() < until {
            let mut fds = [PollFd::new(&self.events, PollFlags::IN)];
            let step = Timespec {
                tv_sec: 0,
                tv_nsec: 1_000_000,
            };
            wait_for(&mut fds, &step)?;
            self.read(FEW)?;
            let neighbours = &self.model.world.neighbours;
            unknown.retain(|&(device, address)| !neighbours.contains_key(&(address, device)));
        }
        Ok(())
    }

    /// Tells Linux of some neighbours that packets go to, so that it finds out whether they are still there.
    fn confirm(&mut self) {
        let used = self.model.take_used(TURN);
        let told = self.resolver.confirm(&used);
        used[..told].iter().for_each(|one| self.model.delayed(one));
        self.model.unconfirmed.put_back(&used[told..]);
    }

    /// Lets the kernel forget the neighbours that it kept for Bora's routes. Call it at the end.
    pub fn release_neighbours(&mut self) {
        self.resolver
            .release_others(&self.model.world, |_, _| false);
    }

    fn wait(&mut self, timeout: Duration) -> Result<(), KernelError> {
        let timeout = match std::mem::take(&mut self.awaits_second) {
            true => timeout.max(BREAK),
            false => timeout,
        };
        let now = Instant::now();
        let until = |at: Instant| at.saturating_duration_since(now);
        let next_reading = self.due.into_iter().chain(self.expiry.values().copied());
        let next_reading = next_reading.filter(|_| self.reading.is_none()).min();
        let deadlines = [
            Some(self.next_tick),
            next_reading,
            self.bridges.due(),
            self.guard.due(),
            self.model.unconfirmed.due(),
        ];
        let mut timeout = deadlines
            .into_iter()
            .flatten()
            .map(until)
            .fold(timeout, Duration::min);
        if self.resolver.is_waiting() {
            timeout = timeout.min(RETRY);
        }
        if self.is_busy() {
            timeout = Duration::ZERO;
        }
        let fds: Vec<BorrowedFd<'_>> = self.fds().collect();
        let mut fds: Vec<PollFd<'_>> = fds
            .iter()
            .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
            .collect();
        // rounded up, so that a deadline has passed when we wake for it
        let timeout = Timespec {
            tv_sec: timeout.as_secs().cast_signed(),
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        wait_for(&mut fds, &timeout)?;
        match rustix::io::read(&self.wakeup, &mut [0; 8]) {
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => Ok(()), // usually there is nothing to read
            Err(e) => Err(KernelError::Wait(e.into())),
        }
    }

    /// The descriptors that [`Self::poll`] waits for.
    fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let events = self.reading.is_none().then(|| self.events.as_fd());
        let fds = events.into_iter().chain([self.wakeup.as_fd()]);
        fds.chain(self.guard.fds())
    }

    /// A handle that ends a poll from another thread.
    pub fn waker(&self) -> Waker {
        Waker::new(Arc::clone(&self.wakeup))
    }

    /// Applies the events that wait, or a share of them.
    fn read_some(&mut self) -> Result<(), KernelError> {
        let until = Instant::now() + SHARE;
        while self.read(FEW)? && Instant::now() < until {}
        Ok(())
    }

    /// Applies at most `most` events; returns whether there are more that may be applied now.
    fn read(&mut self, most: usize) -> Result<bool, KernelError> {
        let Self {
            events,
            model,
            decode_errors,
            counters,
            replay,
            ..
        } = self;
        if self.reading.is_some() {
            return Ok(false);
        }
        for _ in 0..most {
            let received = events.receive(|frame| {
                counters.events += 1;
                match frame.map(|frame| (frame.kind, message::decode(&frame))) {
                    Ok((_, Ok(message))) => model.apply(message),
                    Ok((kind, Err(e))) => note(decode_errors, kind, e),
                    Err(e) => note(decode_errors, 0, e), // its head is cut short
                }
            })?;
            match received {
                Received::Datagram => *replay = replay.saturating_sub(1),
                Received::Empty => {
                    (*replay, self.more) = (0, false);
                    return Ok(false);
                }
                Received::Overflow => {
                    counters.overflows += 1;
                    model.stale.all = true;
                    model.noticed.bridges.push(BridgeEvent::Other);
                    model.stale.reason = "the kernel dropped events";
                }
            }
        }
        self.more = true;
        Ok(true)
    }

    fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let expired = self.expiry.iter().filter(|(_, at)| now >= **at);
        let expired: Vec<u8> = expired.map(|(&protocol, _)| protocol).collect();
        self.expiry.retain(|_, at| now < *at);
        if !expired.is_empty() {
            self.model.stale.protocols.extend(&expired);
            self.model.stale.reason = "a route may have expired or another preference";
        }
        !expired.is_empty() || self.due.is_some_and(|at| now >= at)
    }

    /// Sets when the next reconciliation is due. The first of several events decides, so that a
    /// steady stream of them cannot delay it.
    fn schedule(&mut self) {
        let now = Instant::now();
        if self.model.stale.is_empty() {
            self.due = None;
        } else if self.due.is_none() {
            self.due = Some(self.not_before.max(now + SETTLE));
        }
        for (protocol, left) in std::mem::take(&mut self.model.next_expiry) {
            let at = now + Duration::from_millis(u64::from(left) * 10) + EXPIRED;
            self.read_again(protocol, at);
        }
        if self.model.v6.has_advertised_rivals() {
            self.read_again(RTPROT_RA, now + PREFERENCE);
        }
    }

    /// Sets when the IPv6 routes of a protocol are read again, at the latest.
    fn read_again(&mut self, protocol: u8, at: Instant) {
        let due = self.expiry.entry(protocol).or_insert(at);
        *due = at.min(*due);
    }

    /// Begins to compare what is stale with the kernel.
    fn begin_reading(&mut self) {
        self.due = None;
        self.more = true; // until an event could be looked for
        let stale = std::mem::take(&mut self.model.stale);
        let waker = Some(self.waker());
        let reading = Reading::begin(&mut self.loader, &mut self.model, stale, waker);
        self.reading = Some(reading);
    }

    /// Ends a comparison. What failed, or was interrupted by changes, stays stale.
    fn end_reading(&mut self, error: Option<&KernelError>) {
        let Some(mut reading) = self.reading.take() else {
            return;
        };
        if error.is_some() {
            reading.abandon(&mut self.model);
        }
        self.replay = BATCH;
        let Reading {
            stale,
            began,
            outcome,
            ..
        } = reading;
        let (reason, differences) = (stale.reason, outcome.differences);
        let overtaken = outcome.overtaken.then(|| "changes overtook it".into());
        let failure = error.map(ToString::to_string).or(overtaken);
        // what the dumps showed is fresh, except devices that have just appeared in them
        if failure.is_some() {
            self.model.stale.add(stale);
        } else if stale.all {
            self.model.stale = Stale::default();
        } else {
            self.model.stale.objects &= !stale.objects;
        }
        let took = began.elapsed();
        self.pause = if failure.is_some() {
            (2 * self.pause).clamp(REPEAT[0], REPEAT[1])
        } else {
            took // so that comparisons take at most half of the time
        };
        self.not_before = Instant::now() + self.pause;
        if failure.is_none() && std::mem::take(&mut self.check.suspects) && differences > 0 {
            log::error!("the background check found {differences} differences and corrected them");
            self.mended += differences as u64;
        }
        self.remember(Reconciliation {
            at: SystemTime::now(),
            took,
            reason,
            differences,
            failure,
        });
        self.schedule();
    }

    /// Compares what is stale with the kernel, all at once.
    fn reconcile(&mut self) -> Result<(), KernelError> {
        self.begin_reading();
        let Some(reading) = &mut self.reading else {
            return Ok(());
        };
        let compared = reading.step(&mut self.loader, &mut self.model, None);
        self.end_reading(compared.as_ref().err());
        compared.map(drop)
    }

    fn remember(&mut self, done: Reconciliation) {
        self.counters.reconciliations += 1;
        let (reason, differences, took) = (done.reason, done.differences, done.took);
        log::debug!("reconciled ({reason}): {differences} differences, {took:?}");
        let last = self.last.as_ref();
        let before = last.and_then(|last| last.failure.as_ref());
        match (before, &done.failure) {
            (None, Some(why)) => log::warn!(
                "cannot compare the FIB with the kernel's tables: {why}; Bora tries again"
            ),
            (Some(_), None) => {
                log::info!("the FIB could be compared with the kernel's tables again");
            }
            _ => {}
        }
        self.last = Some(done);
    }

    fn tick(&mut self) {
        self.next_tick = Instant::now() + TICK;
        let counters = &mut self.counters;
        counters.events_per_second = counters.events - counters.events_at_tick;
        counters.events_at_tick = counters.events;
        self.model.retry_refused();
        let world = &mut self.model.world;
        for tunnel in self.path_mtus.step(&mut self.loader.socket, world) {
            self.model.hops.refresh_later(tunnel);
        }
        self.model.find_used();
    }

    /// Checks a part of the FIB.
    fn audit(&mut self) {
        let wrong = self.model.audit();
        if wrong > 0 {
            log::error!("{wrong} entries of the FIB were wrong and have been corrected");
            self.mended += wrong as u64;
        }
    }

    fn update_status(&mut self) {
        let is_behind = self.more || self.is_between();
        if !is_behind && self.model.is_written() {
            self.caught_up = Instant::now();
        }
        let in_sync = self.model.is_settled() && !is_behind;
        if in_sync != self.in_sync.0 {
            self.in_sync = (in_sync, SystemTime::now());
        }
    }

    /// When the FIB had last what all events said that Linux had sent.
    pub fn caught_up(&self) -> Instant {
        self.caught_up
    }

    /// Takes a use of the next hop to a neighbour behind a device. The next hop follows the kernel:
    /// it is a punt while the neighbour is not known or the device is not a port.
    ///
    /// # Errors
    /// [`KernelError::Fib`] where next hops ran out.
    pub fn hold_next_hop(&mut self, way: HeldHop) -> Result<NextHopId, KernelError> {
        Ok(self.model.hops.acquire(&self.model.world, way.key())?)
    }

    /// Releases such a use. No worker may use its id any more.
    pub fn release_next_hop(&mut self, way: HeldHop) {
        self.model.hops.release_hop(way.key());
    }

    /// The FIB, for look-ups and sizes.
    pub fn fib(&self) -> &FibWriter {
        &self.model.hops.fib
    }

    /// The interfaces, by index.
    pub fn links(&self) -> &BTreeMap<u32, Link> {
        &self.model.world.links
    }

    /// The addresses of the interfaces.
    pub fn addresses(&self) -> impl Iterator<Item = &message::Address> {
        self.model.world.addresses.iter()
    }

    /// The kernel's neighbours, usable or not.
    pub fn neighbours(&self) -> impl Iterator<Item = &Neighbour> {
        self.model.world.neighbours.values()
    }

    /// Neighbours after the one with this address and interface.
    pub fn neighbours_after(&self, key: Option<(IpAddr, u32)>) -> impl Iterator<Item = &Neighbour> {
        let from = key.map_or(Bound::Unbounded, Bound::Excluded);
        let neighbours = &self.model.world.neighbours;
        neighbours
            .range((from, Bound::Unbounded))
            .map(|(_, one)| one)
    }

    /// The router's own addresses.
    pub fn local_addresses(&self) -> &LocalAddresses {
        &self.model.local
    }

    /// The sysctls that decide forwarding.
    pub fn settings(&self) -> &Settings {
        &self.model.world.settings
    }

    /// What must stay with the kernel.
    pub fn guard(&self) -> &GuardReport {
        self.guard.report()
    }

    /// Offers a flowtable to the established flows that pass Linux's chains, or none: the table `bora` of nftables, which
    /// ends with this mirror. Returns whether it was otherwise before.
    ///
    /// # Errors
    /// The kernel has no flowtables or no tables with owners (Linux 5.12), an interface is gone, or another has a table of this
    /// name; none is offered then.
    pub fn offer_flows(&mut self, wanted: Option<&FlowOffload>) -> std::io::Result<bool> {
        self.guard.offer_flows(wanted)
    }
}

/// Waits for a descriptor, or until a signal interrupts it.
fn wait_for(fds: &mut [PollFd<'_>], timeout: &Timespec) -> Result<(), KernelError> {
    match poll(fds, Some(timeout)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(e) => Err(KernelError::Wait(e.into())),
    }
}

#[cfg(test)]
mod tests;
