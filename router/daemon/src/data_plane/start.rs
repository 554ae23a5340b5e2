//! How the data plane begins and ends.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use bora_fib::{FibHandle, PortId};
use bora_mirror::message::Link;
use bora_mirror::{Changes, Mirror, MirrorConfig};
use bora_xdp::{AttachError, Attachment, Lease};

use super::{DataPlane, names};
use crate::config::{File, PortKind, PortSection};
use crate::devices::{Channels, DeviceTable};
use crate::engine::{self, Engine};
use crate::express::Express;
use crate::express::reclaim::Reclaimer;
use crate::guard::hooks::Held;
use crate::guard::own_flows::Decision;
use crate::multipath::Multipath;
use crate::offload::Offload;
use crate::policy::Policy;
use crate::ports::another::AnothersPort;
use crate::ports::features;
use crate::ports::table::PortTable;
use crate::ports::twin::{Twin, remove_leftovers};
use crate::ports::{self, Port};
use crate::process::lease::Vitals;
use crate::process::runtime_dir::{RuntimeDir, RuntimeLock};
use crate::rules::CompiledRules;

impl DataPlane {
    /// Attaches the program, opens the sockets and starts the workers. Nothing is forwarded before
    /// the lease that comes with it begins. On an error, what was attached is detached again.
    pub(crate) fn start(
        config: &File,
        runtime: RuntimeLock,
        vitals: Vitals,
    ) -> anyhow::Result<(Self, Lease)> {
        // before the mirror, so that it knows them
        let twins = config.ports.iter().map(open_twin);
        let twins = twins.collect::<anyhow::Result<Vec<_>>>()?;
        let mirror = mirror_config(config);
        let (mut plane, lease) = Self::prepare(config, mirror, runtime, vitals, |links, plane| {
            let found = links.into_iter().zip(twins).collect();
            attach_all(found, &plane.express, &plane.runtime, config)
        })?;
        match plane.open(config) {
            Ok(()) => Ok((plane, lease)),
            Err(error) => {
                plane.engine = None;
                detach_new(plane.ports.take_all(), &plane.runtime.dir);
                Err(error)
            }
        }
    }

    /// Only decides, beside another Bora that forwards by these ports: attaches, opens and changes nothing.
    ///
    /// # Errors
    /// It has no such ports, or the kernel refuses something.
    pub(crate) fn beside(
        config: &File,
        dir: RuntimeDir,
        there: &[AnothersPort],
    ) -> anyhow::Result<Self> {
        let mirror = MirrorConfig {
            only_looks: true,
            ..mirror_config(config)
        };
        let runtime = RuntimeLock::of_another(dir)?;
        let (mut plane, lease) =
            Self::prepare(config, mirror, runtime, Vitals::new(), |links, _| {
                anothers_ports(links, there)
            })?;
        lease.set(u64::MAX); // no packets come to this program
        for port in plane.ports.iter_mut() {
            port.expose_tags(&plane.runtime.dir);
        }
        plane.converge(config, &Changes::everything())?;
        Ok(plane)
    }

    /// All but sockets and workers. `make` makes ports of the interfaces.
    fn prepare(
        config: &File,
        mirror: MirrorConfig,
        runtime: RuntimeLock,
        vitals: Vitals,
        make: impl FnOnce(Vec<Link>, &Self) -> anyhow::Result<PortTable>,
    ) -> anyhow::Result<(Self, Lease)> {
        let fib_pages = config.fib.express_pages();
        let long_frames = ports::long_frames(config)?;
        let (netns, budget) = (runtime.dir.netns, config.linux.punt_budget);
        let mut express = Express::load(netns, budget, fib_pages, long_frames)?;
        let (writer, fib) = express.make_fib(config.fib.config())?;
        let mirror = Mirror::open(mirror, writer)?;
        let names = config.ports.iter().map(|section| &section.name);
        let links = names.map(|name| ports::find(&mirror, name));
        let links = links.collect::<anyhow::Result<Vec<_>>>()?;
        let lease = express.lease()?;
        let mut plane = Self {
            ports: PortTable::default(),
            devices: DeviceTable::default(),
            channels: Channels::default(),
            held: Held::default(),
            own_flows: Decision::default(),
            multipath: Multipath::learn(mirror.settings()),
            reclaimer: start_reclaimer(&fib, &express)?,
            mirror,
            fib,
            express,
            engine: None,
            rules: CompiledRules::none()?,
            old_rules: Vec::new(),
            policy: Policy::default(),
            offload: Offload::default(),
            runtime,
            vitals,
        };
        plane.ports = make(links, &plane)?;
        Ok((plane, lease))
    }

    /// Undoes a start that has failed after this: what it has attached or made is taken away again.
    pub(crate) fn abandon(mut self) {
        if let Some(mut engine) = self.engine.take() {
            engine.stop();
        }
        detach_new(self.ports.take_all(), &self.runtime.dir);
        self.runtime.clean();
    }

    /// Opens the sockets, and tells everybody of the ports.
    fn open(&mut self, config: &File) -> anyhow::Result<()> {
        for port in self.ports.iter_mut() {
            port.expose_tags(&self.runtime.dir);
        }
        let opening = engine::open_all(&mut self.ports, config)?;
        self.converge(config, &Changes::everything())?;
        let inputs = names(&self.ports, &self.devices);
        for (rule, name) in config.other_inputs() {
            if !inputs.iter().any(|(_, known)| *known == name) {
                log::warn!(
                    "rule {rule} matches nothing until there is a device {name} on the ports"
                );
            }
        }
        if let Some(opening) = opening {
            let tables = self.tables(config);
            let program = &mut self.express.program;
            let (ports, fib) = (&mut self.ports, &self.fib);
            let engine = Engine::start(ports, opening, program, fib, config, tables)?;
            self.vitals.watch(engine.watched());
            self.engine = Some(engine);
        }
        Ok(())
    }

    /// Lets the twins stay when this process ends, however it does.
    pub(crate) fn keep_twins(&self) -> anyhow::Result<()> {
        let mut twins = self.ports.iter().filter_map(Port::twin);
        twins.try_for_each(|twin| twin.keep(&self.runtime.dir))
    }

    /// Ends forwarding; the lease must have ended before, so that Linux has the traffic while the
    /// rings are emptied. `detach` also takes the program off all interfaces.
    pub(crate) fn stop(mut self, detach: bool) -> anyhow::Result<()> {
        let dir = &self.runtime.dir;
        self.mirror.release_neighbours();
        let twins = self.ports.iter_mut().filter_map(Port::twin_mut);
        twins.for_each(Twin::close);
        if let Some(mut engine) = self.engine.take() {
            engine.stop();
        }
        let mut rest = Ok(0);
        if detach {
            let ports = self.ports.take_all();
            ports.into_iter().for_each(|port| port.detach(dir));
            // ports of an earlier Bora that was killed, and what could not be detached above
            let detached = detach_pinned(&self.runtime);
            let removed = remove_leftovers(dir);
            rest = detached.and(removed);
        }
        self.runtime.clean();
        rest.map(drop)
    }
}

/// What frees memory of a FIB that the program reads.
fn start_reclaimer(fib: &FibHandle, express: &Express) -> anyhow::Result<Option<Reclaimer>> {
    let Some(program) = fib.program() else {
        return Ok(None);
    };
    let periods = express.program.grace_periods()?;
    Reclaimer::start(program, periods).map(Some)
}

fn mirror_config(config: &File) -> MirrorConfig {
    let seconds = config.linux.check_interval.get();
    MirrorConfig {
        check_interval: Duration::from_secs(seconds.into()),
        ..MirrorConfig::default()
    }
}

/// The twin of a port that is no interface.
fn open_twin(section: &PortSection) -> anyhow::Result<Option<Twin>> {
    match &section.kind {
        PortKind::Interface => Ok(None),
        PortKind::Twin(kind) => Twin::open(&section.name, section.mac, kind).map(Some),
    }
}

/// The ports of another Bora on these interfaces.
fn anothers_ports(links: Vec<Link>, there: &[AnothersPort]) -> anyhow::Result<PortTable> {
    let mut ports = PortTable::default();
    for (id, link) in (0..).map(PortId).zip(links) {
        let port = there.iter().find(|port| port.name == link.name);
        let port = port.with_context(|| format!("the Bora that runs has no port {}", link.name))?;
        ports.push(Port::of_another(id, link, port)?);
    }
    Ok(ports)
}

/// Attaches the program to all interfaces, or to none.
fn attach_all(
    found: Vec<(Link, Option<Twin>)>,
    express: &Express,
    runtime: &RuntimeLock,
    config: &File,
) -> anyhow::Result<PortTable> {
    let mut ports = PortTable::default();
    for (id, (link, twin)) in (0..).map(PortId).zip(found) {
        let port = match twin {
            Some(twin) => Ok(Port::with_twin(id, link, twin)),
            None => attach(id, link, express, runtime, config),
        };
        match port {
            Ok(port) => ports.push(port),
            Err(error) => {
                detach_new(ports.take_all(), &runtime.dir);
                return Err(error);
            }
        }
    }
    if !ports.is_empty() && ports.iter().all(|port| port.is_left) {
        let reasons: Vec<&str> = ports.iter().map(|port| port.why.as_str()).collect();
        bail!("there is no port for Bora: {}", reasons.join("; "));
    }
    Ok(ports)
}

/// Attaches the program to an interface. What keeps it off one interface does not concern the others: they start, and Linux has
/// this one alone.
fn attach(
    id: PortId,
    link: Link,
    express: &Express,
    runtime: &RuntimeLock,
    config: &File,
) -> anyhow::Result<Port> {
    let why = match ports::too_long(&link, express.long_frames) {
        Some(why) => why,
        None => match Port::attach(id, link.clone(), &express.program, &runtime.pins, config) {
            Err(error) => match error.downcast::<AttachError>()? {
                foreign @ AttachError::Foreign { .. } => foreign.to_string(),
                other => return Err(other.into()),
            },
            Ok(port) => return Ok(port),
        },
    };
    log::warn!("{}: left to Linux: {why}", link.name);
    Ok(Port::without_program(id, link, why))
}

/// Takes the program off interfaces where it was not before, and removes the twins that this start has made.
fn detach_new(ports: Vec<Port>, dir: &RuntimeDir) {
    let is_new = |port: &Port| match port.twin() {
        Some(twin) => twin.is_new(),
        None => port.has_program() && !port.taken_over(),
    };
    let new = ports.into_iter().filter(is_new);
    new.for_each(|port| port.detach(dir));
}

/// Takes the program off all interfaces that it is pinned on; returns how many.
///
/// # Errors
/// It stays on some; it is off the others.
pub(crate) fn detach_pinned(runtime: &RuntimeLock) -> anyhow::Result<usize> {
    let mut count = 0;
    let mut left = Vec::new();
    for ifindex in runtime.pins.links()? {
        match detach(runtime, ifindex) {
            Ok(there) => count += usize::from(there),
            Err(error) => left.push(format!("interface {ifindex}: {error:#}")),
        }
    }
    ensure!(left.is_empty(), "cannot detach: {}", left.join("; "));
    Ok(count)
}

/// Takes the program off an interface; returns whether it was there.
fn detach(runtime: &RuntimeLock, ifindex: u32) -> anyhow::Result<bool> {
    let pin = runtime.pins.link(ifindex);
    let there = Attachment::open(&pin, ifindex);
    let Some(attachment) = there.with_context(|| format!("cannot open {}", pin.display()))? else {
        return Ok(false);
    };
    attachment.detach()?;
    features::restore(ifindex, &runtime.dir);
    Ok(true)
}
