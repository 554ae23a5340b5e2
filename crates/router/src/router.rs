//! One running Bora: starts it, keeps it in step with Linux, answers for it, ends it.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bora_fib::{FibStats, PortId};
use bora_forward::FlowHash;
use bora_kernel::message::Link;
use bora_kernel::{HashPolicy, Mirror, MirrorConfig};
use bora_port::xdp::{Attachment, Counters, Program, Survey, query};
use bora_worker::Command;

use crate::api::{Call, Caller};
use crate::apply::Unconfirmed;
use crate::config::{File, RunConfig};
use crate::engine::{self, Engine};
use crate::hero::Offload;
use crate::hooks::Hooks;
use crate::lease::Keeper;
use crate::multipath::Multipath;
use crate::offloads;
use crate::place::{Pins, Place};
use crate::ports::{self, Port};
use crate::rules::{self, CompiledRules};
use crate::spec::PortSpec;
use crate::told::Told;
use crate::twin::{Twin, remove_leftovers};

/// How long the control loop waits for events and calls before it says that it is well.
const TICK: Duration = Duration::from_millis(500);
/// The same where links have to be followed that Linux does not know.
const TWIN_TICK: Duration = Duration::from_millis(50);
/// How often settings that have no events are read again.
const REFRESH: Duration = Duration::from_secs(1);

/// What the FIB does over time, looked at once a second.
#[derive(Debug, Default)]
pub(crate) struct FibPulse {
    /// Updates at the last look, and between the last two, IPv4 and IPv6.
    updates: [(u64, u64); 2],
    /// [`FibStats::reclaimed`] at the last look, and when it last changed.
    reclaimed: (u64, Option<Instant>),
}

impl FibPulse {
    fn beat(&mut self, stats: &FibStats) {
        for (known, now) in self
            .updates
            .iter_mut()
            .zip([stats.ipv4.updates, stats.ipv6.updates])
        {
            *known = (now, now - known.0);
        }
        if stats.reclaimed != self.reclaimed.0 {
            self.reclaimed = (stats.reclaimed, Some(Instant::now()));
        }
    }

    /// Updates in the last second, IPv4 and IPv6.
    pub(crate) fn updates_per_second(&self) -> [u64; 2] {
        self.updates.map(|(_, recently)| recently)
    }

    /// Seconds since something was freed, to the second; `None` for never.
    pub(crate) fn last_reclaim(&self) -> Option<u64> {
        self.reclaimed.1.map(|at| at.elapsed().as_secs())
    }
}

/// A running Bora.
pub struct Router {
    /// What it was started with, and what was changed since.
    pub(crate) file: File,
    pub(crate) config: RunConfig,
    pub(crate) place: Place,
    pub(crate) mirror: Mirror,
    pub(crate) program: Program,
    pub(crate) ports: Vec<Port>,
    pub(crate) engine: Option<Engine>,
    pub(crate) keeper: Option<Keeper>,
    pub(crate) told: Told,
    pub(crate) multipath: Multipath,
    pub(crate) hash: (FlowHash, FlowHash),
    refreshed: Instant,
    pub(crate) fib_pulse: FibPulse,
    /// Packets each port had left to Linux for the guard's sake, by number: at the last refresh, and
    /// since.
    pub(crate) guarded: BTreeMap<PortId, (u64, u64)>,
    /// What Linux's hooks are, looked at once a second; the program does it for each packet.
    pub(crate) hooks: Hooks,
    pub(crate) rules: CompiledRules,
    pub(crate) offload: Offload,
    /// What an apply that nobody has confirmed yet replaced.
    pub(crate) unconfirmed: Option<Unconfirmed>,
    /// Port numbers below this have been in use.
    pub(crate) numbers: u16,
    /// The folder that the attachments' pins are reached through.
    pub(crate) pins: Pins,
    /// Held for as long as this Bora runs.
    _lock: std::fs::File,
}

impl Router {
    /// Starts forwarding. On an error, what was attached is detached again.
    pub fn start(file: File, place: Place) -> anyhow::Result<Self> {
        file.check()?;
        let config = file.clone().into_config();
        check_cores(&config.cores)?;
        let lock = place.lock()?;
        let (writer, fib) = bora_fib::new(config.fib)?;
        // before the mirror, so that it knows them
        let twins = config
            .ports
            .iter()
            .map(|port| match &port.spec {
                PortSpec::Interface(_) => Ok(None),
                PortSpec::Other(twin, wire) => Twin::open(twin, wire).map(Some),
            })
            .collect::<anyhow::Result<Vec<_>>>()?;
        let mut mirror = Mirror::open(MirrorConfig::default(), writer)?;
        let found = config
            .ports
            .iter()
            .zip(twins)
            .map(|(port, twin)| Ok((ports::find(&mirror, port.spec.name())?, twin)))
            .collect::<anyhow::Result<Vec<_>>>()?;

        let mut program = Program::load(place.netns)?;
        let budget = config.punt_budget;
        program.set_budgets(move |_| budget);
        let lease = program
            .lease()
            .context("the kernel does not map BPF variables")?;
        let pins = place.pins()?;
        let mut ports = attach_all(found, &program, &pins, &config, &place)?;

        let mut multipath = Multipath::learn(mirror.settings());
        let hash = multipath.hashes(mirror.settings());
        let fresh: Vec<bool> = ports
            .iter()
            .map(|port| port.has_program() && !port.taken_over())
            .collect();
        let started = (|| {
            for port in &mut ports {
                port.expose_tags(&place);
            }
            let opening = engine::open_all(&mut ports, &config)?;
            tell_mirror(&mut mirror, &mut ports, &config, &Survey::default())?;
            program.watch_buffers(ports.iter().any(Port::is_generic))?;
            for port in &ports {
                program.find_device(port.id.0, port.ifindex)?;
            }
            let mut hooks = Hooks::default();
            hooks.update(&program);
            tell_mirror(&mut mirror, &mut ports, &config, &hooks.survey)?;
            for port in ports.iter().filter(|port| port.has_program()) {
                program.set_port(port.ifindex, &port.settings)?;
            }
            let rules = rules::compile(&config, &ports, &mut mirror)?;
            let classifier = rules.classifier.clone();
            let engine = opening
                .map(|opening| {
                    let rest = (hash, classifier);
                    Engine::start(&mut ports, opening, &mut program, &fib, &config, rest)
                })
                .transpose()?;
            let watched = engine.as_ref().map(Engine::watched).unwrap_or_default();
            Ok::<_, anyhow::Error>((engine, watched, rules, hooks))
        })();
        let (engine, watched, rules, hooks) = match started {
            Ok(parts) => parts,
            Err(error) => {
                let new = ports.into_iter().zip(fresh).filter(|(_, new)| *new);
                new.for_each(|(port, _)| port.detach(&place));
                return Err(error);
            }
        };
        let mut router = Self {
            unconfirmed: Unconfirmed::of_predecessor(&file, &place),
            file,
            config,
            place,
            mirror,
            program,
            numbers: ports.len() as u16,
            ports,
            engine,
            keeper: None,
            told: Told::default(),
            multipath,
            hash,
            refreshed: Instant::now(),
            fib_pulse: FibPulse::default(),
            guarded: BTreeMap::new(),
            hooks,
            rules,
            offload: Offload::default(),
            pins,
            _lock: lock,
        };
        router.tell_addresses();
        router.tell_mtus();
        router.update_hash();
        router.keeper = Some(Keeper::start(lease, watched)?);
        for twin in router.ports.iter().filter_map(Port::twin) {
            twin.keep(&router.place)?;
        }
        Ok(router)
    }

    /// What there is to say of each port, for the log.
    pub fn summary(&self) -> Vec<String> {
        let lines = |port: &Port| {
            let name = port.name.clone();
            let line = move |text| format!("{name}: {text}");
            port.summary().into_iter().map(line)
        };
        self.ports.iter().flat_map(lines).collect()
    }

    /// How to ask it, and where the questions arrive.
    pub fn calls(&self) -> (Caller, Receiver<Call>) {
        let (calls, inbox) = mpsc::channel();
        (Caller::new(calls, self.mirror.waker()), inbox)
    }

    /// Follows Linux and answers calls until told to stop; then ends in order.
    pub fn run(mut self, calls: &Receiver<Call>) -> anyhow::Result<()> {
        loop {
            let tick = self.follow_twins();
            let wait = self.confirmation_due().map_or(tick, |due| due.min(tick));
            let changes = self.mirror.poll(wait).context("cannot follow the kernel")?;
            self.beat();
            self.roll_back_if_due();
            let refresh = self.refreshed.elapsed() >= REFRESH;
            if refresh {
                self.refreshed = Instant::now();
                if let Some(engine) = &mut self.engine {
                    engine.close_returned();
                }
                self.watch_guard();
                for port in &mut self.ports {
                    port.remind(&self.program);
                }
                self.fib_pulse.beat(&self.mirror.fib().stats());
            }
            if changes.links || changes.settings || changes.guard || refresh {
                self.update_ports(refresh)?;
                self.update_hash();
                self.follow_interfaces();
            }
            if changes.local_addresses {
                self.tell_addresses();
            }
            if changes.fib > 0 {
                self.tell_mtus();
                self.update_hash();
            }
            // after what it depends on is up to date
            self.check_fast_path(changes.fib > 0);
            if refresh {
                self.choose_fast_path();
            }
            loop {
                self.beat(); // some questions take seconds
                match calls.try_recv() {
                    Ok(Call::Stop { detach }) => return self.finish(detach),
                    Ok(call) => self.answer(call),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return self.finish(false),
                }
            }
        }
    }

    /// Brings the state of other ports' links to their twins; returns how soon to do it again.
    fn follow_twins(&mut self) -> Duration {
        let mut tick = TICK;
        for twin in self.ports.iter_mut().filter_map(Port::twin_mut) {
            twin.follow(self.mirror.links().values());
            tick = TWIN_TICK;
        }
        tick
    }

    /// Shows that the control side is alive, or the lease runs out.
    pub(crate) fn beat(&self) {
        if let Some(keeper) = &self.keeper {
            keeper.control.fetch_add(1, Relaxed);
        }
    }

    /// Ends forwarding: the gate closes first, so that Linux has the traffic while the rings are
    /// emptied.
    fn finish(mut self, detach_ports: bool) -> anyhow::Result<()> {
        if let Some(mut keeper) = self.keeper.take() {
            keeper.end();
        }
        self.mirror.release_neighbours();
        self.ports
            .iter_mut()
            .filter_map(Port::twin_mut)
            .for_each(Twin::close);
        if let Some(mut engine) = self.engine.take() {
            engine.stop();
        }
        if detach_ports {
            self.ports
                .drain(..)
                .for_each(|port| port.detach(&self.place));
            // ports of an earlier Bora that was killed
            detach_pinned(&self.pins, &self.place)?;
            remove_leftovers(&self.place);
        }
        self.place.clean();
        Ok(())
    }

    /// Brings links, settings and guard into the program, the FIB and the workers.
    pub(crate) fn update_ports(&mut self, ask_driver: bool) -> anyhow::Result<()> {
        if ask_driver {
            let by_ports = self.hash_in_use().iter().flatten().any(|hash| hash.0 == 1);
            for port in self.ports.iter_mut().filter(|port| port.has_program()) {
                port.expose_tags(&self.place);
                if by_ports {
                    port.refuse_hash(&self.place);
                }
                if let Ok(found) = query(port.ifindex) {
                    port.query = found;
                }
            }
        }
        let state = |port: &Port| (port.settings.clone(), port.ingress());
        let before: Vec<_> = self.ports.iter().map(state).collect();
        self.hooks.update(&self.program);
        self.hooks
            .log(self.hooks.holding(self.mirror.guard(), &self.ports));
        let survey = &self.hooks.survey;
        tell_mirror(&mut self.mirror, &mut self.ports, &self.config, survey)?;
        for (port, before) in self.ports.iter().zip(before) {
            if state(port) == before {
                continue;
            }
            // an interface that is gone cannot be a redirect target any more
            if port.has_program()
                && self.mirror.links().contains_key(&port.ifindex)
                && let Err(error) = self.program.set_port(port.ifindex, &port.settings)
            {
                log::warn!("{}: {error}", port.name);
            }
            if let Some(card) = port.twin().and_then(Twin::card) {
                card.set_mac(port.settings.mac);
            }
            if let Some(engine) = &self.engine {
                engine.tell(|| Command::SetIngress(port.ingress()));
            }
        }
        Ok(())
    }

    /// Notes how many packets the guard has left to Linux since the last time.
    fn watch_guard(&mut self) {
        for port in &self.ports {
            let total = self.counters(port.id).passed_by("guard");
            let known = self.guarded.entry(port.id).or_default();
            *known = (total, total - known.0);
        }
    }

    fn update_hash(&mut self) {
        let hash = self.multipath.hashes(self.mirror.settings());
        if hash != self.hash {
            self.hash = hash;
            if let Some(engine) = &self.engine {
                engine.tell(|| Command::SetHash(hash.0, hash.1));
            }
        }
        let known = [&hash.0, &hash.1].map(|hash| self.multipath.why_unknown(hash).is_none());
        self.mirror.set_hashed(known);
        let seed = self.mirror.settings().hash_seed.unwrap_or(0);
        self.program.set_multipath(self.hash_in_use(), seed);
    }

    /// fib_multipath_hash_policy and _fields of IPv4 and IPv6, where some route has several paths.
    fn hash_in_use(&self) -> [Option<(u8, u32)>; 2] {
        let settings = self.mirror.settings();
        let in_use = self.mirror.multipath();
        let of =
            |family: usize, hash: HashPolicy| in_use[family].then_some((hash.policy, hash.fields));
        [of(0, settings.hash4), of(1, settings.hash6)]
    }

    fn tell_addresses(&mut self) {
        let local = self.mirror.local_addresses();
        self.told.addresses(&mut self.program, local);
    }

    fn tell_mtus(&mut self) {
        let mtus = self.mirror.route_mtus();
        self.told.route_mtus(&mut self.program, mtus);
    }

    /// Follows Linux to this moment, for those who want to be sure.
    pub(crate) fn catch_up(&mut self) -> anyhow::Result<()> {
        self.mirror.reread_settings();
        while self.mirror.poll(Duration::ZERO)?.more {}
        self.update_ports(true)?;
        self.update_hash();
        self.tell_addresses();
        self.tell_mtus();
        Ok(())
    }

    pub(crate) fn counters(&self, port: PortId) -> Counters {
        self.program.counters(port.0).unwrap_or_default()
    }
}

/// Takes the links as they are now, and tells the mirror what it needs to know of the ports.
fn tell_mirror(
    mirror: &mut Mirror,
    ports: &mut [Port],
    config: &RunConfig,
    survey: &Survey,
) -> anyhow::Result<()> {
    let before = outputs(ports);
    for port in &mut *ports {
        match mirror.links().get(&port.ifindex) {
            Some(link) if !port.is_gone => port.link = link.clone(),
            _ => port.link.up = false,
        }
        port.settings = port.wanted(mirror, config, survey);
    }
    let now = outputs(ports);
    if now != before {
        mirror.set_ports(now)?;
    }
    Ok(())
}

/// The interfaces that the FIB may lead to.
pub(crate) fn outputs(ports: &[Port]) -> BTreeMap<u32, bora_kernel::Port> {
    let outputs = ports.iter().filter(|port| port.is_output);
    outputs.map(|port| (port.ifindex, port.info())).collect()
}

/// Attaches the program to all interfaces, or to none.
fn attach_all(
    found: Vec<(Link, Option<Twin>)>,
    program: &Program,
    pins: &Pins,
    config: &RunConfig,
    place: &Place,
) -> anyhow::Result<Vec<Port>> {
    let mut ports: Vec<Port> = Vec::with_capacity(found.len());
    for (index, (link, twin)) in found.into_iter().enumerate() {
        let id = PortId(index as u16);
        let section = config.ports[index].section.clone();
        let port = match twin {
            Some(twin) => Ok(Port::with_twin(id, link, twin, section)),
            None => Port::attach(id, link, program, pins, config),
        };
        match port {
            Ok(port) => ports.push(port),
            Err(error) => {
                let new = |port: &Port| port.has_program() && !port.taken_over();
                let ports = ports.into_iter().filter(new);
                ports.for_each(|port| port.detach(place));
                return Err(error);
            }
        }
    }
    Ok(ports)
}

/// Detaches what a Bora that is no longer there left on this namespace's interfaces; returns how
/// many.
pub fn detach_leftovers(place: &Place) -> anyhow::Result<usize> {
    let _lock = place.lock()?;
    let pins = place.pins()?;
    let count = remove_leftovers(place) + detach_pinned(&pins, place)?;
    place.clean();
    Ok(count)
}

/// Takes the program off all interfaces that it is pinned on; returns how many.
fn detach_pinned(pins: &Pins, place: &Place) -> anyhow::Result<usize> {
    let mut count = 0;
    for ifindex in pins.links() {
        if let Some(attachment) = Attachment::open(&pins.link(ifindex), ifindex) {
            if let Err(error) = attachment.detach() {
                bail!("interface {ifindex}: cannot detach: {error}");
            }
            offloads::restore(ifindex, place);
            count += 1;
        }
    }
    Ok(count)
}

/// Whether all these CPUs can have workers.
pub(crate) fn check_cores(cores: &[usize]) -> anyhow::Result<()> {
    if let Some(core) = cores.iter().find(|&&core| !cpu_is_online(core)) {
        bail!("there is no CPU {core} on this machine; see /sys/devices/system/cpu/online");
    }
    Ok(())
}

fn cpu_is_online(cpu: usize) -> bool {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    online.trim().split(',').any(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        first.parse().is_ok_and(|first: usize| first <= cpu)
            && last.parse().is_ok_and(|last: usize| cpu <= last)
    })
}
