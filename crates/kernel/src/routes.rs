//! From Linux's routes and neighbours to the FIB.
//!
//! What is not certain is punted: the kernel then does what it does. So a device that is down or
//! no port of Bora's, a neighbour that is not resolved, an encapsulation, a route with a TOS all
//! lead to Linux, and Bora forwards only what it fully understands.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;

use bora_fib::{
    Adjacency, FibError, FibStats, FibWriter, Group, NextHop, NextHopId, PortId, Prefix4, Prefix6,
    PuntReason,
};

/// A destination prefix of either family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Net {
    /// Address, host bits zero.
    pub addr: IpAddr,
    /// Length in bits.
    pub len: u8,
}

impl std::fmt::Display for Net {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.addr, self.len)
    }
}

impl Net {
    /// The prefix of `len` bits that holds `addr`.
    pub fn of(addr: IpAddr, len: u8) -> Self {
        match addr {
            IpAddr::V4(v4) => {
                let prefix = Prefix4::masked(v4.to_bits(), len);
                Self {
                    addr: std::net::Ipv4Addr::from_bits(prefix.addr()).into(),
                    len,
                }
            }
            IpAddr::V6(v6) => {
                let prefix = Prefix6::masked(v6.to_bits(), len);
                Self {
                    addr: std::net::Ipv6Addr::from_bits(prefix.addr()).into(),
                    len,
                }
            }
        }
    }

    fn host(addr: IpAddr) -> Self {
        Self {
            addr,
            len: if addr.is_ipv4() { 32 } else { 128 },
        }
    }

    fn holds(&self, addr: IpAddr) -> bool {
        self.addr.is_ipv4() == addr.is_ipv4() && Self::of(addr, self.len).addr == self.addr
    }

    fn last(&self) -> IpAddr {
        match self.addr {
            IpAddr::V4(v4) => {
                let host = u32::MAX.checked_shr(self.len.into()).unwrap_or(0);
                std::net::Ipv4Addr::from_bits(v4.to_bits() | host).into()
            }
            IpAddr::V6(v6) => {
                let host = u128::MAX.checked_shr(self.len.into()).unwrap_or(0);
                std::net::Ipv6Addr::from_bits(v6.to_bits() | host).into()
            }
        }
    }
}

/// One way of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Via {
    /// Output interface.
    pub device: u32,
    /// Next router; `None` if destinations are on the link.
    pub gateway: Option<IpAddr>,
    /// Share among several ways.
    pub weight: u32,
}

/// What a route says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RouteKind {
    /// Forward by one of these.
    Unicast(Vec<Via>),
    /// Local, broadcast, anycast, multicast.
    Local,
    /// Drop.
    Blackhole,
    /// Answer "host unreachable".
    Unreachable,
    /// Answer "administratively prohibited".
    Prohibit,
    /// Something only Linux does: encapsulation, TOS, source routing, throw.
    Unsupported,
}

/// A route of table main or local.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Table local, which is asked first.
    pub local: bool,
    /// Lower is better.
    pub metric: u32,
    /// MTU of the route itself, 0 if it has none.
    pub mtu: u32,
    /// What it says.
    pub kind: RouteKind,
}

/// An interface that Bora forwards through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortInfo {
    /// Its number.
    pub port: PortId,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Largest IP packet.
    pub mtu: u32,
    /// Up, with carrier.
    pub up: bool,
}

/// A prefix on which kernel and FIB disagree.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Difference {
    /// Which prefix.
    pub prefix: String,
    /// In what way.
    pub problem: String,
}

/// A next-hop object of the FIB, by what it stands for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Target {
    /// Several [`Target::Via`] by weight.
    Group(Vec<Via>, u32),
    /// One router or neighbour behind a device; the last field is the route's own MTU.
    Via(u32, IpAddr, u32),
    /// The neighbours on a device's link, not resolved.
    Link(u32),
    Fixed(Fixed),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fixed {
    Local,
    Blackhole,
    Unreachable,
    Prohibit,
    Unsupported,
}

/// The routes and neighbours of Linux, and the FIB made of them.
pub struct Routes {
    fib: FibWriter,
    routes: HashMap<Net, Vec<Route>>,
    /// Prefixes of each length, IPv4 and IPv6: absent lengths are not asked for.
    lengths: [[u32; 129]; 2],
    neighbours: BTreeMap<(IpAddr, u32), [u8; 6]>,
    ports: HashMap<u32, PortInfo>,
    targets: HashMap<Target, NextHopId>,
    ids: HashMap<NextHopId, Target>,
    /// Prefixes of table local that are no host routes: they hide what table main has inside.
    covers: Vec<Net>,
    missing: u64,
    /// Prefixes with several routes of one metric.
    ambiguous: HashSet<Net>,
    /// IPv4 routes with an MTU of their own.
    mtus: BTreeMap<Net, u32>,
}

impl Routes {
    /// An empty mirror that programs this FIB.
    pub fn new(fib: FibWriter) -> Self {
        Self {
            fib,
            routes: HashMap::new(),
            lengths: [[0; 129]; 2],
            neighbours: BTreeMap::new(),
            ports: HashMap::new(),
            targets: HashMap::new(),
            ids: HashMap::new(),
            covers: Vec::new(),
            missing: 0,
            ambiguous: HashSet::new(),
            mtus: BTreeMap::new(),
        }
    }

    /// IPv4 prefixes whose route has an MTU of its own, in octets.
    pub fn mtus(&self) -> &BTreeMap<Net, u32> {
        &self.mtus
    }

    /// Sets or removes an interface that Bora forwards through; all routes over it follow.
    pub fn set_port(&mut self, device: u32, info: Option<PortInfo>) {
        if self.ports.get(&device) == info.as_ref() {
            return;
        }
        match info {
            Some(info) => self.ports.insert(device, info),
            None => self.ports.remove(&device),
        };
        self.refresh(|target| match target {
            Target::Via(over, ..) | Target::Link(over) => *over == device,
            Target::Group(..) | Target::Fixed(_) => false,
        });
    }

    /// Sets or removes the link-layer address of a neighbour.
    pub fn set_neighbour(&mut self, addr: IpAddr, device: u32, mac: Option<[u8; 6]>) {
        let key = (addr, device);
        if self.neighbours.get(&key).copied() == mac {
            return;
        }
        match mac {
            Some(mac) => self.neighbours.insert(key, mac),
            None => self.neighbours.remove(&key),
        };
        self.refresh(|target| matches!(target, Target::Via(d, a, _) if (*a, *d) == key));
        self.install(Net::host(addr));
    }

    /// Adds a route. With `replace` it takes the place of the one with its metric.
    ///
    /// Returns false if a route of the same metric is there already: which of them counts, and in
    /// what order their ways stand, only a dump tells.
    pub fn add(&mut self, net: Net, route: Route, replace: bool) -> bool {
        let list = self.routes.entry(net).or_default();
        let twin = |old: &Route| (old.local, old.metric) == (route.local, route.metric);
        match list.iter_mut().find(|old| twin(old)) {
            Some(old) if *old == route => {}
            Some(old) if replace => *old = route,
            Some(_) => drop(self.ambiguous.insert(net)),
            None => {
                list.push(route);
                list.sort_by_key(|route| (!route.local, route.metric));
                self.lengths[family(net.addr)][usize::from(net.len)] += 1;
            }
        }
        self.changed(net);
        !self.ambiguous.contains(&net)
    }

    /// Removes a route, or one way of it. Returns false if only a dump tells what is left.
    pub fn remove(&mut self, net: Net, route: &Route) -> bool {
        let certain = !self.ambiguous.contains(&net);
        let Some(list) = self.routes.get_mut(&net) else {
            return certain;
        };
        let twin = |old: &Route| (old.local, old.metric) == (route.local, route.metric);
        let Some(index) = list.iter().position(twin) else {
            return certain;
        };
        if let (RouteKind::Unicast(have), RouteKind::Unicast(gone)) =
            (&mut list[index].kind, &route.kind)
            && have.len() > gone.len()
        {
            have.retain(|via| {
                !gone
                    .iter()
                    .any(|g| (g.device, g.gateway) == (via.device, via.gateway))
            });
        } else {
            list.remove(index);
            self.lengths[family(net.addr)][usize::from(net.len)] -= 1;
            if list.is_empty() {
                self.routes.remove(&net);
            }
        }
        self.changed(net);
        certain
    }

    /// Makes the routes of one family what a dump says; returns how many prefixes changed.
    pub fn reconcile(&mut self, v6: bool, dumped: HashMap<Net, Vec<Route>>) -> usize {
        let old = self.routes.keys().filter(|net| net.addr.is_ipv6() == v6);
        let gone: Vec<Net> = old
            .filter(|net| !dumped.contains_key(net))
            .copied()
            .collect();
        let mut changed = gone.len();
        self.ambiguous.retain(|net| net.addr.is_ipv6() != v6);
        for net in gone {
            let list = self.routes.remove(&net).unwrap_or_default();
            self.lengths[family(net.addr)][usize::from(net.len)] -= list.len() as u32;
            self.changed(net);
        }
        for (net, mut list) in dumped {
            list.sort_by_key(|route| (!route.local, route.metric)); // stable: first of equals stays
            let all = list.len();
            list.dedup_by_key(|route| (route.local, route.metric));
            if list.len() < all {
                self.ambiguous.insert(net);
            }
            if self.routes.get(&net) == Some(&list) {
                continue;
            }
            let count = list.len() as u32;
            let old = self
                .routes
                .insert(net, list)
                .map_or(0, |old| old.len() as u32);
            let length = &mut self.lengths[family(net.addr)][usize::from(net.len)];
            *length = *length + count - old;
            self.changed(net);
            changed += 1;
        }
        changed
    }

    /// Makes the neighbours what a dump says.
    pub fn reconcile_neighbours(&mut self, dumped: &HashMap<(IpAddr, u32), [u8; 6]>) {
        let gone: Vec<_> = self
            .neighbours
            .keys()
            .filter(|key| !dumped.contains_key(key))
            .copied()
            .collect();
        for (addr, device) in gone {
            self.set_neighbour(addr, device, None);
        }
        for (&(addr, device), &mac) in dumped {
            self.set_neighbour(addr, device, Some(mac));
        }
    }

    /// All neighbours with a known address.
    pub fn neighbours(&self) -> impl Iterator<Item = (IpAddr, u32, [u8; 6])> {
        self.neighbours
            .iter()
            .map(|(&(addr, device), &mac)| (addr, device, mac))
    }

    /// All routes.
    pub fn routes(&self) -> impl Iterator<Item = (Net, &Route)> {
        self.routes
            .iter()
            .flat_map(|(&net, list)| list.iter().map(move |route| (net, route)))
    }

    /// The route an address takes.
    pub fn lookup(&self, addr: IpAddr) -> Option<(Net, &Route)> {
        let longest = if addr.is_ipv4() { 32 } else { 128 };
        let cover = self.covers.iter().find(|net| net.holds(addr));
        let mut lengths = (0..=longest).rev();
        lengths
            .by_ref()
            .filter(|&len| self.lengths[family(addr)][usize::from(len)] > 0)
            .map(|len| Net::of(addr, len))
            .chain(cover.copied())
            .find_map(|net| {
                let best = self.routes.get(&net)?.first()?;
                let hidden = !best.local && cover.is_some();
                (!hidden).then_some((net, best))
            })
    }

    /// Prefixes the FIB had no room for.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// Size of the FIB.
    pub fn fib_stats(&self) -> FibStats {
        self.fib.stats()
    }

    /// Frees what readers are through with.
    pub fn reclaim(&mut self) {
        self.fib.reclaim();
    }

    /// Compares the FIB with the routes; for `bora show sync --verify` after a fresh dump.
    pub fn verify(&self) -> Vec<Difference> {
        let mut found = Vec::new();
        let mut differ = |net: Net, problem: &str| {
            found.push(Difference {
                prefix: net.to_string(),
                problem: problem.into(),
            });
        };
        for &net in self.routes.keys() {
            let wanted = self
                .wanted(net)
                .and_then(|target| self.targets.get(&target));
            if self.installed(net) != wanted.copied() {
                differ(net, "the FIB leads elsewhere");
            }
        }
        let v4 = self.fib.iter4().map(|(prefix, _)| Net {
            addr: std::net::Ipv4Addr::from_bits(prefix.addr()).into(),
            len: prefix.len(),
        });
        let v6 = self.fib.iter6().map(|(prefix, _)| Net {
            addr: std::net::Ipv6Addr::from_bits(prefix.addr()).into(),
            len: prefix.len(),
        });
        for net in v4.chain(v6) {
            if self.wanted(net).is_none() {
                differ(net, "in the FIB without a route");
            }
        }
        found
    }

    /// After a change at a prefix: program it, and what depends on it.
    fn changed(&mut self, net: Net) {
        self.install(net);
        let best = self.routes.get(&net).and_then(|list| list.first());
        match best.filter(|route| route.mtu > 0 && net.addr.is_ipv4()) {
            Some(route) => self.mtus.insert(net, route.mtu),
            None => self.mtus.remove(&net),
        };
        let covers = best.is_some_and(|route| route.local);
        let known = self.covers.iter().position(|&cover| cover == net);
        if net != Net::host(net.addr) && covers != known.is_some() {
            match known {
                Some(index) => drop(self.covers.swap_remove(index)),
                None => self.covers.push(net),
            }
            let inside: Vec<Net> = self
                .routes
                .keys()
                .filter(|other| net.holds(other.addr))
                .copied()
                .collect();
            inside.into_iter().for_each(|other| self.install(other));
        }
        let inside = (net.addr, 0)..=(net.last(), u32::MAX);
        let neighbours: Vec<IpAddr> = self
            .neighbours
            .range(inside)
            .map(|(&(addr, _), _)| addr)
            .collect();
        neighbours
            .into_iter()
            .for_each(|addr| self.install(Net::host(addr)));
    }

    /// What the FIB should hold at exactly this prefix.
    fn wanted(&self, net: Net) -> Option<Target> {
        let hidden = self
            .covers
            .iter()
            .any(|cover| *cover != net && cover.holds(net.addr));
        if let Some(route) = self.routes.get(&net).and_then(|list| list.first())
            && (route.local || !hidden)
        {
            return Some(target_of(route));
        }
        if net != Net::host(net.addr) {
            return None;
        }
        // A neighbour, reached directly only where its address is routed to its own link.
        let (_, route) = self.lookup(net.addr)?;
        let RouteKind::Unicast(vias) = &route.kind else {
            return None;
        };
        let [
            Via {
                device,
                gateway: None,
                ..
            },
        ] = vias[..]
        else {
            return None;
        };
        self.neighbours.get(&(net.addr, device))?;
        Some(Target::Via(device, net.addr, route.mtu))
    }

    fn installed(&self, net: Net) -> Option<NextHopId> {
        match net.addr {
            IpAddr::V4(addr) => self.fib.get4(Prefix4::masked(addr.to_bits(), net.len)),
            IpAddr::V6(addr) => self.fib.get6(Prefix6::masked(addr.to_bits(), net.len)),
        }
    }

    fn install(&mut self, net: Net) {
        let old = self.installed(net);
        let new = self.wanted(net).map(|target| self.id_of(target));
        match new {
            None => {
                match net.addr {
                    IpAddr::V4(a) => self.fib.remove4(Prefix4::masked(a.to_bits(), net.len)),
                    IpAddr::V6(a) => self.fib.remove6(Prefix6::masked(a.to_bits(), net.len)),
                };
            }
            Some(Ok(id)) if old == Some(id) => return,
            Some(Ok(id)) => {
                let done = match net.addr {
                    IpAddr::V4(a) => self.fib.insert4(Prefix4::masked(a.to_bits(), net.len), id),
                    IpAddr::V6(a) => self.fib.insert6(Prefix6::masked(a.to_bits(), net.len), id),
                };
                if let Err(error) = done {
                    self.no_room(net, &error);
                }
            }
            Some(Err(error)) => self.no_room(net, &error),
        }
        if let Some(old) = old {
            self.release(old);
        }
    }

    /// A prefix that does not fit: the tables stay whole, and it is counted.
    fn no_room(&mut self, net: Net, error: &FibError) {
        if self.missing == 0 {
            log::error!("{net} is not in the FIB: {error}; counting further ones silently");
        }
        self.missing += 1;
    }

    /// The object that stands for a target, made if need be.
    fn id_of(&mut self, target: Target) -> Result<NextHopId, FibError> {
        if let Some(&id) = self.targets.get(&target) {
            return Ok(id);
        }
        let object = match &target {
            Target::Group(vias, mtu) => {
                let mut members = Vec::with_capacity(vias.len());
                for via in vias {
                    members.push((self.id_of(single(via, *mtu))?, via.weight));
                }
                NextHop::Group(Group::new(&members))
            }
            single => self.object_of(single),
        };
        let id = self.fib.add_next_hop(object)?;
        self.targets.insert(target.clone(), id);
        self.ids.insert(id, target);
        Ok(id)
    }

    /// Removes an object that nothing refers to any more, and its members likewise.
    fn release(&mut self, id: NextHopId) {
        if self.fib.next_hop_uses(id) > 0 || self.fib.remove_next_hop(id).is_err() {
            return;
        }
        let Some(target) = self.ids.remove(&id) else {
            return;
        };
        self.targets.remove(&target);
        if let Target::Group(vias, mtu) = target {
            for via in &vias {
                if let Some(&member) = self.targets.get(&single(via, mtu)) {
                    self.release(member);
                }
            }
        }
    }

    /// Rewrites the objects of some targets: one write each, whatever number of prefixes uses them.
    fn refresh(&mut self, concerned: impl Fn(&Target) -> bool) {
        let ids: Vec<NextHopId> = self
            .targets
            .iter()
            .filter(|(target, _)| concerned(target))
            .map(|(_, &id)| id)
            .collect();
        for id in ids {
            let object = self.object_of(&self.ids[&id]);
            if let Err(error) = self.fib.set_next_hop(id, object) {
                log::error!("next hop {id}: {error}");
            }
        }
    }

    fn object_of(&self, target: &Target) -> NextHop {
        let punt = |reason, port| NextHop::Punt { reason, port };
        match target {
            Target::Fixed(Fixed::Local) => punt(PuntReason::Local, None),
            Target::Fixed(Fixed::Blackhole) => NextHop::Blackhole,
            Target::Fixed(Fixed::Unreachable) => punt(PuntReason::Unreachable, None),
            Target::Fixed(Fixed::Prohibit) => punt(PuntReason::Prohibit, None),
            Target::Fixed(Fixed::Unsupported) | Target::Group(..) => {
                punt(PuntReason::Unsupported, None)
            }
            Target::Link(device) => match self.ports.get(device) {
                Some(info) if info.up => punt(PuntReason::NoNeighbour, Some(info.port)),
                _ => punt(PuntReason::Unsupported, None),
            },
            Target::Via(device, addr, mtu) => {
                let Some(info) = self.ports.get(device).filter(|info| info.up) else {
                    return punt(PuntReason::Unsupported, None);
                };
                match self.neighbours.get(&(*addr, *device)) {
                    Some(mac) => NextHop::Forward(adjacency(info, *mac, *mtu, addr)),
                    None => punt(PuntReason::NoNeighbour, Some(info.port)),
                }
            }
        }
    }
}

fn family(addr: IpAddr) -> usize {
    usize::from(addr.is_ipv6())
}

fn target_of(route: &Route) -> Target {
    match &route.kind {
        RouteKind::Unicast(vias) => match &vias[..] {
            [via] => single(via, route.mtu),
            _ => Target::Group(vias.clone(), route.mtu),
        },
        RouteKind::Local => Target::Fixed(Fixed::Local),
        RouteKind::Blackhole => Target::Fixed(Fixed::Blackhole),
        RouteKind::Unreachable => Target::Fixed(Fixed::Unreachable),
        RouteKind::Prohibit => Target::Fixed(Fixed::Prohibit),
        RouteKind::Unsupported => Target::Fixed(Fixed::Unsupported),
    }
}

fn single(via: &Via, mtu: u32) -> Target {
    match via.gateway {
        Some(gateway) => Target::Via(via.device, gateway, mtu),
        None => Target::Link(via.device),
    }
}

fn adjacency(info: &PortInfo, mac: [u8; 6], route_mtu: u32, neighbour: &IpAddr) -> Adjacency {
    let mtu = if route_mtu == 0 {
        info.mtu
    } else {
        route_mtu.min(info.mtu)
    };
    let ethertype: u16 = if neighbour.is_ipv4() { 0x0800 } else { 0x86dd };
    let mut l2 = [0; 14];
    l2[..6].copy_from_slice(&mac);
    l2[6..12].copy_from_slice(&info.mac);
    l2[12..].copy_from_slice(&ethertype.to_be_bytes());
    Adjacency {
        port: info.port,
        mtu: mtu.min(u16::MAX.into()) as u16,
        l2,
    }
}
