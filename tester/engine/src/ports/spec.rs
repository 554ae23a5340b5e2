//! What a plan, or `--port`, says of a port.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use bora_port::kinds::{AnyKind, af_packet, memif};
use bora_port::memif::Role;

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

impl PortSpec {
    /// The tester's own address of an IP version.
    pub fn address(&self, v6: bool) -> Option<IpAddr> {
        match v6 {
            true => self.v6.map(|v6| v6.address.into()),
            false => self.v4.map(|v4| v4.address.into()),
        }
    }
}

/// One address of the tester, and the router behind which everything else is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attached<A> {
    /// The tester's own address on the link.
    pub address: A,
    /// Length of the link's prefix.
    pub prefix_length: u8,
    /// The router's address; `None`: no router, frames go to the receiving port's own Ethernet
    /// address (a switch, or a cable).
    pub gateway: Option<A>,
}

impl<A: Into<IpAddr>> Attached<A> {
    /// These addresses, of any IP version.
    pub(super) fn either(self) -> Attached<IpAddr> {
        Attached {
            address: self.address.into(),
            prefix_length: self.prefix_length,
            gateway: self.gateway.map(Into::into),
        }
    }
}

/// How packets come and go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Live XDP frames out, an XDP program in: the fastest on virtual links.
    Xdp(String),
    /// AF_XDP sockets, one a queue, zero-copy where the driver can.
    AfXdp(String),
    /// A kind that the router has, too.
    Port(AnyKind),
    /// A queue in this process, for tests; the number tells which of the queues handed over it is.
    Memory(usize),
}

impl Kind {
    /// Packet sockets on an interface.
    pub fn af_packet(interface: String) -> Self {
        let queue_pairs = 1;
        Self::Port(AnyKind::AfPacket(af_packet::Options {
            interface,
            queue_pairs,
        }))
    }

    /// Shared memory.
    pub fn memif(socket: PathBuf, role: Role) -> Self {
        Self::Port(AnyKind::Memif(memif::Options {
            socket,
            role,
            // the router under test may bring what it likes
            memory: 1 << 20,
            ..memif::Options::default()
        }))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Xdp(interface) => write!(f, "xdp {interface}"),
            Self::AfXdp(interface) => write!(f, "af_xdp {interface}"),
            Self::Port(kind) => write!(f, "{}", kind.options()),
            Self::Memory(number) => write!(f, "memory {number}"),
        }
    }
}
