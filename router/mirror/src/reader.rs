//! A thread that reads tables of the kernel for the mirror's, which neither waits for the kernel nor for all of a table.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use crate::error::KernelError;
use crate::message::{self, Frame, Malformed, Message, RTM_GETNEXTHOP, RTM_GETNEXTHOPBUCKET};
use crate::socket::Netlink;
use crate::waker::Waker;

/// Attribute types of filters: the device of a neighbour, the device of a route.
const NDA_IFINDEX: u16 = 8;
const RTA_OIF: u16 = libc::RTA_OIF;
/// Messages in one piece; the mirror takes well below a millisecond for them.
const PIECE: usize = 256;
/// Pieces that may wait for the mirror.
const AHEAD: usize = 16;

/// A table, or a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dump {
    Links,
    Addresses,
    Objects,
    /// The buckets of resilient groups.
    Buckets,
    /// All neighbours, or those behind a device.
    Neighbours(Option<u32>),
    Routes {
        v6: bool,
        part: Part,
    },
}

/// Which routes to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    All,
    /// Routes with a path through a device.
    Device(u32),
    /// Routes that a protocol made.
    Protocol(u8),
}

/// What the thread tells.
pub(crate) enum Piece {
    Messages(Vec<Message>),
    /// A message that could not be decoded, and its type.
    Malformed(u16, Malformed),
    /// The dump begins again, and what was told of it is void.
    Again,
    /// The dump has ended; `false` if changes interrupted it, so that something may be missing.
    End(bool),
    /// This kernel has no such table.
    None,
    Failed(KernelError),
}

impl Dump {
    /// Type and body of the request.
    fn request(self) -> (u16, Vec<u8>) {
        match self {
            Self::Links => (libc::RTM_GETLINK, vec![0; 16]),
            Self::Addresses => (libc::RTM_GETADDR, vec![0; 8]),
            Self::Objects => (RTM_GETNEXTHOP, vec![0; 8]),
            Self::Buckets => (RTM_GETNEXTHOPBUCKET, vec![0; 8]),
            Self::Neighbours(device) => {
                let filter = device.map(|device| (NDA_IFINDEX, device));
                (libc::RTM_GETNEIGH, filtered(&[0; 12], filter))
            }
            Self::Routes { v6, part } => {
                let mut head = [0; 12]; // struct rtmsg
                head[0] = if v6 { libc::AF_INET6 } else { libc::AF_INET } as u8;
                let mut device = None;
                match part {
                    Part::All => {}
                    Part::Device(of) => device = Some((RTA_OIF, of)),
                    Part::Protocol(protocol) => head[5] = protocol,
                }
                (libc::RTM_GETROUTE, filtered(&head, device))
            }
        }
    }

    /// Whether kernels before 5.3 or 5.13 lack it.
    fn is_new(self) -> bool {
        matches!(self, Self::Objects | Self::Buckets)
    }
}

/// A fixed header, and behind it a u32 attribute if there is a filter.
fn filtered(head: &[u8], filter: Option<(u16, u32)>) -> Vec<u8> {
    let mut request = head.to_vec();
    if let Some((kind, value)) = filter {
        request.extend(8u16.to_ne_bytes());
        request.extend(kind.to_ne_bytes());
        request.extend(value.to_ne_bytes());
    }
    request
}

/// Starts to read, in the network namespace of the caller. The thread ends when all is read, or the receiver is dropped.
pub(crate) fn start(
    open: fn() -> Result<Netlink, KernelError>,
    dumps: Vec<Dump>,
    waker: Option<Waker>,
) -> Receiver<Piece> {
    let (outbox, inbox) = sync_channel(AHEAD);
    let failed = outbox.clone();
    let outbox = Outbox {
        outbox,
        waker,
        piece: Vec::new(),
        is_closed: false,
    };
    let thread = std::thread::Builder::new().name("bora-reader".into());
    let started = thread.spawn(move || {
        bora_confine::thread(bora_confine::KERNEL);
        outbox.read(open, &dumps);
    });
    if let Err(source) = started {
        let what = "tables, for lack of a thread,";
        let why = Piece::Failed(KernelError::Dump { what, source });
        drop(failed.send(why)); // the receiver is ours, and has room
    }
    inbox
}

struct Outbox {
    outbox: SyncSender<Piece>,
    waker: Option<Waker>,
    piece: Vec<Message>,
    /// Nobody listens any more.
    is_closed: bool,
}

impl Outbox {
    fn read(mut self, open: fn() -> Result<Netlink, KernelError>, dumps: &[Dump]) {
        let mut socket = match open() {
            Ok(socket) => socket,
            Err(error) => return self.send(Piece::Failed(error)),
        };
        for &dump in dumps {
            let end = self.dump(&mut socket, dump);
            let is_failed = matches!(end, Piece::Failed(_));
            self.flush();
            self.send(end);
            if self.is_closed || is_failed {
                return;
            }
        }
    }

    fn dump(&mut self, socket: &mut Netlink, dump: Dump) -> Piece {
        let (kind, request) = dump.request();
        let restart = |out: &mut Self| {
            out.piece.clear();
            out.send(Piece::Again);
        };
        match socket.dump(kind, &request, self, restart, Self::take) {
            Ok(whole) => Piece::End(whole),
            Err(KernelError::Dump { source, .. })
                if dump.is_new() && source.raw_os_error() == Some(libc::EOPNOTSUPP) =>
            {
                Piece::None
            }
            Err(error) => Piece::Failed(error),
        }
    }

    fn take(&mut self, frame: Frame<'_>) {
        match message::decode(&frame) {
            Ok(Message::Other) => {}
            Ok(message) => self.piece.push(message),
            Err(error) => self.send(Piece::Malformed(frame.kind, error)),
        }
        if self.piece.len() >= PIECE {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if !self.piece.is_empty() {
            let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE));
            self.send(Piece::Messages(piece));
        }
    }

    fn send(&mut self, piece: Piece) {
        if !self.is_closed {
            let sent = self.outbox.send(piece);
            self.is_closed = !matches!(sent, Ok(())); // the error is that the reading is gone
            if let Some(waker) = &self.waker {
                waker.wake();
            }
        }
    }
}
