//! What is asked: what becomes of a packet.

use std::fmt;
use std::net::IpAddr;

use bora_fib::PortId;
use bora_wire::{MacAddr, Protocol, ipv4, udp};

/// A port or device that packets come in by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Bora's number of it.
    pub number: PortId,
    /// Linux's number of it.
    pub ifindex: u32,
    /// Its name.
    pub name: String,
    /// Its Ethernet address, which packets that are to be forwarded have.
    pub mac: MacAddr,
    /// Whether all IPv4, and all IPv6, that comes in there is left to Linux.
    pub to_linux: [bool; 2],
    /// Whether sources of its IPv4 packets are looked up (rp_filter).
    pub checks_sources: bool,
    /// Whether the XDP program decides about its packets, or gives them to the engine.
    pub has_program: bool,
}

/// Octets of a question's frame; room for the headers of IPv6 and UDP.
pub(crate) const LENGTH: usize = 90;

/// A packet. Both addresses are of one IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Question {
    /// Place of what it comes in by in the list of inputs.
    pub input: usize,
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// TOS or traffic class.
    pub tos: u8,
    /// UDP or TCP.
    pub protocol: Protocol,
    /// Source and destination port.
    pub ports: [u16; 2],
}

impl Question {
    /// A UDP packet without a TOS.
    pub fn new(input: usize, source: IpAddr, destination: IpAddr) -> Self {
        Self {
            input,
            source,
            destination,
            tos: 0,
            protocol: Protocol::UDP,
            ports: [4000, 9],
        }
    }

    /// Writes the packet, as it comes in by `input`.
    pub(crate) fn write(&self, input: &Input, octets: &mut [u8]) {
        octets.fill(0);
        let headers = udp::Frame {
            dst_mac: input.mac,
            tos: self.tos,
            src_port: self.ports[0],
            dst_port: self.ports[1],
            ..udp::Frame::new(self.source, self.destination)
        };
        // where it does not fit, it is a packet that is none
        if headers.emit(octets).is_err() {
            return;
        }
        if self.is_v6() {
            octets[20] = self.protocol.0;
        } else {
            octets[23] = self.protocol.0;
            ipv4::Packet::new_unchecked(&mut octets[14..]).fill_checksum();
        }
    }

    /// Whether it is about IPv6.
    pub fn is_v6(&self) -> bool {
        self.destination.is_ipv6()
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "from {} to {}", self.source, self.destination)?;
        if self.tos != 0 {
            write!(f, " tos {:#04x}", self.tos)?;
        }
        let [from, to] = self.ports;
        write!(f, " protocol {} ports {from} {to}", self.protocol.0)
    }
}
