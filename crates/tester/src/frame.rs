//! Frames as they are sent again and again: all that stays the same in those of one stream and
//! length.

use std::net::{Ipv4Addr, Ipv6Addr};

use bora_wire::checksum::{Sum, fill_transport_v4, fill_transport_v6};
use bora_wire::{EtherType, Protocol, ethernet, ipv4, ipv6, udp, vlan};

use crate::flow::Flow;
use crate::link::Link;
use crate::signature;
use crate::traffic::Stream;

/// Octets of the frame check sequence, which frame lengths count and ports add.
pub const FCS: usize = 4;
/// TTL or hop limit that frames start with.
const HOPS: u8 = 64;
/// The payload's random octets are the same in all versions and tests.
const FILL_SEED: u64 = 0x0b07_a0b0;

/// Shortest frame of a stream, octets with FCS: 64 with IPv4, 84 with IPv6, 4 more with a tag.
pub fn least_length(stream: &Stream) -> u16 {
    least_length_of(is_v4(stream), stream.vlan.is_some())
}

/// As [`least_length`], of all streams of an IP version, with a tag or without.
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

/// Whether a stream is of IPv4.
pub fn is_v4(stream: &Stream) -> bool {
    stream.sources.nth(0).is_ipv4()
}

/// A frame with addresses, ports, IPv4 checksum and signature (but its stream) zero.
///
/// The UDP checksum is that of the frame as it is here, so it holds for any frame whose changed
/// words sum to zero, for which the signature's balance cares. It differs by stream and length, so
/// that it tells them even where the signature is damaged.
#[derive(Clone, Debug)]
pub struct Template {
    /// The whole frame without FCS.
    pub octets: Vec<u8>,
    /// Where the IP header starts.
    pub ip: usize,
    /// Where the UDP header starts.
    pub udp: usize,
    /// Where the signature starts.
    pub signature: usize,
    /// Whether it is of IPv4.
    pub v4: bool,
    /// Sum of the IPv4 header's words.
    header: u64,
}

impl Template {
    /// Frames of a stream that are `length` octets with FCS, at least [`least_length`].
    pub fn new(stream: &Stream, id: u16, link: Link, length: u16) -> Self {
        let v4 = is_v4(stream);
        let (ip, at) = (
            ip_offset(stream),
            signature_offset(v4, stream.vlan.is_some()),
        );
        let end = usize::from(length.max(least_length(stream))) - FCS;
        let mut octets = filling(end);
        octets[..at + signature::LENGTH].fill(0);
        fill_link(&mut octets, stream, link, v4);
        let udp = at - udp::HEADER_LEN;
        let mut datagram = udp::Packet::new_unchecked(&mut octets[udp..]);
        datagram.set_len((end - udp) as u16);
        octets[at..at + 2].copy_from_slice(&id.to_be_bytes());
        fill_ip(&mut octets[ip..], udp - ip, stream.dscp << 2, v4);
        let header = match v4 {
            true => Sum::ZERO.add_bytes(&octets[ip..udp]).fold().into(),
            false => 0,
        };
        Self {
            octets,
            ip,
            udp,
            signature: at,
            v4,
            header,
        }
    }

    /// Writes a flow's addresses, its ports and the IPv4 checksum into a copy of the template;
    /// returns the sum of what [`signature::Signature::octets`] has to balance.
    #[inline]
    pub fn address(&self, frame: &mut [u8], flow: &Flow) -> u64 {
        use std::net::IpAddr::{V4, V6};
        let ports = u32::from(flow.source_port) << 16 | u32::from(flow.destination_port);
        let sum = match (flow.source, flow.destination) {
            (V4(source), V4(destination)) => self.address_v4(frame, source, destination),
            (V6(source), V6(destination)) => self.address_v6(frame, source, destination),
            // Traffic::check refuses mixed families
            _ => 0,
        };
        if let Some(field) = frame.get_mut(self.udp..self.udp + 4) {
            field.copy_from_slice(&ports.to_be_bytes());
        }
        sum + u64::from(ports)
    }

    #[inline]
    fn address_v4(&self, frame: &mut [u8], source: Ipv4Addr, destination: Ipv4Addr) -> u64 {
        let sum = u64::from(source.to_bits()) + u64::from(destination.to_bits());
        if let Some(header) = frame.get_mut(self.ip + 10..self.ip + 20) {
            let checksum = !signature::fold(self.header + sum);
            header[..2].copy_from_slice(&checksum.to_be_bytes());
            header[2..6].copy_from_slice(&source.octets());
            header[6..].copy_from_slice(&destination.octets());
        }
        sum
    }

    #[inline]
    fn address_v6(&self, frame: &mut [u8], source: Ipv6Addr, destination: Ipv6Addr) -> u64 {
        if let Some(header) = frame.get_mut(self.ip + 8..self.ip + 40) {
            header[..16].copy_from_slice(&source.octets());
            header[16..].copy_from_slice(&destination.octets());
        }
        words(source) + words(destination)
    }
}

/// Sum of an address's four words of 32 bits.
#[inline]
fn words(address: Ipv6Addr) -> u64 {
    let bits = address.to_bits();
    let (high, low) = ((bits >> 64) as u64, bits as u64);
    (high >> 32) + (high & 0xffff_ffff) + (low >> 32) + (low & 0xffff_ffff)
}

fn fill_link(octets: &mut [u8], stream: &Stream, link: Link, v4: bool) {
    let network = if v4 { EtherType::IPV4 } else { EtherType::IPV6 };
    let mut frame = ethernet::Frame::new_unchecked(octets);
    frame.set_dst(link.next_hop);
    frame.set_src(link.source);
    let Some((vid, priority)) = stream.vlan else {
        return frame.set_ethertype(network);
    };
    frame.set_ethertype(EtherType::VLAN);
    let mut tag = vlan::Packet::new_unchecked(frame.payload_mut());
    tag.set_tci(vlan::Tci::new(priority, false, vid));
    tag.set_ethertype(network);
}

/// Fills the IP header and the UDP checksum; addresses stay zero.
fn fill_ip(octets: &mut [u8], header: usize, traffic_class: u8, v4: bool) {
    let length = octets.len();
    let segment = &mut octets[header..];
    // a segment that holds a UDP header and is short of 9216 octets has a checksum
    let _ = match v4 {
        true => fill_transport_v4(
            Ipv4Addr::UNSPECIFIED,
            Ipv4Addr::UNSPECIFIED,
            Protocol::UDP,
            segment,
        ),
        false => fill_transport_v6(
            Ipv6Addr::UNSPECIFIED,
            Ipv6Addr::UNSPECIFIED,
            Protocol::UDP,
            segment,
        ),
    };
    if v4 {
        let mut packet = ipv4::Packet::new_unchecked(octets);
        packet.set_header_len(header);
        packet.set_tos(traffic_class);
        packet.set_total_len(length as u16);
        packet.set_fragment(true, false, 0);
        packet.set_ttl(HOPS);
        packet.set_protocol(Protocol::UDP);
    } else {
        let mut packet = ipv6::Packet::new_unchecked(octets);
        packet.set_traffic_class_and_flow_label(traffic_class, 0);
        packet.set_payload_len((length - header) as u16);
        packet.set_next_header(Protocol::UDP);
        packet.set_hop_limit(HOPS);
    }
}
