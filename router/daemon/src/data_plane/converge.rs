//! How mirror, program and workers come to agree. The order is written here, once: [`DataPlane::converge`].

use std::collections::BTreeMap;
use std::mem;

use anyhow::Context;
use bora_contract::PortSettings;
use bora_mirror::{Changes, HashPolicy};
use bora_ruleset::Interface;
use bora_worker::{Intake, Tables};

use super::{DataPlane, counted_of_device, names};
use crate::config::File;
use crate::devices::{DeviceChanges, Kind};
use crate::engine::Engine;
use crate::guard::own_flows::Decision;
use crate::ports::Port;
use crate::rules;

/// How often ports are looked at again because the guard sees something else once the mirror knows them.
const MOST_LOOKS: usize = 3;

impl DataPlane {
    /// Brings mirror, program and workers to agree on what Linux and the configuration say, as far as that has changed: first
    /// what may fail, then who must know a port or device before packets can be led there, then the FIB, and last the gates
    /// that let packets in.
    ///
    /// Returns whether ports, devices or the workers' tables are others than before.
    ///
    /// # Errors
    /// The rules are not possible, and the workers keep what they have; or a new port is refused by the program.
    pub(super) fn converge(&mut self, config: &File, changes: &Changes) -> anyhow::Result<bool> {
        let mut changed = false;
        if self.concerns_ports(changes) {
            self.follow_hash();
            changed = self.agree_on_ports(config)?;
        }
        if changes.local_addresses {
            self.express.tell_addresses(&mut self.mirror);
        }
        self.express.tell_route_mtus(&mut self.mirror);
        self.express.tell_fib(&self.mirror);
        let (hash, seed) = (self.hash_in_use(), self.hash_seed());
        self.express.program.set_multipath(hash, seed);
        if let Some(reclaimer) = &self.reclaimer
            && self.mirror.fib().awaits_program()
        {
            reclaimer.ask();
        }
        Ok(changed)
    }

    /// Whether ports or devices may be other than they were.
    pub(super) fn concerns_ports(&self, changes: &Changes) -> bool {
        let ends = || changes.local_addresses && self.has_tunnels();
        changes.links
            || changes.settings
            || changes.guard
            || changes.bridges
            || ends()
            || self.policy.is_outdated(&self.mirror)
    }

    /// Looks at what Linux sends no events for; returns whether ports or devices may be other than they were.
    pub(super) fn look(&mut self, config: &File) -> bool {
        self.ask_drivers();
        let differ = self.look_at_hooks() | self.channels.look(&self.mirror);
        let hooks = self.express.hooks();
        let differs = |port: &Port| {
            let wanted = port.wanted(&self.mirror, config, hooks);
            port.wanted.as_ref() != Some(&wanted)
        };
        let inputs = names(&self.ports, &self.devices);
        differ
            || self.ports.iter().any(differs)
            || self.rules.are_outdated(&self.ports, &inputs)
            || !self.old_rules.is_empty()
    }

    fn look_at_hooks(&mut self) -> bool {
        let guard = self.mirror.guard();
        let compiles = guard.firewall.as_ref().map(|rules| rules.compiles);
        if compiles.unwrap_or_default() == [false; 2] {
            return self.express.look_at_hooks(guard, Vec::new());
        }
        let links = self.mirror.links().values();
        let index: BTreeMap<&str, u32> = links.map(|it| (it.name.as_str(), it.index)).collect();
        let interfaces = names(&self.ports, &self.devices).into_iter();
        let interfaces = interfaces.filter_map(|(id, name)| {
            Some(Interface {
                number: id.0.into(),
                index: *index.get(name)?,
                name: name.into(),
            })
        });
        let interfaces = interfaces.collect();
        self.express.look_at_hooks(guard, interfaces)
    }

    fn agree_on_ports(&mut self, config: &File) -> anyhow::Result<bool> {
        let mut changed = false;
        for port in self.ports.iter().filter(|port| port.told.is_none()) {
            self.express.program.find_device(port.id.0, port.ifindex)?;
        }
        for _ in 0..MOST_LOOKS {
            self.look_at_hooks();
            self.settle_ports(config);
            let devices = self.settle_devices();
            self.settle_policy();
            if let Err(error) = self.settle_rules(config) {
                self.tell_devices(&devices); // they are told once
                return Err(error);
            }
            changed |= self.tell_workers(config) || !devices.is_empty();
            self.tell_devices(&devices);
            // the FIB leads only to what all know
            if !self.mirror.set_ports(self.outputs())? {
                break;
            }
        }
        let proxy = self.mirror.settings().proxy_ndp;
        self.express.program.set_proxy_ndp(proxy);
        changed |= self.tell_ports()?;
        self.offer_flows(config);
        let devices = names(&self.ports, &self.devices);
        self.express.log_holding(self.mirror.guard(), &devices);
        Ok(changed)
    }

    /// Offers a flowtable to established flows, or takes it away, as Linux's rules are now.
    fn offer_flows(&mut self, config: &File) {
        let ports = self.ports.iter().filter(|port| !port.is_gone);
        let ports = ports.map(|port| port.name.clone());
        let bonds = self.devices.iter().filter(|one| one.kind == Kind::Bond);
        let devices = ports.chain(bonds.map(|bond| bond.name.clone())).collect();
        let off = self.without_forwarding();
        let (guard, hooks) = (self.mirror.guard(), self.express.hooks());
        let mut decision = Decision::new(guard, hooks, config.firewall.flows, devices, off);
        let forwards = self.express.program.forwards_flows();
        decision.follow(forwards, &self.own_flows);
        decision.made(self.mirror.offer_flows(decision.wanted.as_ref()));
        let offered = decision.wanted.as_ref();
        let versions = offered.map_or([false; 2], |offered| offered.versions);
        self.express.program.set_own_flows(versions);
        decision.log(&self.own_flows);
        self.own_flows = decision;
    }

    /// Interfaces that flows could come in by and by which Linux does not forward IPv4, and IPv6. A port of a bond or bridge
    /// has no say in it.
    fn without_forwarding(&self) -> [Vec<String>; 2] {
        let ports = self.ports.iter().filter(|port| !port.is_gone);
        let ports = ports.filter(|port| port.link.master == 0);
        let ports = ports.map(|port| (&port.name, &port.settings));
        let devices = self.devices.iter().map(|one| (&one.name, &one.settings));
        let all: Vec<_> = ports.chain(devices).collect();
        let without = |forwards: fn(&PortSettings) -> bool| {
            let off = all.iter().filter(|(_, settings)| !forwards(settings));
            off.map(|(name, _)| (*name).clone()).collect()
        };
        [
            without(|settings| settings.forward4),
            without(|settings| settings.forward6),
        ]
    }

    /// How flows choose among several paths: workers must do as Linux does, or leave it to Linux.
    fn follow_hash(&mut self) {
        self.multipath.update(self.mirror.settings());
        let known = self.multipath.why_unknown().map(|why| why.is_none());
        self.mirror.set_hashed(known);
    }

    /// Takes the links as they are now, and what the configuration says of them.
    fn settle_ports(&mut self, config: &File) {
        let hooks = self.express.hooks();
        self.held = hooks.held(self.mirror.guard(), config.linux.bypass_netfilter);
        for port in self.ports.iter_mut() {
            match self.mirror.links().get(&port.ifindex) {
                Some(link) if !port.is_gone => port.link = link.clone(),
                _ => port.link.up = false,
            }
            // a port that is being removed has no section any more
            let section = config.port(&port.name);
            port.bypass_qdisc = section.is_some_and(|section| section.bypass_qdisc);
            port.settings = port.wanted(&self.mirror, config, hooks);
            port.wanted = Some(port.settings.clone());
        }
    }

    /// Takes the devices on ports and the tunnels as they are now.
    fn settle_devices(&mut self) -> DeviceChanges {
        let ports = self.ports.iter().map(|port| port.ifindex);
        self.mirror.follow_bridges(ports);
        self.channels.look(&self.mirror);
        let counted = |id| counted_of_device(self.engine.as_ref(), &self.express, id);
        let changes = self.devices.follow(
            &self.mirror,
            &self.ports,
            &self.held,
            &self.channels,
            counted,
        );
        for port in self.ports.iter_mut() {
            if let Some(bond) = self.devices.bond_of(port.id) {
                port.join(bond.id);
            } else if let Some(device) = self.devices.untagged_of(port.id) {
                port.settings.trunk = device.0;
            }
        }
        changes
    }

    /// Compiles Linux's rules anew if they, or the interfaces that they are for, have changed.
    fn settle_policy(&mut self) {
        let ports = self.ports.iter().map(|port| (port.id, port.ifindex));
        let devices = self.devices.iter();
        let devices = devices.map(|device| (device.id, device.ifindex));
        let interfaces: Vec<_> = ports.chain(devices).collect();
        self.policy.follow(&self.mirror, &interfaces);
    }

    /// Compiles the rules anew if the configuration has others, or if what they name is now under another number.
    fn settle_rules(&mut self, config: &File) -> anyhow::Result<()> {
        let inputs = names(&self.ports, &self.devices);
        let are_same = self.rules.are_of(config);
        if are_same && !self.rules.are_outdated(&self.ports, &inputs) {
            return Ok(());
        }
        match rules::compile(config, &self.ports, &inputs, &mut self.mirror) {
            Ok(mut rules) => {
                rules.number = self.rules.number + u64::from(!are_same);
                // the workers still classify by the old ones
                self.old_rules.push(mem::replace(&mut self.rules, rules));
                Ok(())
            }
            Err(error) if are_same => {
                log::warn!("rules stay as they were for the devices before: {error:#}");
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// What workers are to decide by.
    pub(crate) fn tables(&self, config: &File) -> Tables {
        let mut ports = Vec::new();
        for port in self.ports.iter() {
            let number = usize::from(port.id.0);
            ports.resize(ports.len().max(number + 1), None);
            ports[number] = config.port(&port.name).map(|section| Intake {
                ingress: (&port.settings).into(),
                quota: section.quota,
            });
        }
        Tables {
            ports,
            classifier: self.rules.classifier.clone(),
            rule_set: self.rules.number,
            devices: self.devices.for_workers().clone(),
            policies: self.policy.policies.clone(),
            hash: self.multipath.hashes(),
            mode: config.workers.mode,
            budget: config.workers.budget,
            ..Tables::default()
        }
    }

    /// Returns whether the workers go by other tables now.
    fn tell_workers(&mut self, config: &File) -> bool {
        let tables = self.tables(config);
        let changed = self.engine.as_mut().map(|engine| engine.adopt(tables));
        // a worker that is late may still lead packets to the next hops of old rules
        if self.engine.as_ref().is_none_or(Engine::is_up_to_date) {
            for rules in mem::take(&mut self.old_rules) {
                rules.release(&mut self.mirror);
            }
        }
        changed.unwrap_or(false)
    }

    fn tell_devices(&mut self, changes: &DeviceChanges) {
        let stations = self.devices.stations(&self.mirror);
        self.express.tell_stations(stations);
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
        let (macvlans, tunnels) = (count(Kind::Macvlan), count(Kind::Tunnel));
        program.set_device_count(self.devices.len() - tunnels, macvlans, tunnels);
    }

    /// Tells the program of the ports' settings, which open their gates. Returns whether any are others.
    fn tell_ports(&mut self) -> anyhow::Result<bool> {
        let mut changed = false;
        let program = &mut self.express.program;
        program.watch_buffers(self.ports.iter().any(Port::is_generic))?;
        for port in self.ports.iter_mut() {
            if port.told.as_ref() == Some(&port.settings) {
                continue;
            }
            changed = true;
            let is_new = port.told.replace(port.settings.clone()).is_none();
            // an interface that is gone cannot be a redirect target any more
            let is_there = self.mirror.links().contains_key(&port.ifindex);
            let told = match port.has_program() && is_there {
                true => program.set_port(port.ifindex, &port.settings),
                false => Ok(()),
            };
            if let Some(twin) = port.twin() {
                twin.tell_mac(port.settings.mac);
            }
            match told {
                Err(error) if is_new => return Err(error).context(port.name.clone()),
                Err(error) => log::warn!("{}: {error}", port.name),
                Ok(()) => {}
            }
        }
        Ok(changed)
    }

    /// The interfaces that the FIB may lead to.
    fn outputs(&self) -> BTreeMap<u32, bora_mirror::Port> {
        let mut outputs = self.ports.outputs();
        outputs.extend(self.devices.outputs());
        outputs
    }

    /// Whether Linux has tunnels, which need their local addresses.
    fn has_tunnels(&self) -> bool {
        let mut links = self.mirror.links().values();
        links.any(|link| link.tunnel.is_some())
    }

    /// fib_multipath_hash_policy and _fields of IPv4 and IPv6, where some route has several paths.
    pub(super) fn hash_in_use(&self) -> [Option<(u8, u32)>; 2] {
        let settings = self.mirror.settings();
        let in_use = self.mirror.multipath();
        let of =
            |family: usize, hash: HashPolicy| in_use[family].then_some((hash.policy, hash.fields));
        [of(0, settings.hash4), of(1, settings.hash6)]
    }

    fn hash_seed(&self) -> u32 {
        self.mirror.settings().hash_seed.unwrap_or(0)
    }
}
