//! Why traffic is left to Linux, in words.

use std::collections::HashMap;

use bora_fib::PortId;
use bora_mirror::{GuardReport, ReasonKind};
use bora_xdp::{HOOKS, Hook, LOCAL_HOOKS, Program, Survey, names_of};

/// Functions of nftables chains and of legacy iptables, which netlink and /proc report already.
const TOLD: [&str; 6] = [
    "nft_do_chain",
    "ipt_do_table",
    "ip6t_do_table",
    "iptable_",
    "ip6table_",
    "nf_nat_",
];

/// Functions that take a port's frames and that Bora knows: bonds, bridges and the like are masters, macvlans are told by netlink.
const KNOWN_RECEIVERS: [&str; 5] = [
    "bond_handle_frame",
    "br_handle_frame",
    "macvlan_handle_frame",
    "netdev_frame_hook", // Open vSwitch
    "team_handle_frame",
];

/// What Linux's hooks hold back of tunnels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    /// Why no outer packet goes past Linux.
    pub(crate) outer: Option<String>,
    /// Whether Linux must see IPv6 that was in a tunnel.
    pub(crate) inner6: bool,
}

/// What the guard found, and the names of the functions in it.
#[derive(Debug, Default)]
pub(crate) struct Hooks {
    pub(crate) survey: Survey,
    /// By address; empty for those the kernel does not name.
    names: HashMap<u64, String>,
    /// What was logged last.
    logged: Vec<String>,
    /// The generation that the program was not found to know.
    missed: Option<u32>,
}

impl Hooks {
    /// Looks again; returns whether something else is there.
    pub(crate) fn update(&mut self, program: &Program) -> bool {
        let before = self.survey.clone();
        match program.survey() {
            Ok(survey) => self.survey = survey,
            Err(error) => {
                log::warn!("cannot look at Linux's hooks: {error}");
                self.survey.failed = true;
            }
        }
        let hooks = self.survey.hooks.iter().flatten();
        let functions = hooks.flat_map(|hook| hook.functions.iter().copied());
        let receivers = self.survey.ports.iter().map(|port| port.receiver);
        let functions = functions.chain(receivers.filter(|&function| function != 0));
        let unknown: Vec<u64> = functions.filter(|f| !self.names.contains_key(f)).collect();
        if !unknown.is_empty() {
            let names = names_of(&unknown)
                .into_iter()
                .map(Option::unwrap_or_default);
            self.names.extend(unknown.into_iter().zip(names));
        }
        self.survey != before
    }

    /// Whether the program does not know the generation of the rules that were read; says so once for each generation.
    pub(crate) fn wants_generation(&mut self, guard: &GuardReport) -> bool {
        let read = guard.firewall.as_ref().map(|rules| rules.generation);
        let missing = !self.survey.shows_generation && self.survey.generation != read;
        let has_hooks = self
            .survey
            .hooks
            .iter()
            .flatten()
            .any(|hook| hook.count > 0);
        let wants = missing && has_hooks && read.is_some() && self.missed != read;
        if wants {
            self.missed = read;
        }
        wants
    }

    /// Why traffic is left to Linux: what netlink says, and what only the program sees at the hooks of the
    /// namespace and of these ports and VLAN devices.
    pub(crate) fn holding(&self, report: &GuardReport, devices: &[(PortId, &str)]) -> Vec<String> {
        let mut lines = Vec::new();
        for (v6, reasons) in [(false, &report.v4), (true, &report.v6)] {
            let family = if v6 { "IPv6" } else { "IPv4" };
            // the program tells the direction, and sees tcx programs too
            let alone = self.rules_leave_alone(v6);
            let told = reasons.iter().filter(|r| match r.kind {
                ReasonKind::Tc => false,
                ReasonKind::Netfilter => !alone,
                _ => true,
            });
            lines.extend(told.map(|reason| format!("{family}: {}", reason.text)));
            let chains = reasons.iter().any(|r| r.kind == ReasonKind::Netfilter);
            for (hook, name) in self.survey.hooks[usize::from(v6)].iter().zip(HOOKS) {
                lines.extend(
                    self.functions(hook, chains)
                        .map(|f| format!("{family}: {name}: {f}")),
                );
            }
        }
        for (blocked, direction) in [
            (self.survey.xfrm_out_blocked, "out"),
            (self.survey.xfrm_forward_blocked, "fwd"),
        ] {
            if blocked {
                lines.push(format!(
                    "xfrm default policy {direction} block (free: `ip xfrm policy setdefault \
                     {direction} accept`)"
                ));
            }
        }
        for &(id, name) in devices {
            let flows = report.flowtables.iter().any(|table| table.has(name));
            lines.extend(self.at_device((id, name), flows));
        }
        if self.survey.failed {
            let text = "Linux's hooks could not be looked at, so ports without an XDP program and tunnels are Linux's";
            lines.push(text.into());
        }
        lines
    }

    /// What is held back of tunnels, whose outer packets Linux itself would receive and send.
    pub(crate) fn held(&self, report: &GuardReport, bypass: bool) -> Held {
        if bypass {
            return Held::default();
        }
        let local = self.survey.local.iter().zip(LOCAL_HOOKS);
        let mut local = local.filter(|(hook, _)| hook.holds);
        let told = |reasons: &[bora_mirror::Reason]| {
            let kinds = [ReasonKind::Netfilter, ReasonKind::Xfrm];
            reasons.iter().any(|reason| kinds.contains(&reason.kind))
        };
        Held {
            outer: if let Some(reason) = report.local.first() {
                Some(reason.text.clone())
            } else if let Some((_, name)) = local.next() {
                Some(format!("netfilter has hooks at {name} of IPv4"))
            } else if self.survey.xfrm_in {
                let free = "free: `ip xfrm policy setdefault in accept`";
                Some(format!("xfrm default policy in block ({free})"))
            } else if self.survey.holds(false) || self.trusts_ipv4() || told(&report.v4) {
                Some("netfilter or IPsec must see all IPv4".into())
            } else {
                None
            },
            inner6: self.survey.holds(true) || told(&report.v6),
        }
    }

    /// Whether chains hold IPv4 and IPv6 back.
    pub(crate) fn held_by_chains(&self, guard: &GuardReport) -> [bool; 2] {
        [false, true].map(|v6| guard.has_chains(v6) && !self.rules_leave_alone(v6))
    }

    /// Whether there are rules, and all leave transit alone or are followed by the program.
    fn rules_leave_alone(&self, v6: bool) -> bool {
        let hooks = &self.survey.hooks[usize::from(v6)];
        !self.survey.failed
            && hooks.iter().any(|hook| hook.trusted)
            && !hooks.iter().any(|hook| hook.holds)
    }

    /// Whether hooks of IPv4 leave only transit alone, which outer packets are not.
    fn trusts_ipv4(&self) -> bool {
        self.survey.hooks[0].iter().any(|hook| hook.trusted)
    }

    /// Functions of a hook that affect traffic and belong to no chain.
    fn functions(&self, hook: &Hook, chains: bool) -> impl Iterator<Item = String> {
        let shown = hook.functions.iter().map(|f| self.name(*f));
        let told = |name: &str| TOLD.iter().any(|told| name.starts_with(told));
        let shown = shown.filter(move |name| !(chains && told(name)));
        shown.filter(|_| hook.holds)
    }

    pub(super) fn name(&self, function: u64) -> String {
        match self.names.get(&function) {
            Some(name) if !name.is_empty() => name.clone(),
            _ => "a function that /proc/kallsyms does not name".into(),
        }
    }

    /// The function that takes a port's frames away from it, such as ipvlan's.
    pub(crate) fn receiver(&self, port: PortId) -> Option<String> {
        let seen = self.survey.ports.get(usize::from(port.0))?;
        let name = (seen.receiver != 0).then(|| self.name(seen.receiver))?;
        let name = name.split(' ').next()?; // without the module
        let is_known = KNOWN_RECEIVERS.contains(&name);
        (!is_known).then(|| name.to_owned())
    }

    /// `flows`: a flowtable is at its ingress. Flowtables and chains of devices are told elsewhere.
    fn at_device(&self, (id, name): (PortId, &str), flows: bool) -> Vec<String> {
        let seen = self.survey.ports.get(usize::from(id.0)).copied();
        let seen = seen.unwrap_or_default();
        let chains = "delete the chains of family netdev".to_string();
        let filters =
            format!("`tc qdisc del dev {name} clsact` or `ingress`, or take the tcx program off");
        let all = [
            (seen.nf_ingress && !flows, "netfilter ingress", &chains),
            (seen.nf_egress, "netfilter egress", &chains),
            (seen.tc_ingress, "tc ingress", &filters),
            (seen.tc_egress, "tc egress", &filters),
        ];
        let there = all.iter().filter(|(there, ..)| *there);
        let mut lines: Vec<_> = there
            .map(|(_, what, free)| format!("{what} of {name} (free: {free})"))
            .collect();
        if let Some(function) = self.receiver(id) {
            lines.push(format!(
                "{name}: {function}() takes its frames (free: delete what is on it, such as ipvlan)"
            ));
        }
        if seen.not_found {
            lines.push(format!("egress of {name}: cannot be looked at"));
        }
        lines
    }

    /// Functions that Linux calls for forwarded packets and that do not affect them.
    pub(crate) fn harmless(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let versions = self.survey.hooks.iter().zip(self.survey.rules);
        for ((hooks, follows), family) in versions.zip(["IPv4", "IPv6"]) {
            let alone = |hook: &Hook| !(hook.holds || follows && hook.trusted);
            for (hook, name) in hooks.iter().zip(HOOKS).filter(|(hook, _)| alone(hook)) {
                let functions = hook.functions.iter().map(|f| self.name(*f));
                lines.extend(functions.map(|f| format!("{family}: {name}: {f}")));
            }
        }
        lines
    }

    /// Why traffic is left to Linux, as it was logged last.
    pub(crate) fn holding_now(&self) -> &[String] {
        &self.logged
    }

    /// Logs what has changed.
    pub(crate) fn log(&mut self, lines: Vec<String>) {
        for line in lines.iter().filter(|line| !self.logged.contains(line)) {
            log::info!("guard: {line}");
        }
        for line in self.logged.iter().filter(|line| !lines.contains(line)) {
            log::info!("guard, no longer: {line}");
        }
        self.logged = lines;
    }
}
