//! The settings that a port should have, from Linux's tables and the configuration.

use bora_contract::{Path, PortSettings, RpFilter};
use bora_fib::PortId;
use bora_mirror::message::Link;
use bora_mirror::{Mirror, ReasonKind};
use bora_xdp::{DeviceHooks, Survey};

use super::port::Port;
use crate::config::File;
use crate::guard::hooks::Hooks;
use crate::policy::{has_other_master, with_policy};

/// Octets of the shortest Ethernet frame, without FCS.
const MIN_FRAME: u16 = 60;

impl Port {
    /// The settings as they should be now.
    pub(crate) fn wanted(&self, mirror: &Mirror, config: &File, hooks: &Hooks) -> PortSettings {
        let kernel = self.left_to_linux(mirror, config, hooks);
        let settings = PortSettings {
            index: self.id.0,
            trunk: self.id.0,
            below: self.id.0,
            shaped: is_shaped(mirror, self.ifindex, self.bypass_qdisc),
            path: if self.is_in_bond(mirror) {
                Path::Kernel // unless Bora forwards by the bond: Port::join()
            } else {
                self.path
            },
            min_frame: if self.link.kind.is_empty() {
                MIN_FRAME
            } else {
                0
            },
            mac: self.link.mac.unwrap_or_default(),
            can_redirect: self.takes_frames(&hooks.survey),
            takes_fragments: self.query.takes_fragments,
            partial_checksum: match self.twin() {
                Some(twin) => twin.leaves_checksums(),
                None => self.is_generic() || offloads_reach_us(&self.name, &self.link),
            },
            kernel4: kernel[0],
            kernel6: kernel[1],
            bypass_netfilter: config.linux.bypass_netfilter,
            generic: self.is_generic(),
            up: self.is_up(),
            veth: self.link.kind == "veth",
            no_napi: self.link.kind == "veth" && !self.takes_frames(&hooks.survey),
            promiscuous: self.is_promiscuous(mirror, hooks),
            vlan: self.link.kind == "vlan",
            enabled: self.link.up,
            gated: !self.has_twin(),
            ..PortSettings::default()
        };
        let settings = with_sysctls(settings, mirror, self.ifindex);
        with_policy(settings, mirror, &self.link)
    }

    /// Makes it a port of a bond that Bora forwards by. What comes in while Linux does not use it is Linux's.
    pub(crate) fn join(&mut self, bond: PortId) {
        self.settings.trunk = bond.0;
        if self.link.bond_port_active == Some(true) {
            self.settings.path = self.path;
        }
    }

    fn is_in_bond(&self, mirror: &Mirror) -> bool {
        let master = mirror.links().get(&self.link.master);
        master.is_some_and(|master| master.bond.is_some())
    }

    /// Whether its driver takes frames that XDP programs redirect.
    fn takes_frames(&self, survey: &Survey) -> bool {
        let seen = survey.ports.get(usize::from(self.id.0));
        if self.query.tells {
            self.query.can_redirect
        } else {
            seen.is_some_and(|device| device.takes_frames)
        }
    }

    /// Whether something in Linux may take frames for other stations: a bridge or a macvlan (`rx_handler`), a hook, a capture, or
    /// what is on a VLAN device. Only the engine asks, for ports without an XDP program.
    fn is_promiscuous(&self, mirror: &Mirror, hooks: &Hooks) -> bool {
        let seen = hooks.survey.ports.get(usize::from(self.id.0));
        // with a program, the hook may be Bora's own flowtable
        let nf = |seen: &DeviceHooks| seen.nf_ingress && self.has_twin();
        let has_hook = |seen: &DeviceHooks| seen.tc_ingress || nf(seen) || seen.receiver != 0;
        let is_on_us = |link: &Link| {
            let vlan = link.vlan.map(|vlan| vlan.below);
            let macvlan = link.macvlan.map(|macvlan| macvlan.below);
            [vlan, macvlan].contains(&Some(self.ifindex))
        };
        self.link.promiscuous
            || has_other_master(mirror, &self.link)
            || seen.is_none_or(has_hook)
            || self.has_twin() && mirror.links().values().any(is_on_us)
    }

    /// Whether all IPv4 and all IPv6 that comes in here is Linux's business. At Linux's hooks the program
    /// looks for each packet.
    fn left_to_linux(&self, mirror: &Mirror, config: &File, hooks: &Hooks) -> [bool; 2] {
        if self.has_twin() {
            return self.left_by_twin(mirror, config, &hooks.survey);
        }
        let master = has_other_master(mirror, &self.link) && !self.is_in_bond(mirror);
        let taken = hooks.receiver(self.id).is_some() || self.is_below_greedy(mirror);
        let unseen = master || taken || self.offloads.hidden_tags.is_some();
        let (guard, lacks) = (mirror.guard(), engine_lacks(mirror));
        [(&guard.v4, lacks[0]), (&guard.v6, lacks[1])].map(|(reasons, lacks)| {
            let rules = reasons.iter().any(|r| r.kind == ReasonKind::Rule);
            let engine = self.path == Path::Engine && (rules || lacks);
            let sysctl = reasons.iter().any(|r| r.kind == ReasonKind::Sysctl);
            unseen || engine || sysctl
        })
    }

    /// Whether there is a macvlan that takes frames for the port's own address.
    fn is_below_greedy(&self, mirror: &Mirror) -> bool {
        let mut macvlans = mirror.links().values().filter_map(|link| link.macvlan);
        macvlans.any(|macvlan| macvlan.below == self.ifindex && macvlan.is_greedy())
    }

    /// Whether all IPv4 and all IPv6 is Linux's business where no program looks at Linux's hooks for each
    /// packet.
    fn left_by_twin(&self, mirror: &Mirror, config: &File, survey: &Survey) -> [bool; 2] {
        let obeyed = !config.linux.bypass_netfilter;
        let has_a_say = |kind| match kind {
            ReasonKind::Rule | ReasonKind::Master | ReasonKind::Sysctl => true,
            ReasonKind::Netfilter | ReasonKind::Xfrm => obeyed,
            ReasonKind::Tc => false, // the survey sees more
        };
        let own = survey.ports.get(usize::from(self.id.0)).copied();
        let ingress = own.is_some_and(|own| own.tc_ingress || own.nf_ingress);
        let hooks = |v6| obeyed && (ingress || survey.egress() || survey.holds(v6));
        let (guard, lacks) = (mirror.guard(), engine_lacks(mirror));
        [
            (&guard.v4, lacks[0], hooks(false)),
            (&guard.v6, lacks[1], hooks(true)),
        ]
        .map(|(reasons, lacks, hooks)| {
            let told = reasons.iter().any(|r| has_a_say(r.kind));
            has_other_master(mirror, &self.link) || lacks || hooks || told
        })
    }
}

/// Whether a queueing discipline shapes what leaves by an interface, and Bora may not send past it.
pub(crate) fn is_shaped(mirror: &Mirror, ifindex: u32, bypass: bool) -> bool {
    !bypass && mirror.guard().shapers.contains_key(&ifindex)
}

/// Settings with what Linux's say of an interface.
pub(crate) fn with_sysctls(settings: PortSettings, mirror: &Mirror, ifindex: u32) -> PortSettings {
    let sysctl = mirror.settings().interfaces.get(&ifindex);
    let sysctl = sysctl.copied().unwrap_or_default();
    PortSettings {
        rp_filter: match sysctl.rp_filter {
            0 => RpFilter::Off,
            1 => RpFilter::Strict,
            _ => RpFilter::Loose,
        },
        forward4: sysctl.forwarding4,
        forward6: sysctl.forwarding6,
        send_redirects4: sysctl.send_redirects4,
        ..settings
    }
}

/// Whether the engine cannot do what Linux does with a family: the FIB has no room for its prefixes,
/// or it is not known how Linux chooses among paths.
fn engine_lacks(mirror: &Mirror) -> [bool; 2] {
    let (refused, unhashed) = (mirror.refused(), mirror.unhashed());
    [0, 1].map(|family: usize| refused[family] > 0 || unhashed[family])
}

/// Whether senders behind this interface may leave checksums to the receiver: virtual links and
/// the paravirtual drivers, where "the wire" is memory.
fn offloads_reach_us(name: &str, link: &Link) -> bool {
    if !link.kind.is_empty() {
        return true;
    }
    let driver = std::fs::read_link(format!("/sys/class/net/{name}/device/driver"));
    let driver = match &driver {
        Ok(path) => path.file_name(),
        Err(_) => None, // without a device, or unknown: they may, which is always safe
    };
    driver.is_none_or(|driver| {
        ["virtio_net", "xen_netfront", "hv_netvsc", "vmxnet3"]
            .iter()
            .any(|paravirtual| driver == *paravirtual)
    })
}
