//! What the kernel says of one interface's XDP. Asked each second, so by one short message of rtnetlink and
//! one of the generic family `netdev` (Documentation/netlink/specs/netdev.yaml): libbpf's `bpf_xdp_query`
//! has the kernel tell of all interfaces.

use std::io;
use std::sync::OnceLock;

use rustix::net::netlink::GENERIC;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

/// What the kernel says of an interface's XDP programs and abilities.
#[derive(Clone, Copy, Debug, Default)]
pub struct XdpQuery {
    /// Program in driver mode, 0 if none.
    pub driver_program: u32,
    /// Program in generic mode, 0 if none.
    pub generic_program: u32,
    /// Whether the kernel tells what the driver can do: Linux 6.3 and later.
    pub tells: bool,
    /// Whether its program can redirect frames (NETDEV_XDP_ACT_REDIRECT).
    pub redirects: bool,
    /// Whether frames can be redirected to it (NETDEV_XDP_ACT_NDO_XMIT).
    pub can_redirect: bool,
    /// Whether its driver shows programs frames in several buffers (NETDEV_XDP_ACT_RX_SG).
    pub shows_fragments: bool,
    /// Whether such frames can be redirected to it (NETDEV_XDP_ACT_NDO_XMIT_SG).
    pub takes_fragments: bool,
    /// Whether its AF_XDP sockets can do without copies (NETDEV_XDP_ACT_XSK_ZEROCOPY).
    pub zero_copy: bool,
}

const REDIRECT: u64 = 1 << 1;
const NDO_XMIT: u64 = 1 << 2;
const XSK_ZEROCOPY: u64 = 1 << 3;
const RX_SG: u64 = 1 << 5;
const NDO_XMIT_SG: u64 = 1 << 6;

// linux/if_link.h
const IFLA_EXT_MASK: u16 = 29;
const IFLA_XDP: u16 = 43;
const IFLA_XDP_DRV_PROG_ID: u16 = 5;
const IFLA_XDP_SKB_PROG_ID: u16 = 6;
// linux/netdev.h
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;

/// Octets of struct nlmsghdr, struct ifinfomsg, struct genlmsghdr and an attribute's head.
const HEADER: usize = 16;
const LINK: usize = 16;
const GENERIC_HEADER: usize = 4;
const ATTRIBUTE: usize = 4;
/// Octets; what the kernel tells of one interface is a tenth of it.
const ANSWER: usize = 32 * 1024;

/// Asks the kernel about an interface.
///
/// # Errors
/// There is none with this number, or what else the kernel says.
pub fn query(ifindex: u32) -> io::Result<XdpQuery> {
    let mut body = [0; LINK].to_vec();
    body[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    push(
        &mut body,
        IFLA_EXT_MASK,
        &libc::RTEXT_FILTER_SKIP_STATS.to_ne_bytes(),
    );
    let link = ask(None, libc::RTM_GETLINK, &body)?;
    let xdp = attribute(&link, LINK, IFLA_XDP).unwrap_or_default();
    let program = |kind| attribute(xdp, 0, kind).and_then(u32_of).unwrap_or(0);
    let features = features(ifindex)?;
    Ok(XdpQuery {
        driver_program: program(IFLA_XDP_DRV_PROG_ID),
        generic_program: program(IFLA_XDP_SKB_PROG_ID),
        tells: features != 0,
        redirects: features & REDIRECT != 0,
        can_redirect: features & NDO_XMIT != 0,
        shows_fragments: features & RX_SG != 0,
        takes_fragments: features & NDO_XMIT_SG != 0,
        zero_copy: features & XSK_ZEROCOPY != 0,
    })
}

/// `enum netdev_xdp_act` of an interface; 0 if the kernel does not tell.
fn features(ifindex: u32) -> io::Result<u64> {
    static FAMILY: OnceLock<Option<u16>> = OnceLock::new();
    let family = match FAMILY.get() {
        Some(family) => *family,
        None => {
            let asked = netdev_family()?;
            *FAMILY.get_or_init(|| asked)
        }
    };
    let Some(family) = family else {
        return Ok(0);
    };
    let mut body = vec![NETDEV_CMD_DEV_GET, 1, 0, 0];
    push(&mut body, NETDEV_A_DEV_IFINDEX, &ifindex.to_ne_bytes());
    let device = ask(Some(GENERIC), family, &body)?;
    let features = attribute(&device, GENERIC_HEADER, NETDEV_A_DEV_XDP_FEATURES);
    Ok(features.and_then(array).map_or(0, u64::from_ne_bytes))
}

/// The number of the family `netdev`; kernels before 6.3 have none.
fn netdev_family() -> io::Result<Option<u16>> {
    let mut body = vec![libc::CTRL_CMD_GETFAMILY as u8, 1, 0, 0];
    push(&mut body, libc::CTRL_ATTR_FAMILY_NAME as u16, b"netdev\0");
    let family = match ask(Some(GENERIC), libc::GENL_ID_CTRL as u16, &body) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        family => family?,
    };
    let id = attribute(&family, GENERIC_HEADER, libc::CTRL_ATTR_FAMILY_ID as u16);
    let id = id.and_then(array).ok_or_else(malformed)?;
    Ok(Some(u16::from_ne_bytes(id)))
}

/// Sends a request and returns the body of the one message that answers it.
fn ask(protocol: Option<Protocol>, kind: u16, body: &[u8]) -> io::Result<Vec<u8>> {
    let netlink = AddressFamily::NETLINK;
    let socket = socket_with(netlink, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
    let mut request = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
    request.extend(kind.to_ne_bytes());
    request.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
    request.extend([0; 8]);
    request.extend(body);
    send(&socket, &request, SendFlags::empty())?;
    let mut answer = vec![0; ANSWER];
    // the kernel answers before it returns from `send`
    let (length, _) = recv(&socket, &mut answer[..], RecvFlags::DONTWAIT)?;
    answer.truncate(length);
    let told = answer.get(..4).and_then(u32_of).ok_or_else(malformed)?;
    answer.truncate(told as usize);
    let kind = answer.get(4..6).ok_or_else(malformed)?;
    if kind == (libc::NLMSG_ERROR as u16).to_ne_bytes() {
        let code = answer.get(HEADER..HEADER + 4).and_then(u32_of);
        let code = code.ok_or_else(malformed)? as i32;
        return Err(io::Error::from_raw_os_error(code.wrapping_neg()));
    }
    answer.drain(..HEADER.min(answer.len()));
    Ok(answer)
}

/// Appends an attribute.
fn push(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend(((ATTRIBUTE + value.len()) as u16).to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

/// The value of the first attribute of a kind, behind a header of `skip` octets.
fn attribute(octets: &[u8], skip: usize, wanted: u16) -> Option<&[u8]> {
    let mut rest = octets.get(skip..)?;
    loop {
        let &[a, b, c, d] = rest.first_chunk()?;
        let length = u16::from_ne_bytes([a, b]).into();
        let kind = u16::from_ne_bytes([c, d]);
        let value = rest.get(ATTRIBUTE..length)?;
        if kind & libc::NLA_TYPE_MASK as u16 == wanted {
            return Some(value);
        }
        rest = rest.get(length.next_multiple_of(4)..)?;
    }
}

fn u32_of(octets: &[u8]) -> Option<u32> {
    array(octets).map(u32::from_ne_bytes)
}

/// All octets, if they are that many.
fn array<const N: usize>(octets: &[u8]) -> Option<[u8; N]> {
    let array = octets.first_chunk();
    array.copied().filter(|_| octets.len() == N)
}

fn malformed() -> io::Error {
    io::Error::other("malformed netlink message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_has_no_program() {
        let found = query(1).unwrap();
        assert_eq!((found.driver_program, found.generic_program), (0, 0));
        assert!(!found.can_redirect);
    }

    #[test]
    fn no_interface_is_an_error() {
        let error = query(i32::MAX as u32).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
    }

    #[test]
    fn what_is_cut_short_has_no_attribute() {
        let mut body = vec![0; LINK];
        push(&mut body, 7, b"abc");
        push(&mut body, IFLA_XDP, &[1, 2, 3, 4]);
        assert_eq!(attribute(&body, LINK, IFLA_XDP), Some(&[1, 2, 3, 4][..]));
        for length in 0..body.len() {
            assert_eq!(attribute(&body[..length], LINK, IFLA_XDP), None);
        }
        assert_eq!(
            attribute(&[0; 64], LINK, IFLA_XDP),
            None,
            "an attribute of no octets"
        );
    }
}
