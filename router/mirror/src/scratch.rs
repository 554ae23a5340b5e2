//! A network namespace for experiments: one interface, and a route with two paths for each IP version.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::error::KernelError;
use crate::request::Body;
use crate::socket::Netlink;

/// The paths of the IPv4 route, with their weights.
pub const WAYS4: [(Ipv4Addr, u32); 2] = [
    (Ipv4Addr::new(192, 0, 2, 1), 2),
    (Ipv4Addr::new(192, 0, 2, 2), 3),
];
/// The paths of the IPv6 route, with their weights.
pub const WAYS6: [(Ipv6Addr, u32); 2] = [
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1), 2),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2), 3),
];

/// The loopback interface's index, in every namespace.
const LOOPBACK: u32 = 1;
const RTA_DST: u16 = libc::RTA_DST;
const RTA_GATEWAY: u16 = libc::RTA_GATEWAY;
const RTA_MULTIPATH: u16 = libc::RTA_MULTIPATH;
const RTNH_F_ONLINK: u8 = 4;

/// Prepares the calling thread's network namespace, which must be new: brings an interface up, and
/// routes 198.18.0.0/15 and 2001:db8::/32 through it by [`WAYS4`] and [`WAYS6`].
///
/// # Errors
/// If the kernel refuses a step.
pub fn prepare(name: &str, ifindex: u32) -> Result<(), KernelError> {
    let failed = |what, source| KernelError::Dump { what, source };
    set("net/ipv4/ip_forward", 1).map_err(|e| failed("forwarding", e))?;
    let v6 = set_ipv6(name).map_err(|e| failed("IPv6 forwarding", e))?;
    let mut socket = Netlink::open(libc::NETLINK_ROUTE, &[], 1 << 16, "the test namespace")?;
    // without an address in the namespace Linux takes all gateways for broadcast addresses; the
    // loopback interface gets one when it is up
    for ifindex in [LOOPBACK, ifindex] {
        // struct ifinfomsg
        let up = [0, ifindex, libc::IFF_UP as u32, libc::IFF_UP as u32];
        let up: Vec<u8> = up.into_iter().flat_map(u32::to_ne_bytes).collect();
        socket
            .ask(libc::RTM_NEWLINK, 0, &up)
            .map_err(|e| failed("the interface of the test namespace", e))?;
    }
    let four = WAYS4.map(|(way, weight)| (IpAddr::V4(way), weight));
    let six = WAYS6.map(|(way, weight)| (IpAddr::V6(way), weight));
    let mut add = |prefix, len, ways| {
        let flags = libc::NLM_F_CREATE as u16;
        socket
            .ask(
                libc::RTM_NEWROUTE,
                flags,
                &route(prefix, len, ways, ifindex),
            )
            .map_err(|e| failed("the test route", e))
    };
    add(Ipv4Addr::new(198, 18, 0, 0).into(), 15, four)?;
    if v6 {
        let prefix = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0);
        add(prefix.into(), 32, six)?;
    }
    Ok(())
}

/// Has Linux forward IPv6; false if there is no IPv6, so that there is nothing to test.
fn set_ipv6(name: &str) -> io::Result<bool> {
    let done = set(&format!("net/ipv6/conf/{name}/disable_ipv6"), 0)
        .and_then(|()| set("net/ipv6/conf/all/forwarding", 1));
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        done => done.map(|()| true),
    }
}

/// Sets a sysctl of the calling thread's network namespace, by its path below /proc/sys.
///
/// # Errors
/// The sysctl does not exist, or the kernel refuses the value.
pub fn set(key: &str, value: u32) -> io::Result<()> {
    fs::write(format!("/proc/sys/{key}"), value.to_string())
}

/// struct rtmsg with attributes.
fn route(prefix: IpAddr, len: u8, ways: [(IpAddr, u32); 2], ifindex: u32) -> Vec<u8> {
    let family = if prefix.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    let mut head = [0; 12];
    head[0] = family as u8;
    head[1] = len;
    head[4] = libc::RT_TABLE_MAIN;
    head[5] = libc::RTPROT_STATIC;
    head[7] = libc::RTN_UNICAST;
    let mut hops = Vec::new();
    for (gateway, weight) in ways {
        // struct rtnexthop
        let gateway = Body::new(&[]).attribute(RTA_GATEWAY, &octets(gateway));
        let length = 8 + gateway.octets().len();
        hops.extend((length as u16).to_ne_bytes());
        hops.extend([RTNH_F_ONLINK, (weight - 1) as u8]);
        hops.extend(ifindex.to_ne_bytes());
        hops.extend(gateway.octets());
    }
    let body = Body::new(&head)
        .attribute(RTA_DST, &octets(prefix))
        .attribute(RTA_MULTIPATH, &hops);
    body.octets().to_vec()
}

pub(crate) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}
