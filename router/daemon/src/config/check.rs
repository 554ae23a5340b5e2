//! What the syntax of a file does not say: ranges, and what fields say about each other.

use bora_buffer::MAX_BATCH;
use bora_config::{Problem, at, wrong};
use bora_forward::MAX_CLASSES;
use bora_forward::classify::{MAX_RULES, Ternary};
use bora_forward::schedule::{MAX_FRAME, MIN_QUANTUM};
use bora_wire::Protocol;
use bora_xdp::MAX_PORTS;

use super::queues::MAX_BURST;
use super::rate::Rate;
use super::rule::{RuleAction, RuleSection};
use super::sections::MAX_WORKERS;
use super::{AddressSet, File, PathChoice, PortSection, WorkersSection};

/// Longest queue: its places are there from the start.
const MAX_QUEUE: u32 = 1 << 16;
const MAX_BUDGET: u32 = 1_000_000;

impl File {
    /// What the syntax does not say.
    ///
    /// # Errors
    /// The first [`Problem`] found.
    pub fn check(&self) -> Result<(), Problem> {
        if self.ports.is_empty() {
            return wrong(
                [],
                "no ports; name at least one with --port or in a [[port]] section".into(),
            );
        }
        if self.ports.len() > MAX_PORTS {
            return wrong(
                at!["port", MAX_PORTS],
                format!("more than {MAX_PORTS} ports"),
            );
        }
        for (index, port) in self.ports.iter().enumerate() {
            self.check_port(index, port)?;
        }
        if !(1..=1024).contains(&self.fib.memory) {
            let what = format!("{} MiB; it must be from 1 to 1024", self.fib.memory);
            return wrong(at!["fib", "memory"], what);
        }
        self.check_workers()?;
        if self.fib.express_memory > 1024 {
            let what = format!("{} MiB; at most 1024", self.fib.express_memory);
            return wrong(at!["fib", "express_memory"], what);
        }
        let mut count = 0usize;
        for (index, rule) in self.rules.iter().enumerate() {
            self.check_rule(index, rule)?;
            count = count.saturating_add(rule.count());
            if count > MAX_RULES {
                let what = format!(
                    "more than {MAX_RULES} rules up to here; one for each pair of a source and a destination counts"
                );
                return wrong(at!["rule", index], what);
            }
        }
        for (point, &class) in &self.dscp.0 {
            if let Some(what) = self.lacks_class(class) {
                return wrong(at!["dscp", &*point.to_string()], what);
            }
        }
        self.api.check()?;
        self.sflow.check()?;
        self.check_path()
    }

    fn check_workers(&self) -> Result<(), Problem> {
        let WorkersSection { cores, budget, .. } = &self.workers;
        if !(1..=MAX_BUDGET).contains(budget) {
            let what = format!("a budget is from 1 to {MAX_BUDGET} packets a round");
            return wrong(at!["workers", "budget"], what);
        }
        if cores.len() > MAX_WORKERS {
            let what = format!(
                "{} workers; at most {MAX_WORKERS} are possible",
                cores.len()
            );
            return wrong(at!["workers", "cores", MAX_WORKERS], what);
        }
        Ok(())
    }

    /// Rules and queues are the engine's; express would not obey them.
    fn check_path(&self) -> Result<(), Problem> {
        match self.engine_section() {
            Some(section) if self.path == PathChoice::Express => wrong(
                at!["path"],
                format!("the express path knows no [{section}]; use `engine` or `auto`"),
            ),
            _ => Ok(()),
        }
    }

    fn check_port(&self, index: usize, port: &PortSection) -> Result<(), Problem> {
        if let Err((option, what)) = port.check_kind() {
            return wrong(at!["port", index, option], what);
        }
        let before = &self.ports[..index];
        if before.iter().any(|other| other.name == port.name) {
            let what = format!("port {} is named twice", port.name);
            return wrong(at!["port", index, "name"], what);
        }
        if !(1..=MAX_BATCH as u32).contains(&port.quota) {
            let what = format!("a quota is from 1 to {MAX_BATCH} packets a turn");
            return wrong(at!["port", index, "quota"], what);
        }
        let queues = &port.queues;
        if queues.classes.len() > MAX_CLASSES {
            let what = format!(
                "{} classes; at most {MAX_CLASSES} are possible",
                queues.classes.len()
            );
            return wrong(at!["port", index, "queues", "class", MAX_CLASSES], what);
        }
        if let Some(what) = burst_problem(queues.rate, queues.burst) {
            return wrong(at!["port", index, "queues", "burst"], what);
        }
        for (number, class) in queues.classes.iter().enumerate() {
            let at = |field: &str| at!["port", index, "queues", "class", number, field];
            if !(1..=MAX_QUEUE).contains(&class.packets) {
                return wrong(
                    at("packets"),
                    format!("a queue holds from 1 to {MAX_QUEUE} packets"),
                );
            }
            if class
                .octets
                .is_some_and(|octets| octets < u64::from(MAX_FRAME))
            {
                let what = format!("a queue must have room for a frame of {MAX_FRAME} octets");
                return wrong(at("octets"), what);
            }
            if class.quantum < MIN_QUANTUM {
                let what = format!("a quantum is at least {MIN_QUANTUM} octets");
                return wrong(at("quantum"), what);
            }
            if let Some(what) = burst_problem(class.rate, class.burst) {
                return wrong(at("burst"), what);
            }
        }
        Ok(())
    }

    /// Files of addresses are read where the configuration is a file, too.
    pub(super) fn check_files(&self, are_read: bool) -> Result<(), Problem> {
        for (index, rule) in self.rules.iter().enumerate() {
            for (field, file, other) in [
                ("source_file", &rule.source_file, rule.source.is_some()),
                (
                    "destination_file",
                    &rule.destination_file,
                    rule.destination.is_some(),
                ),
            ] {
                let what = match file {
                    Some(_) if other => "the rule has such addresses already",
                    Some(_) if !are_read => {
                        "read by `bora run` and `bora apply`, not here; give the addresses"
                    }
                    _ => continue,
                };
                return wrong(at!["rule", index, field], what.into());
            }
        }
        Ok(())
    }

    fn check_rule(&self, index: usize, rule: &RuleSection) -> Result<(), Problem> {
        let bad = |field: &str, what: &str| wrong(at!["rule", index, field], what.into());
        let v6 = |set: &Option<AddressSet>| set.as_ref().map(AddressSet::is_v6);
        if let (Some(source), Some(destination)) = (v6(&rule.source), v6(&rule.destination))
            && source != destination
        {
            return bad("destination", "source and destination differ in IP version");
        }
        if rule.tos.is_some() && rule.dscp.is_some() {
            return bad(
                "dscp",
                "`tos` and `dscp` are the same octet; use one of them",
            );
        }
        let ports = [
            ("source_ports", &rule.source_ports),
            ("destination_ports", &rule.destination_ports),
        ];
        for (field, _) in ports.iter().filter(|(_, ports)| ports.is_some()) {
            if rule.protocol.is_some_and(|one| !may_have_ports(one.0)) {
                return bad(
                    field,
                    "packets of this protocol have no ports, so nothing would match",
                );
            }
        }
        if let Some(name) = rule.in_port.as_ref().filter(|name| !may_be_interface(name)) {
            return bad(
                "in_port",
                &format!("`{name}` cannot be the name of an interface"),
            );
        }
        if let Some(via) = &rule.output {
            self.known_port(index, &via.device)?;
        }
        if rule.action == RuleAction::Drop {
            for (field, given) in [
                ("class", rule.class.is_some()),
                ("output", rule.output.is_some()),
            ] {
                if given {
                    return bad(
                        field,
                        "the rule drops, so the packet has neither class nor output",
                    );
                }
            }
        }
        match rule.class.and_then(|class| self.lacks_class(class)) {
            Some(what) => bad("class", &what),
            None => Ok(()),
        }
    }

    /// The port of a rule's output is one.
    fn known_port(&self, rule: usize, name: &str) -> Result<(), Problem> {
        let names: Vec<&str> = self.ports.iter().map(|port| &*port.name).collect();
        if names.contains(&name) {
            return Ok(());
        }
        let what = format!("{name} is none of the ports {}", names.join(", "));
        wrong(at!["rule", rule, "output"], what)
    }

    /// What rules take from interfaces that are no ports: number of the rule, from 1, and the interface. They match nothing while
    /// there is no device of this name on the ports.
    pub fn other_inputs(&self) -> impl Iterator<Item = (usize, &str)> {
        let rules = self.rules.iter().enumerate();
        let inputs =
            rules.filter_map(|(number, rule)| Some((number + 1, rule.in_port.as_deref()?)));
        inputs.filter(|(_, name)| self.port(name).is_none())
    }

    /// Why a class is none of every port's, if so.
    fn lacks_class(&self, class: u8) -> Option<String> {
        self.ports.iter().find_map(|port| {
            let count = port.queues.output().classes.len();
            (usize::from(class) >= count).then(|| {
                format!(
                    "port {} has no class {class}, only 0 to {}",
                    port.name,
                    count - 1
                )
            })
        })
    }
}

/// As `dev_valid_name()` in Linux's net/core/dev.c.
fn may_be_interface(name: &str) -> bool {
    let bad = |octet: u8| b"/:".contains(&octet) || octet.is_ascii_whitespace() || octet == 0x0b;
    (1..16).contains(&name.len()) && name != "." && name != ".." && !name.bytes().any(bad)
}

fn burst_problem(rate: Option<Rate>, burst: Option<u32>) -> Option<String> {
    match (rate, burst) {
        (None, Some(_)) => Some("a burst without a rate".into()),
        (_, Some(burst)) if !(MAX_FRAME..=MAX_BURST).contains(&burst) => {
            Some(format!("a burst is from {MAX_FRAME} to {MAX_BURST} octets"))
        }
        _ => None,
    }
}

fn may_have_ports(protocol: Ternary<u8>) -> bool {
    let matches = |known: &u8| (known ^ protocol.value) & protocol.mask == 0;
    (0..=u8::MAX)
        .filter(matches)
        .any(|known| Protocol(known).has_ports())
}
