//! What a plan, or `--port`, says of a port.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

/// A port of the tester.
#[derive(Clone, Debug, PartialEq)]
pub struct PortSpec {
    /// Its name in the plan and in reports.
    pub name: String,
    /// How packets come and go.
    pub kind: Kind,
    /// Network namespace of the interface, by name; `None`: where the tester runs.
    pub netns: Option<String>,
    /// The tester's addresses on the link.
    pub v4: Option<Attached<Ipv4Addr>>,
    /// See `v4`.
    pub v6: Option<Attached<Ipv6Addr>>,
    /// Bits a second; `None`: as Linux says of the interface.
    pub speed: Option<f64>,
    /// CPU of the thread that serves the port; `None`: the tester chooses.
    pub cpu: Option<u32>,
}

/// One address of the tester, and the router behind which everything else is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attached<A> {
    /// The tester's own address on the link.
    pub address: A,
    /// Of the link's prefix.
    pub prefix_length: u8,
    /// The router's address; `None`: no router, frames go to the receiving port's own Ethernet
    /// address (a switch, or a cable).
    pub gateway: Option<A>,
}

/// How packets come and go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Live XDP frames out, an XDP program in: the fastest on virtual links.
    Xdp(String),
    /// AF_XDP sockets, one a queue, zero-copy where the driver can.
    AfXdp(String),
    /// Packet sockets: on every interface.
    AfPacket(String),
    /// Shared memory.
    Memif {
        /// Its control socket.
        socket: PathBuf,
        /// Whether to listen there instead of connecting.
        server: bool,
    },
    /// In this process, for tests; the number tells which of the queues handed over it is.
    Memory(usize),
}
