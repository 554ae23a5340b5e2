//! What becomes of flows of Linux's flowtables, and what to change so that Bora forwards more of them.

use bora_kernel::{Flowtable, GuardReport, ReasonKind};
use serde::Serialize;

/// The rule that puts flows into a flowtable.
const FLOW_ADD: &str = "ct state established flow add @";

/// Flows of Linux's flowtables.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(crate) struct Flows {
    /// Whether Bora forwards them; nothing while there is no flowtable.
    pub(crate) forwards: Option<bool>,
    /// Why not.
    pub(crate) why_not: Option<String>,
    /// The flowtables of the ruleset.
    pub(crate) flowtables: Vec<Flowtable>,
    /// In words: what becomes of them, what keeps them with Linux, and what to do about it.
    pub(crate) lines: Vec<String>,
}

impl Flows {
    /// `forwards`: whether the program does it, or why not; `None` if it has not been tried. `ports`: names
    /// of the interfaces.
    pub(crate) fn new(
        guard: &GuardReport,
        ports: &[&str],
        forwards: Option<&Result<(), String>>,
    ) -> Self {
        let why_not = forwards.and_then(|forwards| forwards.as_ref().err().cloned());
        let tables = guard.flowtables.iter();
        let mut lines: Vec<_> = tables
            .map(|table| state(table, forwards.is_some_and(Result::is_ok)))
            .collect();
        lines.extend(advice(guard, ports, why_not.as_deref()));
        Self {
            forwards: forwards.map(Result::is_ok),
            why_not,
            flowtables: guard.flowtables.clone(),
            lines,
        }
    }
}

fn state(table: &Flowtable, forwards: bool) -> String {
    let state = if forwards && table.used && !table.counter && !table.offload {
        "forwarded by the XDP program"
    } else {
        "left to Linux"
    };
    let devices = table.devices.join(", ");
    format!("flowtable {} (devices {devices}): {state}", table.title())
}

/// What keeps packets that only pass nftables with Linux, one line each.
fn advice(guard: &GuardReport, ports: &[&str], why_not: Option<&str>) -> Vec<String> {
    let mut lines = Vec::new();
    let chains = guard.v4.iter().chain(&guard.v6);
    let chains = chains.filter(|reason| reason.kind == ReasonKind::Netfilter);
    if chains.count() == 0 {
        return lines;
    }
    if let Some(why) = why_not {
        lines.push(format!("flows are left to Linux: {why}"));
    }
    if guard.flowtables.is_empty() {
        lines.push(format!(
            "chains of netfilter keep all traffic with Linux; for established flows to go by Bora, which needs Linux \
             6.11, add to the table that filters: `flowtable ft {{ hook ingress priority 0; devices = {{ {} }}; }}`, \
             and at the top of its forward chain: `{FLOW_ADD}ft` (docs/firewall.md)",
            ports.join(", ")
        ));
    }
    for table in &guard.flowtables {
        lines.extend(of_table(table).map(|text| format!("flowtable {}: {text}", table.title())));
    }
    let usable = |table: &&Flowtable| !table.counter && !table.offload;
    for &port in ports.iter().filter(|_| !guard.flowtables.is_empty()) {
        let mut having = guard.flowtables.iter().filter(|table| table.has(port));
        if having.next().is_none() {
            let table = guard.flowtables.iter().find(usable);
            let name = table.map_or(String::new(), |table| format!(" {}", table.title()));
            lines.push(format!(
                "{port} is in no flowtable: what comes in there is left to Linux; add it to the devices of flowtable{name}"
            ));
        }
    }
    lines
}

fn of_table(table: &Flowtable) -> impl Iterator<Item = String> {
    let lines = [
        (table.counter).then(|| {
            "has `counter`: its flows are left to Linux, which alone can count them for conntrack; remove \
             `counter` if nobody needs that"
                .to_string()
        }),
        (table.offload).then(|| {
            "has `flags offload`: its flows are left to Linux and the cards".to_string()
        }),
        (!table.used).then(|| {
            format!(
                "no rule puts flows into it; add to a forward chain of its table: `{FLOW_ADD}{}`",
                table.name
            )
        }),
    ];
    lines.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use bora_kernel::Reason;

    use super::*;

    fn guard(flowtables: &[Flowtable]) -> GuardReport {
        GuardReport {
            v4: vec![Reason {
                kind: ReasonKind::Netfilter,
                text: "a chain".into(),
            }],
            flowtables: flowtables.to_vec(),
            ..GuardReport::default()
        }
    }

    fn good() -> Flowtable {
        Flowtable {
            family: "inet",
            table: "t".into(),
            name: "ft".into(),
            devices: vec!["r0".into(), "r1".into()],
            used: true,
            ..Flowtable::default()
        }
    }

    fn said(flowtables: &[Flowtable], forwards: Option<&Result<(), String>>) -> String {
        Flows::new(&guard(flowtables), &["r0", "r1"], forwards)
            .lines
            .join("\n")
    }

    #[test]
    fn nothing_to_say_without_a_firewall_or_when_all_is_well() {
        let none = Flows::new(&GuardReport::default(), &["r0"], None);
        assert_eq!(none, Flows::default());
        let text = said(&[good()], Some(&Ok(())));
        assert_eq!(
            text,
            "flowtable inet t ft (devices r0, r1): forwarded by the XDP program"
        );
    }

    #[test]
    fn each_obstacle_has_its_line() {
        let text = said(&[], None);
        assert!(
            text.contains("devices = { r0, r1 }") && text.contains("flow add @ft"),
            "{text}"
        );
        let mut table = good();
        (table.counter, table.used) = (true, false);
        table.devices.pop();
        let text = said(&[table], Some(&Err("no such function".into())));
        for part in [
            "no such function",
            "`counter`",
            "no rule puts",
            "r1 is in no flowtable",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
