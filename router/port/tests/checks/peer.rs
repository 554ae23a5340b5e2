//! The other end of a memif, which may do what it likes. It writes to shared memory by system calls, so that
//! what it does to that memory cannot end this process.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bora_port::memif::{AddRegion, AddRing, Config, Hello, Init, Message, Name, Role};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::{pread, pwrite};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept, bind,
    connect, listen, recvmsg, sendmsg, socket_with,
};

/// Version 2.0 of the protocol.
pub const VERSION: u16 = 0x0200;
/// What begins a ring.
pub const COOKIE: u32 = 0x3E3_1F20;
/// Where in a ring the fields are.
pub const FLAGS: u64 = 4;
pub const HEAD: u64 = 6;
pub const TAIL: u64 = 64;
pub const DESCRIPTORS: u64 = 128;
/// The next slot holds more of the same packet.
pub const NEXT: u16 = 1;
/// Octets of a buffer of [`Client`].
pub const BUFFER: u32 = 2048;
/// Most descriptors in one message (SCM_MAX_FD).
pub const MOST_FDS: usize = 253;

/// An abstract address that is free.
pub fn address() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    PathBuf::from(format!("@bora-peer-{}-{number}", std::process::id()))
}

/// Settings of the port under test.
pub fn config(role: Role, log2_ring_size: u8) -> Config {
    Config {
        role,
        socket: address(),
        id: 0,
        secret: String::new(),
        name: "bora".into(),
        queues: 1,
        log2_ring_size,
        memory: 1 << 28,
    }
}

/// Waits for `fd`; false if nothing comes.
pub fn readable(fd: impl AsFd, patience: Duration) -> bool {
    let patience = Timespec::try_from(patience).unwrap();
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    poll(&mut fds, Some(&patience)).unwrap_or(0) > 0
}

/// A control channel.
pub struct Channel(pub OwnedFd);

fn unix(config: &Config) -> (OwnedFd, SocketAddrUnix) {
    let name = &config.socket.to_str().unwrap()[1..];
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    (socket.unwrap(), address)
}

/// A server's socket, for `backlog` clients that are not taken.
pub fn listener(config: &Config, backlog: i32) -> OwnedFd {
    let (socket, address) = unix(config);
    bind(&socket, &address).unwrap();
    listen(&socket, backlog).unwrap();
    socket
}

impl Channel {
    /// Connects to the port under test; `None` if it takes no peer now.
    pub fn connect(config: &Config) -> Option<Self> {
        let (socket, address) = unix(config);
        connect(&socket, &address).ok().map(|()| Self(socket))
    }

    /// Takes a connection of the port under test.
    pub fn accept(listener: &OwnedFd) -> Option<Self> {
        readable(listener, Duration::from_secs(5)).then(|| Self(accept(listener).unwrap()))
    }

    /// Whether it could be sent.
    pub fn send(&self, octets: &[u8], fds: &[BorrowedFd<'_>]) -> bool {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(&self.0, &[IoSlice::new(octets)], &mut control, flags).is_ok()
    }

    /// What the port says, with its descriptor; `None` once it has closed.
    pub fn receive(&self) -> Option<(Vec<u8>, Option<OwnedFd>)> {
        if !readable(&self.0, Duration::from_secs(5)) {
            return None;
        }
        let mut octets = vec![0; 128];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let vectors = &mut [IoSliceMut::new(&mut octets)];
        let got = recvmsg(&self.0, vectors, &mut control, RecvFlags::CMSG_CLOEXEC).ok()?;
        let mut fds = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        });
        let fd = fds.next();
        (got.bytes == 128).then_some((octets, fd))
    }

    /// Sends a message and waits for the answer.
    pub fn ask(&self, octets: &[u8], fds: &[BorrowedFd<'_>]) -> Option<Message> {
        self.send(octets, fds);
        self.answer()
    }

    /// What the port says.
    pub fn answer(&self) -> Option<Message> {
        Message::parse(&self.receive()?.0).ok()
    }
}

/// Shared memory as a peer sees it.
pub struct Memory(pub OwnedFd);

impl Memory {
    /// New memory of zeros.
    pub fn new(size: u64, flags: MemfdFlags) -> Self {
        let fd = memfd_create("peer", flags | MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&fd, size).unwrap();
        Self(fd)
    }

    /// Whatever the kernel says: memory may be gone.
    pub fn write(&self, offset: u64, octets: &[u8]) {
        let _ = pwrite(&self.0, octets, offset);
    }

    pub fn read16(&self, offset: u64) -> u16 {
        let mut octets = [0; 2];
        let _ = pread(&self.0, &mut octets, offset);
        u16::from_ne_bytes(octets)
    }

    pub fn write16(&self, offset: u64, value: u16) {
        self.write(offset, &value.to_ne_bytes());
    }

    /// Writes slot `index` of the ring at `ring`.
    pub fn describe(
        &self,
        ring: u64,
        index: u64,
        flags: u16,
        region: u16,
        length: u32,
        offset: u32,
    ) {
        let mut octets = [0; 16];
        octets[0..2].copy_from_slice(&flags.to_ne_bytes());
        octets[2..4].copy_from_slice(&region.to_ne_bytes());
        octets[4..8].copy_from_slice(&length.to_ne_bytes());
        octets[8..12].copy_from_slice(&offset.to_ne_bytes());
        self.write(ring + DESCRIPTORS + 16 * index, &octets);
    }
}

/// An eventfd as a peer makes it.
pub fn bell() -> OwnedFd {
    eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).unwrap()
}

/// Octets of a ring.
pub fn ring_size(log2: u8) -> u64 {
    (DESCRIPTORS + (16 << log2)).next_multiple_of(128)
}

/// A client with a ring to send (S2M) and one to receive (M2S) in one region, then a buffer for each slot.
pub struct Client {
    pub channel: Channel,
    pub memory: Memory,
    pub size: u64,
    pub log2: u8,
    pub bells: [OwnedFd; 2],
}

impl Client {
    /// Connects and waits for HELLO; says nothing yet.
    pub fn new(config: &Config, log2: u8, flags: MemfdFlags) -> Option<Self> {
        let channel = Channel::connect(config)?;
        channel.receive()?;
        let size = (2 * ring_size(log2) + u64::from(BUFFER) * (2 << log2)).next_multiple_of(4096);
        let memory = Memory::new(size, flags);
        for ring in 0..2 {
            memory.write(ring * ring_size(log2), &COOKIE.to_ne_bytes());
        }
        let bells = [bell(), bell()];
        Some(Self {
            channel,
            memory,
            size,
            log2,
            bells,
        })
    }

    /// Offset of a ring: 0 is S2M, 1 is M2S.
    pub fn ring(&self, ring: u64) -> u64 {
        ring * ring_size(self.log2)
    }

    /// Offset of a buffer.
    pub fn buffer(&self, number: u64) -> u32 {
        (2 * ring_size(self.log2) + number * u64::from(BUFFER)) as u32
    }

    /// What a client says, in order: INIT, ADD_REGION, ADD_RING twice, CONNECT.
    pub fn script(&self) -> [(Message, Option<BorrowedFd<'_>>); 5] {
        let ring = |s2m| AddRing {
            s2m,
            index: 0,
            region: 0,
            offset: self.ring(u64::from(!s2m)) as u32,
            log2_ring_size: self.log2,
            private_hdr_size: 0,
        };
        let init = Init {
            version: VERSION,
            id: 0,
            secret: [0; 24],
            name: Name::new("peer"),
        };
        let region = AddRegion {
            index: 0,
            size: self.size,
        };
        [
            (Message::Init(init), None),
            (Message::AddRegion(region), Some(self.memory.0.as_fd())),
            (Message::AddRing(ring(true)), Some(self.bells[0].as_fd())),
            (Message::AddRing(ring(false)), Some(self.bells[1].as_fd())),
            (Message::Connect(Name::new("peer0")), None),
        ]
    }

    /// Says all of it; returns the last answer.
    pub fn shake(&self) -> Option<Message> {
        let mut answer = None;
        for (message, fd) in self.script() {
            answer = self.channel.ask(&message.emit(), fd.as_slice());
            if !matches!(answer, Some(Message::Ack | Message::Connected(_))) {
                break;
            }
        }
        answer
    }
}

/// What a server says first.
pub fn hello() -> Hello {
    Hello {
        name: Name::new("peer"),
        min_version: VERSION,
        max_version: VERSION,
        max_region: 255,
        max_m2s_ring: 0,
        max_s2m_ring: 0,
        max_log2_ring_size: 14,
    }
}

/// A server with all that its client brought.
pub struct Server {
    pub channel: Channel,
    /// Rings, then packets.
    pub regions: Vec<Memory>,
    pub bells: Vec<OwnedFd>,
    pub log2: u8,
}

impl Server {
    /// Takes the port under test, up to its CONNECT, and says `last`; `None` if it does not go on so far.
    pub fn shake(listener: &OwnedFd, last: &Message) -> Option<Self> {
        let channel = Channel::accept(listener)?;
        let (mut regions, mut bells, mut log2) = (Vec::new(), Vec::new(), 0);
        channel.send(&Message::Hello(hello()).emit(), &[]);
        loop {
            let (octets, fd) = channel.receive()?;
            match (Message::parse(&octets).ok()?, fd) {
                (Message::AddRegion(_), Some(fd)) => regions.push(Memory(fd)),
                (Message::AddRing(ring), Some(fd)) => {
                    log2 = ring.log2_ring_size;
                    bells.push(fd);
                }
                (Message::Init(_), _) => {}
                (Message::Connect(_), _) => break,
                _ => return None,
            }
            channel.send(&Message::Ack.emit(), &[]);
        }
        channel.send(&last.emit(), &[]);
        Some(Self {
            channel,
            regions,
            bells,
            log2,
        })
    }

    /// Offset of a ring in the first region: 0 is S2M, 1 is M2S.
    pub fn ring(&self, ring: u64) -> u64 {
        ring * ring_size(self.log2)
    }
}
