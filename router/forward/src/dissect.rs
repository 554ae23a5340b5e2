//! What Linux sees of a flow in a packet: its flow dissector (net/core/flow_dissector.c), as far as
//! the multipath hash asks it (`skb_flow_dissect_flow_keys()`).

/// Most headers Linux looks at: MAX_FLOW_DISSECT_HDRS.
const MAX_HEADERS: u32 = 15;

// EtherTypes, as Linux's ETH_P_*
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const VLAN: u16 = 0x8100;
const VLAN_AD: u16 = 0x88a8;
const ETHERNET: u16 = 0x6558; // ETH_P_TEB
/// Types that Linux dissects further and this code does not: TIPC, PPPoE, HSR, PRP, BATMAN.
const UNKNOWN: [u16; 5] = [0x88ca, 0x8864, 0x892f, 0x88fb, 0x4305];

/// The addresses of the innermost IP header that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Addresses {
    V4 { src: [u8; 4], dst: [u8; 4] },
    V6 { src: [u8; 16], dst: [u8; 16] },
}

/// Linux's struct flow_keys, without what the multipath hash does not use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dissected {
    pub(crate) addresses: Addresses,
    pub(crate) protocol: u8,
    /// Source and destination port, or what Linux takes for them (the SPI of ESP and AH).
    pub(crate) ports: [u8; 4],
    pub(crate) flow_label: u32,
    /// FLOW_DIS_ENCAPSULATION: there is another packet inside.
    pub(crate) encapsulated: bool,
}

enum Next {
    /// The protocol in `protocol` follows.
    Header,
    /// An EtherType follows.
    Packet(u16),
    End,
}

struct Walk<'a> {
    octets: &'a [u8],
    at: usize,
    outer: bool,
    headers: u32,
    fragment: bool,
    found: Dissected,
}

/// Dissects an IP packet without what follows it in the frame. `outer`: no deeper than the first
/// encapsulation (FLOW_DISSECTOR_F_STOP_AT_ENCAP). `None`: something inside is unknown
/// here, or it is no IP packet.
pub(crate) fn dissect(octets: &[u8], outer: bool) -> Option<Dissected> {
    let ethertype = match octets.first()? >> 4 {
        4 => IPV4,
        6 => IPV6,
        _ => return None,
    };
    let none = Addresses::V4 {
        src: [0; 4],
        dst: [0; 4],
    };
    let mut walk = Walk {
        octets,
        at: 0,
        outer,
        headers: 0,
        fragment: false,
        found: Dissected {
            addresses: none,
            protocol: 0,
            ports: [0; 4],
            flow_label: 0,
            encapsulated: false,
        },
    };
    walk.packet(ethertype)?;
    Some(walk.found)
}

impl Walk<'_> {
    fn field<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.octets.get(at..)?.first_chunk().copied()
    }

    /// Linux's skb_flow_dissect_allowed().
    fn allowed(&mut self) -> bool {
        self.headers += 1;
        self.headers <= MAX_HEADERS
    }

    /// Linux's `proto_again`, to the end of the packet.
    fn packet(&mut self, mut ethertype: u16) -> Option<()> {
        loop {
            let next = match ethertype {
                IPV4 => self.ipv4(),
                IPV6 => self.ipv6(),
                VLAN | VLAN_AD => match self.field::<4>(self.at) {
                    Some([_, _, high, low]) => {
                        self.at += 4;
                        Next::Packet(u16::from_be_bytes([high, low]))
                    }
                    None => Next::End,
                },
                other if UNKNOWN.contains(&other) => return None,
                _ => Next::End,
            };
            let next = match next {
                Next::Header => self.headers_after(ethertype == IPV6),
                next => next,
            };
            match next {
                Next::Packet(inner) if self.allowed() => ethertype = inner,
                _ => return Some(()),
            }
        }
    }

    fn ipv4(&mut self) -> Next {
        let Some(header) = self.field::<20>(self.at) else {
            return Next::End;
        };
        let length = usize::from(header[0] & 15) * 4;
        if length < 20 {
            return Next::End;
        }
        self.at += length;
        self.found.protocol = header[9];
        let [.., a, b, c, d, e, f, g, h] = header;
        self.found.addresses = Addresses::V4 {
            src: [a, b, c, d],
            dst: [e, f, g, h],
        };
        if u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0 {
            self.fragment = true; // also the first has no ports here
            return Next::End;
        }
        Next::Header
    }

    fn ipv6(&mut self) -> Next {
        let (Some(header), Some(src), Some(dst)) = (
            self.field::<8>(self.at),
            self.field(self.at + 8),
            self.field(self.at + 24),
        ) else {
            return Next::End;
        };
        self.at += 40;
        self.found.protocol = header[6];
        self.found.addresses = Addresses::V6 { src, dst };
        let label = u32::from_be_bytes([0, header[1] & 15, header[2], header[3]]);
        if label != 0 {
            self.found.flow_label = label;
        }
        Next::Header
    }

    /// Linux's `ip_proto_again`.
    fn headers_after(&mut self, v6: bool) -> Next {
        loop {
            let next = self.header(v6);
            if !self.fragment {
                self.ports();
            }
            match next {
                Next::Header if self.allowed() => {}
                Next::Header => return Next::End,
                next => return next,
            }
        }
    }

    fn header(&mut self, v6: bool) -> Next {
        match self.found.protocol {
            47 => self.gre(),
            0 | 43 | 60 if v6 => match self.field::<2>(self.at) {
                Some([next, length]) => {
                    self.found.protocol = next;
                    self.at += (usize::from(length) + 1) * 8;
                    Next::Header
                }
                None => Next::End,
            },
            44 if v6 => {
                if let Some(header) = self.field::<8>(self.at) {
                    self.fragment = true;
                    self.at += 8;
                    self.found.protocol = header[0];
                }
                Next::End
            }
            4 => self.inside(IPV4),
            41 => self.inside(IPV6),
            _ => Next::End,
        }
    }

    fn inside(&mut self, ethertype: u16) -> Next {
        self.found.encapsulated = true;
        if self.outer {
            Next::End
        } else {
            Next::Packet(ethertype)
        }
    }

    /// Linux's __skb_flow_dissect_gre(): versions 0 (RFC 2890) and 1 (PPTP, RFC 2637).
    fn gre(&mut self) -> Next {
        self.gre_payload().map_or(Next::End, |(at, ethertype)| {
            self.at = at;
            self.inside(ethertype)
        })
    }

    /// Where the payload of GRE is, and what; `None` where Linux goes no further.
    fn gre_payload(&self) -> Option<(usize, u16)> {
        const PPP: u16 = 0x880b;
        let [high, low, a, b] = self.field(self.at)?;
        let has = |flag: u8| usize::from(high & flag != 0) * 4;
        let (checksum, routing, key, sequence) = (has(0x80), has(0x40), has(0x20), has(0x10));
        let (version, mut ethertype) = (low & 7, u16::from_be_bytes([a, b]));
        if routing != 0 || version > 1 || version == 1 && (ethertype != PPP || key == 0) {
            return None;
        }
        let mut at = self.at + 4 + checksum;
        if key != 0 {
            self.field::<4>(at)?;
        }
        at += key + sequence;
        if version == 1 {
            at += usize::from(low & 0x80 != 0) * 4; // the acknowledgment
            let [_, _, a, b] = self.field(at)?;
            ethertype = match u16::from_be_bytes([a, b]) {
                0x21 => IPV4,
                0x57 => IPV6,
                _ => ethertype,
            };
            at += 4;
        } else if ethertype == ETHERNET {
            let [.., a, b] = self.field::<14>(at)?;
            ethertype = u16::from_be_bytes([a, b]);
            at += 14;
        }
        Some((at, ethertype))
    }

    /// Linux's skb_flow_get_ports().
    fn ports(&mut self) {
        let at = match self.found.protocol {
            // TCP, UDP, DCCP, ESP, SCTP, UDP-Lite; AH
            6 | 17 | 33 | 50 | 132 | 136 => Some(self.at),
            51 => Some(self.at + 4),
            _ => None,
        };
        self.found.ports = at.and_then(|at| self.field(at)).unwrap_or_default();
    }
}
