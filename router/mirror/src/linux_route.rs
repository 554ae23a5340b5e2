//! What Linux itself would do with a packet: the answer of `ip route get`.

use std::io;
use std::net::IpAddr;

use crate::attribute::{Malformed, attributes, header};
use crate::request::Body;
use crate::socket::Netlink;

/// Octets of `struct rtmsg`, and where in it the route's type is.
const HEAD: usize = 12;
const TYPE: usize = 7;
const MAIN: u32 = libc::RT_TABLE_MAIN as u32;

/// A route of Linux for one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinuxRoute {
    /// Whether the packet is for this machine.
    pub local: bool,
    /// The interface it leaves by.
    pub output: Option<u32>,
    /// The next hop's address, if it is not on the link.
    pub gateway: Option<IpAddr>,
    /// The table it was found in, if that is not the main one.
    pub table: Option<u32>,
}

/// Asks Linux for the route of a packet that comes in by an interface.
///
/// # Errors
/// Why Linux would not forward it, or that it cannot be asked.
pub fn linux_route(destination: IpAddr, source: IpAddr, input: u32) -> Result<LinuxRoute, String> {
    let mut socket = Netlink::open(libc::NETLINK_ROUTE, &[], 1 << 16, "one route")
        .map_err(|error| error.to_string())?;
    let (family, to, from) = match (destination, source) {
        (IpAddr::V4(to), IpAddr::V4(from)) => {
            (libc::AF_INET, to.octets().to_vec(), from.octets().to_vec())
        }
        (IpAddr::V6(to), IpAddr::V6(from)) => {
            (libc::AF_INET6, to.octets().to_vec(), from.octets().to_vec())
        }
        _ => return Err(format!("{source} and {destination} are of two IP versions")),
    };
    let mut head = [0; HEAD];
    head[0] = family as u8;
    head[1] = 8 * to.len() as u8;
    head[2] = 8 * from.len() as u8;
    let body = Body::new(&head)
        .attribute(libc::RTA_DST, &to)
        .attribute(libc::RTA_SRC, &from)
        .attribute(libc::RTA_IIF, &input.to_ne_bytes());
    let mut found = None;
    socket
        .ask_for(libc::RTM_GETROUTE, 0, body.octets(), |frame| {
            if frame.kind == libc::RTM_NEWROUTE && found.is_none() {
                found = Some(read(frame.payload));
            }
        })
        .map_err(|error| refusal(&error))?;
    let found = found.ok_or("Linux gives no answer")?;
    found.map_err(|error| format!("Linux's answer cannot be read: {error}"))
}

fn read(payload: &[u8]) -> Result<LinuxRoute, Malformed> {
    let mut route = LinuxRoute {
        local: header(payload, HEAD, "route")?[TYPE] == libc::RTN_LOCAL,
        ..LinuxRoute::default()
    };
    for one in attributes(payload, HEAD) {
        let one = one?;
        match one.kind {
            libc::RTA_OIF => route.output = Some(one.u32()?),
            libc::RTA_TABLE => route.table = Some(one.u32()?).filter(|&table| table != MAIN),
            libc::RTA_GATEWAY => route.gateway = Some(one.ip()?),
            _ => {}
        }
    }
    Ok(route)
}

/// What the kernel's answer means (ip_route_input_slow(), ip6_pol_route()).
fn refusal(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENETUNREACH) => "no route: ICMP says that the network is unreachable".into(),
        Some(libc::EHOSTUNREACH) => {
            "no route back to the source, no forwarding here, or an unreachable route: ICMP says so"
                .into()
        }
        Some(libc::EACCES) => "a prohibit route: ICMP says that it is prohibited".into(),
        Some(libc::EXDEV) => "dropped: the source is not expected here (rp_filter)".into(),
        Some(libc::EINVAL) => "dropped: a blackhole route, or an address that is none".into(),
        _ => format!("Linux refuses it: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(attributes: &[u8]) -> Result<LinuxRoute, Malformed> {
        let mut payload = [0; HEAD].to_vec();
        payload[TYPE] = libc::RTN_UNICAST;
        payload.extend(attributes);
        read(&payload)
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_no_route() {
        let body = |length: usize| {
            Body::new(&[])
                .attribute(libc::RTA_OIF, &vec![7; length])
                .octets()
                .to_vec()
        };
        assert_eq!(answer(&body(4)).unwrap().output, Some(0x0707_0707));
        assert!(
            answer(&body(2)).is_err(),
            "an interface index of two octets"
        );
        assert!(answer(&[9, 0, 4, 0, 1]).is_err(), "cut short");
        assert!(read(&[0; HEAD - 1]).is_err());
    }
}
