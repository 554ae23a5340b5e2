//! What a running Bora answers: its state as reports.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;

use bora_fib::{FamilyStats, NextHop, NextHopId};
use bora_forward::{Drop as DropReason, Punt};
use bora_kernel::RouteView;
use bora_kernel::message::{Hop, Neighbour, RouteType};
use bora_port::xdp::REASONS;
use bora_worker::Mode;

use crate::api::Call;
use crate::engine::Running;
use crate::ports::Port;
use crate::report::{
    DropsReport, FibFamilyReport, FibReport, NeighbourReport, PortReport, RouteReport, SyncReport,
    WorkerReport,
};
use crate::router::{Router, mode_name, path_name};

impl Router {
    /// Answers a call.
    pub(crate) fn answer(&mut self, call: Call) {
        // a caller that has gone away needs no answer
        match call {
            Call::Ports(reply) => drop(reply.send(self.ports())),
            Call::Drops(reply) => drop(reply.send(self.drops())),
            Call::Workers(reply) => drop(reply.send(self.workers())),
            Call::Routes(reply) => drop(reply.send(self.routes())),
            Call::Route(addr, reply) => drop(reply.send(self.route(addr))),
            Call::Fib(reply) => drop(reply.send(self.fib())),
            Call::Neighbours(reply) => drop(reply.send(self.neighbours())),
            Call::Sync { verify, reply } => drop(reply.send(self.sync(verify))),
            Call::Config(reply) => drop(reply.send(self.file.clone())),
            Call::SetMode {
                worker,
                mode,
                reply,
            } => drop(reply.send(self.set_mode(worker, mode))),
            Call::Stop { .. } => {}
        }
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
        let (mut rx, mut rx_bytes) = (counters.rx_packets, counters.rx_bytes);
        let mut from_linux = 0;
        if let Some(engine) = &self.engine {
            for worker in &engine.workers {
                let counted = &worker.counters.ports[usize::from(port.id.0)];
                tx += counted.tx_packets.get();
                tx_bytes += counted.tx_bytes.get();
                from_linux += counted.from_linux.get();
                if port.twin().is_some() {
                    rx += counted.rx_packets.get();
                    rx_bytes += counted.rx_bytes.get();
                }
                for (&reason, count) in Punt::ALL.iter().zip(&counted.punted) {
                    add(&mut passed, reason.name(), count.get());
                }
                for (&reason, count) in DropReason::ALL.iter().zip(&counted.dropped) {
                    add(&mut dropped, reason.name(), count.get());
                }
            }
            for queue in &engine.queues[usize::from(port.id.0)] {
                let stats = queue.read();
                add(&mut dropped, "rx_ring_full", stats.rx_ring_full);
                add(&mut dropped, "no_frame", stats.rx_dropped);
                add(&mut dropped, "rx_too_long", stats.rx_too_long);
                add(&mut dropped, "rx_malformed", stats.rx_malformed);
                add(&mut dropped, "tx_link_down", stats.tx_link_down);
                add(&mut dropped, "tx_refused", stats.tx_refused);
                // what a port without an XDP program loses, the worker has not counted
                rx += stats.rx_too_long + stats.rx_malformed;
                tx -= (stats.tx_link_down + stats.tx_refused).min(tx);
            }
        }
        PortReport {
            index: port.id.0,
            name: port.name.clone(),
            state: if port.is_up() { "up" } else { "down" }.into(),
            mtu: port.link.mtu,
            mac: mac_text(port.settings.mac),
            path: path_name(port.path).into(),
            why: port.why.clone(),
            kind: port.twin().map_or("interface", |twin| twin.kind()).into(),
            wire: port.twin().map(|twin| twin.state()).unwrap_or_default(),
            xdp: mode_name(port.mode()).into(),
            af_xdp: match port.zero_copy {
                None => "-",
                Some(true) => "zero-copy",
                Some(false) => "copy",
            }
            .into(),
            redirect: match (port.query.can_redirect, port.link.kind.as_str()) {
                _ if port.twin().is_some() => "-",
                (true, _) => "from every port",
                (false, "veth") => "from generic XDP only: the peer has neither XDP nor GRO on",
                (false, _) => "from generic XDP only: the driver cannot",
            }
            .into(),
            queues: port.link.rx_queues,
            rx_packets: rx,
            rx_bytes,
            from_linux,
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
        let (mut to_engine, mut from_engine, mut queued) = (0, 0, 0);
        for port in &self.ports {
            let report = self.port_report(port);
            total.received += report.rx_packets + report.from_linux;
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
            let failed = engine.slow_path.failed.load(Relaxed);
            add(&mut total.drops, "slow_path_failed", failed);
            total.passed -= failed.min(total.passed);
            for port in self.ports.iter().filter(|port| port.twin().is_none()) {
                let number = usize::from(port.id.0);
                for queue in &engine.queues[number] {
                    let stats = queue.read();
                    from_engine += stats.rx_ring_full + stats.rx_dropped;
                }
                let workers = engine.workers.iter();
                let counted = workers.map(|w| w.counters.ports[number].rx_packets.get());
                from_engine += counted.sum::<u64>();
            }
            for worker in &engine.workers {
                queued += worker.counters.queued.get();
            }
        }
        total.held = to_engine.saturating_sub(from_engine) + queued;
        total
    }

    fn workers(&self) -> Vec<WorkerReport> {
        let Some(engine) = &self.engine else {
            return Vec::new();
        };
        let report = |(index, worker): (usize, &Running)| {
            let counters = &worker.counters;
            let ports = || counters.ports.iter();
            WorkerReport {
                index,
                core: worker.core,
                mode: worker.mode.to_string(),
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

    fn set_mode(&mut self, worker: Option<usize>, mode: Mode) -> Result<(), String> {
        let engine = self
            .engine
            .as_mut()
            .ok_or("no workers: every port takes the express path")?;
        let count = engine.workers.len();
        if let Some(worker) = worker.filter(|&worker| worker >= count) {
            return Err(format!("there is no worker {worker}; there are {count}"));
        }
        for (index, running) in engine.workers.iter_mut().enumerate() {
            if worker.is_none_or(|worker| worker == index) {
                running.set_mode(mode);
            }
        }
        if worker.is_none() {
            self.file.workers.mode = mode;
        }
        Ok(())
    }

    fn routes(&self) -> Vec<RouteReport> {
        let mut routes: Vec<_> = self.mirror.routes().collect();
        routes.sort_by_key(|r| (r.address, r.len, Reverse(r.table), r.metric, r.tos));
        routes
            .iter()
            .map(|route| self.route_report(route))
            .collect()
    }

    fn route(&self, addr: IpAddr) -> Option<RouteReport> {
        let mut report = self.route_report(&self.mirror.route_to(addr)?);
        report.fib = Some(self.in_fib(addr));
        Some(report)
    }

    fn route_report(&self, route: &RouteView<'_>) -> RouteReport {
        let tos = match route.tos {
            0 => String::new(),
            tos => format!(" tos {tos:#04x}"),
        };
        RouteReport {
            prefix: format!("{}/{}{tos}", route.address, route.len),
            via: self.target(route),
            metric: route.metric,
            table: match route.table {
                255 => "local".into(),
                254 => "main".into(),
                253 => "default".into(),
                number => number.to_string(),
            },
            fib: None,
        }
    }

    /// What the FIB does with packets to an address.
    fn in_fib(&self, addr: IpAddr) -> String {
        let fib = self.mirror.fib();
        let found = match addr {
            IpAddr::V4(addr) => fib
                .longest_match4(addr.to_bits())
                .map(|(prefix, id)| (prefix.to_string(), id)),
            IpAddr::V6(addr) => fib
                .longest_match6(addr.to_bits())
                .map(|(prefix, id)| (prefix.to_string(), id)),
        };
        let Some((prefix, id)) = found else {
            return "no prefix: to Linux".into();
        };
        format!("{prefix} {}", self.action(id))
    }

    fn action(&self, id: NextHopId) -> String {
        match self.mirror.fib().next_hop(id) {
            None => format!("next hop {id}, which is gone"),
            Some(NextHop::Blackhole) => "dropped (blackhole)".into(),
            Some(NextHop::Punt { reason, .. }) => format!("to Linux ({reason:?})"),
            Some(NextHop::Group(group)) => {
                let members: Vec<_> = group.members().map(|id| self.action(id)).collect();
                format!("by flow: {}", members.join("; "))
            }
            Some(NextHop::Forward(way)) => {
                let port = self.ports.iter().find(|port| port.id == way.port);
                let name = port.map_or("a port that is gone", |port| &port.name);
                let mac: [u8; 6] = std::array::from_fn(|octet| way.l2[octet]);
                format!("out of {name} to {}, MTU {}", mac_text(mac), way.mtu)
            }
        }
    }

    fn fib(&self) -> FibReport {
        let stats = self.mirror.fib().stats();
        let (rates, missing) = (self.fib_pulse.updates_per_second(), self.mirror.refused());
        let family = |prefixes, of: &FamilyStats, index: usize| FibFamilyReport {
            prefixes,
            missing: missing[index],
            nodes: of.nodes,
            depth: of.depth,
            table_bytes: of.table_bytes,
            node_bytes: of.node_bytes,
            max_bytes: of.max_bytes,
            control_bytes: of.control_bytes,
            updates: of.updates,
            updates_per_second: rates[index],
        };
        FibReport {
            ipv4: family(stats.prefixes4, &stats.ipv4, 0),
            ipv6: family(stats.prefixes6, &stats.ipv6, 1),
            next_hops: stats.next_hops,
            retired: stats.retired,
            behind: stats.epoch - stats.passed,
            last_reclaim_seconds: self.fib_pulse.last_reclaim(),
        }
    }

    /// Where a route leads, as `ip route` words it.
    fn target(&self, route: &RouteView<'_>) -> String {
        match route.target.kind {
            RouteType::Unicast => {}
            RouteType::Local => return "local".into(),
            RouteType::Blackhole => return "blackhole".into(),
            RouteType::Unreachable => return "unreachable".into(),
            RouteType::Prohibit => return "prohibit".into(),
            RouteType::Other => return "left to Linux".into(),
        }
        let ways = self.mirror.ways(route.target);
        let one = |way: &Hop| {
            let gateway = way.gateway.map(|g| format!("via {g} ")).unwrap_or_default();
            let weight = match ways.len() {
                1 => String::new(),
                _ => format!(" weight {}", way.weight),
            };
            format!("{gateway}dev {}{weight}", self.device(way.device))
        };
        let mut text = ways.iter().map(one).collect::<Vec<_>>().join(", ");
        if let Some(object) = route.target.object {
            text = format!("nhid {object} {text}");
        }
        if !route.usable {
            text += " (down)";
        }
        text
    }

    fn neighbours(&self) -> Vec<NeighbourReport> {
        let report = |n: &Neighbour| {
            Some(NeighbourReport {
                address: n.address.to_string(),
                device: self.device(n.device),
                mac: mac_text(n.usable()?),
            })
        };
        self.mirror.neighbours().filter_map(report).collect()
    }

    fn device(&self, ifindex: u32) -> String {
        let link = self.mirror.links().get(&ifindex);
        link.map_or_else(|| format!("if{ifindex}"), |link| link.name.clone())
    }

    /// The state of the mirror; with `verify`, everything is read anew and compared first.
    fn sync(&mut self, verify: bool) -> SyncReport {
        let mut differences = Vec::new();
        if verify {
            let compared = self.catch_up().and_then(|()| Ok(self.mirror.verify()?));
            match compared {
                Ok(found) => differences = found,
                Err(error) => log::warn!("verify: {error}"),
            }
        }
        let (status, fib) = (self.mirror.status(), self.mirror.fib().stats());
        SyncReport {
            in_sync: status.in_sync && differences.is_empty(),
            since_seconds: status.since.elapsed().unwrap_or_default().as_secs(),
            fib_bytes: fib.table_bytes,
            guard: self.guard(),
            mirror: status,
            differences,
        }
    }

    /// Why traffic is left to Linux, in words: what the mirror found, and what the XDP program
    /// met although the mirror did not find it.
    fn guard(&self) -> Vec<String> {
        let report = self.mirror.guard();
        let mut lines: Vec<String> = Vec::new();
        for (family, reasons) in [("IPv4", &report.v4), ("IPv6", &report.v6)] {
            lines.extend(
                reasons
                    .iter()
                    .map(|reason| format!("{family}: {}", reason.text)),
            );
        }
        for (family, refused) in ["IPv4", "IPv6"].iter().zip(self.mirror.refused()) {
            if refused > 0 {
                lines.push(format!(
                    "{family}: {refused} prefixes found no room in the FIB; the engine leaves {family} \
                     to Linux"
                ));
            }
        }
        for (port, (_, recently)) in self.ports.iter().zip(&self.guarded) {
            if *recently > 0 {
                lines.push(format!(
                    "{}: {recently} packets left to Linux in the last second",
                    port.name
                ));
            }
        }
        lines.extend(
            report
                .warnings
                .iter()
                .map(|text| format!("warning: {text}")),
        );
        lines
    }
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
