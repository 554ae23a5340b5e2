//! What a running Bora answers: its state as reports.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;

use bora_fib::{FamilyStats, NextHop, NextHopId, PortId};
use bora_kernel::RouteView;
use bora_kernel::message::{Hop, Neighbour, RouteType};
use bora_port::hero;
use bora_worker::{ClassCounters, Mode, RuleCounters, WorkerCounters};

use crate::api::Call;
use crate::config::{PortSection, RuleSection};
use crate::engine::{Engine, Running};
use crate::ports::{Port, mode_name, path_name};
use crate::report::{
    ClassReport, DropsReport, FibFamilyReport, FibReport, FramesReport, NeighbourReport,
    PortReport, RefusalReport, RouteReport, RuleReport, SyncReport, WorkerReport,
};
use crate::router::Router;
use crate::topology;
use crate::totals::add;
use crate::twin::Twin;

impl Router {
    /// Answers a call.
    pub(crate) fn answer(&mut self, call: Call) {
        // a caller that has gone away needs no answer
        match call {
            Call::Ports(reply) => drop(reply.send(self.ports())),
            Call::Drops(reply) => drop(reply.send(self.drops())),
            Call::Frames(reply) => drop(reply.send(self.frames())),
            Call::Workers(reply) => drop(reply.send(self.workers())),
            Call::Routes(reply) => drop(reply.send(self.routes())),
            Call::Route(addr, reply) => drop(reply.send(self.route(addr))),
            Call::Fib(reply) => drop(reply.send(self.fib())),
            Call::Neighbours(reply) => drop(reply.send(self.neighbours())),
            Call::Sync { verify, reply } => drop(reply.send(self.sync(verify))),
            Call::Classes(reply) => drop(reply.send(self.classes())),
            Call::Offload(reply) => drop(reply.send(self.offload())),
            Call::Rules(reply) => drop(reply.send(self.rules())),
            Call::Apply {
                file,
                options,
                reply,
            } => drop(reply.send(self.apply(&file, options))),
            Call::Confirm(reply) => drop(reply.send(self.confirm())),
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
        let counted = self.totals(port.id).since(&port.before);
        PortReport {
            index: port.id.0,
            name: port.name.clone(),
            state: if port.is_up() { "up" } else { "down" }.into(),
            mtu: port.link.mtu,
            mac: mac_text(port.settings.mac),
            path: path_name(port.path).into(),
            why: match &port.hidden_tags {
                Some(hidden) => format!("{}; {hidden}", port.why),
                None => port.why.clone(),
            },
            kind: port.twin().map_or("interface", |twin| twin.kind()).into(),
            wire: port.twin().map(|twin| twin.state()).unwrap_or_default(),
            xdp: mode_name(port.mode()).into(),
            af_xdp: port.af_xdp.name().into(),
            redirect: match (port.settings.can_redirect, port.link.kind.as_str()) {
                _ if port.twin().is_some() => "-",
                (true, _) => "from every port",
                (false, "veth") => "from generic XDP only: the peer has neither XDP nor GRO on",
                (false, _) => "from generic XDP only: the driver cannot",
            }
            .into(),
            queues: port.queues_in_use(),
            sockets: port.sockets,
            refused: port.refusals.iter().map(RefusalReport::from).collect(),
            notices: port.notices(),
            rx_packets: counted.rx_packets,
            rx_bytes: counted.rx_bytes,
            from_linux: counted.from_linux,
            tx_packets: counted.tx_packets,
            tx_bytes: counted.tx_bytes,
            passed: counted.passed.values().sum(),
            dropped: counted.dropped.values().sum(),
            passed_by_reason: counted.passed,
            dropped_by_reason: counted.dropped,
            card: self.card_counters(port),
        }
    }

    /// What the card of a port counted; nothing if it is none.
    fn card_counters(&self, port: &Port) -> BTreeMap<String, u64> {
        let stats = port.twin().and_then(Twin::card).map(hero::Port::stats);
        let named = stats.iter().flat_map(hero::CardStats::named);
        let named = named.filter(|&(_, count)| count > 0);
        named.map(|(name, count)| (name.into(), count)).collect()
    }

    /// Of removed ports too: what they received, others have sent.
    fn drops(&self) -> DropsReport {
        let mut total = DropsReport::default();
        let (mut to_engine, mut from_engine, mut queued) = (0, 0, 0);
        for number in 0..self.numbers {
            let counted = self.totals(PortId(number));
            total.received += counted.rx_packets + counted.from_linux;
            total.sent += counted.tx_packets;
            total.passed += counted.passed.values().sum::<u64>();
            for (name, count) in counted.dropped {
                *total.drops.entry(name).or_default() += count;
            }
            for (name, count) in counted.passed {
                *total.punts.entry(name).or_default() += count;
            }
            to_engine += counted.to_engine;
            from_engine += counted.from_engine;
        }
        if let Some(engine) = &self.engine {
            let failed = engine.slow_path.failed.load(Relaxed);
            add(&mut total.drops, "slow_path_failed", failed);
            total.passed -= failed.min(total.passed);
            queued = engine
                .workers
                .iter()
                .map(|worker| worker.counters.queued.get())
                .sum();
        }
        total.guard = self.hooks.holding(self.mirror.guard(), &self.ports);
        total.held = to_engine.saturating_sub(from_engine) + queued;
        total
    }

    fn frames(&self) -> Option<FramesReport> {
        let engine = self.engine.as_ref()?;
        Some(engine.frames(&self.ports))
    }

    /// Sums over the workers, for the classes each port has.
    fn classes(&self) -> Vec<ClassReport> {
        let mut reports = Vec::new();
        for (port, section) in self.sections() {
            for class in 0..section.queues.output().classes.len() {
                let of_worker = |worker: &WorkerCounters, of: fn(&ClassCounters) -> u64| {
                    of(&worker.ports[usize::from(port.id.0)].classes[class])
                };
                let sum = |of| {
                    let workers = self.engine.iter().flat_map(Engine::counters);
                    workers.map(|worker| of_worker(worker, of)).sum()
                };
                let (enqueued, sent): (u64, u64) = (
                    sum(|class| class.enqueued.get()),
                    sum(|class| class.sent.get()),
                );
                reports.push(ClassReport {
                    port: port.name.clone(),
                    class: class as u8,
                    enqueued,
                    sent,
                    dropped: sum(|class| class.dropped.get()),
                    held: enqueued.saturating_sub(sent),
                });
            }
        }
        reports
    }

    /// Ports that have queues, with their configuration.
    fn sections(&self) -> impl Iterator<Item = (&Port, &PortSection)> {
        self.ports.iter().filter_map(|port| {
            let section = self.file.ports.iter().find(|s| s.name == port.section)?;
            self.engine.as_ref().map(|_| (port, section))
        })
    }

    fn rules(&self) -> Vec<RuleReport> {
        let sum = |number: usize, of: fn(&RuleCounters) -> u64| {
            let workers = self.engine.iter().flat_map(Engine::counters);
            workers.map(|worker| of(&worker.rules[number])).sum()
        };
        let report = |(number, rule): (usize, &RuleSection)| RuleReport {
            index: number,
            name: rule.name.clone().unwrap_or_default(),
            rule: rule.to_string(),
            packets: sum(number, |rule| rule.packets.get()),
            octets: sum(number, |rule| rule.octets.get()),
        };
        self.file.rules.iter().enumerate().map(report).collect()
    }

    fn workers(&self) -> Vec<WorkerReport> {
        let Some(engine) = &self.engine else {
            return Vec::new();
        };
        let report = |(index, worker): (usize, &Running)| {
            let counters = &worker.counters;
            let ports = || counters.ports.iter();
            let cpu = worker.core.and_then(topology::cpu);
            WorkerReport {
                index,
                core: worker.core,
                node: cpu.as_ref().map(|cpu| cpu.node),
                shares_with: cpu.map(|cpu| cpu.others()).unwrap_or_default(),
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
                pool_size: counters.pool_size.get(),
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
            next_hop_bytes: stats.next_hop_bytes,
            max_next_hops: self.config.fib.max_next_hops as usize,
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
            harmless: self.hooks.harmless(),
            lacks: self.program.lacks().into_iter().map(Into::into).collect(),
            mirror: status,
            differences,
        }
    }

    /// Why traffic is left to Linux, in words: what the mirror found, and what the XDP program
    /// met although the mirror did not find it.
    fn guard(&self) -> Vec<String> {
        let report = self.mirror.guard();
        let mut lines = self.hooks.holding(report, &self.ports);
        for (family, refused) in ["IPv4", "IPv6"].iter().zip(self.mirror.refused()) {
            if refused > 0 {
                lines.push(format!(
                    "{family}: {refused} prefixes found no room in the FIB; the engine leaves {family} \
                     to Linux"
                ));
            }
        }
        let without = self.mirror.without_next_hop();
        if without > 0 {
            let most = self.mirror.fib().stats().next_hops;
            lines.push(format!(
                "{without} hosts and ways of routes found no next hop in the FIB, which has {most}; the \
                 engine leaves them to Linux"
            ));
        }
        lines.extend(self.told.lacks().cloned());
        for (family, hash) in [("IPv4", &self.hash.0), ("IPv6", &self.hash.1)] {
            if let Some(why) = self.multipath.why_unknown(hash) {
                lines.push(format!(
                    "{family}: the engine leaves it to Linux while a route has several paths: {why}"
                ));
            }
        }
        for port in &self.ports {
            let hidden = port.hidden_tags.iter();
            lines.extend(hidden.map(|hidden| format!("{}: {hidden}", port.name)));
            match self.guarded.get(&port.id) {
                Some(&(_, recently)) if recently > 0 => lines.push(format!(
                    "{}: {recently} packets left to Linux in the last second",
                    port.name
                )),
                _ => {}
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

fn mac_text(mac: [u8; 6]) -> String {
    bora_wire::MacAddr(mac).to_string()
}
