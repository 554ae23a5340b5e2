//! What DPDK refuses.

use std::fmt;
use std::io;

/// Why a device cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// DPDK's environment does not start.
    #[error("DPDK does not start with `{arguments}`: {why}")]
    Start {
        /// The arguments of its environment (EAL).
        arguments: String,
        /// What DPDK said.
        why: Why,
    },
    /// It was started for another port in this process, with other arguments.
    #[error(
        "DPDK runs with `eal = \"{0}\"` for another port; say the same for all ports, or only for the first"
    )]
    OtherArguments(String),
    /// A text that C cannot take.
    #[error("`{0}` has a zero in it")]
    Zero(String),
    /// No driver takes the device.
    #[error(
        "DPDK has no device `{device}`: {why}; a card must be there and bound to vfio-pci (`dpdk-devbind.py --status`), \
         a virtual device begins with the name of its driver, such as net_tap0"
    )]
    NoDevice {
        /// The device's name, as asked for.
        device: String,
        /// What DPDK said.
        why: Why,
    },
    /// Another port has it.
    #[error("DPDK's device `{0}` has a port already")]
    InUse(String),
    /// The device uses memory that only DPDK can make.
    #[error("DPDK's device `{device}`: {what}")]
    Unsupported {
        /// The device's name, as asked for.
        device: String,
        /// What, and what to do.
        what: &'static str,
    },
    /// A step that the driver refused.
    #[error("DPDK's device `{device}` ({driver}) refuses {step}: {why}")]
    Refused {
        /// The device's name, as asked for.
        device: String,
        /// Its driver.
        driver: String,
        /// What was to be done.
        step: String,
        /// What DPDK said.
        why: Why,
    },
    /// The packet memory is used up.
    #[error("no packet memory for the {0} frames that DPDK's device receives into")]
    NoFrames(u32),
}

/// An errno value, and what DPDK wrote to its log about it.
#[derive(Debug)]
pub struct Why {
    pub(crate) errno: i32,
    pub(crate) log: Vec<String>,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = io::Error::from_raw_os_error(self.errno).to_string();
        // without "(os error 22)", which says nothing
        f.write_str(text.split(" (os error").next().unwrap_or_default())?;
        for line in &self.log {
            write!(f, "; {line}")?;
        }
        Ok(())
    }
}
