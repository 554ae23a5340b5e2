//! Templates of frames: all that is the same in the frames of one stream and length.

use std::net::{Ipv4Addr, Ipv6Addr};

use bora_wire::checksum::{Sum, fill_transport_v4, fill_transport_v6};
use bora_wire::{Protocol, ethernet, ipv4, ipv6, udp, vlan};

use crate::flow::Flow;
use crate::link::Link;
use crate::signature;
use crate::traffic::Stream;

/// Octets of the frame check sequence, which frame lengths count and ports add.
pub const FCS: usize = 4;
/// The payload's random octets are the same in all versions and tests.
const FILL_SEED: u64 = 0x0b07_a0b0;

/// Shortest frame of a stream, octets with FCS: 64 with IPv4, 84 with IPv6, 4 more with a tag.
pub fn least_length(stream: &Stream) -> u16 {
    least_length_of(is_v4(stream), stream.vlan.is_some())
}

/// [`least_length`] of all streams of an IP version, with a tag or without.
pub(crate) fn least_length_of(v4: bool, tagged: bool) -> u16 {
    (signature_offset(v4, tagged) + signature::LENGTH + FCS) as u16
}

/// Octets of which each frame has those behind its signature, at the same places.
pub(crate) fn filling(octets: usize) -> Vec<u8> {
    let mut filling = vec![0; octets];
    fastrand::Rng::with_seed(FILL_SEED).fill(&mut filling);
    filling
}

/// Where the IP header starts in the frames of a stream.
pub(crate) fn ip_offset(stream: &Stream) -> usize {
    link_length(stream.vlan.is_some())
}

fn link_length(tagged: bool) -> usize {
    ethernet::HEADER_LEN + if tagged { vlan::HEADER_LEN } else { 0 }
}

fn signature_offset(v4: bool, tagged: bool) -> usize {
    let ip = if v4 {
        ipv4::MIN_HEADER_LEN
    } else {
        ipv6::HEADER_LEN
    };
    link_length(tagged) + ip + udp::HEADER_LEN
}

/// The VLAN tag of a stream's frames.
pub(crate) fn tag_of(stream: &Stream) -> Option<vlan::Tci> {
    stream
        .vlan
        .map(|(vid, priority)| vlan::Tci::new(priority, vid))
}

/// Whether a stream is of IPv4.
pub fn is_v4(stream: &Stream) -> bool {
    stream.sources.nth(0).is_ipv4()
}

/// A frame with addresses, ports and signature (but its stream) zero.
///
/// The UDP checksum is that of the frame as it is here. It is right for every frame made of it,
/// because the signature's balance field makes the changed words sum to zero. It differs by stream and
/// length, so a frame whose signature is damaged can still be assigned to its stream.
#[derive(Clone, Debug)]
pub struct Template {
    /// The whole frame without FCS.
    pub octets: Vec<u8>,
    /// Where the signature starts.
    pub signature: usize,
    /// Where the IP header starts.
    ip: usize,
    /// Where the UDP header starts.
    udp: usize,
    /// The IPv4 header's words without addresses and checksum.
    header: Sum,
}

impl Template {
    /// Frames of a stream that are `length` octets with FCS, at least [`least_length`].
    pub fn new(stream: &Stream, id: u16, link: Link, length: u16) -> Self {
        let v4 = is_v4(stream);
        let ip = ip_offset(stream);
        let signature = signature_offset(v4, stream.vlan.is_some());
        let udp = signature - udp::HEADER_LEN;
        let end = usize::from(length.max(least_length(stream))) - FCS;
        let mut octets = filling(end);
        octets[signature..signature + signature::LENGTH].fill(0);
        octets[signature..signature + 2].copy_from_slice(&id.to_be_bytes());
        let (v4_nobody, v6_nobody) = (Ipv4Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED);
        let frame = match v4 {
            true => udp::Frame::new(v4_nobody, v4_nobody),
            false => udp::Frame::new(v6_nobody, v6_nobody),
        };
        let frame = udp::Frame {
            dst_mac: link.next_hop,
            src_mac: link.source,
            tag: tag_of(stream),
            tos: stream.dscp << 2,
            dont_fragment: true,
            ..frame
        };
        // longer than the headers, and shorter than 9217 octets, which neither can refuse
        let _ = frame.emit(&mut octets);
        let datagram = &mut octets[udp..];
        let _ = match v4 {
            true => fill_transport_v4(v4_nobody, v4_nobody, Protocol::UDP, datagram),
            false => fill_transport_v6(v6_nobody, v6_nobody, Protocol::UDP, datagram),
        };
        let checksum = ipv4::Packet::new_unchecked(&octets[ip..]).checksum();
        Self {
            octets,
            signature,
            ip,
            udp,
            header: Sum::ZERO.add_u16(!checksum),
        }
    }

    /// Writes a flow's addresses, its ports and the IPv4 checksum into a copy of the template;
    /// returns the sum of what [`signature::Signature::octets`] has to balance.
    #[inline]
    pub fn address(&self, frame: &mut [u8], flow: &Flow) -> Sum {
        use std::net::IpAddr::{V4, V6};
        let ports = u32::from(flow.source_port) << 16 | u32::from(flow.destination_port);
        let sum = match (flow.source, flow.destination) {
            (V4(source), V4(destination)) => self.address_v4(frame, source, destination),
            (V6(source), V6(destination)) => self.address_v6(frame, source, destination),
            // Traffic::check refuses mixed families
            _ => Sum::ZERO,
        };
        if let Some(field) = frame.get_mut(self.udp..self.udp + 4) {
            field.copy_from_slice(&ports.to_be_bytes());
        }
        sum.add_u32(ports)
    }

    #[inline]
    fn address_v4(&self, frame: &mut [u8], source: Ipv4Addr, destination: Ipv4Addr) -> Sum {
        let add = |sum: Sum| sum.add_u32(source.to_bits()).add_u32(destination.to_bits());
        if let Some(header) = frame.get_mut(self.ip + 10..self.ip + 20) {
            header[..2].copy_from_slice(&add(self.header).finish().to_be_bytes());
            header[2..6].copy_from_slice(&source.octets());
            header[6..].copy_from_slice(&destination.octets());
        }
        add(Sum::ZERO)
    }

    #[inline]
    fn address_v6(&self, frame: &mut [u8], source: Ipv6Addr, destination: Ipv6Addr) -> Sum {
        if let Some(header) = frame.get_mut(self.ip + 8..self.ip + 40) {
            header[..16].copy_from_slice(&source.octets());
            header[16..].copy_from_slice(&destination.octets());
        }
        Sum::ZERO
            .add_u128(source.to_bits())
            .add_u128(destination.to_bits())
    }
}
