//! One connection's control channel, from waiting for a peer to the disconnect message.
//!
//! It has a thread of its own, because a peer can make it wait: with every message a peer may send a file
//! descriptor, and looking at one of a FUSE, or closing a socket with SO_LINGER, takes as long as its owner
//! wants. So the thread touches nothing but what belongs to the connection, and the port abandons the thread
//! when its heartbeat stops.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bora_buffer::Region;
use rustix::event::{EventfdFlags, eventfd};

use super::control::{Client, Config, ControlError, Peer, RingPair, Server};
use super::message::{Disconnect, Message, Name};
use super::signal::Signal;
use super::socket;
use crate::bell::wake;
use bora_linux::lock;

/// Time between two heartbeats, and between two checks of the peer's memory.
pub(super) const TICK: Duration = Duration::from_millis(50);
/// How long a peer may take until the link is up.
const PATIENCE: Duration = Duration::from_secs(2);

/// What every connection of a port needs.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) config: Config,
    pub(super) region: Arc<Region>,
    pub(super) signal: Arc<Signal>,
    /// The server's socket.
    pub(super) listener: Option<Arc<OwnedFd>>,
}

/// What the port's thread receives.
pub(super) enum Event {
    /// End the port.
    Stop,
    /// The connection of this number has a peer.
    Connected(u64),
    /// Its link is up: the peer's interface name and the rings of each queue.
    Up(u64, Name, Vec<RingPair>),
    /// The connection has ended, and why.
    Over(u64, ControlError),
}

/// A connection, as its port sees it.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) number: u64,
    control: Arc<Control>,
    thread: JoinHandle<()>,
    beats: u32,
    alive: Instant,
}

/// What the port tells the thread, and the heartbeat back.
#[derive(Debug)]
struct Control {
    end: Mutex<Option<ControlError>>,
    wake: OwnedFd,
    beats: AtomicU32,
}

impl Connection {
    /// Starts the thread: it waits for a peer or connects to one, and answers its messages.
    pub(super) fn start(number: u64, setup: &Setup, events: &Sender<Event>) -> io::Result<Self> {
        let control = Arc::new(Control {
            end: Mutex::default(),
            wake: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
            beats: AtomicU32::new(0),
        });
        let protocol = Protocol {
            number,
            setup: setup.clone(),
            control: control.clone(),
            events: events.clone(),
        };
        let thread = thread::Builder::new().name("bora-memif-peer".into());
        Ok(Self {
            number,
            control,
            thread: thread.spawn(move || {
                bora_confine::thread(bora_confine::NONE);
                protocol.run();
            })?,
            beats: 0,
            alive: Instant::now(),
        })
    }

    /// Ends it; the peer is told why.
    pub(super) fn end(&self, error: ControlError) {
        let mut end = lock(&self.control.end);
        end.get_or_insert(error);
        drop(end);
        wake(&self.control.wake);
    }

    /// Time since the last heartbeat.
    pub(super) fn silence(&mut self) -> Duration {
        let beats = self.control.beats.load(Ordering::Relaxed);
        if beats != self.beats {
            (self.beats, self.alive) = (beats, Instant::now());
        }
        self.alive.elapsed()
    }

    /// Whether its thread has ended.
    pub(super) fn is_over(&self) -> bool {
        self.thread.is_finished()
    }
}

/// The thread's part.
struct Protocol {
    number: u64,
    setup: Setup,
    control: Arc<Control>,
    events: Sender<Event>,
}

impl Protocol {
    /// Everything that the peer sent is closed when this returns, after the last event.
    fn run(self) {
        let mut connection = None;
        let error = match self.serve(&mut connection) {
            Err(error) => error,
            Ok(never) => match never {},
        };
        if let Some((socket, _)) = &connection {
            send_disconnect(socket, &error);
        }
        self.tell(Event::Over(self.number, error));
    }

    fn tell(&self, events: Event) {
        #[expect(
            clippy::let_underscore_must_use,
            reason = "nobody receives it if the port has abandoned this connection"
        )]
        let _ = self.events.send(events);
    }

    /// Sends a heartbeat; the error is why the port wants the connection to end.
    fn beat(&self) -> Result<(), ControlError> {
        self.control.beats.fetch_add(1, Ordering::Relaxed);
        let mut end = lock(&self.control.end);
        end.take().map_or(Ok(()), Err)
    }

    fn readable(&self, fd: &OwnedFd) -> io::Result<bool> {
        socket::readable(fd, self.control.wake.as_fd(), TICK)
    }

    fn connect(&self) -> Result<(OwnedFd, Peer), ControlError> {
        let Setup {
            config,
            region,
            signal,
            listener,
        } = &self.setup;
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
    fn serve(
        &self,
        connection: &mut Option<(OwnedFd, Peer)>,
    ) -> Result<std::convert::Infallible, ControlError> {
        let (socket, peer) = connection.insert(self.connect()?);
        self.tell(Event::Connected(self.number));
        let (since, mut up) = (Instant::now(), false);
        loop {
            // checked first: a fault that a worker reports may follow from memory that is gone
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
                self.tell(Event::Up(self.number, name, rings));
            }
        }
    }
}

/// Tells the peer why the connection ends, unless the peer has ended it.
fn send_disconnect(socket: &OwnedFd, error: &ControlError) {
    if matches!(error, ControlError::Closed | ControlError::Disconnected(_)) {
        return;
    }
    let message = Message::Disconnect(Disconnect {
        code: 0,
        reason: error.to_string(),
    });
    if let Err(error) = socket::send(socket, &message.emit(), None) {
        log::debug!("memif: the peer is not told why it ends, and may be gone: {error}");
    }
}
