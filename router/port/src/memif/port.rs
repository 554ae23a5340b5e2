//! A memif port: its queues, and a thread that opens one connection to a peer after the other.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bora_buffer::Region;
use bora_confine::Capabilities;

use super::connection::{Connection, Event, Setup, TICK};
use super::control::{Config, ControlError, RingPair, Role};
use super::message::Name;
use super::queue::{Mailbox, Queue};
use super::signal::Signal;
use super::socket;
use bora_linux::lock;

/// A connection whose heartbeat stops for so long is abandoned.
const HANG: Duration = Duration::from_secs(10);
/// Most abandoned connections whose threads have not ended.
const MOST_ABANDONED: usize = 4;
/// How long a port waits for its thread when it is taken down.
const FAREWELL: Duration = Duration::from_secs(2);
/// A peer that stayed for so long may come back at once. Any other one has to wait, each time twice as long, up
/// to [`LONGEST_PAUSE`], because each change of the link is work for Linux and for routing.
const STAY: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

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
    /// The kernel has none, or no more of it.
    #[error("no asynchronous I/O (CONFIG_AIO, fs.aio-max-nr): {0}")]
    Signal(io::Error),
}

/// Whether packets can pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// They cannot, and why.
    Down(String),
    /// They can.
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

/// What the thread and the port's owner share.
#[derive(Debug)]
struct Shared {
    name: String,
    mailboxes: Vec<Arc<Mailbox>>,
    state: Mutex<LinkState>,
}

/// An open port. Dropping it takes the link down.
#[derive(Debug)]
pub struct Port {
    shared: Arc<Shared>,
    /// The server's socket, to be removed in the end.
    socket: Option<PathBuf>,
    events: Sender<Event>,
    thread: Option<JoinHandle<()>>,
}

impl Port {
    /// Opens a port and returns its queues. They work while a peer is connected.
    ///
    /// # Errors
    /// See [`OpenError`]. A client that finds no server yet is no error.
    pub fn open(config: Config, region: Arc<Region>) -> Result<(Self, Vec<Queue>), OpenError> {
        let secret_fits = config.secret.len() < 24;
        if !(1..=256).contains(&config.queues) || config.log2_ring_size > 14 || !secret_fits {
            return Err(OpenError::Config);
        }
        let listener = match config.role {
            Role::Client => None,
            Role::Server => Some(listen(&config.socket)?),
        };
        let mailboxes: Vec<Arc<Mailbox>> = (0..config.queues).map(|_| Arc::default()).collect();
        let queues = mailboxes
            .iter()
            .map(|mailbox| Queue::new(region.clone(), mailbox.clone()))
            .collect();
        let shared = Arc::new(Shared {
            name: config.name.clone(),
            mailboxes,
            state: Mutex::new(LinkState::Down("no peer yet".into())),
        });
        let socket = (config.role == Role::Server).then(|| config.socket.clone());
        let (events, inbox) = channel();
        let thread = PortThread {
            shared: shared.clone(),
            setup: Setup {
                config,
                region,
                signal: Arc::new(Signal::new().map_err(OpenError::Signal)?),
                listener: listener.map(Arc::new),
            },
            events: events.clone(),
            inbox,
            last_number: 0,
            abandoned: Vec::new(),
        };
        let thread = thread::Builder::new()
            .name("bora-memif".into())
            .spawn(move || {
                // the socket may be another user's
                bora_confine::thread(Capabilities::DAC_OVERRIDE);
                thread.run();
            })
            .map_err(OpenError::Thread)?;
        let port = Self {
            shared,
            socket,
            events,
            thread: Some(thread),
        };
        Ok((port, queues))
    }

    /// Whether packets can pass. The queues change with it when their workers next use them.
    pub fn link_state(&self) -> LinkState {
        lock(&self.shared.state).clone()
    }
}

fn listen(path: &Path) -> Result<OwnedFd, OpenError> {
    socket::listen_at(path).map_err(|source| {
        let socket = path.display().to_string();
        match source.kind() {
            io::ErrorKind::AddrInUse => OpenError::InUse(socket),
            _ => OpenError::Listen { socket, source },
        }
    })
}

impl Drop for Port {
    fn drop(&mut self) {
        #[expect(
            clippy::let_underscore_must_use,
            reason = "the thread has ended if it does not receive that"
        )]
        let _ = self.events.send(Event::Stop);
        if let Some(thread) = self.thread.take() {
            wait_for(FAREWELL, || thread.is_finished());
        }
        if let Some(socket) = &self.socket {
            socket::remove(socket);
        }
    }
}

/// Polls every millisecond; false if the time is over before.
fn wait_for(patience: Duration, is_so: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !is_so() {
        if start.elapsed() > patience {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
    true
}

impl Shared {
    fn set_state(&self, state: LinkState) {
        let mut now = lock(&self.state);
        if *now != state {
            log::info!("memif {}: {state}", self.name);
            *now = state;
        }
    }

    /// Gives the queues their rings.
    fn up(&self, name: &Name, rings: Vec<RingPair>) {
        self.set_state(LinkState::Up {
            peer: name.to_string(),
            rx_rings: rings.iter().filter(|pair| pair.rx.is_some()).count(),
            tx_rings: rings.iter().filter(|pair| pair.tx.is_some()).count(),
        });
        for (mailbox, pair) in self.mailboxes.iter().zip(rings) {
            mailbox.put(Some(pair));
        }
    }

    /// Takes the queues' rings away.
    fn down(&self, error: &ControlError) {
        for mailbox in &self.mailboxes {
            mailbox.put(None);
        }
        self.set_state(LinkState::Down(error.to_string()));
    }
}

/// How a connection ended.
struct End {
    error: ControlError,
    /// How long the peer stayed, if there was one.
    stay: Option<Duration>,
    /// The port is to end, too.
    stop: bool,
}

/// The port's thread.
struct PortThread {
    shared: Arc<Shared>,
    setup: Setup,
    events: Sender<Event>,
    inbox: Receiver<Event>,
    /// The number of the last connection.
    last_number: u64,
    abandoned: Vec<Connection>,
}

impl PortThread {
    fn run(mut self) {
        let mut pause = TICK;
        while let Some(stay) = self.run_connection() {
            let wait = match stay {
                None => TICK,
                Some(stay) => {
                    pause = if stay > STAY {
                        TICK
                    } else {
                        LONGEST_PAUSE.min(2 * pause)
                    };
                    pause
                }
            };
            let end = Instant::now() + wait;
            while let Some(rest) = end.checked_duration_since(Instant::now()) {
                self.clean_up();
                // an error is that the time is over
                if let Ok(Event::Stop) = self.inbox.recv_timeout(rest.min(TICK)) {
                    return;
                }
            }
        }
    }

    /// Unmaps rings that the queues no longer use, and forgets abandoned connections that have ended.
    fn clean_up(&mut self) {
        for mailbox in &self.shared.mailboxes {
            drop(mailbox.take_old());
        }
        self.abandoned.retain(|connection| !connection.is_over());
    }

    /// Opens a connection and follows it to its end. Returns how long there was a peer, if there was one;
    /// `None` if the port is to end.
    fn run_connection(&mut self) -> Option<Option<Duration>> {
        if self.abandoned.len() == MOST_ABANDONED {
            self.shared.down(&ControlError::Hangs(MOST_ABANDONED));
            return Some(None);
        }
        self.last_number += 1;
        let mut connection = match Connection::start(self.last_number, &self.setup, &self.events) {
            Ok(connection) => connection,
            Err(error) => {
                self.shared.down(&error.into());
                return Some(None);
            }
        };
        let end = self.follow(&mut connection);
        self.shared.down(&end.error);
        if !wait_for(TICK, || connection.is_over()) {
            self.abandoned.push(connection);
        }
        (!end.stop).then_some(end.stay)
    }

    /// Follows a connection until it ends or is abandoned.
    fn follow(&mut self, connection: &mut Connection) -> End {
        let (mut connected, mut stop) = (None, false);
        let error = loop {
            let is_over = connection.is_over();
            match self.inbox.recv_timeout(TICK) {
                Ok(Event::Stop) => {
                    stop = true;
                    connection.end(ControlError::Stopped);
                }
                Ok(Event::Connected(number)) if number == connection.number => {
                    connected = Some(Instant::now());
                }
                Ok(Event::Up(number, name, rings)) if number == connection.number => {
                    self.shared.up(&name, rings);
                }
                Ok(Event::Over(number, error)) if number == connection.number => break error,
                // a connection that was abandoned
                Ok(Event::Connected(_) | Event::Up(..) | Event::Over(..)) => {}
                // the thread ended without an event: it panicked
                Err(_) if is_over => break ControlError::Failed,
                Err(_) => self.clean_up(),
            }
            for fault in self
                .shared
                .mailboxes
                .iter()
                .filter_map(|mailbox| mailbox.take_fault())
            {
                connection.end(fault.into());
            }
            let patience = if stop { FAREWELL / 2 } else { HANG };
            if connection.silence() > patience {
                break ControlError::Hang(patience);
            }
        };
        let stay = connected.map(|connected| connected.elapsed());
        End { error, stay, stop }
    }
}
