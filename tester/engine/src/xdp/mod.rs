//! Ports that send and receive in the kernel: live XDP frames by BPF_PROG_RUN out, an XDP program
//! that judges frames in. Both belong to the network namespace of the thread that makes them.
//!
//! A frame costs neither a socket buffer nor a system call, which makes this the fastest way on
//! virtual links. What is sent is exactly what [`crate::generate::Generator`] writes, in its order.
//!
//! Where it differs from the queues of `bora_port`:
//! - Between two calls of some 5 ms the sender is away for some 100 us, and what was due then leaves
//!   as late; the lateness is in [`Sent::lateness`].
//! - What the interface refuses (a veth whose peer's ring is full) is not sent again; it is counted
//!   apart, and its sequence numbers are missing.
//! - The receiver does not compute UDP checksums, so damage behind the signature is not seen.
//! - It counts what comes by the interface's first queue, and fails if frames come by another.

mod job;
mod receiver;
mod sender;

pub use job::{LONGEST, Sent};
pub use receiver::Receiver;
pub use sender::Sender;
