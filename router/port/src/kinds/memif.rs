//! `memif`: memory shared with another process.

use std::fmt;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::in_range;
use crate::memif::{Config, LinkState, Role};
use crate::port::{self, OpenError, Setup};
use crate::{Queue, memif};

/// The option that comes first in the short spelling.
pub(super) const FIRST: &str = "socket";
/// Longest secret, octets.
const SECRET: usize = 23;

/// Memory shared with another process: VPP, DPDK, another Bora.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Memif")]
pub struct Options {
    /// The control socket: a path, or `@NAME` for an abstract one.
    pub socket: PathBuf,
    /// `server` listens at the socket, `client` connects to it.
    pub role: Role,
    /// Number of the link, where several share a socket.
    pub id: u32,
    /// Queues in each direction, 1 to 16.
    pub queue_pairs: u16,
    /// Slots of each ring as a power of two, 4 to 14.
    pub ring: u8,
    /// What both sides must know, 23 octets at most.
    pub secret: String,
    /// Most memory that a client may share with this server, MiB, 1 to 1048576.
    pub memory: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            socket: PathBuf::new(),
            role: Role::Client,
            id: 0,
            queue_pairs: 1,
            ring: 10,
            secret: String::new(),
            memory: 1024,
        }
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = match self.role {
            Role::Client => "client",
            Role::Server => "server",
        };
        let socket = self.socket.display();
        write!(f, "memif {role} at {socket}, id {}", self.id)
    }
}

impl port::Options for Options {
    fn default_name(&self) -> String {
        format!("memif{}", self.id)
    }

    fn check(&self, _: &str) -> Result<(), (&'static str, String)> {
        if self.socket.as_os_str().is_empty() {
            let what = "a memif port needs the path of a unix socket";
            return Err(("socket", what.into()));
        }
        in_range("queue_pairs", self.queue_pairs, 1..=16)?;
        in_range("ring", self.ring, 4..=14)?;
        in_range("memory", self.memory, 1..=1 << 20)?;
        if self.secret.len() > SECRET {
            let what = format!("the secret has more than {SECRET} octets");
            return Err(("secret", what));
        }
        Ok(())
    }

    fn ring_slots(&self) -> u32 {
        u32::from(self.queue_pairs) << (self.ring + 1)
    }

    fn open(&self, setup: &Setup<'_>) -> Result<(Box<dyn port::Port>, Vec<Queue>), OpenError> {
        let config = Config {
            role: self.role,
            socket: self.socket.clone(),
            id: self.id,
            secret: self.secret.clone(),
            name: setup.name.into(),
            queues: self.queue_pairs,
            log2_ring_size: self.ring,
            memory: u64::from(self.memory) << 20,
        };
        let (port, queues) = memif::Port::open(config, setup.region.clone())?;
        let queues = queues.into_iter().map(Queue::Memif).collect();
        Ok((Box::new(port), queues))
    }
}

impl port::Port for memif::Port {
    fn is_up(&self) -> bool {
        matches!(self.link_state(), LinkState::Up { .. })
    }

    fn state(&self) -> Option<String> {
        Some(self.link_state().to_string())
    }
}
