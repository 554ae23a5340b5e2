//! The process: its runtime directory, rights, threads and CPUs, the calls of its loop, and the lease of the XDP program.

pub(crate) mod calls;
pub(crate) mod clock;
pub(crate) mod cpus;
pub(crate) mod fair;
pub(crate) mod lease;
pub mod private;
pub(crate) mod rights;
pub(crate) mod runtime_dir;
pub(crate) mod threads;
pub(crate) mod timeouts;
pub(crate) mod turns;
