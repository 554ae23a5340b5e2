//! Has Linux keep the gateways of routes resolved, and confirm neighbours that packets are sent to.
//!
//! Linux resolves a gateway when the first packet needs it, and confirms it while packets use it.
//! Bora's packets do not use Linux's neighbour table, so Bora requests the entries beforehand and
//! has Linux keep them fresh (NTF_EXT_MANAGED, Linux 5.16: include/uapi/linux/neighbour.h).
//! Permanent entries and those without ARP are left alone. Linux confirms STALE entries, gateways or
//! not, when packets go there (`confirm`); NTF_USE tells Linux that there was a packet.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::error::KernelError;
use crate::message::{NTF_EXT_MANAGED, Neighbour};
use crate::nexthops::NextHops;
use crate::request::Body;
use crate::scratch::octets;
use crate::socket::{Netlink, Received, result};
use crate::sysctl::{Files, PROC_SYS};
use crate::world::World;

/// Marks Bora's entries (NDA_PROTOCOL), so that the next Bora recognises those of a killed one.
const PROTOCOL: u8 = 176;
/// Requests per second; each makes Linux send an ARP request or a neighbour solicitation.
const RATE: u32 = 1000;
/// Neighbours to confirm in one system call.
const TOGETHER: usize = 128;
/// Most requests in one burst.
const BURST: u32 = 256;
/// Limit of gateways of an IP version, if the kernel's limit of neighbours cannot be read; it is
/// the kernel's default.
const MOST: usize = 512;
/// How long to wait before asking for the same gateway again.
const AGAIN: Duration = Duration::from_secs(5);

const NDA_DST: u16 = 1;
const NDA_PROTOCOL: u16 = 12;
const NDA_FLAGS_EXT: u16 = 15;
const NTF_USE: u8 = 1;

type Gateway = (u32, IpAddr);

/// Folders below /proc/sys/net.
const VERSIONS: [&str; 2] = ["ipv4", "ipv6"];

fn family(gateway: Gateway) -> usize {
    usize::from(gateway.1.is_ipv6())
}

/// Most gateways that the kernel is asked to keep; IPv4, IPv6. What cannot be read stays as it is `known`.
fn limits(known: [usize; 2]) -> [usize; 2] {
    let mut files = Files::below(PROC_SYS);
    let read =
        VERSIONS.map(|version| files.read(&format!("net/{version}/neigh/default/gc_thresh2")));
    if let Some(why) = files.failed {
        log::warn!("{why}; the last limit of gateways counts");
    }
    [0, 1].map(|family| read[family].flatten().unwrap_or(known[family]))
}

/// Asks for neighbours.
pub(crate) struct Resolver {
    socket: Netlink,
    /// Nothing is sent.
    only_looks: bool,
    /// When each gateway was last asked for; IPv4, IPv6.
    asked: [HashMap<Gateway, Instant>; 2],
    /// Gateways to check.
    waiting: BTreeSet<Gateway>,
    /// Gateways beyond the limit; IPv4, IPv6.
    crowded: [BTreeSet<Gateway>; 2],
    /// The limits, IPv4 and IPv6, and when they were read.
    limits: [usize; 2],
    limits_read: Instant,
    tokens: u32,
    refilled: Instant,
    /// Error numbers that have been logged.
    told: BTreeSet<i32>,
}

impl Resolver {
    /// `only_looks`: it asks for nothing.
    pub(crate) fn open(only_looks: bool) -> Result<Self, KernelError> {
        Ok(Self {
            only_looks,
            socket: Netlink::open(libc::NETLINK_ROUTE, &[], 1 << 16, "neighbours")?,
            asked: Default::default(),
            waiting: BTreeSet::new(),
            crowded: Default::default(),
            limits: limits([MOST; 2]),
            limits_read: Instant::now(),
            tokens: BURST,
            refilled: Instant::now(),
            told: BTreeSet::new(),
        })
    }

    /// Handles the gateways that changed. Returns those that were asked for and are not resolved
    /// yet.
    pub(crate) fn follow(&mut self, world: &World, hops: &mut NextHops) -> Vec<Gateway> {
        self.waiting.extend(hops.gateways.take());
        if self.only_looks {
            self.waiting.clear();
        }
        self.listen();
        self.read_limits();
        if self.waiting.is_empty() {
            return Vec::new();
        }
        self.refill();
        let (mut unknown, mut later) = (Vec::new(), Vec::new());
        while let Some(gateway) = self.waiting.pop_first() {
            let (device, address) = gateway;
            let neighbour = world.neighbours.get(&(address, device));
            let deleted = neighbour.is_some_and(|it| it.held && it.unconfirmed());
            let neighbour = neighbour.filter(|neighbour| !neighbour.held);
            if !hops.gateways.contains(device, address) {
                self.release(gateway, neighbour);
            } else if wants(world, device, neighbour) {
                if !deleted && !self.is_due(gateway) {
                    later.push(gateway);
                } else if self.is_full(gateway) {
                    self.put_aside(gateway);
                } else if self.tokens == 0 {
                    self.waiting.insert(gateway);
                    break;
                } else if !self.manage(gateway, neighbour) {
                    later.push(gateway); // again after `AGAIN`
                } else if neighbour.is_none() && !deleted {
                    unknown.push(gateway);
                }
            }
        }
        self.waiting.extend(later);
        unknown
    }

    /// Tells the kernel that packets went to neighbours. Returns how many of them it was told of.
    pub(crate) fn confirm(&mut self, used: &[Neighbour]) -> usize {
        let mut told = 0;
        for some in used.chunks(TOGETHER) {
            let messages = some.iter().map(used_message);
            if let Err(error) = self.socket.send_all(libc::RTM_NEWNEIGH, messages) {
                log::warn!("cannot have Linux confirm neighbours: {error}; Bora tries again");
                break;
            }
            told += some.len();
        }
        self.listen();
        told
    }

    /// Whether there is something to do without an event.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn is_due(&self, gateway: Gateway) -> bool {
        let asked = &self.asked[family(gateway)];
        asked.get(&gateway).is_none_or(|at| at.elapsed() >= AGAIN)
    }

    fn is_full(&self, gateway: Gateway) -> bool {
        let (asked, limit) = (&self.asked[family(gateway)], self.limits[family(gateway)]);
        asked.len() >= limit && !asked.contains_key(&gateway)
    }

    /// Puts a gateway aside until there is room.
    fn put_aside(&mut self, gateway: Gateway) {
        let family = family(gateway);
        if self.crowded[family].is_empty() {
            log::warn!(
                "more than {} gateways: the others are resolved by the first packet; raise \
                 net.{}.neigh.default.gc_thresh2",
                self.limits[family],
                VERSIONS[family]
            );
        }
        self.crowded[family].insert(gateway);
    }

    /// Reads the kernel's limits again, in case they were raised.
    fn read_limits(&mut self) {
        let crowded = self.crowded.iter().any(|crowded| !crowded.is_empty());
        if !crowded || self.limits_read.elapsed() < AGAIN {
            return;
        }
        (self.limits, self.limits_read) = (limits(self.limits), Instant::now());
        for family in [0, 1] {
            if self.asked[family].len() < self.limits[family] {
                self.waiting.append(&mut self.crowded[family]);
            }
        }
    }

    fn manage(&mut self, gateway: Gateway, neighbour: Option<&Neighbour>) -> bool {
        // do not touch an entry that somebody else makes at this moment
        let exclusive = if neighbour.is_none() {
            libc::NLM_F_CREATE | libc::NLM_F_EXCL
        } else {
            0
        };
        let body = message(gateway, 0)
            .attribute(NDA_FLAGS_EXT, &NTF_EXT_MANAGED.to_ne_bytes())
            .attribute(NDA_PROTOCOL, &[PROTOCOL]);
        self.tokens -= 1;
        self.asked[family(gateway)].insert(gateway, Instant::now());
        self.send(exclusive as u16, &body)
    }

    /// Allows the kernel to forget a gateway.
    fn release(&mut self, gateway: Gateway, neighbour: Option<&Neighbour>) {
        let family = family(gateway);
        self.crowded[family].remove(&gateway);
        if self.asked[family].remove(&gateway).is_some() {
            self.waiting.extend(self.crowded[family].pop_first());
        }
        if neighbour.is_some_and(|n| n.managed && n.protocol == PROTOCOL) {
            self.send(0, &message(gateway, NTF_USE));
        }
    }

    /// Releases all entries that are managed for Bora, except those that `keep` selects.
    pub(crate) fn release_others(&mut self, world: &World, keep: impl Fn(u32, IpAddr) -> bool) {
        if self.only_looks {
            return;
        }
        for neighbour in world.neighbours.values() {
            if !keep(neighbour.device, neighbour.address) {
                self.release((neighbour.device, neighbour.address), Some(neighbour));
            }
        }
    }

    fn send(&mut self, flags: u16, body: &Body) -> bool {
        match self.socket.send(libc::RTM_NEWNEIGH, flags, body.octets()) {
            Ok(()) => true,
            Err(error) => {
                log::warn!("cannot ask Linux to keep, or to forget, a neighbour: {error}");
                false
            }
        }
    }

    /// Reads what the kernel refused. A device has just gone, or an entry exists by now: that is usual. Anything
    /// else is told once.
    fn listen(&mut self) {
        const USUAL: [i32; 4] = [libc::ENODEV, libc::ENETDOWN, libc::EEXIST, libc::ENOENT];
        let told = &mut self.told;
        loop {
            let received = self.socket.receive(|frame| {
                let answer = frame.map(|frame| result(frame.payload));
                if let Ok(Err(error)) = answer // the kernel's frames are whole
                    && let Some(code) = error.raw_os_error().filter(|code| !USUAL.contains(code))
                    && told.insert(code)
                {
                    log::warn!(
                        "Linux refuses to keep a neighbour: {error}; the first packet to it takes Linux's way"
                    );
                }
            });
            match received {
                Ok(Received::Datagram) => {}
                Ok(Received::Empty | Received::Overflow) => return,
                Err(error) => return log::warn!("neighbours: {error}"),
            }
        }
    }

    fn refill(&mut self) {
        let due = self.refilled.elapsed().as_millis() as u32 * RATE / 1000;
        if due > 0 {
            self.tokens = self.tokens.saturating_add(due).min(BURST);
            self.refilled = Instant::now();
        }
    }
}

/// Whether a gateway of a port should be asked for.
fn wants(world: &World, device: u32, neighbour: Option<&Neighbour>) -> bool {
    const LEFT_ALONE: u16 = libc::NUD_PERMANENT | libc::NUD_NOARP;
    let port = world.ports.get(&device);
    port.is_some_and(|port| {
        port.tunnel
            .as_ref()
            .is_none_or(|tunnel| tunnel.has_stations)
    }) && world.asks_by(device)
        && neighbour.is_none_or(|n| n.state & LEFT_ALONE == 0 && !n.managed)
}

/// Flags and body that say that a packet went to a neighbour. Flags that the entry has and the body lacks would be
/// taken from it. Linux makes the entry again if it has deleted it.
fn used_message(neighbour: &Neighbour) -> (u16, Body) {
    let create = if neighbour.held {
        libc::NLM_F_CREATE
    } else {
        0
    };
    let learned = if neighbour.learned {
        libc::NTF_EXT_LEARNED
    } else {
        0
    };
    let body = message((neighbour.device, neighbour.address), NTF_USE | learned);
    let body = match neighbour.managed {
        true => body.attribute(NDA_FLAGS_EXT, &NTF_EXT_MANAGED.to_ne_bytes()),
        false => body,
    };
    (create as u16, body)
}

/// struct ndmsg with its address.
fn message((device, address): Gateway, flags: u8) -> Body {
    let family = if address.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    let mut head = [0; 12];
    head[0] = family as u8;
    head[4..8].copy_from_slice(&device.to_ne_bytes());
    head[10] = flags;
    Body::new(&head).attribute(NDA_DST, &octets(address))
}
