//! Which of Linux's hooks leave transit alone, because their rules do, or because the program follows these rules.

use bora_mirror::{Firewall, GuardReport};
use bora_ruleset::{Hook as Place, Transit};
use bora_xdp::{HOOKS, Hook, HookIdentity, Trust};

use super::followed_rules::FollowedRules;
use super::hooks::Hooks;

/// The hooks in the order of [`bora_xdp::HOOKS`].
const PLACES: [Place; 3] = [Place::Prerouting, Place::Forward, Place::Postrouting];

/// What a function at a hook does with transit.
enum Function {
    /// It calls nftables' chains of the hook.
    Chains,
    /// It puts fragments together for conntrack.
    Defragments,
    /// It follows connections.
    Tracks,
    /// It translates addresses of tracked connections.
    Translates,
    /// It calls chains of legacy iptables, whose changes no generation tells.
    LegacyChains,
    /// It acts only on what a bridge has shown to netfilter (`br_netfilter`), or on what local programs send (AppArmor).
    Nothing,
}

/// By its name in `/proc/kallsyms`; `None` for one that Bora does not know.
fn function(name: &str) -> Option<Function> {
    Some(match name.split(' ').next()? {
        name if name.starts_with("nf_nat_") => Function::Translates,
        "nft_do_chain_inet" | "nft_do_chain_ipv4" | "nft_do_chain_ipv6" => Function::Chains,
        "ipv4_conntrack_defrag" | "ipv6_defrag" => Function::Defragments,
        "ipv4_conntrack_in" | "ipv6_conntrack_in" | "nf_confirm" => Function::Tracks,
        "ipv4_confirm" | "ipv6_confirm" => Function::Tracks, // Linux 6.2 and before
        "ipt_do_table" | "ip6t_do_table" | "iptable_mangle_hook" | "ip6table_mangle_hook" => {
            Function::LegacyChains
        }
        "ip_sabotage_in" | "apparmor_ip_postroute" => Function::Nothing,
        _ => return None,
    })
}

impl Hooks {
    /// The hooks that the program may trust.
    pub(crate) fn trusted(&self, report: &GuardReport, followed: &FollowedRules) -> Trust {
        match &report.firewall {
            Some(rules) if self.survey.generation == Some(rules.generation) => {
                self.trust_in(rules, followed)
            }
            _ => Trust::default(),
        }
    }

    fn trust_in(&self, rules: &Firewall, followed: &FollowedRules) -> Trust {
        let mut trust = Trust {
            generation: rules.generation,
            ..Trust::default()
        };
        for (v6, hooks) in self.survey.hooks.iter().enumerate() {
            for (at, hook) in hooks.iter().enumerate() {
                let followed = followed.has(v6 == 1);
                if self.leaves_alone(hook, PLACES[at], &rules.transit[v6], followed) {
                    trust.hooks[v6][at] = hook.identity;
                    trust.defragment[v6] |= self.defragments(hook);
                }
            }
            // what stays with Linux at one hook, does so at all
            let holds = |(hook, trusted): (&Hook, &HookIdentity)| {
                (hook.holds || hook.trusted) && trusted.address == 0
            };
            if hooks.iter().zip(&trust.hooks[v6]).any(holds) {
                (trust.hooks[v6], trust.defragment[v6]) = Default::default();
            }
        }
        trust
    }

    /// `followed`: the program follows all rules of the IP version.
    fn leaves_alone(&self, hook: &Hook, place: Place, transit: &Transit, followed: bool) -> bool {
        let all = hook.count as usize == hook.functions.len();
        let known = |&address: &u64| match function(&self.name(address)) {
            Some(Function::Chains) => {
                let mut chains = transit.chains.iter().filter(|chain| chain.hook == place);
                followed || chains.all(|chain| chain.leaves_alone)
            }
            // nothing is translated of packets that conntrack has not seen
            Some(Function::Translates) => followed,
            Some(Function::Defragments | Function::Tracks) => {
                followed || !transit.looks_at_conntrack
            }
            Some(Function::Nothing) => true,
            Some(Function::LegacyChains) | None => false,
        };
        hook.identity.sum != 0 && all && hook.functions.iter().all(known)
    }

    /// Functions that hold an IP version back and of which Bora does not know what they do.
    pub(crate) fn unknown(&self, v6: bool) -> Vec<String> {
        if self.survey.failed {
            return vec!["something that could not be looked at".into()];
        }
        let hooks = self.survey.hooks[usize::from(v6)].iter().zip(HOOKS);
        let mut found = Vec::new();
        for (hook, place) in hooks.filter(|(hook, _)| hook.holds) {
            let names = hook.functions.iter().map(|&address| self.name(address));
            let unknown = names.filter(|name| function(name).is_none());
            found.extend(unknown.map(|name| format!("{name} at {place}")));
            if hook.count as usize != hook.functions.len() {
                found.push(format!("one of {} functions at {place}", hook.count));
            }
        }
        found
    }

    fn defragments(&self, hook: &Hook) -> bool {
        let mut functions = hook
            .functions
            .iter()
            .map(|&address| function(&self.name(address)));
        functions.any(|known| matches!(known, Some(Function::Defragments)))
    }
}
