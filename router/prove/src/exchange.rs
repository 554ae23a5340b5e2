//! Requests to Linux, several at a time, and its answers.

use std::io::{self, ErrorKind};
use std::time::Duration;

use netlink_packet_core::{DecodeError, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use rustix::net::sockopt::{Timeout, set_socket_recv_buffer_size_force, set_socket_timeout};

/// Octets of `struct nlmsghdr`.
const HEADER: usize = 16;
/// Read buffer, octets: more than the kernel puts into one datagram.
const READ: usize = 64 << 10;
/// Receive buffer, octets.
const ROOM: usize = 4 << 20;
/// How long Linux may take for an answer; it may have to wait for its own locks.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often a dump that changes interrupted is begun again. An interrupted one is good enough here, because what changes is
/// asked again.
const ATTEMPTS: usize = 2;

/// Why Linux could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum ProveError {
    /// A socket or buffer could not be made.
    #[error("cannot ask Linux: {0}")]
    Open(#[source] io::Error),
    /// A request or its answer failed.
    #[error("Linux does not answer: {0}")]
    Ask(#[from] io::Error),
    /// An answer is not as Linux's headers say.
    #[error("an answer of Linux cannot be read: {0}")]
    Decode(#[from] DecodeError),
    /// The XDP program cannot be asked.
    #[error("the XDP program cannot be asked: {0}")]
    Program(String),
    /// There is no memory for the packets of questions.
    #[error("no memory for questions: {0}")]
    Memory(String),
}

/// A message of Linux, or the number of its error; 0 acknowledges.
pub(crate) type Answer = Result<RouteNetlinkMessage, i32>;

/// A netlink socket.
pub(crate) struct Exchange {
    socket: Socket,
    buffer: Vec<u8>,
    requests: Vec<u8>,
    sequence: u32,
}

impl Exchange {
    /// Opens a socket in the calling thread's network namespace.
    pub(crate) fn open() -> Result<Self, ProveError> {
        let mut socket = Socket::new(NETLINK_ROUTE).map_err(ProveError::Open)?;
        socket
            .bind(&SocketAddr::new(0, 0))
            .map_err(ProveError::Open)?;
        set_socket_recv_buffer_size_force(&socket, ROOM)
            .or_else(|_| rustix::net::sockopt::set_socket_recv_buffer_size(&socket, ROOM))
            .map_err(|error| ProveError::Open(error.into()))?;
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))
            .map_err(|error| ProveError::Open(error.into()))?;
        socket
            .set_netlink_get_strict_chk(true)
            .map_err(ProveError::Open)?;
        Ok(Self {
            socket,
            buffer: vec![0; READ],
            requests: Vec::new(),
            sequence: 0,
        })
    }

    /// Adds a request; `body` is a fixed header with attributes, whose length is a multiple of 4.
    pub(crate) fn add(&mut self, kind: u16, flags: u16, body: &[u8]) {
        self.sequence = self.sequence.wrapping_add(1);
        let flags = flags | libc::NLM_F_REQUEST as u16;
        let length = (HEADER + body.len()) as u32;
        self.requests.extend(length.to_ne_bytes());
        self.requests.extend(kind.to_ne_bytes());
        self.requests.extend(flags.to_ne_bytes());
        self.requests.extend(self.sequence.to_ne_bytes());
        self.requests.extend([0; 4]);
        self.requests.extend(body);
    }

    /// Sends what was added; each request gets one answer, in order.
    pub(crate) fn ask(&mut self, count: usize) -> Result<Vec<Answer>, ProveError> {
        let first = self.sequence.wrapping_sub(count as u32).wrapping_add(1);
        self.send()?;
        let mut answers = Vec::with_capacity(count);
        while answers.len() < count {
            let wanted = first.wrapping_add(answers.len() as u32);
            let (sequence, answer, _) = self.receive(&mut |_| {})?;
            if sequence == wanted {
                answers.push(answer);
            }
        }
        Ok(answers)
    }

    /// Asks for all of a kind.
    pub(crate) fn dump(
        &mut self,
        kind: u16,
        body: &[u8],
        mut each: impl FnMut(RouteNetlinkMessage),
    ) -> Result<(), ProveError> {
        for attempt in 1..=ATTEMPTS {
            self.add(kind, libc::NLM_F_DUMP as u16, body);
            let wanted = self.sequence;
            self.send()?;
            let mut found = Vec::new();
            let mut whole = true;
            loop {
                let (sequence, answer, flags) = self.receive(&mut |message| found.push(message))?;
                if sequence != wanted {
                    found.clear(); // left over from an earlier one
                    continue;
                }
                whole &= flags & libc::NLM_F_DUMP_INTR as u16 == 0;
                match answer {
                    Ok(message) => found.push(message),
                    Err(0) => break,
                    Err(error) => return Err(io::Error::from_raw_os_error(error).into()),
                }
            }
            if whole || attempt == ATTEMPTS {
                found.into_iter().for_each(&mut each);
                return Ok(());
            }
        }
        Ok(())
    }

    fn send(&mut self) -> Result<(), ProveError> {
        let sent = self.socket.send(&self.requests, 0);
        self.requests.clear();
        sent?;
        Ok(())
    }

    /// Reads a datagram. `more` gets its messages but the last one, whose sequence number and flags are returned with it.
    fn receive(
        &mut self,
        more: &mut dyn FnMut(RouteNetlinkMessage),
    ) -> Result<(u32, Answer, u16), ProveError> {
        let length = loop {
            match self.socket.recv(&mut &mut self.buffer[..], 0) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                received => break received?.min(READ),
            }
        };
        let mut rest = &self.buffer[..length];
        let mut last = None;
        while rest.len() >= HEADER {
            let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest)?;
            let size = (message.header.length as usize).next_multiple_of(4);
            rest = rest.get(size..).unwrap_or_default();
            let answer = match message.payload {
                NetlinkPayload::InnerMessage(inner) => Ok(inner),
                NetlinkPayload::Error(error) => Err(error.raw_code().saturating_neg()),
                _ => Err(0),
            };
            let this = (message.header.sequence_number, answer, message.header.flags);
            if let Some((_, Ok(before), _)) = last.replace(this) {
                more(before);
            }
        }
        last.ok_or_else(|| io::Error::from(ErrorKind::UnexpectedEof).into())
    }
}

/// The attributes of a request.
pub(crate) fn attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend(((4 + value.len()) as u16).to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}
