//! The sysctls that decide how Linux forwards, read from /proc/sys of the thread's network
//! namespace. Most have no event, so those of ports are read again every second.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::Path;
use std::str::FromStr;
use std::{fmt, fs};

use serde::Serialize;

use crate::message::Link;

/// How Linux treats packets that come in on an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct InterfaceSettings {
    /// net.ipv4.conf.IFACE.forwarding.
    pub forwarding4: bool,
    /// net.ipv6.conf.all.forwarding, and not net.ipv6.conf.IFACE.disable_ipv6 (ip6_forward(), ip6_rcv_core()):
    /// net.ipv6.conf.IFACE.forwarding decides whether Linux is a host there, but not whether it forwards.
    /// What net.ipv6.conf.IFACE.force_forwarding (Linux 6.17) adds is left to Linux, which then asks whether
    /// gateways are reachable. With disable_ipv6, nothing leaves by the interface either, because Linux keeps no IPv6
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
    /// net.ipv4.ip_forward_use_pmtu: path MTUs that Linux has learned count for what it forwards.
    pub forward_use_pmtu: bool,
    /// net.ipv6.conf.all.proxy_ndp: Linux may answer solicitations for others.
    pub proxy_ndp: bool,
    /// net.ipv4.fib_multipath_hash_seed; 0 if the kernel drew a random one; `None` on kernels
    /// before 6.11, which lack the setting.
    pub hash_seed: Option<u32>,
    /// Why some could not be read. They keep their last values; interfaces that were never read do not forward.
    pub unread: Option<String>,
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

    /// Takes at most `most` interfaces. `links`: all.
    pub(crate) fn take(&mut self, links: impl Iterator<Item = u32>, most: usize) -> Self {
        if std::mem::take(&mut self.all) {
            self.devices.extend(links);
        }
        let mut devices = std::mem::take(&mut self.devices);
        if let Some(&rest) = devices.iter().nth(most) {
            self.devices = devices.split_off(&rest);
        }
        Self {
            all: false,
            devices,
        }
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
        let links = links.map(|link| (link.index, link.name.as_str()));
        self.reread_below(PROC_SYS, links, unread)
    }

    fn reread_below<'a>(
        &mut self,
        root: &'static str,
        links: impl Iterator<Item = (u32, &'a str)>,
        unread: &Unread,
    ) -> Changed {
        let mut files = Files::below(root);
        let mut new = self.clone();
        new.read_all(&mut files);
        let all = AllSettings::read(&mut files);
        let again = unread.all || self.unread.is_some();
        new.interfaces = links
            .map(|(index, name)| {
                let known = self.interfaces.get(&index).copied();
                let again = again || unread.devices.contains(&index);
                let read = known.filter(|_| !again);
                let read = read.or_else(|| interface(&mut files, name, all)).or(known);
                (index, read.unwrap_or_default()) // what was never read does not forward
            })
            .collect();
        new.unread = files.failed;
        match (&self.unread, &new.unread) {
            (None, Some(why)) => log::warn!("{why}; the last values count until it can be read"),
            (Some(_), None) => log::info!("all sysctls can be read again"),
            _ => {}
        }
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

    /// Reads what holds for all interfaces, as far as it can be read.
    fn read_all(&mut self, files: &mut Files) {
        let set = |to: &mut bool, value: Option<i64>| *to = value.map_or(*to, |value| value != 0);
        let neigh = files.number("net/ipv4/fib_multipath_use_neigh");
        set(&mut self.multipath_use_neigh, neigh);
        let priority = files.number("net/ipv4/ip_forward_update_priority");
        set(&mut self.priority_by_tos, priority);
        let pmtu = files.number("net/ipv4/ip_forward_use_pmtu");
        set(&mut self.forward_use_pmtu, pmtu);
        let proxy = files.number("net/ipv6/conf/all/proxy_ndp");
        set(&mut self.proxy_ndp, proxy);
        self.hash4 = files.hash_policy("ipv4").unwrap_or(self.hash4);
        self.hash6 = files.hash_policy("ipv6").unwrap_or(self.hash6);
        if let Some(seed) = files.read("net/ipv4/fib_multipath_hash_seed") {
            self.hash_seed = seed;
        }
    }
}

/// net.{ipv4,ipv6}.conf.all; `None`: it cannot be read.
#[derive(Clone, Copy)]
struct AllSettings {
    forwarding6: Option<i64>,
    rp_filter: Option<i64>,
    send_redirects4: Option<i64>,
    accept_local: Option<i64>,
}

impl AllSettings {
    fn read(files: &mut Files) -> Self {
        Self {
            forwarding6: files.of("ipv6", "all", "forwarding"),
            rp_filter: files.of("ipv4", "all", "rp_filter"),
            send_redirects4: files.of("ipv4", "all", "send_redirects"),
            accept_local: files.of("ipv4", "all", "accept_local"),
        }
    }
}

/// The settings of an interface; `None` if one of them cannot be read.
fn interface(files: &mut Files, name: &str, all: AllSettings) -> Option<InterfaceSettings> {
    let mut v4 = |key| files.of("ipv4", name, key);
    let forwarding4 = v4("forwarding")? != 0;
    let rp_filter = all.rp_filter?.max(v4("rp_filter")?).clamp(0, 2) as u8;
    let send_redirects4 = all.send_redirects4? != 0 || v4("send_redirects")? != 0;
    let accept_local = all.accept_local? != 0 || v4("accept_local")? != 0;
    let ignore_linkdown4 = v4("ignore_routes_with_linkdown")? != 0;
    let mut v6 = |key| files.of("ipv6", name, key);
    Some(InterfaceSettings {
        forwarding4,
        forwarding6: all.forwarding6? != 0 && v6("disable_ipv6")? == 0,
        rp_filter,
        send_redirects4,
        accept_local,
        ignore_linkdown4,
        ignore_linkdown6: v6("ignore_routes_with_linkdown")? != 0,
        mtu6: files.number(&format!("net/ipv6/conf/{name}/mtu"))?,
    })
}

/// Where sysctls are.
pub(crate) const PROC_SYS: &str = "/proc/sys";

/// The files of sysctls.
pub(crate) struct Files {
    root: &'static str,
    /// The first that could not be read, and why.
    pub(crate) failed: Option<String>,
}

impl Files {
    pub(crate) fn below(root: &'static str) -> Self {
        Self { root, failed: None }
    }

    /// A number. Outer `None`: it cannot be read; inner: it does not exist (IPv6 off, interface just gone, another
    /// kernel).
    pub(crate) fn read<T>(&mut self, key: &str) -> Option<Option<T>>
    where
        T: FromStr<Err: fmt::Display>,
    {
        let path = Path::new(self.root).join(key);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Some(None),
            Err(error) => return self.fail(&path, &error),
        };
        match text.trim().parse() {
            Ok(number) => Some(Some(number)),
            Err(error) => self.fail(&path, &error),
        }
    }

    fn fail<T>(&mut self, path: &Path, error: &dyn fmt::Display) -> Option<T> {
        let text = || format!("cannot read {}: {error}", path.display());
        self.failed.get_or_insert_with(text);
        None
    }

    /// A number that is 0 if it does not exist; `None` if it cannot be read.
    fn number<T>(&mut self, key: &str) -> Option<T>
    where
        T: Default + FromStr<Err: fmt::Display>,
    {
        self.read(key).map(Option::unwrap_or_default)
    }

    /// A setting of an interface and a version.
    fn of(&mut self, version: &str, name: &str, key: &str) -> Option<i64> {
        self.number(&format!("net/{version}/conf/{name}/{key}"))
    }

    fn hash_policy(&mut self, version: &str) -> Option<HashPolicy> {
        Some(HashPolicy {
            policy: self.number(&format!("net/{version}/fib_multipath_hash_policy"))?,
            fields: self.number(&format!("net/{version}/fib_multipath_hash_fields"))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number that is too large for its setting is no other number.
    #[test]
    fn numbers_out_of_range_are_not_read() {
        let name = format!("bora-number-{}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir).unwrap();
        let mut files = Files::below(dir.display().to_string().leak());
        for (text, number) in [("3", Some(3)), ("300", None), ("-1", None), ("", None)] {
            fs::write(dir.join("one"), text).unwrap();
            assert_eq!(files.number::<u8>("one"), number, "{text}");
            assert_eq!(files.failed.take().is_some(), number.is_none(), "{text}");
        }
        fs::remove_dir_all(&dir).unwrap();
    }

    /// A file whose place a folder takes cannot be read, as one for which there is no descriptor left.
    #[test]
    fn what_cannot_be_read_keeps_its_value() {
        let dir = std::env::temp_dir().join(format!("bora-sysctl-{}", std::process::id()));
        let root: &'static str = dir.to_str().unwrap().to_owned().leak();
        let file = |key: &str| dir.join(key);
        for key in [
            "ipv4/conf/all",
            "ipv6/conf/all",
            "ipv4/conf/r0",
            "ipv6/conf/r0",
        ] {
            fs::create_dir_all(file(&format!("net/{key}"))).unwrap();
            fs::write(file(&format!("net/{key}/forwarding")), "1\n").unwrap();
        }
        fs::write(file("net/ipv4/ip_forward_use_pmtu"), "1\n").unwrap();
        let mut settings = Settings::default();
        let mut read = || {
            settings.reread_below(root, [(3, "r0")].into_iter(), &Unread::everything());
            settings.clone()
        };
        let good = read();
        let forwards = |settings: &Settings| {
            let one = settings.interfaces[&3];
            [one.forwarding4, one.forwarding6, settings.forward_use_pmtu]
        };
        assert_eq!((forwards(&good), &good.unread), ([true; 3], &None));
        for key in [
            "ipv4/conf/r0/forwarding",
            "ipv6/conf/all/forwarding",
            "ipv4/ip_forward_use_pmtu",
        ] {
            let path = file(&format!("net/{key}"));
            fs::remove_file(&path).unwrap();
            fs::create_dir(&path).unwrap();
            let bad = read();
            assert_eq!(forwards(&bad), [true; 3], "{key}");
            assert!(bad.unread.is_some_and(|why| why.contains(key)), "{key}");
            fs::remove_dir(&path).unwrap();
            fs::write(&path, "0\n").unwrap();
            assert_eq!(read().unread, None);
            fs::write(&path, "1\n").unwrap();
            assert_eq!(forwards(&read()), [true; 3], "{key}");
        }
        fs::remove_dir_all(&dir).unwrap();
    }
}
