//! The frames of ARP (RFC 826) and of IPv6's neighbour discovery (RFC 4861).

use std::net::{IpAddr, Ipv6Addr};

use bora_wire::ndisc::{self, ALL_NODES, HOP_LIMIT, Kind, solicited_node};
use bora_wire::{EtherType, MacAddr, Protocol, arp, ethernet, ipv6, vlan};

/// A VLAN tag: priority and identifier.
pub(crate) type Tag = Option<vlan::Tci>;

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
    let link = ethernet::Frame::new_checked(frame).ok()?;
    let (kind, tag, packet) = match link.ethertype() {
        EtherType::VLAN => {
            let inside = vlan::Packet::new_checked(&frame[ethernet::HEADER_LEN..]).ok()?;
            let start = ethernet::HEADER_LEN + vlan::HEADER_LEN;
            (inside.ethertype(), Some(inside.tci()), &frame[start..])
        }
        kind => (kind, None, link.payload()),
    };
    let message = match kind {
        EtherType::ARP => read_arp(packet),
        EtherType::IPV6 => read_ndisc(packet),
        _ => None,
    }?;
    Some((message, tag))
}

fn read_arp(packet: &[u8]) -> Option<Message> {
    let packet = arp::Repr::parse(packet).ok()?;
    let (sender, mac) = (IpAddr::V4(packet.sender_ip), packet.sender_mac);
    match packet.operation {
        arp::Operation::REQUEST => Some(Message::Question {
            sender,
            mac,
            target: packet.target_ip.into(),
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
    if packet.next_header() != Protocol::ICMPV6 || packet.hop_limit() != HOP_LIMIT {
        return None;
    }
    let message = ndisc::Repr::parse(packet.src(), packet.dst(), packet.payload()).ok()?;
    Some(match message.kind {
        Kind::Solicitation => Message::Question {
            sender: packet.src().into(),
            mac: message.mac.unwrap_or(MacAddr::ZERO),
            target: message.target.into(),
        },
        Kind::Advertisement { .. } => Message::Answer {
            address: message.target.into(),
            mac: message.mac?,
        },
    })
}

/// Asks for `target`, from `sender` at `mac`. With both addresses the same it only tells
/// (gratuitous ARP, unsolicited advertisement). `None` for addresses of different families.
pub(crate) fn question(sender: IpAddr, mac: MacAddr, target: IpAddr, tag: Tag) -> Option<Vec<u8>> {
    match (sender, target) {
        (IpAddr::V4(sender_ip), IpAddr::V4(target_ip)) => {
            let request = arp::Repr {
                operation: arp::Operation::REQUEST,
                sender_mac: mac,
                sender_ip,
                target_mac: MacAddr::ZERO,
                target_ip,
            };
            Some(arp_frame(request, MacAddr::BROADCAST, tag))
        }
        (IpAddr::V6(sender), IpAddr::V6(target)) if sender == target => {
            let to = (MacAddr::of_group(ALL_NODES), ALL_NODES);
            Some(ndisc_frame(
                advertisement(false),
                (mac, sender),
                to,
                target,
                tag,
            ))
        }
        (IpAddr::V6(sender), IpAddr::V6(target)) => {
            let group = solicited_node(target);
            let to = (MacAddr::of_group(group), group);
            Some(ndisc_frame(
                Kind::Solicitation,
                (mac, sender),
                to,
                target,
                tag,
            ))
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
        (IpAddr::V4(target_ip), IpAddr::V4(sender_ip)) => {
            let reply = arp::Repr {
                operation: arp::Operation::REPLY,
                sender_mac: mac,
                sender_ip,
                target_mac: asker_mac,
                target_ip,
            };
            Some(arp_frame(reply, asker_mac, tag))
        }
        (IpAddr::V6(asker), IpAddr::V6(target)) => {
            let anonymous = asker.is_unspecified() || asker_mac == MacAddr::ZERO;
            let to = match anonymous {
                true => (MacAddr::of_group(ALL_NODES), ALL_NODES),
                false => (asker_mac, asker),
            };
            let kind = advertisement(!anonymous);
            Some(ndisc_frame(kind, (mac, target), to, target, tag))
        }
        _ => None,
    }
}

fn advertisement(solicited: bool) -> Kind {
    Kind::Advertisement {
        solicited,
        overrides: true,
    }
}

fn arp_frame(packet: arp::Repr, to: MacAddr, tag: Tag) -> Vec<u8> {
    let link = ethernet::Repr {
        dst: to,
        src: packet.sender_mac,
        tag,
        ethertype: EtherType::ARP,
    };
    build(link.header_len() + arp::LEN, |frame| {
        packet.emit(link.emit(frame)?)
    })
}

/// `from` and `to` are the addresses of frame and packet.
fn ndisc_frame(
    kind: Kind,
    from: (MacAddr, Ipv6Addr),
    to: (MacAddr, Ipv6Addr),
    target: Ipv6Addr,
    tag: Tag,
) -> Vec<u8> {
    let link = ethernet::Repr {
        dst: to.0,
        src: from.0,
        tag,
        ethertype: EtherType::IPV6,
    };
    let packet = ipv6::Repr {
        traffic_class: 0,
        flow_label: 0,
        next_header: Protocol::ICMPV6,
        hop_limit: HOP_LIMIT,
        src: from.1,
        dst: to.1,
    };
    let message = ndisc::Repr {
        kind,
        target,
        mac: Some(from.0),
    };
    build(link.header_len() + ipv6::HEADER_LEN + ndisc::LEN, |frame| {
        message.emit(from.1, to.1, packet.emit(link.emit(frame)?)?)
    })
}

/// A frame that is as long as its headers, or the shortest there is.
fn build(length: usize, emit: impl FnOnce(&mut [u8]) -> Result<(), bora_wire::Error>) -> Vec<u8> {
    let mut frame = vec![0; length.max(ethernet::MIN_FRAME_LEN)];
    // there is room for all headers
    let _ = emit(&mut frame);
    frame
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
            for tag in [None, Some(vlan::Tci(0x2064))] {
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
