//! Which port of a bond a packet leaves by: the transmit hash of Linux's bonding driver, bit for bit (__bond_xmit_hash() of
//! drivers/net/bonding/bond_main.c), so that a flow takes the same port whether Linux or Bora forwards it.

use bora_fib::PortId;
use bora_wire::{Protocol, ethernet, ipv4, ipv6};

/// What is hashed: `xmit_hash_policy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XmitHash {
    /// `layer2`: Ethernet addresses and EtherType.
    #[default]
    Layer2,
    /// `layer2+3`: also IP addresses.
    Layer23,
    /// `layer3+4`: IP addresses and ports; fragments without ports.
    Layer34,
}

impl XmitHash {
    /// By its number (BOND_XMIT_POLICY_* of include/uapi/linux/if_bonding.h); `None` if Bora does not have it.
    pub fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Layer2),
            1 => Some(Self::Layer34),
            2 => Some(Self::Layer23),
            _ => None,
        }
    }

    /// Its number.
    pub fn number(self) -> u8 {
        match self {
            Self::Layer2 => 0,
            Self::Layer34 => 1,
            Self::Layer23 => 2,
        }
    }

    /// The hash of a frame with this many octets of VLAN tags, as if it had none.
    fn of(self, frame: &[u8], tags: usize) -> u32 {
        let Some((addresses, rest)) = frame.split_first_chunk::<12>() else {
            return 0;
        };
        let rest = rest.get(tags..).unwrap_or_default();
        let Some((&kind, packet)) = rest.split_first_chunk::<2>() else {
            return 0;
        };
        let link = u32::from(addresses[5] ^ addresses[11]) ^ u32::from(u16::from_be_bytes(kind));
        let Some((hosts, ports)) = addresses_and_ports(kind, packet) else {
            return link;
        };
        let fold = |hash: u32| {
            let hash = hash ^ hosts;
            let hash = hash ^ hash >> 16;
            hash ^ hash >> 8
        };
        match self {
            Self::Layer2 => link,
            Self::Layer23 => fold(link),
            Self::Layer34 => fold(ports) >> 1, // the lowest bit of ports is often 0
        }
    }
}

/// Both addresses in 32 bits and what tells flows between them apart, as Linux reads them from memory; `None` if it is no IP
/// packet.
fn addresses_and_ports(kind: [u8; 2], packet: &[u8]) -> Option<(u32, u32)> {
    let words = |octets: &[u8]| {
        let (words, _) = octets.as_chunks::<4>();
        let words = words.iter().map(|word| u32::from_ne_bytes(*word));
        words.fold(0, |sum, word| sum ^ word)
    };
    match ethernet::EtherType(u16::from_be_bytes(kind)) {
        ethernet::EtherType::IPV4 => {
            let addresses = words(packet.get(12..20)?);
            let header = ipv4::Packet::new_unchecked(packet);
            let ports = match header.is_fragment() {
                true => 0,
                false => ports(header.protocol(), header.payload()),
            };
            Some((addresses, ports))
        }
        ethernet::EtherType::IPV6 => {
            let addresses = words(packet.get(8..40)?);
            let header = ipv6::Packet::new_unchecked(packet);
            Some((addresses, ports(header.next_header(), header.payload())))
        }
        _ => None,
    }
}

/// Linux's struct flow_dissector_key_ports, or that of ICMP, as one number.
fn ports(protocol: Protocol, payload: &[u8]) -> u32 {
    let at = |at: usize| {
        let octets = payload.get(at..).and_then(|rest| rest.first_chunk());
        octets.map_or(0, |octets| u32::from_ne_bytes(*octets))
    };
    match protocol.0 {
        // TCP, UDP, DCCP, ESP, SCTP, UDP-Lite
        6 | 17 | 33 | 50 | 132 | 136 => at(0),
        51 => at(4), // AH
        1 | 58 => match (protocol.0, payload) {
            // messages with an identifier; of errors Linux looks at the packet inside, which has other ports
            (1, &[kind @ (0 | 8 | 13 | 14), code, _, _, a, b, ..])
            | (58, &[kind @ (128 | 129), code, _, _, a, b, ..]) => {
                let [a, b] = u16::from_be_bytes([a, b]).max(1).to_ne_bytes();
                u32::from_ne_bytes([kind, code, a, b])
            }
            _ => 0,
        },
        _ => 0,
    }
}

/// The ports of a bond, or the one port of a device that is on no bond.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ports {
    /// Those that packets come in by.
    pub all: Vec<PortId>,
    /// Those that packets may leave by, in Linux's order.
    pub usable: Vec<PortId>,
    /// What chooses among them.
    pub hash: XmitHash,
}

impl Ports {
    /// One port.
    pub fn one(port: PortId) -> Self {
        Self {
            all: vec![port],
            usable: vec![port],
            hash: XmitHash::default(),
        }
    }

    /// The port that a frame with this many octets of VLAN tags leaves by; `None` if there is none now.
    #[inline]
    pub fn choose(&self, frame: &[u8], tags: usize) -> Option<PortId> {
        match self.usable[..] {
            [] => None,
            [port] => Some(port),
            ref ports => Some(ports[self.hash.of(frame, tags) as usize % ports.len()]),
        }
    }

    /// The port that all frames leave by, if it is one.
    #[inline]
    pub fn only(&self) -> Option<PortId> {
        match self.usable[..] {
            [port] => Some(port),
            _ => None,
        }
    }
}
