//! Tunnels over IPv4: what goes in front of a packet.

use std::net::Ipv4Addr;

use crate::marks::UseMark;
use crate::port::PortId;

/// Octets of an IPv4 header without options.
const IPV4: usize = 20;
const UDP: usize = 8;

/// A way into a tunnel: GRE (RFC 2784, 2890), IP in IP (RFC 2003, 4213) or VXLAN (RFC 7348), over IPv4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encapsulation {
    /// Number of the tunnel's device.
    pub port: PortId,
    /// Largest packet inside, octets.
    pub mtu: u16,
    /// All headers in front of the packet inside, as on the wire, from the outer IPv4 header on. The lengths,
    /// identification, checksums and UDP source port are zero, and so are TOS and TTL where they are inherited.
    pub headers: Headers,
    /// The outer DSCP is the one inside; the outer ECN always follows RFC 6040.
    pub inherits_tos: bool,
    /// The outer "don't fragment" is set where it is set inside, even if the template does not set it.
    pub copies_dont_fragment: bool,
    /// The only port that the outer packet may leave by.
    pub link: Option<PortId>,
    /// The outer UDP header, of VXLAN.
    pub udp: Option<OuterUdp>,
    /// Mark of a station behind VXLAN; see [`crate::Adjacency`].
    pub unconfirmed: Option<UseMark>,
}

/// The outer UDP header of VXLAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OuterUdp {
    /// Source ports: from the first one to before the second one. Which one tells the flow inside (RFC 7348, 5).
    pub source_ports: (u16, u16),
    /// Whether it has a checksum.
    pub checksum: bool,
}

/// Headers that begin with an IPv4 header without options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headers(Box<[u8]>);

impl Headers {
    /// `None` if they begin otherwise, or are shorter than `least` octets.
    pub fn new(octets: &[u8], least: usize) -> Option<Self> {
        let is_good = octets.len() >= least.max(IPV4) && octets[0] == 0x45;
        is_good.then(|| Self(octets.into()))
    }

    /// These headers to another far end, with an Ethernet header in front of the packet inside.
    #[must_use]
    pub fn to(&self, far: Ipv4Addr, ethernet: &[u8]) -> Self {
        let mut octets = [&*self.0, ethernet].concat();
        octets[IPV4 - 4..IPV4].copy_from_slice(&far.octets());
        Self(octets.into())
    }

    /// All of them.
    #[inline]
    pub fn octets(&self) -> &[u8] {
        &self.0
    }

    /// The outer IPv4 header.
    #[inline]
    pub fn ipv4(&self) -> &[u8; IPV4] {
        self.0.first_chunk().expect("checked by new()")
    }
}

impl Encapsulation {
    /// A tunnel that inherits nothing. `None` if the headers do not begin with an IPv4 header without
    /// options, or if those of VXLAN lack a UDP header.
    pub fn new(port: PortId, mtu: u16, headers: &[u8], udp: Option<OuterUdp>) -> Option<Self> {
        let least = IPV4 + if udp.is_some() { UDP } else { 0 };
        Some(Self {
            port,
            mtu,
            headers: Headers::new(headers, least)?,
            inherits_tos: false,
            copies_dont_fragment: false,
            link: None,
            udp,
            unconfirmed: None,
        })
    }

    /// The far end's address, as a number.
    #[inline]
    pub fn destination(&self) -> u32 {
        let [.., a, b, c, d] = *self.headers.ipv4();
        u32::from_be_bytes([a, b, c, d])
    }
}
