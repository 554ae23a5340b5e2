//! A memif port: a thread that keeps one conversation with a peer after the other, and the queues it serves.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bora_buffer::Region;

use super::control::{Config, ControlError, RingPair, Role};
use super::conversation::{Conversation, News, TICK, Terms};
use super::message::Name;
use super::queue::{Mailbox, Queue};
use super::signal::Signal;
use super::socket;

/// A conversation that gives no sign of life for so long is left behind.
const HANG: Duration = Duration::from_secs(10);
/// Most conversations that hang.
const MOST_HANGING: usize = 4;
/// How long a port waits for its thread when it is taken down.
const FAREWELL: Duration = Duration::from_secs(2);
/// A peer that stays for so long is met again at once when it comes back. One that does not waits, each
/// time twice as long, up to [`LONGEST_PAUSE`]: each coming and going is work for Linux and for routing.
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
    /// As server, to be removed in the end.
    socket: Option<PathBuf>,
    news: Sender<News>,
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
            name: config.name.clone(),
            mailboxes,
            state: Mutex::new(LinkState::Down("no peer yet".into())),
        });
        let socket = (config.role == Role::Server).then(|| config.socket.clone());
        let (news, inbox) = channel();
        let keeper = Keeper {
            shared: shared.clone(),
            terms: Terms {
                config,
                region,
                signal: Arc::new(Signal::new().map_err(OpenError::Signal)?),
                listener: listener.map(Arc::new),
            },
            news: news.clone(),
            inbox,
            met: 0,
            hanging: Vec::new(),
        };
        let thread = thread::Builder::new()
            .name("bora-memif".into())
            .spawn(move || keeper.run())
            .map_err(OpenError::Thread)?;
        let port = Self {
            shared,
            socket,
            news,
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
        let _ = self.news.send(News::Stop);
        if let Some(thread) = self.thread.take() {
            wait_for(FAREWELL, || thread.is_finished());
        }
        if let Some(socket) = &self.socket {
            socket::remove(socket);
        }
    }
}

/// Looks every millisecond; false if it is not so in time.
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
        let mut now = self.state.lock().unwrap_or_else(PoisonError::into_inner);
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

/// How a conversation came to its end.
struct End {
    error: ControlError,
    /// How long the peer stayed, if there was one.
    stay: Option<Duration>,
    /// The port is to end, too.
    stop: bool,
}

/// The port's thread.
struct Keeper {
    shared: Arc<Shared>,
    terms: Terms,
    news: Sender<News>,
    inbox: Receiver<News>,
    /// Conversations so far; their numbers.
    met: u64,
    hanging: Vec<Conversation>,
}

impl Keeper {
    fn run(mut self) {
        let mut pause = TICK;
        while let Some(stay) = self.hold() {
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
                self.tidy();
                if let Ok(News::Stop) = self.inbox.recv_timeout(rest.min(TICK)) {
                    return;
                }
            }
        }
    }

    /// Unmaps what queues have done with.
    fn tidy(&mut self) {
        for mailbox in &self.shared.mailboxes {
            drop(mailbox.take_old());
        }
        self.hanging.retain(|conversation| !conversation.is_over());
    }

    /// One conversation, from its beginning to its end. Returns how long there was a peer, if there was
    /// one; nothing if the port is to end.
    fn hold(&mut self) -> Option<Option<Duration>> {
        if self.hanging.len() == MOST_HANGING {
            self.shared.down(&ControlError::Hangs(MOST_HANGING));
            return Some(None);
        }
        self.met += 1;
        let mut conversation = match Conversation::start(self.met, &self.terms, &self.news) {
            Ok(conversation) => conversation,
            Err(error) => {
                self.shared.down(&error.into());
                return Some(None);
            }
        };
        let end = self.follow(&mut conversation);
        self.shared.down(&end.error);
        if !wait_for(TICK, || conversation.is_over()) {
            self.hanging.push(conversation);
        }
        (!end.stop).then_some(end.stay)
    }

    /// What a conversation comes to.
    fn follow(&mut self, conversation: &mut Conversation) -> End {
        let (mut met, mut stop) = (None, false);
        let error = loop {
            let is_over = conversation.is_over();
            match self.inbox.recv_timeout(TICK) {
                Ok(News::Stop) => {
                    stop = true;
                    conversation.end(ControlError::Stopped);
                }
                Ok(News::Met(number)) if number == conversation.number => {
                    met = Some(Instant::now());
                }
                Ok(News::Up(number, name, rings)) if number == conversation.number => {
                    self.shared.up(&name, rings);
                }
                Ok(News::Over(number, error)) if number == conversation.number => break error,
                // of one that was left behind
                Ok(News::Met(_) | News::Up(..) | News::Over(..)) => {}
                // it would have said so
                Err(_) if is_over => break ControlError::Failed,
                Err(_) => self.tidy(),
            }
            for fault in self
                .shared
                .mailboxes
                .iter()
                .filter_map(|mailbox| mailbox.take_fault())
            {
                conversation.end(fault.into());
            }
            let patience = if stop { FAREWELL / 2 } else { HANG };
            if conversation.silence() > patience {
                break ControlError::Hang(patience);
            }
        };
        let stay = met.map(|met| met.elapsed());
        End { error, stay, stop }
    }
}
