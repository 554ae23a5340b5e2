//! Errors of the mirror.

use std::io;

/// Why the mirror cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// A netlink socket could not be made.
    #[error("cannot open the netlink socket for {what}: {source}")]
    Open {
        /// Which socket.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel refused a dump.
    #[error("cannot read {what} from the kernel: {source}")]
    Dump {
        /// What was asked for.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Changes overtook every attempt to compare.
    #[error(
        "the kernel's tables changed all the time, so nothing could be compared; try again when they are quieter"
    )]
    Overtaken,
    /// The mirror itself could not follow the kernel, so that there was nothing to compare.
    #[error("Bora has not read all of the kernel's tables: {0}")]
    Behind(String),
    /// Waiting or reading failed.
    #[error("cannot wait for netlink events: {0}")]
    Wait(#[source] io::Error),
    /// The FIB has no room even for its fixed entries.
    #[error("cannot set up the FIB: {0}")]
    Fib(#[from] bora_fib::FibError),
}
