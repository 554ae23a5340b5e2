//! `tap`: a TAP interface for others, with Linux on the other side.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::in_range;
use crate::port::{OpenError, Port, Setup};
use crate::tap::{self, Device};
use crate::{Queue, port};

/// The option that comes first in the short spelling.
pub(super) const FIRST: &str = "interface";

/// A TAP interface for a container, a virtual machine or a bridge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Tap")]
pub struct Options {
    /// Its name. It is made if it is not there.
    pub interface: String,
    /// Queues in each direction, 1 to 16.
    #[serde(default = "super::one")]
    pub queue_pairs: u16,
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tap {}", self.interface)
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

    fn open(&self, setup: &Setup<'_>) -> Result<(Box<dyn Port>, Vec<Queue>), OpenError> {
        let device = Device::open(&self.interface, self.queue_pairs)?;
        let queue = |fd| Ok(Queue::Tap(tap::Queue::new(fd, setup.region.clone())?));
        let queues = device.queues().map(queue).collect::<Result<_, OpenError>>()?;
        Ok((Box::new(device), queues))
    }
}

impl Port for Device {
    /// Whether the other side is in use does not show here.
    fn is_up(&self) -> bool {
        true
    }

    fn close(self: Box<Self>) {
        if let Err(error) = self.set_carrier(false) {
            log::warn!("{error}");
        }
    }
}
