//! `pcap`: capture files instead of a wire.

use std::fmt;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::pcap::{self, Repeat};
use crate::port::{OpenError, Port, Setup};
use crate::{Queue, port};

/// The option that comes first in the short spelling.
pub(super) const FIRST: &str = "file";

/// Capture files instead of a wire.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Pcap")]
pub struct Options {
    /// The pcap or pcapng file whose packets are received.
    pub file: PathBuf,
    /// Whether they are received again and again.
    pub repeat: bool,
    /// The pcap file to write what is sent to, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out: Option<PathBuf>,
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "capture file {}", self.file.display())
    }
}

impl port::Options for Options {
    fn default_name(&self) -> String {
        "pcap0".into()
    }

    fn check(&self, _: &str) -> Result<(), (&'static str, String)> {
        if self.file.as_os_str().is_empty() {
            return Err(("file", "a pcap port needs a capture file to receive".into()));
        }
        Ok(())
    }

    fn open(&self, setup: &Setup<'_>) -> Result<(Box<dyn Port>, Vec<Queue>), OpenError> {
        let repeat = match self.repeat {
            true => Repeat::Forever,
            false => Repeat::Once,
        };
        let input = Some((self.file.as_path(), repeat));
        let queue = pcap::Queue::open(input, self.out.as_deref(), setup.region.clone())?;
        Ok((Box::new(Files), vec![Queue::Pcap(queue)]))
    }
}

#[derive(Debug)]
struct Files;

impl Port for Files {
    fn is_up(&self) -> bool {
        true
    }
}
