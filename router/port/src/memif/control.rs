//! The control channel's two state machines: what to answer to each message.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bora_buffer::Region;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::readlink;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::client::BUFFERS;
use super::fault::Fault;
use super::memory::{MapError, SharedMemory, same_file};
use super::message::{
    AddRegion, AddRing, Hello, Init, Message, MessageError, Name, VERSION, padded,
};
use super::ring::{Ring, octets};
use super::server::Regions;
use super::signal::Signal;

/// Most regions a client may bring.
const MAX_REGIONS: usize = 256;
/// Largest ring we take from a client, as power of two.
const MAX_LOG2_RING_SIZE: u8 = 14;

/// Which side of the protocol to play.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Connects, and owns the memory (slave).
    Client,
    /// Listens (master).
    Server,
}

/// A memif port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Which side to play.
    pub role: Role,
    /// The control channel's unix socket; `@name` is the abstract address `name` (unix(7)).
    pub socket: PathBuf,
    /// The interface's number on that socket.
    pub id: u32,
    /// What the other side must know too, up to 23 octets; empty for none.
    pub secret: String,
    /// The interface's name, shown to the peer.
    pub name: String,
    /// Queues, each with a ring in each direction; the peer may bring about fewer.
    pub queues: u16,
    /// Slots of each ring as power of two, at most 14; as server the client decides.
    pub log2_ring_size: u8,
    /// Most octets of memory that a client may share with this server. All of it gets pages, on the account
    /// of this process.
    pub memory: u64,
}

/// Why there is no connection any more.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Octets that are no message.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// A message that is not expected in this state.
    #[error("{0} message out of turn")]
    Unexpected(&'static str),
    /// Not version 2.0.
    #[error("the peer does not speak memif version 2.0")]
    Version,
    /// Another interface.
    #[error("no interface with id {0} on this socket")]
    Id(u32),
    /// Secrets differ.
    #[error("wrong secret")]
    Secret,
    /// Regions must be numbered from zero on, up to 256.
    #[error("region {0} out of order")]
    Region(u16),
    /// Memory that cannot be used.
    #[error(transparent)]
    Map(#[from] MapError),
    /// Ring numbers beyond those offered, or twice the same.
    #[error("ring {0} is not one of those offered")]
    Ring(u16),
    /// A ring outside its region, misaligned or without its cookie.
    #[error("ring {index} is not at offset {offset} of region {region}")]
    NoRing {
        /// The ring's number.
        index: u16,
        /// The region it should be in.
        region: u16,
        /// Where in the region.
        offset: u32,
    },
    /// Metadata before packets that Bora has no use for.
    #[error("private headers are not supported")]
    PrivateHeader,
    /// A message without its file descriptor.
    #[error("{0} message without a file descriptor")]
    NoDescriptor(&'static str),
    /// Writing to any other file could block a worker.
    #[error("the descriptor with ring {0} is not an eventfd")]
    NotEventfd(u16),
    /// The peer broke the rules of the rings.
    #[error("{0}")]
    Rings(String),
    /// A file descriptor of the peer keeps a system call waiting, with a FUSE behind it for instance.
    #[error("a descriptor of the peer has kept a call waiting for {0:?}")]
    Hang(Duration),
    /// [`Self::Hang`] has happened too often.
    #[error("{0} calls wait for descriptors of peers; no new peer before one returns")]
    Hangs(usize),
    /// The thread of the connection panicked.
    #[error("the connection failed")]
    Failed,
    /// The port is taken down.
    #[error("port is taken down")]
    Stopped,
    /// The peer sent a disconnect message.
    #[error("the peer disconnected: {0}")]
    Disconnected(String),
    /// The peer closed its socket.
    #[error("the peer has gone")]
    Closed,
    /// The peer says nothing.
    #[error("no answer within {0:?}")]
    Silence(Duration),
    /// The kernel refused.
    #[error("{0}")]
    System(#[from] io::Error),
}

impl From<Fault> for ControlError {
    fn from(fault: Fault) -> Self {
        Self::Rings(fault.to_string())
    }
}

/// The rings of one direction, by index.
type Rings = Vec<Option<Ring>>;

/// What a queue gets when the link goes up.
#[derive(Debug)]
pub(super) struct RingPair {
    pub(super) rx: Option<Ring>,
    pub(super) tx: Option<Ring>,
    /// The peer's regions, if we are the server.
    pub(super) regions: Option<Regions>,
}

/// What follows from a message.
#[derive(Default)]
pub(super) struct Step {
    pub(super) reply: Option<(Message, Option<OwnedFd>)>,
    /// The link is up: the peer's interface name and the rings of each queue.
    pub(super) up: Option<(Name, Vec<RingPair>)>,
}

impl Step {
    fn reply(message: Message) -> Self {
        Self {
            reply: Some((message, None)),
            up: None,
        }
    }
}

/// The side of a connection that we are.
pub(super) enum Peer {
    Client(Client),
    Server(Server),
}

impl Peer {
    pub(super) fn on_message(
        &mut self,
        message: Message,
        fd: Option<OwnedFd>,
    ) -> Result<Step, ControlError> {
        if let Message::Disconnect(disconnect) = message {
            return Err(ControlError::Disconnected(disconnect.reason));
        }
        match self {
            Self::Client(client) => client.on_message(message),
            Self::Server(server) => server.on_message(message, fd),
        }
    }

    /// Looks whether the memory that is shared is still there.
    pub(super) fn check(&self) -> Result<(), MapError> {
        match self {
            Self::Client(_) => Ok(()),
            Self::Server(server) => server.check(),
        }
    }
}

fn pairs(rx: Rings, tx: Rings, queues: u16, regions: Option<Regions>) -> Vec<RingPair> {
    let (mut rx, mut tx) = (rx.into_iter(), tx.into_iter());
    (0..queues)
        .map(|_| RingPair {
            rx: rx.next().flatten(),
            tx: tx.next().flatten(),
            regions: regions.clone(),
        })
        .collect()
}

fn secret(config: &Config) -> [u8; 24] {
    padded(&config.secret)
}

/// We listened: HELLO, then ACK until CONNECT, then CONNECTED.
pub(super) struct Server {
    config: Config,
    /// Bora's packets, which no peer may bring as its own.
    packets: Arc<Region>,
    init: bool,
    connected: bool,
    regions: Vec<Arc<SharedMemory>>,
    s2m: Rings,
    m2s: Rings,
    signal: Arc<Signal>,
}

impl Server {
    /// The machine and its first message.
    pub(super) fn new(
        config: &Config,
        packets: Arc<Region>,
        signal: Arc<Signal>,
    ) -> (Self, Message) {
        let rings = || (0..config.queues).map(|_| None).collect();
        let server = Self {
            config: config.clone(),
            packets,
            init: false,
            connected: false,
            regions: Vec::new(),
            s2m: rings(),
            m2s: rings(),
            signal,
        };
        let hello = Message::Hello(Hello {
            name: Name::new(concat!("bora ", env!("CARGO_PKG_VERSION"))),
            min_version: VERSION,
            max_version: VERSION,
            max_region: (MAX_REGIONS - 1) as u16,
            max_m2s_ring: config.queues.saturating_sub(1),
            max_s2m_ring: config.queues.saturating_sub(1),
            max_log2_ring_size: MAX_LOG2_RING_SIZE,
        });
        (server, hello)
    }

    fn check(&self) -> Result<(), MapError> {
        match self.regions.iter().position(|memory| !memory.is_whole()) {
            Some(region) => Err(MapError::Taken(region)),
            None => Ok(()),
        }
    }

    fn on_message(&mut self, message: Message, fd: Option<OwnedFd>) -> Result<Step, ControlError> {
        let kind = message.kind();
        let fd = fd.ok_or(ControlError::NoDescriptor(kind));
        match (message, self.init, self.connected) {
            (Message::Init(init), false, _) => {
                if init.version != VERSION {
                    return Err(ControlError::Version);
                }
                if init.id != self.config.id {
                    return Err(ControlError::Id(init.id));
                }
                if !self.config.secret.is_empty() && init.secret != secret(&self.config) {
                    return Err(ControlError::Secret);
                }
                self.init = true;
            }
            (Message::AddRegion(region), true, false) => {
                self.add_region(region, fd?)?;
            }
            (Message::AddRing(ring), true, false) => self.add_ring(ring, fd?)?,
            (Message::Connect(name), true, false) => {
                self.connected = true;
                let regions: Regions = self.regions.as_slice().into();
                let (rx, tx) = (std::mem::take(&mut self.s2m), std::mem::take(&mut self.m2s));
                let connected = Message::Connected(Name::new(&self.config.name));
                return Ok(Step {
                    reply: Some((connected, None)),
                    up: Some((name, pairs(rx, tx, self.config.queues, Some(regions)))),
                });
            }
            _ => return Err(ControlError::Unexpected(kind)),
        }
        Ok(Step::reply(Message::Ack))
    }

    fn add_region(&mut self, region: AddRegion, fd: OwnedFd) -> Result<(), ControlError> {
        let count = self.regions.len();
        if usize::from(region.index) != count || count == MAX_REGIONS {
            return Err(ControlError::Region(region.index));
        }
        if same_file(fd.as_fd(), self.packets.fd())? {
            return Err(MapError::Own.into());
        }
        let so_far: u64 = self.regions.iter().map(|memory| memory.mapped()).sum();
        let memory = SharedMemory::of_peer(fd, region.size, self.config.memory - so_far)?;
        self.regions.push(Arc::new(memory));
        Ok(())
    }

    fn add_ring(&mut self, ring: AddRing, fd: OwnedFd) -> Result<(), ControlError> {
        let index = ring.index;
        let rings = if ring.s2m {
            &mut self.s2m
        } else {
            &mut self.m2s
        };
        let place = match rings.get_mut(usize::from(index)) {
            Some(place @ None) => place,
            _ => return Err(ControlError::Ring(index)),
        };
        if ring.private_hdr_size != 0 {
            return Err(ControlError::PrivateHeader);
        }
        check_eventfd(&fd, index)?;
        let mapped = self
            .regions
            .get(usize::from(ring.region))
            .and_then(|memory| Ring::at(memory, ring.offset, ring.log2_ring_size, fd, &self.signal))
            .filter(Ring::has_cookie);
        *place = Some(mapped.ok_or(ControlError::NoRing {
            index,
            region: ring.region,
            offset: ring.offset,
        })?);
        Ok(())
    }
}

/// Only an eventfd can be rung and read without surprises.
fn check_eventfd(fd: &OwnedFd, index: u16) -> Result<(), ControlError> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let target = readlink(path, Vec::new()).map_err(io::Error::from)?;
    if target.as_bytes() != b"anon_inode:[eventfd]" {
        return Err(ControlError::NotEventfd(index));
    }
    Ok(())
}

/// We connected: after HELLO one message for each ACK, until CONNECTED.
pub(super) struct Client {
    config: Config,
    region: Arc<Region>,
    signal: Arc<Signal>,
    greeted: bool,
    to_send: VecDeque<(Message, Option<OwnedFd>)>,
    /// Rings to receive from and rings to send to.
    rings: Option<(Rings, Rings)>,
}

impl Client {
    pub(super) fn new(config: &Config, region: Arc<Region>, signal: Arc<Signal>) -> Self {
        Self {
            config: config.clone(),
            region,
            signal,
            greeted: false,
            to_send: VecDeque::new(),
            rings: None,
        }
    }

    fn on_message(&mut self, message: Message) -> Result<Step, ControlError> {
        match message {
            Message::Hello(hello) if !self.greeted => {
                self.greeted = true;
                self.prepare(&hello)?;
            }
            Message::Ack if self.greeted && !self.to_send.is_empty() => {}
            Message::Connected(name) if self.to_send.is_empty() => {
                let Some((rx, tx)) = self.rings.take() else {
                    return Err(ControlError::Unexpected("CONNECTED"));
                };
                return Ok(Step {
                    reply: None,
                    up: Some((name, pairs(rx, tx, self.config.queues, None))),
                });
            }
            other => return Err(ControlError::Unexpected(other.kind())),
        }
        Ok(Step {
            reply: self.to_send.pop_front(),
            up: None,
        })
    }

    /// Makes the rings, and the messages that tell the server of them.
    fn prepare(&mut self, hello: &Hello) -> Result<(), ControlError> {
        if !(hello.min_version..=hello.max_version).contains(&VERSION) {
            return Err(ControlError::Version);
        }
        if hello.max_region < BUFFERS {
            return Err(ControlError::Region(BUFFERS));
        }
        let config = &self.config;
        let s2m = config.queues.min(hello.max_s2m_ring.saturating_add(1));
        let m2s = config.queues.min(hello.max_m2s_ring.saturating_add(1));
        let log2 = config.log2_ring_size.min(hello.max_log2_ring_size);
        let step = octets(log2).next_multiple_of(128);
        let memory = Arc::new(SharedMemory::new(step * usize::from(s2m + m2s))?);
        let init = Init {
            version: VERSION,
            id: config.id,
            secret: secret(config),
            name: Name::new(concat!("bora ", env!("CARGO_PKG_VERSION"))),
        };
        self.to_send.push_back((Message::Init(init), None));
        self.add_region(0, memory.length(), memory.fd())?;
        let packets = self.region.clone();
        self.add_region(BUFFERS, packets.raw_parts().1, packets.fd())?;
        let mut add = |s2m, index, place: u16| {
            let ring = AddRing {
                s2m,
                index,
                region: 0,
                offset: (step * usize::from(place)) as u32,
                log2_ring_size: log2,
                private_hdr_size: 0,
            };
            self.add_ring(ring, &memory).map(Some)
        };
        let tx: Result<Rings, _> = (0..s2m).map(|index| add(true, index, index)).collect();
        let rx: Result<Rings, _> = (0..m2s)
            .map(|index| add(false, index, s2m + index))
            .collect();
        self.rings = Some((rx?, tx?));
        let connect = Message::Connect(Name::new(&self.config.name));
        self.to_send.push_back((connect, None));
        Ok(())
    }

    fn add_region(
        &mut self,
        index: u16,
        size: usize,
        fd: BorrowedFd<'_>,
    ) -> Result<(), ControlError> {
        let size = size as u64;
        let message = Message::AddRegion(AddRegion { index, size });
        let fd = fd.try_clone_to_owned()?;
        self.to_send.push_back((message, Some(fd)));
        Ok(())
    }

    fn add_ring(
        &mut self,
        message: AddRing,
        memory: &Arc<SharedMemory>,
    ) -> Result<Ring, ControlError> {
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        let interrupt = eventfd(0, flags).map_err(io::Error::from)?;
        let fd = interrupt.try_clone()?;
        let (offset, log2) = (message.offset, message.log2_ring_size);
        self.to_send
            .push_back((Message::AddRing(message), Some(fd)));
        let ring = Ring::at(memory, offset, log2, interrupt, &self.signal);
        let ring = ring.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        ring.init();
        Ok(ring)
    }
}
