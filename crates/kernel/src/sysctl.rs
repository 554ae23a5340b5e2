//! The sysctls that decide how Linux forwards, read from /proc/sys of the thread's network
//! namespace. Most have no event, so those of ports are read again every second.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::message::Link;

/// How Linux treats packets that come in on an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct InterfaceSettings {
    /// net.ipv4.conf.IFACE.forwarding.
    pub forwarding4: bool,
    /// net.ipv6.conf.all.forwarding and net.ipv6.conf.IFACE.forwarding, and not
    /// net.ipv6.conf.IFACE.disable_ipv6 (ip6_rcv_core(); writing `all` writes each interface's).
    /// With disable_ipv6, nothing leaves by the interface either, because Linux keeps no IPv6
    /// neighbours there.
    pub forwarding6: bool,
    /// The larger of net.ipv4.conf.{all,IFACE}.rp_filter: 0 off, 1 strict, 2 loose (RFC 3704).
    pub rp_filter: u8,
    /// net.ipv4.conf.{all or IFACE}.send_redirects.
    pub send_redirects4: bool,
    /// net.ipv4.conf.{all or IFACE}.accept_local.
    pub accept_local: bool,
    /// net.ipv4.conf.IFACE.ignore_routes_with_linkdown.
    pub ignore_linkdown4: bool,
    /// net.ipv6.conf.IFACE.ignore_routes_with_linkdown.
    pub ignore_linkdown6: bool,
    /// net.ipv6.conf.IFACE.mtu, octets; may be below the link's. 0 without IPv6.
    pub mtu6: u32,
}

/// Which fields of a packet choose one of several paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HashPolicy {
    /// fib_multipath_hash_policy: 0 addresses (IPv6: and flow label), 1 also protocol and ports,
    /// 2 the inner packet's, 3 `fields`.
    pub policy: u8,
    /// fib_multipath_hash_fields.
    pub fields: u32,
}

/// All settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Settings {
    /// Grows by one whenever another field changes.
    pub generation: u64,
    /// By interface index.
    pub interfaces: BTreeMap<u32, InterfaceSettings>,
    /// IPv4 multipath hash.
    pub hash4: HashPolicy,
    /// IPv6 multipath hash.
    pub hash6: HashPolicy,
    /// net.ipv4.fib_multipath_use_neigh: Linux avoids paths whose neighbour has failed.
    pub multipath_use_neigh: bool,
    /// net.ipv4.ip_forward_update_priority: the TOS octet decides about the priority of a forwarded IPv4 packet.
    pub priority_by_tos: bool,
    /// net.ipv6.conf.all.proxy_ndp: Linux may answer solicitations for others.
    pub proxy_ndp: bool,
    /// net.ipv4.fib_multipath_hash_seed; 0 if the kernel drew a random one; `None` on kernels
    /// before 6.11, which lack the setting.
    pub hash_seed: Option<u32>,
}

/// Interfaces whose settings have to be read again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unread {
    pub(crate) all: bool,
    pub(crate) devices: BTreeSet<u32>,
}

impl Unread {
    pub(crate) fn everything() -> Self {
        Self {
            all: true,
            ..Self::default()
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.all && self.devices.is_empty()
    }
}

/// What was found to be different.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changed {
    /// Anything.
    pub(crate) any: bool,
    /// Interfaces with other settings, or that came or went.
    pub(crate) devices: BTreeSet<u32>,
    /// [`Settings::multipath_use_neigh`].
    pub(crate) multipath_use_neigh: bool,
}

impl Settings {
    /// Reads the settings that have to be read again; keeps the generation if nothing changed.
    pub(crate) fn reread<'a>(
        &mut self,
        links: impl Iterator<Item = &'a Link>,
        unread: &Unread,
    ) -> Changed {
        let all4 = Interface::new("ipv4", "all");
        let all = AllSettings {
            forwarding6: number("net/ipv6/conf/all/forwarding") != 0,
            rp_filter: all4.number("rp_filter"),
            send_redirects4: all4.is_set("send_redirects"),
            accept_local: all4.is_set("accept_local"),
        };
        let read_one = |link: &Link| {
            let known = self.interfaces.get(&link.index).copied();
            let known = known.filter(|_| !unread.all && !unread.devices.contains(&link.index));
            (
                link.index,
                known.unwrap_or_else(|| interface(&link.name, &all)),
            )
        };
        let mut new = Self {
            generation: self.generation,
            interfaces: links.map(read_one).collect(),
            hash4: hash_policy("ipv4"),
            hash6: hash_policy("ipv6"),
            multipath_use_neigh: number("net/ipv4/fib_multipath_use_neigh") != 0,
            priority_by_tos: number("net/ipv4/ip_forward_update_priority") != 0,
            proxy_ndp: number("net/ipv6/conf/all/proxy_ndp") != 0,
            hash_seed: read("net/ipv4/fib_multipath_hash_seed"),
        };
        if new == *self {
            return Changed::default();
        }
        new.generation += 1;
        let old = std::mem::replace(self, new);
        let indices = old.interfaces.keys().chain(self.interfaces.keys());
        let differs = |index: &&u32| old.interfaces.get(index) != self.interfaces.get(index);
        Changed {
            any: true,
            devices: indices.filter(differs).copied().collect(),
            multipath_use_neigh: old.multipath_use_neigh != self.multipath_use_neigh,
        }
    }
}

struct AllSettings {
    forwarding6: bool,
    rp_filter: u32,
    send_redirects4: bool,
    accept_local: bool,
}

fn interface(name: &str, all: &AllSettings) -> InterfaceSettings {
    let v4 = Interface::new("ipv4", name);
    let v6 = Interface::new("ipv6", name);
    let disabled6 = v6.is_set("disable_ipv6");
    InterfaceSettings {
        forwarding4: v4.is_set("forwarding"),
        forwarding6: all.forwarding6 && v6.is_set("forwarding") && !disabled6,
        rp_filter: all.rp_filter.max(v4.number("rp_filter")).min(2) as u8,
        send_redirects4: all.send_redirects4 || v4.is_set("send_redirects"),
        accept_local: all.accept_local || v4.is_set("accept_local"),
        ignore_linkdown4: v4.is_set("ignore_routes_with_linkdown"),
        ignore_linkdown6: v6.is_set("ignore_routes_with_linkdown"),
        mtu6: v6.number("mtu"),
    }
}

fn hash_policy(family: &str) -> HashPolicy {
    let policy = number(&format!("net/{family}/fib_multipath_hash_policy"));
    let fields = number(&format!("net/{family}/fib_multipath_hash_fields"));
    HashPolicy {
        policy: u8::try_from(policy).unwrap_or(u8::MAX),
        fields,
    }
}

/// The folder of an interface and a family.
struct Interface(String);

impl Interface {
    fn new(family: &str, name: &str) -> Self {
        Self(format!("net/{family}/conf/{name}/"))
    }

    fn number(&self, key: &str) -> u32 {
        number(&format!("{}{key}", self.0))
    }

    fn is_set(&self, key: &str) -> bool {
        self.number(key) != 0
    }
}

/// A setting below /proc/sys; 0 if it does not exist (IPv6 off, interface just gone).
fn number(key: &str) -> u32 {
    read(key).unwrap_or(0)
}

fn read(key: &str) -> Option<u32> {
    let text = fs::read_to_string(Path::new("/proc/sys").join(key)).ok()?;
    text.trim().parse().ok()
}
