//! What the guard sees on this machine, told by the program itself (`router/xdp/bpf/survey.h`).

use std::iter::repeat;

use bora_contract as contract;

use super::skeleton::types::{bora_hook, bora_survey};

/// The netfilter hooks that forwarded packets pass.
pub const HOOKS: [&str; 3] = ["prerouting", "forward", "postrouting"];

/// The netfilter hooks of IPv4 that the router's own packets pass.
pub const LOCAL_HOOKS: [&str; 2] = ["input", "output"];

/// The functions of a netfilter hook, by which the program knows them again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HookIdentity {
    /// Where the kernel has their list (`struct nf_hook_entries`); 0 if there are none.
    pub address: u64,
    /// The sum of their addresses and arguments; 0 if there are too many to be trusted.
    pub sum: u64,
}

/// One netfilter hook of one IP version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hook {
    /// Which functions these are.
    pub identity: HookIdentity,
    /// Whether it holds traffic back.
    pub holds: bool,
    /// Whether it would, if the control side did not know that its rules leave transit alone.
    pub trusted: bool,
    /// How many functions are registered.
    pub count: u32,
    /// Addresses of the first of them.
    pub functions: Vec<u64>,
}

/// What looks at the packets of a port's device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceHooks {
    /// nftables, family netdev.
    pub nf_ingress: bool,
    /// tc filters or tcx programs.
    pub tc_ingress: bool,
    /// nftables, family netdev.
    pub nf_egress: bool,
    /// tc filters or tcx programs.
    pub tc_egress: bool,
    /// Nothing looks, but its driver takes frames that XDP programs redirect.
    pub takes_frames: bool,
    /// The program does not know where the device is, and takes it for one with hooks at its egress.
    pub not_found: bool,
    /// The function that Linux gives all frames to that come in (`rx_handler`); 0 if there is none.
    pub receiver: u64,
}

impl DeviceHooks {
    /// Whether anything looks at what leaves there.
    pub fn egress(self) -> bool {
        self.nf_egress || self.tc_egress || self.not_found
    }
}

/// What the guard sees in its network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// The last look failed: everything is taken to hold traffic back.
    pub failed: bool,
    /// The netfilter hooks in the order of [`HOOKS`], of IPv4 and of IPv6.
    pub hooks: [[Hook; 3]; 2],
    /// The netfilter hooks in the order of [`LOCAL_HOOKS`].
    pub local: [Hook; 2],
    /// The generation of nftables' ruleset; `None` if the program does not know it
    /// ([`Program::find_generation`](crate::Program::find_generation)).
    pub generation: Option<u32>,
    /// It knows it without that (Linux 6.17).
    pub shows_generation: bool,
    /// The hooks of devices by port index.
    pub ports: Vec<DeviceHooks>,
    /// There are IPsec policies for what is forwarded or sent.
    pub xfrm_policies: bool,
    /// `ip xfrm policy setdefault out block` is in force.
    pub xfrm_out_blocked: bool,
    /// `ip xfrm policy setdefault fwd block` is in force.
    pub xfrm_forward_blocked: bool,
    /// There are IPsec policies for what the router itself receives, or `ip xfrm policy setdefault in block` is in force.
    pub xfrm_in: bool,
    /// The program follows rules where it trusts hooks, IPv4 and IPv6.
    pub rules: [bool; 2],
    /// The kernel lets the program read its structures without a helper's call (Linux 6.2).
    pub direct: bool,
}

impl Survey {
    /// Whether Linux has a say in everything of an IP version that is forwarded, unless the program looks at it.
    pub fn holds(&self, v6: bool) -> bool {
        let xfrm = self.xfrm_policies || self.xfrm_out_blocked || self.xfrm_forward_blocked;
        let hooks = &self.hooks[usize::from(v6)];
        self.failed || xfrm || self.rules[usize::from(v6)] || hooks.iter().any(|hook| hook.holds)
    }

    /// Whether something looks at what leaves by any port.
    pub fn egress(&self) -> bool {
        self.failed || self.ports.iter().any(|port| port.egress())
    }

    pub(super) fn new(found: &bora_survey) -> Self {
        let [a, b, c, d, e, f, input, output] = &found.hooks;
        let receivers = found.receivers.iter().copied().chain(repeat(0));
        Self {
            failed: false,
            hooks: [[a, b, c], [d, e, f]].map(|hooks| hooks.map(hook)),
            local: [input, output].map(hook),
            ports: (found.ports.iter().zip(receivers))
                .map(|(&bits, receiver)| device(bits, receiver))
                .collect(),
            generation: Some(found.generation as u32).filter(|&generation| generation != 0),
            shows_generation: found.shows_generation != 0,
            xfrm_policies: found.xfrm & contract::XFRM_POLICIES != 0,
            xfrm_out_blocked: found.xfrm & contract::XFRM_OUT_BLOCKED != 0,
            xfrm_forward_blocked: found.xfrm & contract::XFRM_FORWARD_BLOCKED != 0,
            xfrm_in: found.xfrm & contract::XFRM_IN != 0,
            rules: found.rules.map(|follows| follows != 0),
            direct: found.direct != 0,
        }
    }
}

fn hook(found: &bora_hook) -> Hook {
    let functions = found.functions.iter().take(found.count as usize);
    Hook {
        identity: HookIdentity {
            address: found.identity.address,
            sum: found.identity.sum,
        },
        holds: found.holds != 0,
        trusted: found.trusted != 0,
        count: found.count,
        functions: functions.copied().collect(),
    }
}

/// See `enum bora_port_hooks`.
fn device(bits: u8, receiver: u64) -> DeviceHooks {
    DeviceHooks {
        nf_ingress: bits & contract::HOOK_NF_INGRESS != 0,
        tc_ingress: bits & contract::HOOK_TC_INGRESS != 0,
        nf_egress: bits & contract::HOOK_NF_EGRESS != 0,
        tc_egress: bits & contract::HOOK_TC_EGRESS != 0,
        takes_frames: bits & contract::HOOK_TAKES_FRAMES != 0,
        not_found: bits & contract::HOOK_NOT_FOUND != 0,
        receiver,
    }
}
