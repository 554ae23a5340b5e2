//! The frames of ARP (RFC 826) and of IPv6's neighbour discovery (RFC 4861).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bora_wire::checksum::{Transport, fill_transport_v6, transport_v6};
use bora_wire::ndisc::{HOP_LIMIT_REQUIRED, Opt};
use bora_wire::{EtherType, MacAddr, Protocol, arp, ethernet, icmpv6, ipv6, ndisc, vlan};

/// Shortest frame without FCS.
const SHORTEST: usize = 60;
/// A neighbour message with one link-layer address.
const MESSAGE: usize = 32;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// Flags of an advertisement: solicited, override.
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;

/// A VLAN tag: priority and identifier.
pub(crate) type Tag = Option<u16>;

/// What a neighbour says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// Who has `target`? Ask back at the sender; an unspecified `sender` only wants to know whether
    /// the address is free.
    Question {
        sender: IpAddr,
        mac: MacAddr,
        target: IpAddr,
    },
    /// `address` is at `mac`.
    Answer { address: IpAddr, mac: MacAddr },
}

/// Reads a frame; `None` if it is of something else, or damaged.
#[inline]
pub(crate) fn read(frame: &[u8]) -> Option<(Message, Tag)> {
    let (mut kind, mut tag, mut start) = (word(frame, 12)?, None, ethernet::HEADER_LEN);
    if kind == EtherType::VLAN.0 {
        tag = Some(word(frame, start)?);
        kind = word(frame, start + 2)?;
        start += vlan::HEADER_LEN;
    }
    let packet = frame.get(start..)?;
    let message = match EtherType(kind) {
        EtherType::ARP => read_arp(packet),
        // next header ICMPv6, one of the two types
        EtherType::IPV6 if packet.get(6) == Some(&58) => read_ndisc(packet),
        _ => None,
    }?;
    Some((message, tag))
}

fn word(frame: &[u8], at: usize) -> Option<u16> {
    let octets = frame.get(at..at + 2)?;
    Some(u16::from_be_bytes([octets[0], octets[1]]))
}

fn read_arp(packet: &[u8]) -> Option<Message> {
    let packet = arp::Packet::new_checked(packet).ok()?;
    let (sender, mac) = (IpAddr::V4(packet.sender_ip()), packet.sender_mac());
    match packet.operation() {
        arp::Operation::REQUEST => Some(Message::Question {
            sender,
            mac,
            target: packet.target_ip().into(),
        }),
        arp::Operation::REPLY => Some(Message::Answer {
            address: sender,
            mac,
        }),
        _ => None,
    }
}

fn read_ndisc(packet: &[u8]) -> Option<Message> {
    let packet = ipv6::Packet::new_checked(packet).ok()?;
    let segment = packet.payload();
    let message = ndisc::Packet::new_checked(segment).ok()?;
    let is_whole =
        transport_v6(packet.src(), packet.dst(), Protocol::ICMPV6, segment) == Transport::Valid;
    if !is_whole || packet.hop_limit() != HOP_LIMIT_REQUIRED {
        return None;
    }
    let mut options = message.options().map_while(Result::ok);
    match message.kind() {
        icmpv6::Type::NEIGHBOUR_SOLICITATION => Some(Message::Question {
            sender: packet.src().into(),
            mac: options
                .find_map(|option| match option {
                    Opt::SourceLinkLayer(mac) => Some(mac),
                    _ => None,
                })
                .unwrap_or(MacAddr::ZERO),
            target: message.target().into(),
        }),
        icmpv6::Type::NEIGHBOUR_ADVERTISEMENT => Some(Message::Answer {
            address: message.target().into(),
            mac: options.find_map(|option| match option {
                Opt::TargetLinkLayer(mac) => Some(mac),
                _ => None,
            })?,
        }),
        _ => None,
    }
}

/// Asks for `target`, from `sender` at `mac`. With both addresses the same it only tells
/// (gratuitous ARP, unsolicited advertisement). `None` for addresses of different families.
pub(crate) fn question(sender: IpAddr, mac: MacAddr, target: IpAddr, tag: Tag) -> Option<Vec<u8>> {
    match (sender, target) {
        (IpAddr::V4(sender), IpAddr::V4(target)) => {
            let request = arp::Operation::REQUEST;
            let to = (MacAddr::BROADCAST, MacAddr::ZERO, target);
            Some(arp_frame(request, (mac, sender), to, tag))
        }
        (IpAddr::V6(sender), IpAddr::V6(target)) if sender == target => {
            let kind = icmpv6::Type::NEIGHBOUR_ADVERTISEMENT;
            let to = (multicast_mac(ALL_NODES), ALL_NODES);
            Some(ndisc_frame(kind, OVERRIDE, (mac, sender), to, target, tag))
        }
        (IpAddr::V6(sender), IpAddr::V6(target)) => {
            let kind = icmpv6::Type::NEIGHBOUR_SOLICITATION;
            let group = solicited_node(target);
            let to = (multicast_mac(group), group);
            Some(ndisc_frame(kind, 0, (mac, sender), to, target, tag))
        }
        _ => None,
    }
}

/// Answers a question of `asker` at `asker_mac`: `target` is at `mac`.
pub(crate) fn answer(
    asker: IpAddr,
    asker_mac: MacAddr,
    target: IpAddr,
    mac: MacAddr,
    tag: Tag,
) -> Option<Vec<u8>> {
    match (asker, target) {
        (IpAddr::V4(asker), IpAddr::V4(target)) => {
            let to = (asker_mac, asker_mac, asker);
            Some(arp_frame(arp::Operation::REPLY, (mac, target), to, tag))
        }
        (IpAddr::V6(asker), IpAddr::V6(target)) => {
            let kind = icmpv6::Type::NEIGHBOUR_ADVERTISEMENT;
            let (flags, to) = if asker.is_unspecified() || asker_mac == MacAddr::ZERO {
                (OVERRIDE, (multicast_mac(ALL_NODES), ALL_NODES))
            } else {
                (OVERRIDE | SOLICITED, (asker_mac, asker))
            };
            Some(ndisc_frame(kind, flags, (mac, target), to, target, tag))
        }
        _ => None,
    }
}

/// `to` is the frame's destination, and the target's addresses.
fn arp_frame(
    operation: arp::Operation,
    from: (MacAddr, Ipv4Addr),
    to: (MacAddr, MacAddr, Ipv4Addr),
    tag: Tag,
) -> Vec<u8> {
    let (mut frame, start) = start_frame(to.0, from.0, EtherType::ARP, arp::LEN, tag);
    let request = arp::Repr {
        operation,
        sender_mac: from.0,
        sender_ip: from.1,
        target_mac: to.1,
        target_ip: to.2,
    };
    // it was made long enough
    let _ = request.emit(&mut frame[start..]);
    frame
}

fn ndisc_frame(
    kind: icmpv6::Type,
    flags: u8,
    from: (MacAddr, Ipv6Addr),
    to: (MacAddr, Ipv6Addr),
    target: Ipv6Addr,
    tag: Tag,
) -> Vec<u8> {
    let length = ipv6::HEADER_LEN + MESSAGE;
    let (mut frame, start) = start_frame(to.0, from.0, EtherType::IPV6, length, tag);
    let mut packet = ipv6::Packet::new_unchecked(&mut frame[start..]);
    packet.set_traffic_class_and_flow_label(0, 0);
    packet.set_payload_len(MESSAGE as u16);
    packet.set_next_header(Protocol::ICMPV6);
    packet.set_hop_limit(HOP_LIMIT_REQUIRED);
    packet.set_src(from.1);
    packet.set_dst(to.1);
    let message = &mut frame[start + ipv6::HEADER_LEN..];
    message[0] = kind.0;
    message[4] = flags;
    message[8..24].copy_from_slice(&target.octets());
    // the option: link-layer address of the source, or of the target; one unit of 8 octets
    message[24] = match kind {
        icmpv6::Type::NEIGHBOUR_SOLICITATION => 1,
        _ => 2,
    };
    message[25] = 1;
    message[26..32].copy_from_slice(&from.0.0);
    // it was made long enough
    let _ = fill_transport_v6(from.1, to.1, Protocol::ICMPV6, message);
    frame
}

/// A frame with room for `length` octets; and where they start.
fn start_frame(
    to: MacAddr,
    from: MacAddr,
    kind: EtherType,
    length: usize,
    tag: Tag,
) -> (Vec<u8>, usize) {
    let start = ethernet::HEADER_LEN + tag.map_or(0, |_| vlan::HEADER_LEN);
    let mut frame = vec![0; (start + length).max(SHORTEST)];
    let mut link = ethernet::Frame::new_unchecked(&mut frame[..]);
    link.set_dst(to);
    link.set_src(from);
    link.set_ethertype(tag.map_or(kind, |_| EtherType::VLAN));
    if let Some(tci) = tag {
        let payload = link.payload_mut();
        payload[..2].copy_from_slice(&tci.to_be_bytes());
        payload[2..4].copy_from_slice(&kind.0.to_be_bytes());
    }
    (frame, start)
}

/// RFC 4291, 2.7.1.
fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let low = address.to_bits() & 0xff_ffff;
    Ipv6Addr::from_bits(0xff02_0000_0000_0000_0000_0001_ff00_0000 | low)
}

/// RFC 2464, 7.
fn multicast_mac(group: Ipv6Addr) -> MacAddr {
    let [.., a, b, c, d] = group.octets();
    MacAddr([0x33, 0x33, a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const THERE: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

    fn addresses() -> [(IpAddr, IpAddr); 2] {
        [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")]
            .map(|(a, b)| (a.parse().unwrap(), b.parse().unwrap()))
    }

    #[test]
    fn questions_and_answers_are_read_back() {
        for (here, there) in addresses() {
            for tag in [None, Some(0x2064)] {
                let asked = question(here, HERE, there, tag).unwrap();
                let expected = Message::Question {
                    sender: here,
                    mac: HERE,
                    target: there,
                };
                assert_eq!(read(&asked), Some((expected, tag)));
                let answered = answer(here, HERE, there, THERE, tag).unwrap();
                let expected = Message::Answer {
                    address: there,
                    mac: THERE,
                };
                assert_eq!(read(&answered), Some((expected, tag)));
                assert_eq!(answered[..6], HERE.0);
            }
        }
    }

    #[test]
    fn frames_are_as_the_standards_have_them() {
        let [(here4, there4), (here6, there6)] = addresses();
        let request = question(here4, HERE, there4, None).unwrap();
        assert_eq!((request.len(), &request[..6]), (60, &[0xff; 6][..]));
        let solicitation = question(here6, HERE, there6, None).unwrap();
        assert_eq!(solicitation[..6], [0x33, 0x33, 0xff, 0, 0, 2]);
        assert_eq!(solicitation.len(), 14 + 40 + 32);
        assert_eq!(question(here4, HERE, there6, None), None);
    }

    #[test]
    fn damaged_and_other_frames_are_none() {
        let [_, (here, there)] = addresses();
        let solicitation = question(here, HERE, there, None).unwrap();
        for at in [21, 30, 62, 80] {
            let mut damaged = solicitation.clone();
            damaged[at] ^= 1;
            assert_eq!(read(&damaged), None, "octet {at}");
        }
        for length in 0..solicitation.len() {
            assert_eq!(read(&solicitation[..length]), None);
        }
    }
}
