//! Linux's answers, by `RTM_GETROUTE` (inet_rtm_getroute(), inet6_rtm_getroute()).

use std::net::IpAddr;

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteMessage, RouteMetric, RouteNextHop, RouteNextHopFlags,
    RouteType, RouteVia,
};

use crate::answer::{LinuxAnswer, Path, Route};
use crate::exchange::{Answer, Exchange, ProveError, attribute};
use crate::question::{Input, Question};
use crate::words;

const RTM_F_FIB_MATCH: u32 = 0x2000;
const RTM_F_LOOKUP_TABLE: u32 = 0x1000;
const RTA_IP_PROTO: u16 = 27;
const RTA_SPORT: u16 = 28;
const RTA_DPORT: u16 = 29;
/// The bits of TOS that Linux looks up by; it refuses others in questions about IPv4 (inet_validate_rtm_getroute()).
const DSCP: u8 = 0xfc;
/// Questions in one system call; their answers fit into the socket's buffer.
const AT_ONCE: usize = 64;

/// Whom to ask.
pub struct Linux {
    exchange: Exchange,
}

impl Linux {
    /// Asks in the network namespace of the calling thread.
    ///
    /// # Errors
    /// No socket can be made.
    pub fn open() -> Result<Self, ProveError> {
        let exchange = Exchange::open()?;
        Ok(Self { exchange })
    }

    /// What Linux does with each of these packets: with all paths of a route that has several. `None` where what they come in by
    /// is gone.
    ///
    /// # Errors
    /// Linux cannot be asked, or an answer cannot be read.
    pub(crate) fn ask(
        &mut self,
        questions: &[Question],
        inputs: &[Input],
    ) -> Result<Vec<Option<LinuxAnswer>>, ProveError> {
        let mut answers = Vec::with_capacity(questions.len());
        for some in questions.chunks(AT_ONCE) {
            let raw = self.send(some, inputs, |_| RTM_F_FIB_MATCH)?;
            answers.extend(raw.into_iter().map(read));
        }
        // an error, or none, for packets to the router itself: what kind of route it is, another question tells
        let unclear: Vec<usize> = (0..answers.len())
            .filter(|&at| matches!(answers[at], Some(LinuxAnswer::Refuse(libc::EHOSTUNREACH))))
            .collect();
        for some in unclear.chunks(AT_ONCE) {
            let again: Vec<Question> = some.iter().map(|&at| questions[at]).collect();
            let raw = self.send(&again, inputs, look_up)?;
            for (&at, raw) in some.iter().zip(raw) {
                answers[at] = read(raw);
            }
        }
        Ok(answers)
    }

    /// The path that each of these packets takes, where routes have several: device and gateway.
    ///
    /// # Errors
    /// Linux cannot be asked, or an answer cannot be read.
    pub(crate) fn ask_paths(
        &mut self,
        questions: &[Question],
        inputs: &[Input],
    ) -> Result<Vec<Option<Path>>, ProveError> {
        let mut paths = Vec::with_capacity(questions.len());
        for some in questions.chunks(AT_ONCE) {
            let raw = self.send(some, inputs, look_up)?;
            paths.extend(raw.into_iter().map(|answer| match read(answer) {
                Some(LinuxAnswer::Forward(route)) => route.paths.into_iter().next(),
                _ => None,
            }));
        }
        Ok(paths)
    }

    /// What Linux does with a packet that comes in by an interface, in words; `name`: of a link.
    ///
    /// # Errors
    /// Linux cannot be asked, or an answer cannot be read.
    pub fn tell(
        &mut self,
        question: &Question,
        ifindex: u32,
        name: &dyn Fn(u32) -> String,
    ) -> Result<String, ProveError> {
        let body = request(question, ifindex, look_up(question));
        self.exchange.add(libc::RTM_GETROUTE, 0, &body);
        let answer = self.exchange.ask(1)?.into_iter().next().and_then(read);
        Ok(match answer {
            Some(answer) => words::of_linux(&answer, name),
            None => format!("there is no {} any more", name(ifindex)),
        })
    }

    pub(crate) fn exchange(&mut self) -> &mut Exchange {
        &mut self.exchange
    }

    fn send(
        &mut self,
        questions: &[Question],
        inputs: &[Input],
        flags: impl Fn(&Question) -> u32,
    ) -> Result<Vec<Answer>, ProveError> {
        for question in questions {
            let ifindex = inputs[question.input].ifindex;
            let body = request(question, ifindex, flags(question));
            self.exchange.add(libc::RTM_GETROUTE, 0, &body);
        }
        self.exchange.ask(questions.len())
    }
}

/// The flags of a question about the path of a packet. IPv6 names the table without one, and refuses it.
fn look_up(question: &Question) -> u32 {
    match question.is_v6() {
        false => RTM_F_LOOKUP_TABLE,
        true => 0,
    }
}

/// `struct rtmsg` with attributes.
fn request(question: &Question, ifindex: u32, flags: u32) -> Vec<u8> {
    let mut body = Vec::with_capacity(96);
    let (family, bits) = match question.is_v6() {
        false => (libc::AF_INET, 32),
        true => (libc::AF_INET6, 128),
    };
    body.extend([family as u8, bits, bits, question.tos & DSCP, 0, 0, 0, 0]);
    body.extend(flags.to_ne_bytes());
    for (kind, address) in [
        (libc::RTA_DST, question.destination),
        (libc::RTA_SRC, question.source),
    ] {
        match address {
            IpAddr::V4(address) => attribute(&mut body, kind, &address.octets()),
            IpAddr::V6(address) => attribute(&mut body, kind, &address.octets()),
        }
    }
    attribute(&mut body, libc::RTA_IIF, &ifindex.to_ne_bytes());
    if question.is_answered() {
        attribute(&mut body, RTA_IP_PROTO, &[question.protocol.0]);
        attribute(&mut body, RTA_SPORT, &question.ports[0].to_be_bytes());
        attribute(&mut body, RTA_DPORT, &question.ports[1].to_be_bytes());
    }
    body
}

/// What an answer means.
fn read(answer: Answer) -> Option<LinuxAnswer> {
    match answer {
        Err(libc::ENODEV) => None,
        Err(error) => Some(LinuxAnswer::Refuse(error)),
        Ok(RouteNetlinkMessage::NewRoute(route)) => Some(of_route(&route)),
        Ok(_) => Some(LinuxAnswer::Refuse(libc::EPROTO)),
    }
}

fn of_route(message: &RouteMessage) -> LinuxAnswer {
    match message.header.kind {
        RouteType::Unicast => LinuxAnswer::Forward(route(message)),
        RouteType::BlackHole => LinuxAnswer::Refuse(libc::EINVAL),
        RouteType::Unreachable => LinuxAnswer::Refuse(libc::EHOSTUNREACH),
        RouteType::Prohibit => LinuxAnswer::Refuse(libc::EACCES),
        RouteType::Throw => LinuxAnswer::Refuse(libc::EAGAIN),
        _ => LinuxAnswer::Own,
    }
}

fn route(message: &RouteMessage) -> Route {
    let mut route = Route {
        table: message.header.table.into(),
        ..Route::default()
    };
    let mut alone = Path {
        device: 0,
        gateway: None,
        weight: 1,
        alive: true,
    };
    let length = message.header.destination_prefix_length;
    for one in &message.attributes {
        match one {
            RouteAttribute::Table(table) => route.table = *table,
            RouteAttribute::Destination(address) => {
                route.prefix = ip(address).map(|address| (address, length));
            }
            RouteAttribute::Oif(device) => alone.device = *device,
            RouteAttribute::MultiPath(paths) => route.paths.extend(paths.iter().map(path)),
            RouteAttribute::Metrics(metrics) => {
                route.mtu = metrics.iter().find_map(|metric| match metric {
                    RouteMetric::Mtu(mtu) => Some(*mtu),
                    _ => None,
                });
            }
            RouteAttribute::Encap(_) => route.encapsulates = true,
            other => alone.gateway = gateway(other).or(alone.gateway),
        }
    }
    for path in message.attributes.iter().filter_map(paths) {
        let inside = path.iter().flat_map(|path| &path.attributes);
        route.encapsulates |= { inside }.any(|one| matches!(one, RouteAttribute::Encap(_)));
    }
    if route.paths.is_empty() {
        route.paths.push(alone);
    }
    route
}

fn paths(attribute: &RouteAttribute) -> Option<&Vec<RouteNextHop>> {
    match attribute {
        RouteAttribute::MultiPath(paths) => Some(paths),
        _ => None,
    }
}

fn path(hop: &RouteNextHop) -> Path {
    Path {
        device: hop.interface_index,
        gateway: hop.attributes.iter().find_map(gateway),
        weight: u32::from(hop.hops) + 1,
        alive: !hop.flags.contains(RouteNextHopFlags::Dead),
    }
}

fn gateway(attribute: &RouteAttribute) -> Option<IpAddr> {
    match attribute {
        RouteAttribute::Gateway(address) => ip(address),
        RouteAttribute::Via(RouteVia::Inet(address)) => Some(IpAddr::V4(*address)),
        RouteAttribute::Via(RouteVia::Inet6(address)) => Some(IpAddr::V6(*address)),
        _ => None,
    }
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some(IpAddr::V4(*address)),
        RouteAddress::Inet6(address) => Some(IpAddr::V6(*address)),
        _ => None,
    }
}
