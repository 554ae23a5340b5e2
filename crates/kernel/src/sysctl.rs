//! The settings of Linux that decide forwarding, read from /proc/sys of this network namespace.

use std::fs;

/// Settings of one interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// net.ipv4.conf.IFACE.forwarding
    pub forwarding4: bool,
    /// net.ipv6.conf.all.forwarding and net.ipv6.conf.IFACE.forwarding
    pub forwarding6: bool,
    /// The larger of net.ipv4.conf.{all, IFACE}.rp_filter: 0 off, 1 strict, 2 loose.
    pub rp_filter: u8,
    /// net.ipv4.conf.all.send_redirects or net.ipv4.conf.IFACE.send_redirects
    pub send_redirects4: bool,
}

/// Reads the settings of an interface; what cannot be read counts as 0.
pub fn interface(name: &str) -> Interface {
    let v4 = |scope: &str, key| number(&format!("ipv4/conf/{scope}/{key}"));
    let v6 = |scope: &str| number(&format!("ipv6/conf/{scope}/forwarding"));
    Interface {
        forwarding4: v4(name, "forwarding") != 0,
        forwarding6: v6("all") != 0 && v6(name) != 0,
        rp_filter: v4("all", "rp_filter").max(v4(name, "rp_filter")) as u8,
        send_redirects4: v4("all", "send_redirects") != 0 || v4(name, "send_redirects") != 0,
    }
}

/// net.ipv4.fib_multipath_hash_policy and its IPv6 twin.
pub fn hash_policies() -> (u32, u32) {
    (
        number("ipv4/fib_multipath_hash_policy"),
        number("ipv6/fib_multipath_hash_policy"),
    )
}

fn number(path: &str) -> u32 {
    let text = fs::read_to_string(format!("/proc/sys/net/{path}")).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}
