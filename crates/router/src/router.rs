//! One running Bora: starts it, keeps it in step with Linux, answers for it, ends it.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use bora_fib::{FibConfig, PortId};
use bora_forward::{Drop as DropReason, HashPolicy, Punt};
use bora_kernel::{Mirror, Net, Route, RouteKind, Routes, sysctl};
use bora_port::xdp::{AttachMode, Attachment, Counters, MAX_PORTS, Path, Program, REASONS, query};
use bora_worker::Command;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::api::Call;
use crate::config::RunConfig;
use crate::engine::Engine;
use crate::lease::Keeper;
use crate::place::{Pins, Place};
use crate::ports::{self, Port};
use crate::report::{
    DropsReport, NeighbourReport, PortReport, RouteReport, SyncReport, WorkerReport,
};

/// How long the control loop waits for events.
const TICK: Duration = Duration::from_millis(10);
/// How often settings that have no events are read again.
const REFRESH: Duration = Duration::from_secs(1);

/// A running Bora.
pub struct Router {
    config: RunConfig,
    place: Place,
    mirror: Mirror,
    program: Program,
    ports: Vec<Port>,
    engine: Option<Engine>,
    keeper: Option<Keeper>,
    /// Addresses the XDP program knows as the router's own.
    own: HashSet<IpAddr>,
    /// Route MTUs the XDP program knows.
    mtus: BTreeMap<Net, u32>,
    hash: (HashPolicy, HashPolicy),
    in_sync_since: Instant,
    refreshed: Instant,
    /// Packets each port had left to Linux for the guard's sake: at the last refresh, and since.
    guarded: Vec<(u64, u64)>,
    /// The folder that the attachments' pins are reached through.
    _pins: Pins,
    /// Held for as long as this Bora runs.
    _lock: File,
}

impl Router {
    /// Starts forwarding. On an error, what was attached is detached again.
    pub fn start(config: RunConfig, place: Place) -> anyhow::Result<Self> {
        ensure!(
            !config.ports.is_empty(),
            "no ports; name at least one with --port"
        );
        ensure!(
            config.ports.len() <= MAX_PORTS,
            "more than {MAX_PORTS} ports"
        );
        let mut names = HashSet::new();
        if let Some(twice) = config.ports.iter().find(|name| !names.insert(*name)) {
            bail!("port {twice} is named twice");
        }
        if let Some(core) = config.cores.iter().find(|&&core| !cpu_is_online(core)) {
            bail!("there is no CPU {core} on this machine; see /sys/devices/system/cpu/online");
        }
        let lock = place.lock()?;
        let (writer, fib) = bora_fib::new(FibConfig::default())?;
        let mut mirror = Mirror::new(Routes::new(writer)).context("cannot follow the kernel")?;
        let found = config
            .ports
            .iter()
            .map(|name| ports::find(&mirror, name))
            .collect::<anyhow::Result<Vec<_>>>()?;

        let mut program = Program::load(place.netns)?;
        let budget = config.punt_budget;
        program.set_budgets(move |_| budget);
        let lease = program
            .lease()
            .context("the kernel does not map BPF variables")?;
        let pins = place.pins()?;
        let mut ports = attach_all(found, &program, &pins, &config)?;

        let hash = hash_policies();
        let fresh: Vec<bool> = ports
            .iter()
            .map(|port| !port.attachment.taken_over())
            .collect();
        let started = (|| {
            mirror.reconcile("start")?;
            for port in &mut ports {
                port.settings = port.wanted(mirror.rules(), &config);
                program.set_port(port.ifindex, &port.settings)?;
                mirror.routes.set_port(port.ifindex, Some(port.info()));
            }
            let any_engine = ports.iter().any(|port| port.path == Path::Engine);
            let engine = any_engine
                .then(|| Engine::start(&mut ports, &program, &fib, &config, hash))
                .transpose()?;
            let workers = engine.iter().flat_map(|engine| &engine.workers);
            let counters = workers.map(|worker| worker.counters.clone()).collect();
            Ok::<_, anyhow::Error>((engine, counters))
        })();
        let (engine, counters) = match started {
            Ok(parts) => parts,
            Err(error) => {
                detach(
                    ports
                        .into_iter()
                        .zip(fresh)
                        .filter_map(|(p, new)| new.then_some(p)),
                );
                return Err(error);
            }
        };
        let mut router = Self {
            config,
            place,
            mirror,
            program,
            ports,
            engine,
            keeper: None,
            own: HashSet::new(),
            mtus: BTreeMap::new(),
            hash,
            in_sync_since: Instant::now(),
            refreshed: Instant::now(),
            guarded: Vec::new(),
            _pins: pins,
            _lock: lock,
        };
        router.update_addresses()?;
        router.update_mtus()?;
        router.keeper = Some(Keeper::start(lease, counters)?);
        Ok(router)
    }

    /// One line a port, for the log.
    pub fn summary(&self) -> Vec<String> {
        self.ports
            .iter()
            .map(|port| {
                format!(
                    "{}: {} ({}), {} XDP{}",
                    port.name,
                    path_name(port.path),
                    port.why,
                    mode_name(port.attachment.mode()),
                    if port.attachment.taken_over() {
                        ", taken over"
                    } else {
                        ""
                    },
                )
            })
            .collect()
    }

    /// Follows Linux and answers calls until told to stop; then ends in order.
    pub fn run(mut self, calls: &Receiver<Call>) -> anyhow::Result<()> {
        loop {
            self.wait();
            let changes = self.mirror.poll().context("cannot follow the kernel")?;
            if let Some(keeper) = &self.keeper {
                keeper
                    .control
                    .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
            let refresh = self.refreshed.elapsed() >= REFRESH;
            if refresh {
                self.watch_guard();
            }
            if changes.links || changes.settings || refresh {
                self.update_ports(refresh)?;
                self.update_hash();
            }
            if changes.addresses {
                self.update_addresses()?;
            }
            self.update_mtus()?;
            self.mirror.routes.reclaim();
            if !self.mirror.settled() {
                self.in_sync_since = Instant::now();
            }
            loop {
                match calls.try_recv() {
                    Ok(Call::Stop { detach }) => return self.finish(detach),
                    Ok(call) => self.answer(call),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return self.finish(false),
                }
            }
        }
    }

    fn wait(&self) {
        let mut fds = [PollFd::from_borrowed_fd(self.mirror.fd(), PollFlags::IN)];
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: TICK.as_nanos() as i64,
        };
        // interrupted or failed: the loop comes round all the same
        let _ = poll(&mut fds, Some(&timeout));
    }

    /// Ends forwarding: the gate closes first, so that Linux has the traffic while the rings are
    /// emptied.
    fn finish(mut self, detach_ports: bool) -> anyhow::Result<()> {
        if let Some(mut keeper) = self.keeper.take() {
            keeper.end();
        }
        if let Some(mut engine) = self.engine.take() {
            engine.stop();
        }
        if detach_ports {
            detach(self.ports.drain(..));
        }
        self.place.clean();
        Ok(())
    }

    /// Brings links, settings and guard into the program, the FIB and the workers.
    fn update_ports(&mut self, ask_driver: bool) -> anyhow::Result<()> {
        self.refreshed = Instant::now();
        for port in &mut self.ports {
            match self.mirror.links().get(&port.ifindex) {
                Some(link) => port.link = link.clone(),
                None => port.link.up = false,
            }
            if ask_driver && let Ok(found) = query(port.ifindex) {
                port.query = found;
            }
            let wanted = port.wanted(self.mirror.rules(), &self.config);
            if wanted != port.settings {
                port.settings = wanted;
                // an interface that is gone cannot be a redirect target any more
                if let Err(error) = self.program.set_port(port.ifindex, &port.settings) {
                    log::warn!("{}: {error}", port.name);
                }
                if let Some(engine) = &self.engine {
                    engine.tell(|| Command::SetIngress(port.ingress()));
                }
            }
            self.mirror.routes.set_port(port.ifindex, Some(port.info()));
        }
        Ok(())
    }

    /// Notes how many packets the guard has left to Linux since the last time.
    fn watch_guard(&mut self) {
        let totals: Vec<u64> = self
            .ports
            .iter()
            .map(|port| self.counters(port).passed_by("guard"))
            .collect();
        self.guarded.resize(totals.len(), (0, 0));
        for (known, total) in self.guarded.iter_mut().zip(totals) {
            *known = (total, total - known.0);
        }
    }

    fn update_hash(&mut self) {
        let hash = hash_policies();
        if hash != self.hash {
            self.hash = hash;
            if let Some(engine) = &self.engine {
                engine.tell(|| Command::SetHash(hash.0, hash.1));
            }
        }
    }

    fn update_addresses(&mut self) -> anyhow::Result<()> {
        let wanted = self.mirror.addresses();
        for &gone in self.own.difference(wanted) {
            set_own(&self.program, gone, false)?;
        }
        for &new in wanted.difference(&self.own) {
            set_own(&self.program, new, true)?;
        }
        self.own.clone_from(wanted);
        Ok(())
    }

    fn update_mtus(&mut self) -> anyhow::Result<()> {
        let wanted = self.mirror.routes.mtus();
        if *wanted == self.mtus {
            return Ok(());
        }
        for (net, mtu) in wanted
            .iter()
            .filter(|(net, mtu)| self.mtus.get(net) != Some(*mtu))
        {
            set_mtu(&mut self.program, *net, Some(*mtu))?;
        }
        for net in self.mtus.keys().filter(|net| !wanted.contains_key(net)) {
            set_mtu(&mut self.program, *net, None)?;
        }
        self.program.set_route_mtu_count(wanted.len());
        self.mtus.clone_from(wanted);
        Ok(())
    }

    fn answer(&mut self, call: Call) {
        // a caller that has gone away needs no answer
        match call {
            Call::Ports(reply) => drop(reply.send(self.ports())),
            Call::Drops(reply) => drop(reply.send(self.drops())),
            Call::Workers(reply) => drop(reply.send(self.workers())),
            Call::Routes(reply) => drop(reply.send(self.routes())),
            Call::Route(addr, reply) => drop(reply.send(self.route(addr))),
            Call::Neighbours(reply) => drop(reply.send(self.neighbours())),
            Call::Sync { verify, reply } => drop(reply.send(self.sync(verify))),
            Call::Stop { .. } => {}
        }
    }

    fn counters(&self, port: &Port) -> Counters {
        self.program.counters(port.id.0).unwrap_or_default()
    }

    fn ports(&self) -> Vec<PortReport> {
        self.ports
            .iter()
            .map(|port| self.port_report(port))
            .collect()
    }

    fn port_report(&self, port: &Port) -> PortReport {
        let counters = self.counters(port);
        let (mut passed, mut dropped) = (BTreeMap::new(), BTreeMap::new());
        for (index, reason) in REASONS.iter().enumerate() {
            add(&mut passed, reason.name, counters.passed[index]);
            add(
                &mut dropped,
                drop_name(reason.budget, reason.name),
                counters.dropped[index],
            );
        }
        add(&mut dropped, "tx_ring_full", counters.tx_ring_full);
        let mut tx = counters.tx_packets - counters.tx_ring_full.min(counters.tx_packets);
        let mut tx_bytes = counters.tx_bytes;
        if let Some(engine) = &self.engine {
            for worker in &engine.workers {
                let counted = &worker.counters.ports[usize::from(port.id.0)];
                tx += counted.tx_packets.get();
                tx_bytes += counted.tx_bytes.get();
                for (&reason, count) in Punt::ALL.iter().zip(&counted.punted) {
                    add(&mut passed, reason.name(), count.get());
                }
                for (&reason, count) in DropReason::ALL.iter().zip(&counted.dropped) {
                    add(&mut dropped, reason.name(), count.get());
                }
            }
            for socket in &engine.sockets[usize::from(port.id.0)] {
                let stats = socket.read();
                add(&mut dropped, "rx_ring_full", stats.rx_ring_full);
                add(&mut dropped, "no_frame", stats.rx_dropped);
            }
        }
        PortReport {
            index: port.id.0,
            name: port.name.clone(),
            state: if port.link.up { "up" } else { "down" }.into(),
            mtu: port.link.mtu,
            mac: mac_text(port.settings.mac),
            path: path_name(port.path).into(),
            why: port.why.clone(),
            xdp: mode_name(port.attachment.mode()).into(),
            af_xdp: match port.zero_copy {
                None => "-",
                Some(true) => "zero-copy",
                Some(false) => "copy",
            }
            .into(),
            redirect: match (port.query.can_redirect, port.link.kind.as_deref()) {
                (true, _) => "yes",
                (false, Some("veth")) => "no: the peer has neither XDP nor GRO on",
                (false, _) => "no: the driver cannot",
            }
            .into(),
            queues: port.link.rx_queues,
            rx_packets: counters.rx_packets,
            rx_bytes: counters.rx_bytes,
            tx_packets: tx,
            tx_bytes,
            passed: passed.values().sum(),
            dropped: dropped.values().sum(),
            passed_by_reason: passed,
            dropped_by_reason: dropped,
        }
    }

    fn drops(&self) -> DropsReport {
        let mut total = DropsReport::default();
        let (mut to_engine, mut from_engine) = (0, 0);
        for port in &self.ports {
            let report = self.port_report(port);
            total.received += report.rx_packets;
            total.sent += report.tx_packets;
            total.passed += report.passed;
            for (name, count) in report.dropped_by_reason {
                *total.drops.entry(name).or_default() += count;
            }
            for (name, count) in report.passed_by_reason {
                *total.punts.entry(name).or_default() += count;
            }
            to_engine += self.counters(port).to_engine;
        }
        if let Some(engine) = &self.engine {
            let failed = engine
                .slow_path
                .failed
                .load(std::sync::atomic::Ordering::Relaxed);
            add(&mut total.drops, "slow_path_failed", failed);
            total.passed -= failed.min(total.passed);
            for socket in engine.sockets.iter().flatten() {
                let stats = socket.read();
                from_engine += stats.rx_ring_full + stats.rx_dropped;
            }
            for worker in &engine.workers {
                let ports = worker.counters.ports.iter();
                from_engine += ports.map(|port| port.rx_packets.get()).sum::<u64>();
            }
        }
        total.held = to_engine.saturating_sub(from_engine);
        total
    }

    fn workers(&self) -> Vec<WorkerReport> {
        let Some(engine) = &self.engine else {
            return Vec::new();
        };
        let report = |(index, worker): (usize, &crate::engine::Running)| {
            let counters = &worker.counters;
            let ports = || counters.ports.iter();
            WorkerReport {
                index,
                core: worker.core,
                loops: counters.loops.get(),
                sleeps: counters.sleeps.get(),
                rx_packets: ports().map(|port| port.rx_packets.get()).sum(),
                tx_packets: ports().map(|port| port.tx_packets.get()).sum(),
                held: counters.held.get(),
                pool_hits: counters.pool_hits.get(),
                pool_refilled: counters.pool_refilled.get(),
                pool_spilled: counters.pool_spilled.get(),
                pool_exhausted: counters.pool_exhausted.get(),
            }
        };
        engine.workers.iter().enumerate().map(report).collect()
    }

    fn routes(&self) -> Vec<RouteReport> {
        let mut routes: Vec<_> = self.mirror.routes.routes().collect();
        routes.sort_by_key(|(net, route)| (*net, !route.local, route.metric));
        routes
            .into_iter()
            .map(|(net, route)| self.route_report(net.to_string(), route))
            .collect()
    }

    fn route(&self, addr: IpAddr) -> Option<RouteReport> {
        let (net, route) = self.mirror.routes.lookup(addr)?;
        Some(self.route_report(net.to_string(), route))
    }

    fn route_report(&self, prefix: String, route: &Route) -> RouteReport {
        let via = match &route.kind {
            RouteKind::Unicast(vias) => {
                let one = |via: &bora_kernel::Via| {
                    let gateway = via.gateway.map(|g| format!("via {g} ")).unwrap_or_default();
                    let weight = if vias.len() > 1 {
                        format!(" weight {}", via.weight)
                    } else {
                        String::new()
                    };
                    format!("{gateway}dev {}{weight}", self.device(via.device))
                };
                vias.iter().map(one).collect::<Vec<_>>().join(", ")
            }
            RouteKind::Local => "local".into(),
            RouteKind::Blackhole => "blackhole".into(),
            RouteKind::Unreachable => "unreachable".into(),
            RouteKind::Prohibit => "prohibit".into(),
            RouteKind::Unsupported => "left to Linux".into(),
        };
        let table = if route.local { "local" } else { "main" }.into();
        RouteReport {
            prefix,
            via,
            metric: route.metric,
            table,
        }
    }

    fn neighbours(&self) -> Vec<NeighbourReport> {
        let report = |(addr, device, mac): (IpAddr, u32, [u8; 6])| NeighbourReport {
            address: addr.to_string(),
            device: self.device(device),
            mac: mac_text(mac),
        };
        self.mirror.routes.neighbours().map(report).collect()
    }

    fn device(&self, ifindex: u32) -> String {
        let link = self.mirror.links().get(&ifindex);
        link.map_or_else(|| format!("if{ifindex}"), |link| link.name.clone())
    }

    /// Reads everything anew, for those who want to be sure.
    fn refresh_all(&mut self) -> anyhow::Result<()> {
        self.mirror.poll()?;
        self.mirror.reconcile("verify")?;
        self.update_ports(true)?;
        self.update_hash();
        self.update_addresses()?;
        self.update_mtus()
    }

    /// The state of the mirror; with `verify` after a fresh dump, compared prefix by prefix.
    fn sync(&mut self, verify: bool) -> SyncReport {
        let mut differences = Vec::new();
        if verify {
            if let Err(error) = self.refresh_all() {
                log::warn!("verify: {error}");
            }
            differences = self.mirror.routes.verify();
        }
        let fib = self.mirror.routes.fib_stats();
        let missing = self.mirror.routes.missing();
        SyncReport {
            in_sync: self.mirror.settled() && missing == 0 && differences.is_empty(),
            since_seconds: self.in_sync_since.elapsed().as_secs(),
            prefixes4: fib.prefixes4,
            prefixes6: fib.prefixes6,
            neighbours: self.mirror.routes.neighbours().count(),
            next_hops: fib.next_hops,
            fib_bytes: fib.table_bytes,
            missing,
            guard: self.guard(),
            mirror: self.mirror.stats().clone(),
            differences,
        }
    }

    /// Why traffic is left to Linux, in words.
    fn guard(&self) -> Vec<String> {
        let mut reasons: Vec<String> = self.mirror.rules().iter().flatten().cloned().collect();
        reasons.sort();
        reasons.dedup();
        for port in &self.ports {
            let (_, recently) = self
                .guarded
                .get(usize::from(port.id.0))
                .copied()
                .unwrap_or((0, 0));
            if recently > 0 {
                reasons.push(format!(
                    "{}: Linux has rules (netfilter, tc, xfrm or ip rule): {recently} packets left \
                     to it in the last second",
                    port.name
                ));
            }
            let shaping = ["tbf", "htb", "hfsc", "cake", "netem", "ets", "prio"];
            if shaping.contains(&port.link.qdisc.as_str()) {
                reasons.push(format!(
                    "{}: warning: express frames do not pass its {} qdisc",
                    port.name, port.link.qdisc
                ));
            }
        }
        reasons
    }
}

/// Attaches the program to all interfaces, or to none.
fn attach_all(
    found: Vec<(u32, bora_kernel::Link)>,
    program: &Program,
    pins: &Pins,
    config: &RunConfig,
) -> anyhow::Result<Vec<Port>> {
    let mut ports: Vec<Port> = Vec::with_capacity(found.len());
    for (index, found) in found.into_iter().enumerate() {
        match Port::attach(PortId(index as u16), found, program, pins, config) {
            Ok(port) => ports.push(port),
            Err(error) => {
                detach(
                    ports
                        .into_iter()
                        .filter(|port| !port.attachment.taken_over()),
                );
                return Err(error);
            }
        }
    }
    Ok(ports)
}

fn detach(ports: impl Iterator<Item = Port>) {
    for port in ports {
        if let Err(error) = port.attachment.detach() {
            log::warn!("{}: cannot detach: {error}", port.name);
        }
    }
}

/// Detaches what a Bora that is no longer there left on this namespace's interfaces; returns how
/// many.
pub fn detach_leftovers(place: &Place) -> anyhow::Result<usize> {
    let _lock = place.lock()?;
    let pins = place.pins()?;
    let mut count = 0;
    for ifindex in pins.links() {
        if let Some(attachment) = Attachment::open(&pins.link(ifindex), ifindex) {
            if let Err(error) = attachment.detach() {
                bail!("interface {ifindex}: cannot detach: {error}");
            }
            count += 1;
        }
    }
    place.clean();
    Ok(count)
}

fn cpu_is_online(cpu: usize) -> bool {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    online.trim().split(',').any(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        first.parse().is_ok_and(|first: usize| first <= cpu)
            && last.parse().is_ok_and(|last: usize| cpu <= last)
    })
}

fn set_own(program: &Program, addr: IpAddr, present: bool) -> anyhow::Result<()> {
    match addr {
        IpAddr::V4(addr) => program.set_local4(addr, present)?,
        IpAddr::V6(addr) => program.set_local6(addr, present)?,
    }
    Ok(())
}

fn set_mtu(program: &mut Program, net: Net, mtu: Option<u32>) -> anyhow::Result<()> {
    if let IpAddr::V4(addr) = net.addr {
        program.set_route_mtu(addr, net.len, mtu)?;
    }
    Ok(())
}

fn hash_policies() -> (HashPolicy, HashPolicy) {
    let policy = |number| {
        if number == 0 {
            HashPolicy::L3
        } else {
            HashPolicy::L4
        }
    };
    let (v4, v6) = sysctl::hash_policies();
    (policy(v4), policy(v6))
}

fn add(map: &mut BTreeMap<String, u64>, name: &str, count: u64) {
    if count > 0 {
        *map.entry(name.into()).or_default() += count;
    }
}

/// Drops of a reason with a budget are drops for want of budget.
fn drop_name(budget: bool, name: &'static str) -> &'static str {
    if budget { "punt_budget" } else { name }
}

fn mac_text(mac: [u8; 6]) -> String {
    bora_wire::MacAddr(mac).to_string()
}

fn path_name(path: Path) -> &'static str {
    match path {
        Path::Kernel => "kernel",
        Path::Engine => "engine",
        Path::Express => "express",
    }
}

fn mode_name(mode: AttachMode) -> &'static str {
    match mode {
        AttachMode::Driver => "driver",
        AttachMode::Generic => "generic",
    }
}
