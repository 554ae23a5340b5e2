//! One connection's control channel, from waiting for a peer to the farewell.
//!
//! It has a thread of its own, because a peer can make it wait: with every message it may send a file
//! descriptor, and to look at one of a FUSE, or to close a socket with SO_LINGER, takes as long as its owner
//! wants. So the thread touches nothing but what came with the connection, and who started it leaves it
//! behind when it no longer shows that it lives.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bora_buffer::Region;
use rustix::event::{EventfdFlags, eventfd};

use super::control::{Client, Config, ControlError, Peer, RingPair, Server};
use super::message::{Disconnect, Message, Name};
use super::signal::Signal;
use super::socket;

/// How often a conversation shows that it lives, and looks at the peer's memory.
pub(super) const TICK: Duration = Duration::from_millis(50);
/// How long a peer may take until the link is up.
const PATIENCE: Duration = Duration::from_secs(2);

/// What every conversation of a port needs.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    pub(super) config: Config,
    pub(super) region: Arc<Region>,
    pub(super) signal: Arc<Signal>,
    /// As server.
    pub(super) listener: Option<Arc<OwnedFd>>,
}

/// What the port is told.
pub(super) enum News {
    /// The port is to end.
    Stop,
    /// A conversation, by its number, has a peer.
    Met(u64),
    /// Its link is up: the peer's interface name and the rings of each queue.
    Up(u64, Name, Vec<RingPair>),
    /// It is over, and why.
    Over(u64, ControlError),
}

/// A conversation as its port sees it.
#[derive(Debug)]
pub(super) struct Conversation {
    pub(super) number: u64,
    orders: Arc<Orders>,
    thread: JoinHandle<()>,
    beats: u32,
    alive: Instant,
}

/// From the port to the thread, and a sign of life back.
#[derive(Debug)]
struct Orders {
    end: Mutex<Option<ControlError>>,
    wake: OwnedFd,
    beats: AtomicU32,
}

impl Conversation {
    /// Waits for a peer, or connects to one, and talks to it.
    pub(super) fn start(number: u64, terms: &Terms, news: &Sender<News>) -> io::Result<Self> {
        let orders = Arc::new(Orders {
            end: Mutex::default(),
            wake: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
            beats: AtomicU32::new(0),
        });
        let talk = Talk {
            number,
            terms: terms.clone(),
            orders: orders.clone(),
            news: news.clone(),
        };
        let thread = thread::Builder::new().name("bora-memif-peer".into());
        Ok(Self {
            number,
            orders,
            thread: thread.spawn(move || talk.run())?,
            beats: 0,
            alive: Instant::now(),
        })
    }

    /// Ends it; the peer is told why.
    pub(super) fn end(&self, error: ControlError) {
        let mut end = self
            .orders
            .end
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        end.get_or_insert(error);
        drop(end);
        let _ = rustix::io::write(&self.orders.wake, &1u64.to_ne_bytes());
    }

    /// How long it has given no sign of life.
    pub(super) fn silence(&mut self) -> Duration {
        let beats = self.orders.beats.load(Ordering::Relaxed);
        if beats != self.beats {
            (self.beats, self.alive) = (beats, Instant::now());
        }
        self.alive.elapsed()
    }

    /// Whether its thread has let go of everything.
    pub(super) fn is_over(&self) -> bool {
        self.thread.is_finished()
    }
}

/// The thread's part.
struct Talk {
    number: u64,
    terms: Terms,
    orders: Arc<Orders>,
    news: Sender<News>,
}

impl Talk {
    /// All that the peer sent is closed when this returns, after the news.
    fn run(self) {
        let mut connection = None;
        let error = match self.converse(&mut connection) {
            Err(error) => error,
            Ok(never) => match never {},
        };
        if let Some((socket, _)) = &connection {
            farewell(socket, &error);
        }
        self.tell(News::Over(self.number, error));
    }

    /// Who does not listen has left this conversation behind.
    fn tell(&self, news: News) {
        let _ = self.news.send(news);
    }

    /// To be called again and again.
    fn beat(&self) -> Result<(), ControlError> {
        self.orders.beats.fetch_add(1, Ordering::Relaxed);
        let mut end = self
            .orders
            .end
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        end.take().map_or(Ok(()), Err)
    }

    fn readable(&self, fd: &OwnedFd) -> io::Result<bool> {
        socket::readable(fd, self.orders.wake.as_fd(), TICK)
    }

    fn meet(&self) -> Result<(OwnedFd, Peer), ControlError> {
        let Terms {
            config,
            region,
            signal,
            listener,
        } = &self.terms;
        let Some(listener) = listener else {
            let socket = socket::connect_to(&config.socket)?;
            let client = Client::new(config, region.clone(), signal.clone());
            return Ok((socket, Peer::Client(client)));
        };
        while !self.readable(listener)? {
            self.beat()?;
        }
        let socket = socket::accept_from(listener)?;
        let (server, hello) = Server::new(config, region.clone(), signal.clone());
        socket::send(&socket, &hello.emit(), None)?;
        Ok((socket, Peer::Server(server)))
    }

    /// Answers messages until there is a reason to end.
    fn converse(
        &self,
        connection: &mut Option<(OwnedFd, Peer)>,
    ) -> Result<std::convert::Infallible, ControlError> {
        let (socket, peer) = connection.insert(self.meet()?);
        self.tell(News::Met(self.number));
        let (since, mut up) = (Instant::now(), false);
        loop {
            // what a worker complains of follows from memory that is gone
            let order = self.beat();
            peer.check()?;
            order?;
            if !up && since.elapsed() > PATIENCE {
                return Err(ControlError::Silence(PATIENCE));
            }
            if !self.readable(socket)? {
                continue;
            }
            let (octets, fd) = socket::receive(socket)?;
            if octets.is_empty() {
                return Err(ControlError::Closed);
            }
            let step = peer.on_message(Message::parse(&octets)?, fd)?;
            if let Some((message, fd)) = step.reply {
                socket::send(socket, &message.emit(), fd.as_ref().map(AsFd::as_fd))?;
            }
            if let Some((name, rings)) = step.up {
                up = true;
                self.tell(News::Up(self.number, name, rings));
            }
        }
    }
}

/// Tells the peer why, unless it knows.
fn farewell(socket: &OwnedFd, error: &ControlError) {
    if matches!(error, ControlError::Closed | ControlError::Disconnected(_)) {
        return;
    }
    let message = Message::Disconnect(Disconnect {
        code: 0,
        reason: error.to_string(),
    });
    // the peer may be gone already
    let _ = socket::send(socket, &message.emit(), None);
}
