//! What an operator is told of when it changes: links, tiers, the guard.

use bora_contract::Path;

use super::events::EventLog;
use super::report::{EventKind, Severity};
use crate::data_plane::DataPlane;
use crate::ports::path_name;

/// What was known at the last look.
#[derive(Debug, Default)]
pub(super) struct Watch {
    ports: Vec<KnownPort>,
    guard: Vec<String>,
}

/// What is known of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KnownPort {
    name: String,
    /// What Linux calls its interface.
    interface: String,
    is_up: bool,
    path: Path,
    why: String,
}

impl Watch {
    /// Looks again, and tells what is new.
    pub(super) fn look(&mut self, plane: &DataPlane, events: &mut EventLog) {
        let ports = plane.ports().iter().map(|port| KnownPort {
            name: port.name.clone(),
            interface: plane
                .mirror()
                .links()
                .get(&port.ifindex)
                .map_or_else(|| port.name.clone(), |link| link.name.clone()),
            is_up: port.is_up() && !port.is_gone,
            path: port.path,
            why: port.why.clone(),
        });
        self.ports(ports.collect(), events);
        self.guard(plane.express().hooks().holding_now(), events);
    }

    fn ports(&mut self, now: Vec<KnownPort>, events: &mut EventLog) {
        let of = |ports: &[KnownPort], name: &str| -> Option<KnownPort> {
            ports.iter().find(|port| port.name == name).cloned()
        };
        for port in &now {
            match of(&self.ports, &port.name) {
                None => come(port, events),
                Some(before) => change(&before, port, events),
            }
        }
        for gone in self
            .ports
            .iter()
            .filter(|one| of(&now, &one.name).is_none())
        {
            let text = format!("{}: is no port any more", gone.name);
            events.tell(Severity::Info, EventKind::Port, text);
        }
        self.ports = now;
    }

    /// Hooks have these lines in the log.
    fn guard(&mut self, now: &[String], events: &mut EventLog) {
        if self.guard == now {
            return;
        }
        for line in now.iter().filter(|line| !self.guard.contains(line)) {
            let text = format!("held back: {line}");
            events.note(Severity::Warning, EventKind::Guard, text);
        }
        for line in self.guard.iter().filter(|line| !now.contains(line)) {
            let text = format!("no longer held back: {line}");
            events.note(Severity::Info, EventKind::Guard, text);
        }
        self.guard = now.to_vec();
    }
}

fn come(port: &KnownPort, events: &mut EventLog) {
    let (name, path, why) = (&port.name, path_name(port.path), &port.why);
    let (severity, state) = state_of(port);
    let text = format!("{name}: a port, {state}, {path} ({why})");
    events.tell(severity, EventKind::Port, text);
}

fn change(before: &KnownPort, port: &KnownPort, events: &mut EventLog) {
    let name = &port.name;
    if before.is_up != port.is_up {
        let (severity, state) = state_of(port);
        let text = format!("{name}: the link is {state}");
        events.tell(severity, EventKind::Port, text);
    }
    if before.interface != port.interface {
        let new = &port.interface;
        let text = match new == name {
            true => format!("{name}: the interface has this name again"),
            false => format!(
                "{name}: the interface is called {new} now; it stays the port {name} until Bora is started again with the \
                 new name in the configuration"
            ),
        };
        events.tell(Severity::Warning, EventKind::Port, text);
    }
    if before.path != port.path {
        let severity = match port.path {
            Path::Kernel => Severity::Warning,
            Path::Engine | Path::Express => Severity::Info,
        };
        let (from, to, why) = (path_name(before.path), path_name(port.path), &port.why);
        let text = format!("{name}: from {from} to {to} ({why})");
        events.tell(severity, EventKind::Tier, text);
    }
}

fn state_of(port: &KnownPort) -> (Severity, &'static str) {
    match port.is_up {
        true => (Severity::Info, "up"),
        false => (Severity::Warning, "down"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(name: &str, is_up: bool, path: Path) -> KnownPort {
        KnownPort {
            name: name.into(),
            interface: name.into(),
            is_up,
            path,
            why: "why".into(),
        }
    }

    fn texts(events: &EventLog) -> Vec<String> {
        events.all().into_iter().map(|event| event.text).collect()
    }

    #[test]
    fn what_changes_of_ports_is_told_once() {
        let (mut watch, mut events) = (Watch::default(), EventLog::default());
        for _ in 0..2 {
            watch.ports(vec![port("a", true, Path::Express)], &mut events);
        }
        watch.ports(vec![port("a", false, Path::Kernel)], &mut events);
        let renamed = KnownPort {
            interface: "wan".into(),
            ..port("a", false, Path::Kernel)
        };
        watch.ports(vec![renamed], &mut events);
        watch.ports(Vec::new(), &mut events);
        let told = [
            "a: a port, up, express (why)",
            "a: the link is down",
            "a: from express to kernel (why)",
            "a: the interface is called wan now; it stays the port a until Bora is started again with the new name in \
             the configuration",
            "a: is no port any more",
        ];
        assert_eq!(texts(&events), told);
    }

    #[test]
    fn what_the_guard_frees_is_told_too() {
        let (mut watch, mut events) = (Watch::default(), EventLog::default());
        watch.guard(&["x".into()], &mut events);
        watch.guard(&["x".into()], &mut events);
        watch.guard(&[], &mut events);
        assert_eq!(texts(&events), ["held back: x", "no longer held back: x"]);
    }
}
