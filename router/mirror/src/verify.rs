//! The status, and the full comparison of kernel and FIB.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use bora_fib::{FibConfig, FibWriter, NextHop, NextHopId};

use crate::error::KernelError;
use crate::family::Family;
use crate::message::{Hop, RouteType, Target};
use crate::mirror::Mirror;
use crate::model::{Model, Stale};
use crate::nexthops::NextHops;
use crate::rib::{Best, MERGED, Prefix, Tree};
use crate::status::{Difference, FamilyCounts, SyncStatus, Unsupported};
use crate::world::{Special, World};

/// How often [`Mirror::verify`] compares while the tables change.
const ATTEMPTS: usize = 3;

impl Mirror {
    /// How many prefixes the FIB had no room for; IPv4, IPv6.
    pub fn refused(&self) -> [usize; 2] {
        [self.model.v4.refused.len(), self.model.v6.refused.len()]
    }

    /// How many paths of routes and on-link hosts have no next hop, because all are in use.
    pub fn without_next_hop(&self) -> usize {
        self.model.without_next_hop()
    }

    /// Whether there currently are routes with several paths; IPv4, IPv6.
    pub fn multipath(&self) -> [bool; 2] {
        [false, true].map(|v6| self.model.hops.has_choice(v6))
    }

    /// Sets for which IP versions, IPv4 and IPv6, the caller can choose among several paths as the
    /// kernel does.
    pub fn set_hashed(&mut self, known: [bool; 2]) {
        self.hashed = known;
    }

    /// Whether there are routes with several paths among which only the kernel can choose; IPv4,
    /// IPv6.
    pub fn unhashed(&self) -> [bool; 2] {
        let in_use = self.multipath();
        [0, 1].map(|family: usize| in_use[family] && !self.hashed[family])
    }

    /// Whether kernel and FIB agree.
    pub fn status(&self) -> SyncStatus {
        let model = &self.model;
        SyncStatus {
            in_sync: self.in_sync.0,
            since: self.in_sync.1,
            v4: counts(&model.v4, self.fib()),
            v6: counts(&model.v6, self.fib()),
            neighbours: model
                .world
                .neighbours
                .values()
                .filter(|n| n.usable().is_some())
                .count(),
            kernel_next_hops: model.world.objects.len(),
            fib_next_hops: self.fib().stats().next_hops,
            next_hops_refused: model.hops.refused(),
            reconciliations: self.counters.reconciliations,
            last_reconciliation: self.last.clone(),
            checks: self.check.count,
            mended: self.mended,
            overflows: self.counters.overflows,
            events: self.counters.events,
            events_per_second: self.counters.events_per_second,
            decode_errors: self.decode_errors + self.loader.decode_errors,
            unsupported: unsupported(model),
        }
    }

    /// Loads the kernel's tables anew into a second FIB and compares it with the first. Returns
    /// the differences, which the next calls of [`Mirror::poll`] correct; takes as long as a start, or, while the
    /// tables change, up to [`ATTEMPTS`] starts, and as much memory.
    ///
    /// # Errors
    /// As [`Mirror::open`], and [`KernelError::Overtaken`].
    pub fn verify(&mut self) -> Result<Vec<Difference>, KernelError> {
        for _ in 0..ATTEMPTS {
            self.catch_up()?;
            let before = self.model.changes();
            let found = self.differences()?;
            self.catch_up()?;
            let quiet = self.model.changes() == before;
            let complete = !self.loader.overtaken && !self.more && self.model.stale.is_empty();
            if !complete || (!quiet && !found.is_empty()) {
                continue; // what differs may be what has just changed
            }
            if !found.is_empty() {
                self.model.stale.all = true;
                self.model.stale.reason = "a verification found differences";
            }
            return Ok(found);
        }
        Err(KernelError::Overtaken)
    }

    /// Compares a FIB made of fresh dumps with the current one.
    fn differences(&mut self) -> Result<Vec<Difference>, KernelError> {
        let (fib, _readers) = bora_fib::new(FibConfig {
            max_readers: 1,
            ..FibConfig::default()
        })?;
        let mut fresh = Model::new(fib)?;
        let stale = Stale {
            all: true,
            ..Stale::default()
        };
        self.loader.reconcile(&mut fresh, &stale)?;
        fresh.adopt_unresolved(&self.model);
        fresh.set_exceptions(self.model.world.exceptions.clone());
        fresh.world.path_mtus = self.model.world.path_mtus.clone();
        fresh.set_ports(self.model.world.ports.clone());
        fresh.v4.distrust(self.model.v4.distrusted.clone());
        fresh.v6.distrust(self.model.v6.distrusted.clone());
        for model in [&mut fresh, &mut self.model] {
            model.sync();
            while model.hops.is_outdated() {
                model.sync();
            }
        }
        let mut differences = Vec::new();
        let ours = &self.model;
        compare(
            &Side::new(&fresh.v4, &fresh.hops),
            &Side::new(&ours.v4, &ours.hops),
            &mut differences,
        );
        compare(
            &Side::new(&fresh.v6, &fresh.hops),
            &Side::new(&ours.v6, &ours.hops),
            &mut differences,
        );
        Ok(differences)
    }
}

fn counts<P: Prefix>(family: &Family<P>, fib: &FibWriter) -> FamilyCounts {
    let ribs = || family.ribs();
    let tables = ribs().filter_map(|(tree, _)| family.fib_of(tree));
    FamilyCounts {
        kernel_routes: ribs().map(|(_, rib)| rib.len()).sum(),
        fib_prefixes: tables.map(|table| P::fib_len(fib, table)).sum(),
        fib_neighbours: family.hosts.len(),
        refused: family.refused.len(),
        hosts_refused: family.without_hop.len(),
    }
}

/// A family of a FIB, and its next hops as text.
struct Side<'a, P: Prefix> {
    family: &'a Family<P>,
    fib: &'a FibWriter,
    /// Texts so far: many prefixes share a next hop, and a group's text is long.
    texts: RefCell<HashMap<NextHopId, Rc<str>>>,
}

impl<'a, P: Prefix> Side<'a, P> {
    fn new(family: &'a Family<P>, hops: &'a NextHops) -> Self {
        Self {
            family,
            fib: &hops.fib,
            texts: RefCell::default(),
        }
    }

    fn trees(&self) -> BTreeSet<Tree> {
        self.family.ribs().map(|(tree, _)| tree).collect()
    }

    fn entries(&self, tree: Tree) -> Vec<(P, NextHopId)> {
        let table = self.family.fib_of(tree);
        table.map_or(vec![], |table| P::fib_all(self.fib, table).collect())
    }

    fn find(&self, tree: Tree, prefix: P) -> Option<Rc<str>> {
        let id = prefix.fib_get(self.fib, self.family.fib_of(tree)?)?;
        Some(self.text(id))
    }

    fn text(&self, id: NextHopId) -> Rc<str> {
        let mut texts = self.texts.borrow_mut();
        let text = texts
            .entry(id)
            .or_insert_with(|| describe(self.fib, id).into());
        Rc::clone(text)
    }
}

/// Compares two FIBs.
fn compare<P: Prefix>(fresh: &Side<'_, P>, current: &Side<'_, P>, found: &mut Vec<Difference>) {
    for tree in &fresh.trees() | &current.trees() {
        compare_tree(fresh, current, tree, found);
    }
}

fn compare_tree<P: Prefix>(
    fresh: &Side<'_, P>,
    current: &Side<'_, P>,
    tree: Tree,
    found: &mut Vec<Difference>,
) {
    let name = match tree {
        MERGED => String::new(),
        table => format!(" of table {table}"),
    };
    let mut note = |prefix: P, kernel: Option<Rc<str>>, fib: Option<Rc<str>>| {
        if kernel != fib {
            found.push(Difference {
                prefix: format!("{prefix}{name}"),
                kernel: kernel.as_deref().map(str::to_owned),
                fib: fib.as_deref().map(str::to_owned),
            });
        }
    };
    for (prefix, id) in fresh.entries(tree) {
        note(prefix, Some(fresh.text(id)), current.find(tree, prefix));
    }
    for (prefix, id) in current.entries(tree) {
        if fresh.find(tree, prefix).is_none() {
            note(prefix, None, Some(current.text(id)));
        }
    }
}

/// A next hop as text, its members resolved: ids of two FIBs do not compare.
fn describe(fib: &FibWriter, id: NextHopId) -> String {
    match fib.next_hop(id) {
        None => format!("next hop {id}, which does not exist"),
        Some(NextHop::Group(group)) => {
            // look up many hashes, so that weights are compared too
            let hashes = (0..=u32::MAX >> 1).step_by(1 << 25);
            let chosen: Vec<_> = hashes
                .map(|hash| describe(fib, group.select(hash)))
                .collect();
            let runs = chosen.chunk_by(|a, b| a == b);
            let runs: Vec<_> = runs
                .map(|run| format!("{}/64 {}", run.len(), run[0]))
                .collect();
            runs.join(", ")
        }
        Some(NextHop::Forward(way)) => {
            let mac = way.l2.map(|byte| format!("{byte:02x}")).concat();
            format!("port {} mtu {} frame {mac}", way.port.0, way.mtu)
        }
        Some(NextHop::Tunnel(tunnel)) => {
            let headers: String = tunnel
                .headers
                .octets()
                .iter()
                .map(|octet| format!("{octet:02x}"))
                .collect();
            format!(
                "tunnel {} mtu {} headers {headers}",
                tunnel.port.0, tunnel.mtu
            )
        }
        Some(NextHop::Punt { reason, port }) => {
            format!("kernel ({reason:?}, port {:?})", port.map(|port| port.0))
        }
        Some(NextHop::Blackhole) => "blackhole".into(),
    }
}

/// Counts routes that stay with the kernel whatever their neighbours do, by reason.
fn unsupported(model: &Model) -> Vec<Unsupported> {
    let mut counts: BTreeMap<&'static str, usize> = BTreeMap::new();
    let tos = model.v4.ribs().map(|(_, rib)| rib.partial()).sum();
    let source = model.v6.ribs().map(|(_, rib)| rib.partial()).sum();
    counts.insert("for one TOS only", tos);
    counts.insert("for some source addresses only", source);
    let depends = |&at: &_| match model.v6.best(&model.hops, at) {
        Some(Best::Depends) => model.v6.get(at).iter().all(|route| !route.is_partial()),
        _ => false,
    };
    let rivals = model.v6.rivals.iter().copied().filter(depends).count();
    counts.insert(
        "of equal metric, among which the input interface decides",
        rivals,
    );
    for (id, target, v6) in model.hops.targets_of_both() {
        let Some(reason) = why_unsupported(&model.world, target, v6) else {
            continue;
        };
        *counts.entry(reason).or_default() += model.hops.uses(id);
    }
    let counts = counts.into_iter().filter(|&(_, routes)| routes > 0);
    counts
        .map(|(reason, routes)| Unsupported { reason, routes })
        .collect()
}

/// Why a target stays with the kernel, whatever its neighbours do.
fn why_unsupported(world: &World, target: &Target, v6: bool) -> Option<&'static str> {
    match target.kind {
        RouteType::Other => return Some("NAT or an unknown type"),
        RouteType::Unicast => {}
        _ => return None,
    }
    if let Some(Special::OnlyLinux(why)) = world.special(target, v6) {
        return Some(why);
    }
    let ways = world.ways(target);
    let is_port = |way: &Hop| world.ports.contains_key(&way.device);
    (!ways.iter().all(is_port)).then_some("through a device that is not a Bora port")
}
