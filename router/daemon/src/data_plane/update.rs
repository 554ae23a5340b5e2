//! How the data plane follows Linux: links, settings, addresses, routes and the guard.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use bora_mirror::{Changes, HashPolicy};
use bora_worker::Command;

use super::{DataPlane, counted_of_device, names};
use crate::config::File;
use crate::devices::Kind;
use crate::engine::Engine;
use crate::ports::Port;

/// How long to wait for events and calls at most.
const TICK: Duration = Duration::from_millis(500);
/// The same where links have to be followed that Linux does not know.
const TWIN_TICK: Duration = Duration::from_millis(50);

impl DataPlane {
    /// Waits for Linux to change, or to be woken, no longer than `longest`, and brings the changes
    /// into the mirror. The others follow by [`DataPlane::follow`].
    pub(crate) fn wait(&mut self, longest: Option<Duration>) -> anyhow::Result<Changes> {
        let tick = self.follow_twins();
        let wait = longest.map_or(tick, |longest| longest.min(tick));
        self.mirror.poll(wait).context("cannot follow the kernel")
    }

    /// Brings the link state of ports to their twins; returns how soon to do it again.
    fn follow_twins(&mut self) -> Duration {
        let mut tick = TICK;
        for twin in self.ports.iter_mut().filter_map(Port::twin_mut) {
            twin.follow();
            tick = TWIN_TICK;
        }
        tick
    }

    /// What Linux sends no events for, once a second.
    pub(crate) fn look_after(&mut self) {
        if let Some(engine) = &mut self.engine {
            engine.close_returned();
        }
        for port in self.ports.iter_mut() {
            port.reattach_if_lost(&self.express.program);
        }
    }

    /// Follows what has changed; `refresh`: also settings that have no events.
    pub(crate) fn follow(
        &mut self,
        config: &File,
        changes: &Changes,
        refresh: bool,
    ) -> anyhow::Result<()> {
        let policy = self.policy.is_outdated(&self.mirror);
        let ends = changes.local_addresses && self.has_tunnels();
        if changes.links
            || changes.settings
            || changes.guard
            || changes.bridges
            || policy
            || ends
            || refresh
        {
            self.update_ports(config, refresh)?;
            self.update_hash();
            self.update_proxy();
            self.follow_interfaces(config);
        }
        if changes.local_addresses {
            self.express.tell_addresses(&self.mirror);
        }
        if changes.fib > 0 {
            self.express.tell_route_mtus(&self.mirror);
            self.update_hash();
        }
        self.express.tell_fib(&self.mirror);
        if let Some(reclaimer) = &self.reclaimer
            && self.mirror.fib().awaits_program()
        {
            reclaimer.ask();
        }
        // after what it depends on is up to date
        self.check_fast_path(config, changes.fib > 0);
        if refresh {
            self.choose_fast_path(config);
        }
        Ok(())
    }

    /// Whether Linux has tunnels, which need their local addresses.
    fn has_tunnels(&self) -> bool {
        let mut links = self.mirror.links().values();
        links.any(|link| link.tunnel.is_some())
    }

    /// Follows Linux to this moment and compares its tables with the FIB; returns the differences.
    pub(crate) fn verify(&mut self, config: &File) -> anyhow::Result<Vec<bora_mirror::Difference>> {
        self.mirror.reread_settings();
        while self.mirror.poll(Duration::ZERO)?.more {}
        self.update_ports(config, true)?;
        self.update_hash();
        self.express.tell_addresses(&self.mirror);
        self.express.tell_route_mtus(&self.mirror);
        self.express.tell_fib(&self.mirror);
        Ok(self.mirror.verify()?)
    }

    /// Brings links, settings and guard into the program, the FIB and the workers.
    pub(super) fn update_ports(&mut self, config: &File, ask_driver: bool) -> anyhow::Result<()> {
        if ask_driver {
            self.ask_drivers();
        }
        let settings = |port: &Port| port.settings.clone();
        let before: Vec<_> = self.ports.iter().map(settings).collect();
        self.express.look_at_hooks(self.mirror.guard());
        let hooks = self.express.hooks();
        self.held = hooks.held(self.mirror.guard(), config.linux.bypass_netfilter);
        let devices = names(&self.ports, &self.devices);
        self.express.log_holding(self.mirror.guard(), &devices);
        self.tell_mirror(config)?;
        let after = self.ports.iter().zip(before);
        for (port, _) in after.filter(|(port, before)| port.settings != *before) {
            // an interface that is gone cannot be a redirect target any more
            if port.has_program()
                && self.mirror.links().contains_key(&port.ifindex)
                && let Err(error) = self.express.program.set_port(port.ifindex, &port.settings)
            {
                log::warn!("{}: {error}", port.name);
            }
            if let Some(twin) = port.twin() {
                twin.tell_mac(port.settings.mac);
            }
            tell_ingress(self.engine.as_ref(), port);
        }
        Ok(())
    }

    /// Asks drivers what they can do, and turns offloads off that somebody has turned on again.
    fn ask_drivers(&mut self) {
        let by_ports = self.hash_in_use().iter().flatten().any(|hash| hash.0 == 1);
        for port in self.ports.iter_mut().filter(|port| port.has_program()) {
            let dir = &self.runtime.dir;
            port.expose_tags(dir);
            if by_ports {
                port.offloads
                    .refuse_hash(&port.link.name, port.ifindex, dir);
            }
            port.ask_driver();
        }
    }

    /// Takes the devices on ports and the tunnels as they are now. Program and workers know a device before the FIB leads to it.
    fn follow_devices(&mut self, config: &File) {
        let ports = self.ports.iter().map(|port| port.ifindex);
        self.mirror.follow_bridges(ports);
        let counted = |id| counted_of_device(self.engine.as_ref(), &self.express, id);
        let changes = self
            .devices
            .follow(&self.mirror, &self.ports, &self.held, counted);
        for port in self.ports.iter_mut() {
            if let Some(bond) = self.devices.bond_of(port.id) {
                port.join(bond.id);
            } else if let Some(device) = self.devices.untagged_of(port.id) {
                port.settings.trunk = device.0;
            }
        }
        self.follow_policy();
        self.follow_inputs(config); // before packets of new devices come
        self.express
            .tell_stations(self.devices.stations(&self.mirror));
        if changes.is_empty() {
            return;
        }
        let program = &mut self.express.program;
        for device in &changes.removed {
            if let Err(error) = device.in_program(|it| program.remove_device(it)) {
                log::warn!("{}: {error}", device.name);
            }
        }
        for device in &changes.set {
            if let Err(error) = device.in_program(|it| program.set_device(it)) {
                log::warn!("{}: {error}", device.name);
            }
        }
        let count = |kind| self.devices.of_kind(kind).count();
        let (stations, tunnels) = (count(Kind::Macvlan), count(Kind::Tunnel));
        program.set_device_count(self.devices.len() - tunnels, stations, tunnels);
        if let Some(engine) = &mut self.engine {
            engine.set_devices(self.devices.of_workers());
        }
    }

    /// Compiles Linux's rules anew if they have changed. The workers know them before new interfaces.
    fn follow_policy(&mut self) {
        let ports = self.ports.iter().map(|port| (port.id, port.ifindex));
        let devices = self.devices.iter();
        let devices = devices.map(|device| (device.id, device.ifindex));
        let interfaces: Vec<_> = ports.chain(devices).collect();
        if self.policy.follow(&self.mirror, &interfaces)
            && let Some(engine) = &mut self.engine
        {
            engine.set_policies(self.policy.policies.clone());
        }
    }

    /// The interfaces that the FIB may lead to.
    fn outputs(&self) -> BTreeMap<u32, bora_mirror::Port> {
        let mut outputs = self.ports.outputs();
        outputs.extend(self.devices.outputs());
        outputs
    }

    /// Takes the links as they are now, and tells the mirror what it needs to know of the ports.
    pub(super) fn tell_mirror(&mut self, config: &File) -> anyhow::Result<()> {
        let before = self.outputs();
        for port in self.ports.iter_mut() {
            match self.mirror.links().get(&port.ifindex) {
                Some(link) if !port.is_gone => port.link = link.clone(),
                _ => port.link.up = false,
            }
            // a port that is being removed has no section any more
            let section = config.port(&port.name);
            port.bypass_qdisc = section.is_some_and(|section| section.bypass_qdisc);
            port.settings = port.wanted(&self.mirror, config, self.express.hooks());
        }
        self.follow_devices(config);
        let after = self.outputs();
        if after != before {
            self.mirror.set_ports(after)?;
        }
        Ok(())
    }

    /// Tells the mirror which interfaces are ports; the FIB leads to no others.
    pub(super) fn publish_ports(&mut self, config: &File) -> anyhow::Result<()> {
        self.follow_devices(config);
        Ok(self.mirror.set_ports(self.outputs())?)
    }

    /// Tells the workers what has changed about packets that come in by a port.
    pub(super) fn tell_ingress(&self, port: &Port) {
        tell_ingress(self.engine.as_ref(), port);
    }

    /// Has the program look at socket buffers if a port has generic XDP.
    pub(super) fn watch_buffers(&mut self) -> anyhow::Result<()> {
        let generic = self.ports.iter().any(Port::is_generic);
        Ok(self.express.program.watch_buffers(generic)?)
    }

    /// Has workers and program choose among several paths as Linux does now.
    pub(super) fn update_hash(&mut self) {
        let settings = self.mirror.settings();
        if self.multipath.update(settings)
            && let Some(engine) = &self.engine
        {
            let (v4, v6) = self.multipath.hashes();
            engine.tell(|| Command::SetHash(v4, v6));
        }
        let seed = settings.hash_seed.unwrap_or(0);
        self.mirror
            .set_hashed(self.multipath.why_unknown().map(|why| why.is_none()));
        let in_use = self.hash_in_use();
        self.express.program.set_multipath(in_use, seed);
    }

    /// Has the program leave to Linux what it may answer for others.
    pub(super) fn update_proxy(&mut self) {
        let proxy = self.mirror.settings().proxy_ndp;
        self.express.program.set_proxy_ndp(proxy);
    }

    /// fib_multipath_hash_policy and _fields of IPv4 and IPv6, where some route has several paths.
    fn hash_in_use(&self) -> [Option<(u8, u32)>; 2] {
        let settings = self.mirror.settings();
        let in_use = self.mirror.multipath();
        let of =
            |family: usize, hash: HashPolicy| in_use[family].then_some((hash.policy, hash.fields));
        [of(0, settings.hash4), of(1, settings.hash6)]
    }
}

fn tell_ingress(engine: Option<&Engine>, port: &Port) {
    if let Some(engine) = engine {
        engine.tell(|| Command::SetIngress((&port.settings).into()));
    }
}
