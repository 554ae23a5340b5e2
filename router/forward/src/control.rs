//! Which packets for Linux come before others: those that links, neighbours and routes live by come first.

use bora_fib::FibReader;
use bora_wire::{EtherType, Protocol, ethernet, ipv4, ipv6, vlan};

use crate::{Reason, is_for_router};

/// The order in which packets go to Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// A protocol that links, neighbours and routes live by, addressed to the router or to a group.
    Control,
    /// For an address of the router itself: ssh, ping and all else.
    Local,
    /// Linux answers or drops it; each reason has a budget.
    Exception,
    /// What Linux forwards, and groups that are no such protocol.
    Bulk,
}

impl Urgency {
    /// How many there are.
    pub const COUNT: usize = 4;

    /// Urgency of a frame that goes to Linux for this reason. The frame is without the tags of its device, and outside of its tunnel.
    pub fn of(reason: Reason, frame: &[u8], fib: &FibReader) -> Self {
        if reason.has_budget() {
            return Self::Exception;
        }
        let is_to_group = frame.first().is_some_and(|octet| octet & 1 != 0);
        match reason {
            Reason::ForeignMac if !is_to_group => Self::Bulk, // another station's
            Reason::ForeignMac | Reason::NotIp | Reason::Local if is_control(frame) => {
                Self::Control
            }
            Reason::Local => Self::Local,
            // found before it was known where it goes
            Reason::Guard | Reason::ForwardingOff | Reason::SpecialAddress => {
                match is_to_group || is_for_router(frame, fib) {
                    true if is_control(frame) => Self::Control,
                    true if !is_to_group => Self::Local,
                    _ => Self::Bulk,
                }
            }
            _ => Self::Bulk,
        }
    }
}

/// Groups that no bridge forwards (IEEE 802.1Q 8.6.3) begin so: STP, LACP, LLDP, EAPOL, IS-IS, CFM.
const OF_BRIDGES: [u8; 5] = [0x01, 0x80, 0xc2, 0, 0];
/// ARP, EAPOL, LACP, LLDP, CFM, and the discovery of PPPoE.
const ETHERTYPES: [u16; 6] = [0x0806, 0x888e, 0x8809, 0x88cc, 0x8902, 0x8863];
/// LLC headers of STP and IS-IS.
const LLC: [[u8; 3]; 2] = [[0x42, 0x42, 3], [0xfe, 0xfe, 3]];
/// IGMP, RSVP, EIGRP, OSPF, PIM, VRRP.
const PROTOCOLS: [u8; 6] = [2, 46, 88, 89, 103, 112];
/// BGP, MSDP, LDP; a connection has it at one end.
const TCP_PORTS: [u16; 3] = [179, 639, 646];
/// DHCP, RIP, RIPng, DHCPv6, LDP, OLSR, BFD (RFC 5881, 5883, 7130), Babel.
const UDP_PORTS: [u16; 13] = [
    67, 68, 520, 521, 546, 547, 646, 698, 3784, 3785, 4784, 6784, 6696,
];
/// ICMPv6 types of multicast listeners, router and neighbour discovery, redirects, and multicast listeners of MLDv2.
const DISCOVERY: std::ops::RangeInclusive<u8> = 130..=137;
const MLDV2: u8 = 143;

/// Whether a frame is of a protocol that links, neighbours or routes live by.
fn is_control(frame: &[u8]) -> bool {
    if frame.starts_with(&OF_BRIDGES) {
        return true;
    }
    let Ok(frame) = ethernet::Frame::new_checked(frame) else {
        return false;
    };
    let (mut ethertype, mut payload) = (frame.ethertype(), frame.payload());
    for _ in 0..vlan::MAX_TAGS {
        if !matches!(ethertype, EtherType::VLAN | EtherType::QINQ) {
            break;
        }
        let Ok(tag) = vlan::Packet::new_checked(payload) else {
            return false;
        };
        ethertype = tag.ethertype();
        payload = payload.get(vlan::HEADER_LEN..).unwrap_or_default();
    }
    match ethertype {
        EtherType::IPV4 => is_control4(payload),
        EtherType::IPV6 => is_control6(payload),
        EtherType(length) if length < 1536 => LLC.iter().any(|llc| payload.starts_with(llc)),
        EtherType(other) => ETHERTYPES.contains(&other),
    }
}

fn is_control4(packet: &[u8]) -> bool {
    let Ok(packet) = ipv4::Packet::new_checked(packet) else {
        return false;
    };
    // later fragments have no ports
    !packet.is_fragment() && is_control_protocol(packet.protocol(), packet.payload())
}

fn is_control6(packet: &[u8]) -> bool {
    let Ok(packet) = ipv6::Packet::new_checked(packet) else {
        return false;
    };
    match (packet.next_header(), packet.payload()) {
        // the router alert of multicast listeners (RFC 3810)
        (Protocol::HOP_BY_HOP, &[next, 0, _, _, _, _, _, _, ref rest @ ..]) => {
            is_control_protocol(Protocol(next), rest)
        }
        (protocol, payload) => is_control_protocol(protocol, payload),
    }
}

fn is_control_protocol(protocol: Protocol, payload: &[u8]) -> bool {
    let ports = || {
        let &[a, b, c, d] = payload.first_chunk()?;
        Some([[a, b], [c, d]].map(u16::from_be_bytes))
    };
    match protocol {
        Protocol::TCP => ports().is_some_and(|ends| ends.iter().any(|end| TCP_PORTS.contains(end))),
        Protocol::UDP => ports().is_some_and(|[_, to]| UDP_PORTS.contains(&to)),
        Protocol::ICMPV6 => {
            let kind = payload.first();
            kind.is_some_and(|kind| DISCOVERY.contains(kind) || *kind == MLDV2)
        }
        Protocol(other) => PROTOCOLS.contains(&other),
    }
}

#[cfg(test)]
mod tests;
