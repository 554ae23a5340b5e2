//! Capture files as ports: a pcap or pcapng file is what is received, and what is transmitted goes
//! to a pcap file.

mod file;
mod queue;

pub use file::FileError;
pub use queue::{Queue, Repeat};
