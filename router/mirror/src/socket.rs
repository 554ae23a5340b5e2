//! A netlink socket: events with overflow detection, and dumps.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use netlink_sys::{Socket, SocketAddr};
use rustix::net::sockopt::{Timeout, set_socket_timeout};

use crate::error::KernelError;
use crate::message::{Frame, Frames, Malformed, NLMSG_HEADER};
use crate::request::Body;

/// Read buffer, octets: more than the kernel puts into one datagram (32 KiB), so that none is
/// truncated.
const READ: usize = 64 << 10;
/// How often a dump that changes interrupted is repeated. Under steady changes it would never
/// complete.
const ATTEMPTS: u32 = 3;
/// How long the kernel may take for an answer; it may have to wait for its own locks.
const PATIENCE: Duration = Duration::from_secs(10);

/// The result of reading events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// One datagram was read.
    Datagram,
    /// There is nothing to read.
    Empty,
    /// The kernel dropped events.
    Overflow,
}

/// One netlink socket with its read buffer.
pub(crate) struct Netlink {
    socket: Socket,
    buffer: Vec<u8>,
    sequence: u32,
    what: &'static str,
}

impl Netlink {
    /// Opens a socket in the calling thread's network namespace that hears of the multicast groups
    /// `groups`.
    pub(crate) fn open(
        protocol: i32,
        groups: &[u32],
        receive_buffer: usize,
        what: &'static str,
    ) -> Result<Self, KernelError> {
        let open = |source| KernelError::Open { what, source };
        let mut socket = Socket::new(protocol as isize).map_err(open)?;
        socket.bind(&SocketAddr::new(0, 0)).map_err(open)?;
        for &group in groups {
            socket.add_membership(group).map_err(open)?;
        }
        socket.set_non_blocking(!groups.is_empty()).map_err(open)?;
        let force =
            rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, receive_buffer);
        if let Err(error) = force {
            socket.set_rx_buf_sz(receive_buffer as u32).map_err(open)?;
            // requests wait for their answers, but events are lost where there is no room
            if !groups.is_empty() {
                log::warn!(
                    "{what}: no buffer of {receive_buffer} octets ({error}), only of net.core.rmem_max at \
                     most: when many events come, Bora has to read all tables; give it CAP_NET_ADMIN or \
                     raise net.core.rmem_max"
                );
            }
        }
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE)).map_err(|e| open(e.into()))?;
        if protocol == libc::NETLINK_ROUTE {
            // filters of dumps are refused instead of ignored where the kernel lacks them
            socket.set_netlink_get_strict_chk(true).map_err(open)?;
        }
        Ok(Self {
            socket,
            buffer: vec![0; READ],
            sequence: 0,
            what,
        })
    }

    /// Reads one datagram of events and passes its messages to `each`.
    pub(crate) fn receive(
        &mut self,
        mut each: impl FnMut(Result<Frame<'_>, Malformed>),
    ) -> Result<Received, KernelError> {
        let len = match self
            .socket
            .recv(&mut &mut self.buffer[..], libc::MSG_DONTWAIT)
        {
            Ok(len) => len,
            Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => return Ok(Received::Overflow),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Ok(Received::Empty);
            }
            Err(e) => return Err(KernelError::Wait(e)),
        };
        Frames::new(&self.buffer[..len.min(READ)]).for_each(&mut each);
        Ok(Received::Datagram)
    }

    /// Requests a dump and passes each message on. If changes interrupt the dump, it calls
    /// `restart` and begins again, a few times. `false` if all attempts were interrupted, so that
    /// something may be missing.
    pub(crate) fn dump<S>(
        &mut self,
        kind: u16,
        request: &[u8],
        state: &mut S,
        mut restart: impl FnMut(&mut S),
        mut each: impl FnMut(&mut S, Frame<'_>),
    ) -> Result<bool, KernelError> {
        let what = self.what;
        let failed = |source| KernelError::Dump { what, source };
        for _ in 0..ATTEMPTS {
            restart(state);
            self.request(kind, request).map_err(failed)?;
            match self.answers(state, &mut each) {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                // the device has gone, and its entries with it
                Err(e) if e.raw_os_error() == Some(libc::ENODEV) => {
                    restart(state);
                    return Ok(true);
                }
                Err(e) => return Err(failed(e)),
            }
            log::debug!("changes interrupted the dump of {what}");
        }
        Ok(false)
    }

    /// As [`Self::dump`], but a message that cannot be decoded fails it.
    pub(crate) fn dump_decoded<S>(
        &mut self,
        kind: u16,
        request: &[u8],
        state: &mut S,
        restart: impl FnMut(&mut S),
        mut each: impl FnMut(&mut S, Frame<'_>) -> Result<(), Malformed>,
    ) -> Result<bool, KernelError> {
        let (what, mut malformed) = (self.what, None);
        let each = |state: &mut S, frame: Frame<'_>| {
            if let Err(error) = each(state, frame) {
                malformed = Some(error);
            }
        };
        let whole = self.dump(kind, request, state, restart, each)?;
        match malformed {
            None => Ok(whole),
            Some(error) => Err(KernelError::Dump {
                what,
                source: io::Error::new(ErrorKind::InvalidData, error),
            }),
        }
    }

    fn request(&mut self, kind: u16, body: &[u8]) -> io::Result<()> {
        self.send(kind, libc::NLM_F_DUMP as u16, body)
    }

    /// Sends a request and waits until it is done.
    pub(crate) fn ask(&mut self, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        self.ask_for(kind, flags, body, |_| {})
    }

    /// Sends a request that messages answer, and passes each of them on.
    pub(crate) fn ask_for(
        &mut self,
        kind: u16,
        flags: u16,
        body: &[u8],
        mut each: impl FnMut(Frame<'_>),
    ) -> io::Result<()> {
        self.send(kind, flags | libc::NLM_F_ACK as u16, body)?;
        let each = &mut |(): &mut (), frame: Frame<'_>| each(frame);
        self.answers(&mut (), each).map(drop)
    }

    /// Sends a request; the kernel's answer can be read later.
    pub(crate) fn send(&mut self, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        let mut message = Vec::with_capacity(NLMSG_HEADER + body.len());
        self.add_request(&mut message, kind, flags, body);
        self.socket.send(&message, 0).map(drop)
    }

    /// Sends requests of one kind in one system call.
    pub(crate) fn send_all(
        &mut self,
        kind: u16,
        requests: impl Iterator<Item = (u16, Body)>,
    ) -> io::Result<()> {
        let mut messages = Vec::new();
        for (flags, body) in requests {
            self.add_request(&mut messages, kind, flags, body.octets());
        }
        self.socket.send(&messages, 0).map(drop)
    }

    /// Sends messages of several kinds in one system call, which ends when the kernel has acted on them.
    /// Each has its type, its flags and its body.
    pub(crate) fn send_together(&mut self, messages: &[(u16, u16, &[u8])]) -> io::Result<()> {
        let mut octets = Vec::new();
        for &(kind, flags, body) in messages {
            self.add_request(&mut octets, kind, flags, body);
        }
        self.socket.send(&octets, 0).map(drop)
    }

    /// Appends a request; its length must be a multiple of 4, as that of bodies is.
    fn add_request(&mut self, messages: &mut Vec<u8>, kind: u16, flags: u16, body: &[u8]) {
        self.sequence = self.sequence.wrapping_add(1);
        let flags = flags | libc::NLM_F_REQUEST as u16;
        messages.extend(((NLMSG_HEADER + body.len()) as u32).to_ne_bytes());
        messages.extend(kind.to_ne_bytes());
        messages.extend(flags.to_ne_bytes());
        messages.extend(self.sequence.to_ne_bytes());
        messages.extend(0u32.to_ne_bytes());
        messages.extend(body);
    }

    /// Reads to the end of a dump; `false` if changes interrupted it.
    fn answers<S>(
        &mut self,
        state: &mut S,
        each: &mut impl FnMut(&mut S, Frame<'_>),
    ) -> io::Result<bool> {
        let mut consistent = true;
        loop {
            let len = match self.socket.recv(&mut &mut self.buffer[..], 0) {
                Ok(len) => len,
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            for frame in Frames::new(&self.buffer[..len.min(READ)]) {
                let frame = frame.map_err(|e| io::Error::new(ErrorKind::InvalidData, e))?;
                if frame.sequence != self.sequence {
                    continue; // left over from an earlier dump that failed
                }
                consistent &= frame.flags & libc::NLM_F_DUMP_INTR as u16 == 0;
                match i32::from(frame.kind) {
                    libc::NLMSG_DONE => return result(frame.payload).map(|()| consistent),
                    libc::NLMSG_ERROR => return result(frame.payload).map(|()| consistent),
                    _ => each(state, frame),
                }
            }
        }
    }
}

/// The error number at the start of NLMSG_ERROR and NLMSG_DONE: 0 or negative.
pub(crate) fn result(payload: &[u8]) -> io::Result<()> {
    match payload
        .first_chunk::<4>()
        .map(|bytes| i32::from_ne_bytes(*bytes))
    {
        Some(code) if code < 0 => Err(io::Error::from_raw_os_error(code.saturating_neg())),
        _ => Ok(()),
    }
}

impl AsFd for Netlink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A socket on which every dump fails.
#[cfg(test)]
pub(crate) fn deaf() -> Netlink {
    Netlink::open(libc::NETLINK_USERSOCK, &[], 1 << 16, "anything").unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_with_a_message_that_cannot_be_decoded_fails() {
        let mut socket = Netlink::open(libc::NETLINK_ROUTE, &[], 1 << 16, "links").unwrap();
        let mut read = |fails: bool| {
            let each = |count: &mut u32, _: Frame<'_>| {
                *count += 1;
                (!fails).then_some(()).ok_or(Malformed("link"))
            };
            let restart = |count: &mut u32| *count = 0;
            socket.dump_decoded(libc::RTM_GETLINK, &[0; 16], &mut 0, restart, each)
        };
        assert!(read(false).is_ok());
        let why = read(true).unwrap_err().to_string();
        assert!(why.contains("links") && why.contains("cut short"), "{why}");
    }
}
