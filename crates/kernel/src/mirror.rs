//! The mirror: the caller's thread polls it, and the FIB follows the kernel.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bora_fib::{FibWriter, NextHopId};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::check::Check;
use crate::error::KernelError;
use crate::guard::{Guard, GuardReport};
use crate::load::{Loader, note};
use crate::message::{self, Link, Neighbour};
use crate::model::{Model, Noticed, Stale};
use crate::nexthops::HopKey;
use crate::resolve::Resolver;
use crate::socket::{Netlink, Received};
use crate::status::Reconciliation;
use crate::sysctl::{Settings, Unread};
use crate::world::{LocalAddresses, Port};

/// How long events may gather before a reconciliation: one event rarely comes alone.
const SETTLE: Duration = Duration::from_millis(50);
/// How long a reconciliation that did not come to its end waits before it is repeated: twice as long
/// each time, from the first to the second.
const REPEAT: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];
/// How long after its time an IPv6 route is looked at: well past the kernel's clock tick, because
/// a route that has exactly no time left looks like one that has no end.
const EXPIRED: Duration = Duration::from_millis(50);
/// How often what has no events is looked at.
const TICK: Duration = Duration::from_secs(1);
/// How long the gateways of a new route may take to answer before it is used.
const ANSWER: Duration = Duration::from_millis(5);
/// How soon gateways are looked at again that could not be asked for.
const RETRY: Duration = Duration::from_millis(100);
/// Events taken in before the FIB is brought up to date.
const BATCH: usize = 16_384;

/// Settings of a mirror.
#[derive(Clone, Copy, Debug)]
pub struct MirrorConfig {
    /// How much of events the kernel may keep for us while we are busy, octets. Only used when
    /// needed: a full dump of the Internet's table takes about a second.
    pub event_buffer: usize,
    /// How often the kernel's tables are compared with ours though no event asks for it; less often
    /// where that takes long.
    pub check_interval: Duration,
}

impl Default for MirrorConfig {
    fn default() -> Self {
        Self {
            event_buffer: 256 << 20,
            check_interval: Duration::from_secs(60),
        }
    }
}

/// What a [`Mirror::poll`] brought.
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
    /// [`Mirror::guard`] changed.
    pub guard: bool,
    /// More events wait: poll again at once.
    pub more: bool,
}

/// A next hop that is held for something else than a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldHop {
    /// Interface index.
    pub device: u32,
    /// The neighbour.
    pub gateway: IpAddr,
    /// Whether for packets of IPv6, whatever the neighbour's address.
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

/// Ends a [`Mirror::poll`] from another thread.
#[derive(Clone, Debug)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    /// Ends the poll in progress, or else the next.
    pub fn wake(&self) {
        // the only failure is a counter near 2^64: awake it is
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
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
    pub(crate) check: Check,
    /// Entries of the FIB and of our tables that checks have mended.
    pub(crate) mended: u64,
    events: Netlink,
    wakeup: Arc<OwnedFd>,
    /// When the pending reconciliation is due.
    due: Option<Instant>,
    /// How long the last one asked to be left in peace, and until when that is.
    pause: Duration,
    not_before: Instant,
    /// When an IPv6 route expires.
    expiry: Option<Instant>,
    next_tick: Instant,
    /// The last read of the event socket left something behind.
    more: bool,
    pub(crate) decode_errors: u64,
    pub(crate) counters: Counters,
    pub(crate) last: Option<Reconciliation>,
    pub(crate) in_sync: (bool, SystemTime),
    /// Whether the caller hashes flows as the kernel does, IPv4 and IPv6.
    pub(crate) hashed: [bool; 2],
}

impl Mirror {
    /// Subscribes to the kernel's events, then loads its tables into the FIB.
    ///
    /// # Errors
    /// [`KernelError::Open`], [`KernelError::Dump`]; [`KernelError::Fib`] where the FIB has no
    /// room even for its fixed entries.
    pub fn open(config: MirrorConfig, fib: FibWriter) -> Result<Self, KernelError> {
        let groups = [
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
        ];
        let groups = groups
            .iter()
            .fold(0, |mask, &group| mask | (1u32 << (group - 1)));
        let events = Netlink::open(
            libc::NETLINK_ROUTE,
            groups,
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
            resolver: Resolver::open()?,
            check: Check::start(config.check_interval, Waker(Arc::clone(&wakeup)))?,
            mended: 0,
            events,
            wakeup,
            due: None,
            pause: Duration::ZERO,
            not_before: Instant::now(),
            expiry: None,
            next_tick: Instant::now() + TICK,
            more: false,
            decode_errors: 0,
            counters: Counters::default(),
            last: None,
            in_sync: (false, SystemTime::now()),
            hashed: [true; 2],
        };
        mirror.model.stale = Stale {
            all: true,
            reason: "start",
            ..Stale::default()
        };
        mirror.reconcile()?;
        mirror.model.sync();
        mirror.guard.evaluate(&mirror.model.world);
        let Model { world, hops, .. } = &mirror.model;
        // what a killed predecessor asked for
        let keep = |device, address| hops.is_gateway(device, address);
        mirror.resolver.release_others(world, keep);
        mirror.model.noticed = Noticed::default();
        mirror.update_status();
        Ok(mirror)
    }

    /// Says which interfaces are Bora's ports, by interface index. Replaces what was said before.
    ///
    /// # Errors
    /// [`KernelError::Wait`].
    pub fn set_ports(&mut self, ports: BTreeMap<u32, Port>) -> Result<(), KernelError> {
        self.model.set_ports(ports);
        self.resolve()?;
        self.model.sync();
        self.guard.evaluate(&self.model.world);
        self.update_status();
        Ok(())
    }

    /// Waits for events, at most `timeout`, and brings the FIB up to date. Call it in a loop; it
    /// comes back early, also without changes, whenever there was something to do. What the kernel
    /// does not let us read is read again later; until then [`Self::status`] says so.
    ///
    /// # Errors
    /// [`KernelError::Wait`]: there will be no more events.
    pub fn poll(&mut self, timeout: Duration) -> Result<Changes, KernelError> {
        self.wait(timeout)?;
        let before = (
            self.model.local.generation,
            self.model.world.settings.generation,
        );
        self.check.receive();
        self.read_events()?;
        self.model.settle();
        let guard_events = self.guard.drain()?;
        if self.is_due() {
            // it says why by itself, and is repeated
            let _ = self.reconcile();
            self.read_events()?; // those that came during the dump, before anybody sees its result
            self.model.settle();
        }
        if !self.more {
            self.check.judge(&mut self.model);
        }
        let tick = Instant::now() >= self.next_tick;
        let mut noticed = std::mem::take(&mut self.model.noticed);
        if tick {
            let ports = self.model.world.ports.keys();
            noticed.settings.devices.extend(ports);
            self.tick();
        }
        if tick || !noticed.settings.is_empty() {
            self.model.reread_settings(&noticed.settings);
        }
        self.resolve()?;
        let fib = self.model.sync();
        if tick {
            self.audit();
        }
        self.check.begin_if_due(&self.model);
        let look = guard_events || noticed.guard || (tick && self.guard.is_due());
        let guard = if look {
            self.guard.evaluate(&self.model.world)
        } else {
            noticed.links && self.guard.follow_links(&self.model.world)
        };
        self.schedule();
        self.update_status();
        Ok(Changes {
            fib,
            links: noticed.links,
            local_addresses: before.0 != self.model.local.generation,
            settings: before.1 != self.model.world.settings.generation,
            guard,
            more: self.more,
        })
    }

    /// Reads the sysctls now, for those who cannot wait for the next second: most of them change
    /// without an event.
    pub fn reread_settings(&mut self) {
        self.model.reread_settings(&Unread::everything());
    }

    /// Asks for the gateways of new routes, and gives them a moment to answer before packets are
    /// sent there: what comes before its neighbour is known goes to Linux, and may then be overtaken.
    fn resolve(&mut self) -> Result<(), KernelError> {
        let mut unknown = self
            .resolver
            .follow(&self.model.world, &mut self.model.hops);
        let until = Instant::now() + ANSWER;
        while !unknown.is_empty() && Instant::now() < until {
            let mut fds = [PollFd::new(&self.events, PollFlags::IN)];
            let step = Timespec {
                tv_sec: 0,
                tv_nsec: 1_000_000,
            };
            let _ = poll(&mut fds, Some(&step)); // interrupted: looked at again
            self.read_events()?;
            let neighbours = &self.model.world.neighbours;
            unknown.retain(|&(device, address)| !neighbours.contains_key(&(address, device)));
        }
        Ok(())
    }

    /// Lets the kernel forget the neighbours that were kept for routes: call it at the end.
    pub fn release_neighbours(&mut self) {
        self.resolver
            .release_others(&self.model.world, |_, _| false);
    }

    fn wait(&mut self, timeout: Duration) -> Result<(), KernelError> {
        let now = Instant::now();
        let until = |at: Instant| at.saturating_duration_since(now);
        let deadlines = [Some(self.next_tick), self.due, self.expiry];
        let mut timeout = deadlines
            .into_iter()
            .flatten()
            .map(until)
            .fold(timeout, Duration::min);
        if self.resolver.is_waiting() {
            timeout = timeout.min(RETRY);
        }
        if self.more {
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
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(KernelError::Wait(e.into())),
        }
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.wakeup, &mut count); // empty most of the time
        Ok(())
    }

    /// What [`Self::poll`] waits for, for callers that wait themselves. They must still poll at
    /// least once a second.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [self.events.as_fd(), self.wakeup.as_fd()]
            .into_iter()
            .chain(self.guard.fds())
    }

    /// Something that ends a poll from another thread.
    pub fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.wakeup))
    }

    fn read_events(&mut self) -> Result<(), KernelError> {
        let Self {
            events,
            model,
            decode_errors,
            counters,
            ..
        } = self;
        for _ in 0..BATCH {
            let received = events.receive(|frame| {
                counters.events += 1;
                let kind = frame.map_or(0, |frame| frame.kind);
                match frame.and_then(|frame| message::decode(&frame)) {
                    Ok(message) => model.apply(message),
                    Err(e) => note(decode_errors, kind, e),
                }
            })?;
            match received {
                Received::Datagram => {}
                Received::Empty => {
                    self.more = false;
                    return Ok(());
                }
                Received::Overflow => {
                    counters.overflows += 1;
                    model.stale.all = true;
                    model.stale.reason = "the kernel dropped events";
                }
            }
        }
        self.more = true;
        Ok(())
    }

    fn is_due(&mut self) -> bool {
        let now = Instant::now();
        if self.expiry.is_some_and(|at| now >= at) {
            self.expiry = None;
            self.model.stale.routes = true;
            self.model.stale.reason = "a route expired";
            return true;
        }
        self.due.is_some_and(|at| now >= at)
    }

    /// Sets when the next reconciliation is due. The first event of a row decides, so that a
    /// steady stream of them cannot put it off.
    fn schedule(&mut self) {
        let now = Instant::now();
        if self.model.stale.is_empty() {
            self.due = None;
        } else if self.due.is_none() {
            self.due = Some(self.not_before.max(now + SETTLE));
        }
        if let Some(left) = self.model.next_expiry.take() {
            let at = now + Duration::from_millis(u64::from(left) * 10) + EXPIRED;
            self.expiry = Some(self.expiry.map_or(at, |expiry| expiry.min(at)));
        }
    }

    /// Compares what is stale with the kernel; what that fails for, or what changes overtook, stays stale.
    fn reconcile(&mut self) -> Result<(), KernelError> {
        let start = Instant::now();
        self.due = None;
        let stale = std::mem::take(&mut self.model.stale);
        let reason = stale.reason;
        let compared = self.loader.reconcile(&mut self.model, &stale);
        let failure = match &compared {
            Err(error) => Some(error.to_string()),
            Ok(_) if self.loader.overtaken => Some("changes overtook it".into()),
            Ok(_) => None,
        };
        // what the dumps showed needs no second look, except devices that just appeared in them
        if failure.is_some() {
            self.model.stale.add(stale);
        } else if stale.all {
            self.model.stale = Stale::default();
        } else {
            self.model.stale.objects &= !stale.objects;
        }
        let took = start.elapsed();
        self.pause = if failure.is_some() {
            (2 * self.pause).clamp(REPEAT[0], REPEAT[1])
        } else {
            took // so that comparisons take at most half of the time
        };
        self.not_before = Instant::now() + self.pause;
        let differences = *compared.as_ref().unwrap_or(&0);
        if failure.is_none() && std::mem::take(&mut self.check.suspects) && differences > 0 {
            log::error!("the background check found {differences} differences; they are mended");
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
                "cannot compare the FIB with the kernel's tables: {why}; it is tried again"
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
        self.resolver.confirm(&self.model.hops.take_unconfirmed());
    }

    /// Looks at some of the FIB.
    fn audit(&mut self) {
        let wrong = self.model.audit();
        if wrong > 0 {
            log::error!(
                "{wrong} entries of the FIB were not what Bora had made them; they are mended"
            );
            self.mended += wrong as u64;
        }
    }

    fn update_status(&mut self) {
        let in_sync = self.model.is_settled() && !self.more;
        if in_sync != self.in_sync.0 {
            self.in_sync = (in_sync, SystemTime::now());
        }
    }

    /// Takes a use of the next hop to a neighbour behind a device, for packets of IPv4 or (`v6`) IPv6.
    /// It follows the kernel: a punt while the neighbour is not known or the device no port.
    ///
    /// # Errors
    /// [`KernelError::Fib`] where next hops ran out.
    pub fn hold_next_hop(&mut self, way: HeldHop) -> Result<NextHopId, KernelError> {
        Ok(self.model.hops.acquire(&self.model.world, way.key())?)
    }

    /// Gives such a use back. No worker may have its number in use any more.
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
}

#[cfg(test)]
mod tests;
