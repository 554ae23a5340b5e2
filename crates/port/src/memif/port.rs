//! A memif port: a thread that keeps the control channel, and the queues it serves.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bora_buffer::Region;

use super::control::{Client, Config, ControlError, Peer, Role, Server};
use super::message::{Disconnect, Message};
use super::queue::{Mailbox, Queue};
use super::socket;

/// How often the thread looks whether it is to end, or whether a queue complains.
const TICK: Duration = Duration::from_millis(50);
/// How long a peer may be silent before the link is up.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why a port cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A server is already there.
    #[error("{0} is in use by another memif server; give each port a socket of its own")]
    InUse(String),
    /// No queue, or too long a secret, or too large a ring.
    #[error(
        "a memif port needs 1 to 256 queues, rings of at most 2^14 slots and a secret of at most 23 octets"
    )]
    Config,
    /// The kernel refused.
    #[error("cannot listen on {socket}: {source}")]
    Listen {
        /// The socket's path.
        socket: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// No thread for the control channel.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// Whether packets can pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// No, and why.
    Down(String),
    /// Yes.
    Up {
        /// The peer's interface name.
        peer: String,
        /// Queues that can receive.
        rx_rings: usize,
        /// Queues that can send.
        tx_rings: usize,
    },
}

impl fmt::Display for LinkState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Down(reason) => write!(f, "down: {reason}"),
            Self::Up {
                peer,
                rx_rings,
                tx_rings,
            } => write!(
                f,
                "up: peer {peer}, {rx_rings} rings to receive, {tx_rings} to send"
            ),
        }
    }
}

#[derive(Debug)]
struct Shared {
    config: Config,
    region: Arc<Region>,
    mailboxes: Vec<Arc<Mailbox>>,
    state: Mutex<LinkState>,
    stop: AtomicBool,
}

/// An open port. Dropping it takes the link down.
#[derive(Debug)]
pub struct Port {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Port {
    /// Opens a port and returns its queues, which come to life when a peer has connected, and
    /// again when it, or another, has come back.
    ///
    /// # Errors
    /// See [`OpenError`]. That a client finds no server yet is none.
    pub fn open(config: Config, region: Arc<Region>) -> Result<(Self, Vec<Queue>), OpenError> {
        let secret_fits = config.secret.len() < 24;
        if !(1..=256).contains(&config.queues) || config.log2_ring_size > 14 || !secret_fits {
            return Err(OpenError::Config);
        }
        let listener = match config.role {
            Role::Client => None,
            Role::Server => Some(socket::listen_at(&config.socket).map_err(|source| {
                let socket = config.socket.display().to_string();
                if source.kind() == io::ErrorKind::AddrInUse {
                    OpenError::InUse(socket)
                } else {
                    OpenError::Listen { socket, source }
                }
            })?),
        };
        let mailboxes: Vec<Arc<Mailbox>> = (0..config.queues).map(|_| Arc::default()).collect();
        let queues = mailboxes
            .iter()
            .map(|mailbox| Queue::new(region.clone(), mailbox.clone()))
            .collect();
        let shared = Arc::new(Shared {
            config,
            region,
            mailboxes,
            state: Mutex::new(LinkState::Down("no peer yet".into())),
            stop: AtomicBool::new(false),
        });
        let runner = shared.clone();
        let thread = thread::Builder::new()
            .name("bora-memif".into())
            .spawn(move || runner.run(listener))
            .map_err(OpenError::Thread)?;
        let port = Self {
            shared,
            thread: Some(thread),
        };
        Ok((port, queues))
    }

    /// Whether packets can pass. The queues follow when their worker next looks.
    pub fn link_state(&self) -> LinkState {
        let state = self.shared.state.lock();
        state.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if self.shared.config.role == Role::Server {
            socket::remove(&self.shared.config.socket);
        }
    }
}

impl Shared {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn set_state(&self, state: LinkState) {
        let mut now = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if *now != state {
            log::info!("memif {}: {state}", self.config.name);
            *now = state;
        }
    }

    fn run(&self, listener: Option<OwnedFd>) {
        while !self.stopped() {
            let result = match &listener {
                Some(listener) => self.accept(listener),
                None => socket::connect_to(&self.config.socket)
                    .map_err(ControlError::from)
                    .and_then(|socket| {
                        let client = Client::new(&self.config, self.region.clone());
                        self.serve(&socket, Peer::Client(client))
                    }),
            };
            if let Err(error) = result {
                self.set_state(LinkState::Down(error.to_string()));
                thread::sleep(TICK);
            }
        }
    }

    fn accept(&self, listener: &OwnedFd) -> Result<(), ControlError> {
        if !socket::readable(listener, TICK)? {
            return Ok(());
        }
        let socket = socket::accept_from(listener)?;
        let (server, hello) = Server::new(&self.config)?;
        socket::send(&socket, &hello.emit(), None)?;
        self.serve(&socket, Peer::Server(server))
    }

    /// Keeps a connection until it ends.
    fn serve(&self, socket: &OwnedFd, peer: Peer) -> Result<(), ControlError> {
        let result = self.converse(socket, peer);
        for mailbox in &self.mailboxes {
            mailbox.put(None);
        }
        let farewell = match &result {
            Err(ControlError::Closed | ControlError::Disconnected(_)) => return result,
            Err(error) => error.to_string(),
            Ok(()) => "port is taken down".into(),
        };
        let message = Message::Disconnect(Disconnect {
            code: 0,
            reason: farewell,
        });
        // the peer may be gone already
        let _ = socket::send(socket, &message.emit(), None);
        result
    }

    /// Answers messages; ends well only if the port is to end.
    fn converse(&self, socket: &OwnedFd, mut peer: Peer) -> Result<(), ControlError> {
        let (since, mut up) = (Instant::now(), false);
        while !self.stopped() {
            let fault = self
                .mailboxes
                .iter()
                .find_map(|mailbox| mailbox.take_fault());
            if let Some(fault) = fault {
                return Err(fault.into());
            }
            if !up && since.elapsed() > PATIENCE {
                return Err(ControlError::Silence(PATIENCE));
            }
            if !socket::readable(socket, TICK)? {
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
                self.set_state(LinkState::Up {
                    peer: name.to_string(),
                    rx_rings: rings.iter().filter(|pair| pair.rx.is_some()).count(),
                    tx_rings: rings.iter().filter(|pair| pair.tx.is_some()).count(),
                });
                for (mailbox, pair) in self.mailboxes.iter().zip(rings) {
                    mailbox.put(Some(pair));
                }
            }
        }
        Ok(())
    }
}
