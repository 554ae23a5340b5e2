//! Interfaces in a network namespace of the test's own.

use std::process::Command;

use bora_linux::netns;

/// Moves this thread to a new network namespace, which goes when it ends; false, and why, if it
/// may not.
pub(crate) fn in_a_namespace() -> bool {
    if let Err(error) = netns::enter_new() {
        bora_testing::skip(format!(
            "no network namespace of its own: {error}; run as root"
        ));
        return false;
    }
    ip("link set lo up");
    true
}

/// `ip ARGUMENTS`.
pub(crate) fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    let output = output.unwrap();
    assert!(output.status.success(), "ip {arguments}: {output:?}");
}

/// Sets an interface up that Linux says nothing on by itself.
pub(crate) fn quiet(interface: &str) {
    let path = format!("/proc/sys/net/ipv6/conf/{interface}/disable_ipv6");
    std::fs::write(path, "1").unwrap();
    ip(&format!("link set {interface} up"));
}

/// v0 and v1.
pub(crate) fn veth_pair(mtu: u32) {
    ip(&format!(
        "link add v0 mtu {mtu} type veth peer name v1 mtu {mtu}"
    ));
    quiet("v0");
    quiet("v1");
}
