//! What becomes of flows of Linux's flowtables, and what to change so that Bora forwards more of them.

use bora_mirror::{Flowtable, GuardReport};
use serde::Serialize;

use super::own_flows::Decision;

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
    /// `held`: whether chains hold IPv4 and IPv6 back. `forwards`: whether the program does it, or why not; `None` if it has not been
    /// tried. `ports`: names of the interfaces. `own`: whether Bora offers a flowtable.
    #[expect(clippy::disallowed_methods, reason = "the error is shown as `why_not`")]
    pub(crate) fn new(
        guard: &GuardReport,
        held: [bool; 2],
        ports: &[&str],
        forwards: Option<&Result<(), String>>,
        own: &Decision,
    ) -> Self {
        let why_not = forwards.and_then(|forwards| forwards.as_ref().err().cloned());
        let tables = guard.flowtables.iter();
        let mut lines: Vec<_> = tables
            .map(|table| state(table, forwards.is_some_and(Result::is_ok)))
            .collect();
        lines.extend(own.told());
        let refused = own.why_not.iter();
        lines.extend(refused.map(|why| format!("Bora offers no flowtable of its own: {why}")));
        let is_offered = own.wanted.is_some() || guard.flowtables.iter().any(|table| table.own);
        if !is_offered {
            lines.extend(advice(guard, held, ports, why_not.as_deref()));
        }
        Self {
            forwards: forwards.map(Result::is_ok),
            why_not,
            flowtables: guard.flowtables.clone(),
            lines,
        }
    }
}

fn state(table: &Flowtable, forwards: bool) -> String {
    let state = match forwards && table.used && !table.offload {
        true if table.counter => "forwarded by the XDP program unless conntrack counts them",
        true => "forwarded by the XDP program",
        false => "left to Linux",
    };
    let devices = table.devices.join(", ");
    format!("flowtable {} (devices {devices}): {state}", table.title())
}

/// What keeps packets that only pass nftables with Linux, one line each.
fn advice(
    guard: &GuardReport,
    held: [bool; 2],
    ports: &[&str],
    why_not: Option<&str>,
) -> Vec<String> {
    let mut lines = Vec::new();
    if held == [false; 2] {
        return lines;
    }
    if let Some(why) = why_not {
        lines.push(format!("flows are left to Linux: {why}"));
    }
    if guard.flowtables.is_empty() {
        lines.push(format!(
            "chains of netfilter keep all traffic with Linux; established flows of TCP and UDP go by Bora after \
             `{}`",
            own_table(ports)
        ));
        lines.push(NOT_ALL.into());
    }
    for ((number, family), held) in [("4", "ip"), ("6", "ip6")].into_iter().zip(held) {
        let mut tables = guard.flowtables.iter();
        if held
            && !guard.flowtables.is_empty()
            && !tables.any(|it| [family, "inet"].contains(&it.family))
        {
            lines.push(format!(
                "no flowtable is for IPv{number}: its flows are left to Linux; one of family inet takes both, in place of \
                 the one that is there, because Linux finds one for each device"
            ));
        }
    }
    for table in &guard.flowtables {
        lines.extend(of_table(table).map(|text| format!("flowtable {}: {text}", table.title())));
    }
    let usable = |table: &&Flowtable| !table.offload;
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

/// What the command above does, and where it does not help.
const NOT_ALL: &str = "that table leaves the ruleset as it is, and sees only what all its forward chains have accepted; `nft \
                       delete table inet flows` undoes it. Rules then see no further packets of such flows (counters, marks, limits). \
                       It does not help where rules say `notrack`, nor for what docs/firewall.md names, such as bridges with VLANs";

/// The command that puts established flows into a flowtable without a change of the ruleset, which may belong to a program
/// (firewalld, ufw, Docker). The chain is behind all that filter.
fn own_table(ports: &[&str]) -> String {
    format!(
        "nft 'table inet flows {{ flowtable ft {{ hook ingress priority 0; devices = {{ {} }}; }}; chain forward {{ type \
         filter hook forward priority 100; {FLOW_ADD}ft; }}; }}'",
        ports.join(", ")
    )
}

fn of_table(table: &Flowtable) -> impl Iterator<Item = String> {
    let lines = [
        (table.counter).then(|| {
            "has `counter`: what conntrack counts is left to Linux, which alone can; if nobody needs that, \
             `sysctl net.netfilter.nf_conntrack_acct=0` ends it for new connections (OpenWrt sets it to 1)"
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
    use bora_mirror::{Reason, ReasonKind};

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

    fn held(guard: &GuardReport) -> [bool; 2] {
        [false, true].map(|v6| guard.has_chains(v6))
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
        let none = Decision::default();
        let guard = guard(flowtables);
        Flows::new(&guard, held(&guard), &["r0", "r1"], forwards, &none)
            .lines
            .join("\n")
    }

    #[test]
    fn nothing_to_say_without_a_firewall_or_when_all_is_well() {
        let guard = GuardReport::default();
        let none = Flows::new(&guard, held(&guard), &["r0"], None, &Decision::default());
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
        for part in [
            "devices = { r0, r1 }",
            "flow add @ft",
            "nft delete table inet flows",
            "`notrack`",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let mut table = good();
        (table.counter, table.used) = (true, false);
        table.devices.pop();
        let text = said(&[table], Some(&Err("no such function".into())));
        for part in [
            "no such function",
            "`counter`",
            "no rule puts",
            "r1 is in no flowtable",
            "nf_conntrack_acct",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_flowtable_of_one_ip_version_leaves_the_other_to_linux() {
        let of = |family| Flowtable { family, ..good() };
        let lines = |chains6: bool, family| {
            let mut guard = guard(&[of(family)]);
            if chains6 {
                guard.v6 = guard.v4.clone();
            }
            let none = Decision::default();
            Flows::new(&guard, held(&guard), &["r0", "r1"], Some(&Ok(())), &none)
                .lines
                .join("\n")
        };
        assert!(lines(true, "ip").contains("no flowtable is for IPv6"));
        assert!(lines(true, "ip6").contains("no flowtable is for IPv4"));
        assert!(!lines(true, "inet").contains("no flowtable"));
        assert!(
            !lines(false, "ip").contains("no flowtable"),
            "no chain holds IPv6"
        );
    }
}
