//! `af_packet`: an interface of Linux through packet sockets, whatever its driver.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::in_range;
use crate::af_packet;
use bora_linux::interface::{Carrier, mac_of};
use crate::port::{OpenError, Port, Setup};
use crate::{Queue, port};

/// The option that comes first in the short spelling.
pub(super) const FIRST: &str = "interface";

/// An interface of Linux through packet sockets, whatever its driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "AfPacket")]
pub struct Options {
    /// Its name.
    pub interface: String,
    /// Sockets, 1 to 16; each gets some of the flows.
    #[serde(default = "super::one")]
    pub queue_pairs: u16,
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "packet sockets on {}", self.interface)
    }
}

impl port::Options for Options {
    fn default_name(&self) -> String {
        format!("bora-{}", self.interface)
    }

    fn check(&self, name: &str) -> Result<(), (&'static str, String)> {
        in_range("queue_pairs", self.queue_pairs, 1..=16)?;
        super::another_interface(&self.interface, name)
    }

    fn ring_slots(&self) -> u32 {
        u32::from(self.queue_pairs) * 512
    }

    /// What the network sends to the interface is for the port.
    fn mac(&self) -> Result<Option<[u8; 6]>, OpenError> {
        Ok(mac_of(&self.interface)?)
    }

    fn leaves_checksums(&self) -> bool {
        true
    }

    fn open(&self, setup: &Setup<'_>) -> Result<(Box<dyn Port>, Vec<Queue>), OpenError> {
        let queues = af_packet::Queue::open(&self.interface, self.queue_pairs, setup.region)?;
        let queues = queues.into_iter().map(Queue::AfPacket).collect();
        let carrier = Carrier::new(&self.interface)?;
        Ok((Box::new(carrier), queues))
    }
}

impl Port for Carrier {
    fn is_up(&self) -> bool {
        Self::is_up(self)
    }
}
