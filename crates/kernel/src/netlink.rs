//! Sockets and messages of NETLINK_ROUTE.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteNextHop, RouteType,
    RouteVia,
};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

use crate::routes::{Net, Route, RouteKind, Via};

/// Octets of a socket's receive queue; room for a burst of some 100 000 route changes.
const RECEIVE_QUEUE: usize = 128 << 20;
/// Octets read at once.
const READ_BUFFER: usize = 1 << 18;

/// Why the kernel could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum NetlinkError {
    /// A system call failed.
    #[error("netlink: {step}: {source}")]
    System {
        /// Which.
        step: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel answered a request with an error.
    #[error("netlink: the kernel refused a dump: {0}")]
    Refused(io::Error),
    /// A dump was interrupted by changes, several times over.
    #[error("netlink: the kernel's tables change too fast for a consistent dump")]
    Interrupted,
}

fn failed(step: &'static str) -> impl Fn(io::Error) -> NetlinkError {
    move |source| NetlinkError::System { step, source }
}

/// What one read gave.
#[derive(Debug)]
pub enum Decoded {
    /// A message, and whether it replaces what it is about (NLM_F_REPLACE).
    Message(Box<RouteNetlinkMessage>, bool),
    /// A setting of an interface changed (RTM_NEWNETCONF).
    Setting,
    /// A next-hop object changed (RTM_NEWNEXTHOP and its kin).
    NextHop,
    /// Not understood; counted.
    Malformed,
    /// The end of a dump; true if it was interrupted.
    Done(bool),
    /// The kernel's answer to a request was an error.
    Refused(i32),
}

/// Splits and decodes what a socket gave. Unknown and broken messages are [`Decoded::Malformed`].
pub fn decode(mut octets: &[u8], mut each: impl FnMut(Decoded)) {
    while octets.len() >= 16 {
        let length = u32::from_ne_bytes([octets[0], octets[1], octets[2], octets[3]]) as usize;
        if length < 16 || length > octets.len() {
            each(Decoded::Malformed);
            return;
        }
        each(decode_one(&octets[..length]));
        octets = &octets[length.next_multiple_of(4).min(octets.len())..];
    }
}

fn decode_one(octets: &[u8]) -> Decoded {
    /// NLM_F_REPLACE has the bit of a dump flag, so the crate has no name for it here.
    const NLM_F_REPLACE: u16 = 0x100;
    // kinds of message the crate has no types for; what they are about is read elsewhere
    match u16::from_ne_bytes([octets[4], octets[5]]) {
        80..=83 => return Decoded::Setting,
        104..=107 | 116..=118 => return Decoded::NextHop,
        _ => {}
    }
    let Ok(message) = NetlinkMessage::<RouteNetlinkMessage>::deserialize(octets) else {
        return Decoded::Malformed;
    };
    let flags = message.header.flags;
    match message.payload {
        NetlinkPayload::InnerMessage(inner) => {
            Decoded::Message(Box::new(inner), flags & NLM_F_REPLACE != 0)
        }
        NetlinkPayload::Done(_) => Decoded::Done(flags & NLM_F_DUMP_INTR != 0),
        NetlinkPayload::Error(error) => Decoded::Refused(error.raw_code()),
        _ => Decoded::Malformed,
    }
}

/// A socket for events.
pub(crate) struct Events {
    socket: Socket,
    buffer: Vec<u8>,
}

impl Events {
    pub(crate) fn open(groups: &[u32]) -> Result<Self, NetlinkError> {
        let mut socket = Socket::new(NETLINK_ROUTE).map_err(failed("socket"))?;
        // more than net.core.rmem_max needs CAP_NET_ADMIN; a small queue only resyncs more often
        let forced =
            rustix::net::sockopt::set_socket_recv_buffer_size_force(fd_of(&socket), RECEIVE_QUEUE);
        if let Err(error) = forced {
            log::warn!("netlink receive queue stays at the system's default: {error}");
        }
        socket
            .bind(&SocketAddr::new(0, 0))
            .map_err(failed("bind"))?;
        for &group in groups {
            socket.add_membership(group).map_err(failed("join group"))?;
        }
        socket
            .set_non_blocking(true)
            .map_err(failed("non-blocking"))?;
        Ok(Self {
            socket,
            buffer: Vec::with_capacity(READ_BUFFER),
        })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        fd_of(&self.socket)
    }

    /// Reads once: `Ok(false)` if there was nothing, ENOBUFS as an error.
    pub(crate) fn read(&mut self, each: impl FnMut(Decoded)) -> io::Result<bool> {
        self.buffer.clear();
        match self.socket.recv(&mut self.buffer, 0) {
            Ok(_) => {
                decode(&self.buffer, each);
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn fd_of(socket: &Socket) -> BorrowedFd<'_> {
    socket.as_fd()
}

/// Asks for everything of one kind, on a socket of its own; repeats an interrupted dump.
pub(crate) fn dump(
    request: RouteNetlinkMessage,
    mut each: impl FnMut(RouteNetlinkMessage),
) -> Result<u64, NetlinkError> {
    const TRIES: usize = 5;
    let mut malformed = 0;
    for _ in 0..TRIES {
        let mut seen = Vec::new();
        if dump_once(request.clone(), &mut seen, &mut malformed)? {
            seen.into_iter().for_each(&mut each);
            return Ok(malformed);
        }
    }
    Err(NetlinkError::Interrupted)
}

/// One dump; `Ok(false)` if it was interrupted by a change.
fn dump_once(
    request: RouteNetlinkMessage,
    seen: &mut Vec<RouteNetlinkMessage>,
    malformed: &mut u64,
) -> Result<bool, NetlinkError> {
    let mut socket = Socket::new(NETLINK_ROUTE).map_err(failed("socket"))?;
    socket.bind_auto().map_err(failed("bind"))?;
    socket
        .connect(&SocketAddr::new(0, 0))
        .map_err(failed("connect"))?;
    let mut message = NetlinkMessage::from(request);
    message.header.flags = NLM_F_DUMP | NLM_F_REQUEST;
    message.finalize();
    let mut octets = vec![0; message.buffer_len()];
    message.serialize(&mut octets);
    socket.send(&octets, 0).map_err(failed("request dump"))?;

    let mut buffer = Vec::with_capacity(READ_BUFFER);
    let (mut done, mut interrupted, mut refused) = (false, false, None);
    while !done {
        buffer.clear();
        socket.recv(&mut buffer, 0).map_err(failed("read dump"))?;
        decode(&buffer, |decoded| match decoded {
            Decoded::Message(message, _) => seen.push(*message),
            Decoded::Malformed | Decoded::Setting | Decoded::NextHop => *malformed += 1,
            Decoded::Done(cut) => (done, interrupted) = (true, cut),
            Decoded::Refused(code) => (done, refused) = (true, Some(code)),
        });
    }
    match refused {
        Some(code) if code != 0 => Err(NetlinkError::Refused(io::Error::from_raw_os_error(
            code.abs(),
        ))),
        _ => Ok(!interrupted),
    }
}

/// The route of a message, if it is one Bora looks at: unicast tables main and local.
pub(crate) fn route_of(message: &RouteMessage) -> Option<(Net, Route)> {
    let header = &message.header;
    let mut table = u32::from(header.table);
    let mut target = None;
    let (mut gateway, mut device, mut metric, mut mtu) = (None, None, 0, 0);
    let (mut many, mut encap) = (Vec::new(), false);
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Table(number) => table = *number,
            RouteAttribute::Destination(address) => target = ip_of(address),
            RouteAttribute::Gateway(address) => gateway = ip_of(address),
            RouteAttribute::Via(via) => gateway = ip_of_via(via),
            RouteAttribute::Oif(index) => device = Some(*index),
            RouteAttribute::Priority(number) => metric = *number,
            RouteAttribute::Metrics(metrics) => mtu = mtu_of(metrics),
            RouteAttribute::Encap(_) | RouteAttribute::EncapType(_) => encap = true,
            RouteAttribute::MultiPath(hops) => many = hops.iter().filter_map(via_of).collect(),
            _ => {}
        }
    }
    let local = match table {
        255 => true,
        254 => false,
        _ => return None,
    };
    let v6 = header.address_family == netlink_packet_route::AddressFamily::Inet6;
    let addr = target.unwrap_or(if v6 {
        IpAddr::from([0; 16])
    } else {
        IpAddr::from([0; 4])
    });
    if many.is_empty() {
        many.extend(device.map(|device| Via {
            device,
            gateway,
            weight: 1,
        }));
    }
    let special = encap || header.tos != 0 || header.source_prefix_length != 0;
    let kind = if special {
        RouteKind::Unsupported
    } else {
        kind_of(header, many)
    };
    let net = Net {
        addr,
        len: header.destination_prefix_length,
    };
    Some((
        net,
        Route {
            local,
            metric,
            mtu,
            kind,
        },
    ))
}

fn kind_of(header: &RouteHeader, vias: Vec<Via>) -> RouteKind {
    match header.kind {
        RouteType::Unicast if vias.is_empty() => RouteKind::Unsupported,
        RouteType::Unicast => RouteKind::Unicast(vias),
        RouteType::Local | RouteType::Broadcast | RouteType::Anycast | RouteType::Multicast => {
            RouteKind::Local
        }
        RouteType::BlackHole => RouteKind::Blackhole,
        RouteType::Unreachable => RouteKind::Unreachable,
        RouteType::Prohibit => RouteKind::Prohibit,
        _ => RouteKind::Unsupported,
    }
}

fn via_of(hop: &RouteNextHop) -> Option<Via> {
    let mut via = Via {
        device: hop.interface_index,
        gateway: None,
        weight: u32::from(hop.hops) + 1,
    };
    for attribute in &hop.attributes {
        match attribute {
            RouteAttribute::Gateway(address) => via.gateway = ip_of(address),
            RouteAttribute::Via(address) => via.gateway = ip_of_via(address),
            _ => {}
        }
    }
    Some(via)
}

fn mtu_of(metrics: &[RouteMetric]) -> u32 {
    let found = metrics.iter().find_map(|metric| match metric {
        RouteMetric::Mtu(mtu) => Some(*mtu),
        _ => None,
    });
    found.unwrap_or(0)
}

fn ip_of(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some((*address).into()),
        RouteAddress::Inet6(address) => Some((*address).into()),
        _ => None,
    }
}

fn ip_of_via(via: &RouteVia) -> Option<IpAddr> {
    match via {
        RouteVia::Inet(address) => Some((*address).into()),
        RouteVia::Inet6(address) => Some((*address).into()),
        _ => None,
    }
}
