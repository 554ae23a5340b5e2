//! Interfaces that this machine itself needs, and that a test would cut off.
//!
//! Read from `/proc/thread-self/net`, which is of the calling thread's network namespace.

use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::{Context as _, bail};

use crate::prefix::Prefix;

/// A route of Linux; only what matters here.
struct Route {
    interface: String,
    to: Prefix,
}

/// Refuses an interface of this thread's network namespace that carries the default route or an ssh
/// session there; `netns`: its name, if it is not that of the process.
///
/// # Errors
/// It does; the message says which and how to override it. Or that cannot be found out.
pub(super) fn refuse(interface: &str, netns: Option<&str>) -> anyhow::Result<()> {
    let mut routes = routes_v4(&read("route")?);
    routes.extend(routes_v6(&read("ipv6_route")?));
    let mut clients = ssh_clients(&read("tcp")?);
    clients.extend(ssh_clients(&read("tcp6")?));
    if netns.is_none() {
        // "client port server port"; sshd sets it, sudo may take it away
        let connection = std::env::var("SSH_CONNECTION").unwrap_or_default();
        clients.extend(
            connection
                .split(' ')
                .next()
                .and_then(|client| client.parse::<IpAddr>().ok()),
        );
    }
    let place = match netns {
        Some(name) => format!("namespace {name}"),
        None => "this machine".into(),
    };
    match reason(interface, &place, &routes, &clients) {
        Some(reason) => bail!(
            "{interface} {reason}, and a test would cut it off; use another interface, or say \
             `force` if you mean it"
        ),
        None => Ok(()),
    }
}

/// A file of the thread's network namespace; empty where Linux lacks the protocol.
fn read(file: &str) -> anyhow::Result<String> {
    let path = format!("/proc/thread-self/net/{file}");
    match fs::read_to_string(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        read => read.with_context(|| {
            format!(
                "cannot read {path}, to see whether the machine needs this interface; `force` takes it \
                 without"
            )
        }),
    }
}

fn reason(interface: &str, place: &str, routes: &[Route], clients: &[IpAddr]) -> Option<String> {
    let of_it = |route: &&Route| route.interface == interface;
    if routes
        .iter()
        .filter(of_it)
        .any(|route| route.to.length == 0)
    {
        return Some(format!("carries the default route of {place}"));
    }
    let way_to = |client: &&IpAddr| {
        let ways = routes.iter().filter(|route| route.to.contains(**client));
        ways.max_by_key(|route| route.to.length)
            .is_some_and(|route| route.interface == interface)
    };
    let client = clients.iter().find(way_to)?;
    Some(format!(
        "is the way to {client}, which has an ssh session on {place}"
    ))
}

/// `/proc/net/route`: addresses are hexadecimal as they lie in memory.
fn routes_v4(text: &str) -> Vec<Route> {
    let parse = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let word = |index: usize| u32::from_str_radix(fields.get(index)?, 16).ok();
        Some(Route {
            interface: (*fields.first()?).into(),
            to: Prefix {
                network: IpAddr::V4(Ipv4Addr::from(word(1)?.to_ne_bytes())),
                length: word(7)?.count_ones() as u8,
            },
        })
    };
    text.lines().skip(1).filter_map(parse).collect()
}

/// `/proc/net/ipv6_route`: network, length, source, length, gateway, metric, use, references,
/// flags, interface. Reject routes are on `lo`.
fn routes_v6(text: &str) -> Vec<Route> {
    let parse = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let network = u128::from_str_radix(fields.first()?, 16).ok()?;
        Some(Route {
            interface: (*fields.get(9)?).into(),
            to: Prefix {
                network: IpAddr::V6(Ipv6Addr::from(network)),
                length: u8::from_str_radix(fields.get(1)?, 16).ok()?,
            },
        })
    };
    text.lines().filter_map(parse).collect()
}

/// `/proc/net/tcp` and `tcp6`: far ends of established connections to the local port 22.
fn ssh_clients(text: &str) -> Vec<IpAddr> {
    const ESTABLISHED: &str = "01";
    const SSH: &str = "0016";
    let parse = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (_, local_port) = fields.get(1)?.split_once(':')?;
        let (client, _) = fields.get(2)?.split_once(':')?;
        let is_session = local_port == SSH && fields.get(3) == Some(&ESTABLISHED);
        is_session.then(|| address(client)).flatten()
    };
    text.lines().skip(1).filter_map(parse).collect()
}

/// Words of 32 bits as they lie in memory; IPv4 in IPv6 is IPv4.
fn address(text: &str) -> Option<IpAddr> {
    let word = |index: usize| {
        let digits = text.get(index * 8..index * 8 + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    if text.len() == 8 {
        return Some(IpAddr::V4(Ipv4Addr::from(word(0)?)));
    }
    let mut octets = [0; 16];
    for (index, part) in octets.chunks_exact_mut(4).enumerate() {
        part.copy_from_slice(&word(index)?);
    }
    Some(Ipv6Addr::from(octets).to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTES: &str = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT
eth0 00000000 010200C0 0003 0 0 0 00000000 0 0 0
eth1 000200C0 00000000 0001 0 0 0 00FFFFFF 0 0 0
eth2 0000000A 00000000 0001 0 0 0 000000FF 0 0 0
";
    const TCP: &str = "sl local_address rem_address st
 0: 00000000:0016 00000000:0000 0A
 1: 020200C0:0016 070200C0:D431 01
 2: 020200C0:01BB 0700000A:D431 01
";

    // the kernel writes these files in the machine's byte order
    #[cfg(target_endian = "little")]
    #[test]
    fn what_the_machine_needs_is_refused() {
        let routes = routes_v4(ROUTES);
        let clients = ssh_clients(TCP);
        assert_eq!(clients, [IpAddr::from([192, 0, 2, 7])]);
        let reason = |interface| reason(interface, "this machine", &routes, &clients);
        assert!(reason("eth0").unwrap().contains("default route"));
        assert!(reason("eth1").unwrap().contains("192.0.2.7"));
        assert_eq!(reason("eth2"), None);
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn ipv6_too() {
        let zeros = "0".repeat(32);
        let line = |network: &str, length: &str, interface: &str| {
            format!("{network} {length} {zeros} 00 {zeros} 00000400 1 0 00000001 {interface}\n")
        };
        let mut text = line("20010db8000000000000000000000000", "20", "eth3");
        text += &line(&zeros, "00", "eth4");
        let routes = routes_v6(&text);
        let clients = [address("B80D0120000000000000000001000000").unwrap()];
        assert_eq!(clients[0].to_string(), "2001:db8::1");
        let client = address("0000000000000000FFFF0000070200C0").unwrap();
        assert_eq!(client.to_string(), "192.0.2.7");
        assert!(
            reason("eth3", "here", &routes, &clients)
                .unwrap()
                .contains("ssh")
        );
        assert!(
            reason("eth4", "here", &routes, &[])
                .unwrap()
                .contains("default")
        );
    }
}
