//! memif, the shared memory packet interface of libmemif 4.x, VPP and DPDK (protocol version 2.0).
//!
//! The client owns the memory, the server listens on a unix socket. With Bora as client its whole
//! [`bora_buffer::Region`] is the buffer region and nothing is copied, but the peer can then read
//! and write every packet Bora holds: connect only to servers that may. With Bora as server
//! packets are copied from and to the peer's buffers, and a peer can do no more than send bad packets:
//! whatever it writes to the rings or to its messages, whatever descriptors it sends, and if it takes its
//! memory away, it loses its link and nothing else happens.

mod client;
mod connection;
mod control;
mod fault;
mod memory;
mod message;
mod port;
mod queue;
mod ring;
mod server;
mod sigbus;
mod signal;
mod socket;

pub use control::{Config, ControlError, Role};
pub use message::{
    AddRegion, AddRing, Disconnect, Hello, Init, MESSAGE_SIZE, Message, MessageError, Name,
};
pub use port::{LinkState, OpenError, Port};
pub use queue::Queue;
