//! Answers of Linux and of Bora.

use std::net::IpAddr;

use bora_contract::Reason;
use bora_fib::PortId;
use bora_wire::MacAddr;

use crate::question::Tags;

/// What Linux does with a packet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LinuxAnswer {
    /// It forwards it.
    Forward(Route),
    /// The packet is for the router itself, or for all.
    Own,
    /// It drops it or answers with an error; the number of the error that its look-up gives (fib_props, ip_route_input_slow()).
    Refuse(i32),
}

/// The route that Linux found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Route {
    /// Its prefix.
    pub prefix: Option<(IpAddr, u8)>,
    /// Its table.
    pub table: u32,
    /// Its paths.
    pub paths: Vec<Path>,
    /// Its own MTU, octets.
    pub mtu: Option<u32>,
    /// Whether something is put around the packets (RTA_ENCAP).
    pub encapsulates: bool,
}

impl Route {
    /// Whether Linux has told its paths: those of next-hop objects only with `net.ipv4.nexthop_compat_mode`.
    pub(crate) fn tells_paths(&self) -> bool {
        self.paths.iter().all(|path| path.device != 0)
    }

    /// Whether an address is in its prefix. IPv6 keeps a path of a next-hop object with one of the routes by that object
    /// (fib6_nh's rt6i_pcpu), and tells that one where it means another.
    pub(crate) fn holds(&self, address: IpAddr) -> bool {
        let (Some((IpAddr::V6(prefix), length)), IpAddr::V6(address)) = (self.prefix, address)
        else {
            return true;
        };
        let differs = prefix.to_bits() ^ address.to_bits();
        differs.leading_zeros() >= length.into()
    }
}

/// A path of a route.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Path {
    /// The interface it leaves by.
    pub device: u32,
    /// The next hop, if the destination is not on the link; it may be of the other IP version.
    pub gateway: Option<IpAddr>,
    /// Share of flows, in proportion to the other paths'.
    pub weight: u32,
    /// Whether it takes flows.
    pub alive: bool,
}

/// What Bora does with a packet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum BoraAnswer {
    /// It sends it.
    Forward {
        /// The port or device that this packet leaves by, and the Ethernet address that it goes to.
        chosen: (PortId, MacAddr),
        /// The VLAN tags that it gets.
        tags: Tags,
        /// All ways of the next hop that lead to a neighbour, with their shares of 2^31 flows; a way that Bora leaves to Linux
        /// is not among them. Shares are 0 where buckets choose.
        ways: Vec<(PortId, MacAddr, u32)>,
        /// Longest packet, octets.
        mtu: u16,
    },
    /// Its XDP program sends it.
    Express {
        /// The Ethernet address that it goes to.
        to: MacAddr,
        /// The Ethernet address of the interface that it leaves by.
        from: MacAddr,
        /// The VLAN tags that it gets.
        tags: Tags,
        /// Whether it would send a packet that is longer than Linux sends there.
        sends_longer: bool,
    },
    /// It puts it into a tunnel.
    Tunnel {
        /// The tunnel's device.
        device: PortId,
        /// Longest packet, octets.
        mtu: u16,
    },
    /// It leaves it to Linux.
    Linux(Reason),
    /// It drops it.
    Drop(Reason),
}
