//! The flow a packet belongs to: what ECMP and receive-side distribution hash.

use core::fmt;
use core::net::IpAddr;

use crate::ethernet::Frame;
use crate::vlan::Untagged;
use crate::{Error, EtherType, Protocol, field, ipv4, ipv6};

/// What the packets of one flow have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Flow {
    /// Source address.
    pub src: IpAddr,
    /// Destination address; with an IPv6 routing header, the next one on the way.
    pub dst: IpAddr,
    /// Protocol of the upper layer.
    pub protocol: Protocol,
    /// Source port, or zero where there is none.
    pub src_port: u16,
    /// Destination port, or zero where there is none.
    pub dst_port: u16,
    /// IPv6 flow label; zero for IPv4.
    pub flow_label: u32,
}

impl Flow {
    /// The flow of a checked IPv4 packet.
    ///
    /// Fragments, the first one too, have no ports, so that all of a datagram go the same way; nor
    /// do protocols without ports, or packets that end before them. ESP's security parameters
    /// index stands where ports do and is taken for them, as Linux does.
    #[inline]
    #[must_use]
    pub fn of_ipv4<T: AsRef<[u8]>>(packet: &ipv4::Packet<T>) -> Flow {
        let protocol = packet.protocol();
        let (src_port, dst_port) = if packet.is_fragment() {
            (0, 0)
        } else {
            ports(protocol, packet.payload())
        };
        Flow {
            src: IpAddr::V4(packet.src()),
            dst: IpAddr::V4(packet.dst()),
            protocol,
            src_port,
            dst_port,
            flow_label: 0,
        }
    }

    /// The flow of a checked IPv6 packet, its ports found behind the extension headers. A fragment
    /// header means no ports, atomic fragments included; otherwise as for IPv4.
    ///
    /// # Errors
    /// Those of [`ipv6::Packet::upper_layer`].
    #[inline]
    pub fn of_ipv6<T: AsRef<[u8]>>(packet: &ipv6::Packet<T>) -> Result<Flow, Error> {
        let upper = packet.upper_layer()?;
        let (src_port, dst_port) = if upper.fragment.is_some() {
            (0, 0)
        } else {
            ports(
                upper.protocol,
                packet.payload().get(upper.offset..).unwrap_or(&[]),
            )
        };
        Ok(Flow {
            src: IpAddr::V6(packet.src()),
            dst: IpAddr::V6(packet.dst()),
            protocol: upper.protocol,
            src_port,
            dst_port,
            flow_label: packet.flow_label(),
        })
    }

    /// The flow of an Ethernet frame, looking through its VLAN tags; `None` if it carries neither
    /// IPv4 nor IPv6. The IPv4 header checksum is not looked at.
    ///
    /// # Errors
    /// Those of the headers on the way.
    pub fn of_frame(frame: &[u8]) -> Result<Option<Flow>, Error> {
        let untagged = Untagged::find(&Frame::new_checked(frame)?)?;
        let packet = frame.get(untagged.offset..).unwrap_or(&[]);
        match untagged.ethertype {
            EtherType::IPV4 => Ok(Some(Flow::of_ipv4(&ipv4::Packet::new_checked(packet)?))),
            EtherType::IPV6 => Flow::of_ipv6(&ipv6::Packet::new_checked(packet)?).map(Some),
            _ => Ok(None),
        }
    }
}

/// The two halves of the first four bytes, for protocols that keep ports there.
#[inline]
fn ports(protocol: Protocol, segment: &[u8]) -> (u16, u16) {
    match protocol {
        Protocol::TCP
        | Protocol::UDP
        | Protocol::UDP_LITE
        | Protocol::SCTP
        | Protocol::DCCP
        | Protocol::ESP
            if segment.len() >= 4 =>
        {
            (field::u16(segment, 0), field::u16(segment, 2))
        }
        _ => (0, 0),
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let with_port = |f: &mut fmt::Formatter<'_>, address, port| match (address, port) {
            (address, 0) => write!(f, "{address}"),
            (IpAddr::V4(address), port) => write!(f, "{address}:{port}"),
            (IpAddr::V6(address), port) => write!(f, "[{address}]:{port}"),
        };
        write!(f, "{} ", self.protocol)?;
        with_port(f, self.src, self.src_port)?;
        f.write_str(" > ")?;
        with_port(f, self.dst, self.dst_port)?;
        match self.flow_label {
            0 => Ok(()),
            label => write!(f, " label {label:#07x}"),
        }
    }
}

#[cfg(test)]
#[path = "flow_tests.rs"]
mod tests;
