//! Policy routing and VRFs: Linux's rules as the workers want them.

mod compile;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use bora_contract::{Path, PortSettings, RpFilter};
use bora_fib::PortId;
use bora_forward::Policies;
use bora_forward::policy::Lists;
use bora_mirror::message::Link;
use bora_mirror::{Mirror, Rules};

use compile::{Compiled, Facts, Interface};

/// What is compiled, and of what.
#[derive(Debug, Default)]
pub(crate) struct Policy {
    pub(crate) policies: Arc<Policies>,
    seen: Option<Seen>,
    /// Rules that are left to Linux: whether of IPv6, priority, why.
    left: BTreeSet<(bool, u32, &'static str)>,
}

/// What the lists depend on: [`Mirror::policy_generation`], the main tables, and the interfaces with their
/// masters.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    generation: u64,
    facts: [Facts; 2],
    interfaces: Vec<(PortId, u32, String, u32)>,
}

/// The VRF device that an interface belongs to.
pub(crate) fn vrf_of<'a>(mirror: &'a Mirror, link: &Link) -> Option<&'a Link> {
    let master = mirror.links().get(&link.master)?;
    master.vrf_table.is_some().then_some(master)
}

/// Whether an interface belongs to a bridge, a bond or the like, so that what it receives is not its own.
pub(crate) fn has_other_master(mirror: &Mirror, link: &Link) -> bool {
    link.master != 0 && vrf_of(mirror, link).is_none()
}

/// Whether rules may choose another table than the main one for what this machine itself sends over IPv4.
pub(crate) fn rules_choose_outer(mirror: &Mirror) -> bool {
    let own = Interface {
        name: "lo",
        vrf: None,
    };
    let tables = |number| mirror.further_table(false, number);
    let facts = Facts::of(mirror, false);
    let compiled = compile::compile(mirror.rules(false), false, own, &facts, &tables);
    compiled.list.is_some()
}

/// What was compiled for an interface: IPv4, IPv6, IPv4 sources.
fn compile_all(mirror: &Mirror, link: &Link) -> [Compiled; 3] {
    let vrf = vrf_of(mirror, link);
    let vrf = vrf.and_then(|vrf| Some((vrf.name.as_str(), vrf.vrf_table?)));
    let ahead = Interface {
        name: &link.name,
        vrf,
    };
    // Linux looks up sources as if it had sent the answer itself
    let back = Interface { name: "lo", vrf };
    let compiled = |v6: bool, from| -> Compiled {
        let tables = |number| mirror.further_table(v6, number);
        compile::compile(mirror.rules(v6), v6, from, &Facts::of(mirror, v6), &tables)
    };
    [
        compiled(false, ahead),
        compiled(true, ahead),
        compiled(false, back),
    ]
}

/// The settings of an interface with what they depend on of Linux's rules. The program does not read further
/// tables: express asks Linux's FIB, and where that would say something else, Linux forwards.
pub(crate) fn with_policy(settings: PortSettings, mirror: &Mirror, link: &Link) -> PortSettings {
    let [v4, v6, back] = compile_all(mirror, link);
    let checks_sources = settings.rp_filter != RpFilter::Off;
    let unsure_back = checks_sources && back.list.is_some() && back.unsure_back;
    let express = settings.path == Path::Express;
    PortSettings {
        kernel4: settings.kernel4 || (express && (v4.unsure || unsure_back)),
        kernel6: settings.kernel6 || (express && v6.unsure),
        policy4: v4.list.is_some() || back.list.is_some(),
        policy6: v6.list.is_some(),
        flow_rules: [false, true]
            .iter()
            .any(|&v6| concern_flows(mirror.rules(v6))),
        ..settings
    }
}

/// Whether any of these rules looks at what the look-up of a flow's route has, and that of a packet in transit does not: a mark, and in one
/// direction the interface that the other direction came in by (nft_flow_route() in net/netfilter/nft_flow_offload.c).
fn concern_flows(rules: &Rules) -> bool {
    let mut list = rules.list.iter();
    rules.unread.is_some() || list.any(|rule| rule.mark.1 != 0 || rule.oif.is_some())
}

impl Policy {
    /// Whether the rules, or what they lead to, have changed since [`Policy::follow`].
    pub(crate) fn is_outdated(&self, mirror: &Mirror) -> bool {
        let seen = self.seen.as_ref();
        !seen.is_some_and(|seen| {
            seen.generation == mirror.policy_generation() && seen.facts == facts(mirror)
        })
    }

    /// Compiles the rules for these interfaces (number and ifindex) anew if anything has changed.
    pub(crate) fn follow(&mut self, mirror: &Mirror, interfaces: &[(PortId, u32)]) {
        let named = |&(id, ifindex): &(PortId, u32)| {
            let link = mirror.links().get(&ifindex)?;
            Some((id, ifindex, link.name.clone(), link.master))
        };
        let now = Seen {
            generation: mirror.policy_generation(),
            facts: facts(mirror),
            interfaces: interfaces.iter().filter_map(named).collect(),
        };
        if self.seen.as_ref() == Some(&now) {
            return;
        }
        self.seen = Some(now);
        let mut policies = Policies::default();
        self.left.clear();
        for (id, ifindex) in interfaces {
            if let Some(link) = mirror.links().get(ifindex) {
                self.compile(mirror, *id, link, &mut policies);
            }
        }
        if policies != *self.policies {
            self.policies = Arc::new(policies);
        }
    }

    fn compile(&mut self, mirror: &Mirror, id: PortId, link: &Link, policies: &mut Policies) {
        let [v4, v6, back4] = compile_all(mirror, link);
        for (is_v6, one) in [(false, &v4), (true, &v6)] {
            let left = one.left.iter();
            self.left
                .extend(left.map(|&(priority, why)| (is_v6, priority, why)));
        }
        let lists = Lists {
            v4: v4.list,
            v6: v6.list,
            back4: back4.list,
        };
        if !lists.is_empty() {
            policies.set(id, lists);
        }
    }

    /// Whether other tables than the main one decide about packets of an interface; IPv4, IPv6.
    pub(crate) fn has_list(&self, id: PortId) -> [bool; 2] {
        let lists = self.policies.of(id);
        lists.map_or([false; 2], |lists| [lists.v4.is_some(), lists.v6.is_some()])
    }

    /// Rules whose packets go to Linux, as text.
    pub(crate) fn left_to_linux(&self) -> impl Iterator<Item = String> {
        self.left.iter().map(|(v6, priority, why)| {
            let version = if *v6 { "IPv6" } else { "IPv4" };
            format!("{version}, ip rule {priority}: what reaches it goes to Linux: {why}")
        })
    }
}

fn facts(mirror: &Mirror) -> [Facts; 2] {
    [false, true].map(|v6| Facts::of(mirror, v6))
}
