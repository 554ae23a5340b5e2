//! RTM_NEWROUTE (struct rtmsg).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::attribute::{Attribute, Malformed, attributes, header, u32_at};

/// struct rtmsg, struct rtnexthop.
const ROUTE_HEADER: usize = 12;
const HOP_HEADER: usize = 8;
const RTNH_F_DEAD: u8 = 1;
/// [`RouteMessage::preference`] of a route without one.
const MEDIUM: u8 = 2;

/// A path of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hop {
    /// Interface index.
    pub device: u32,
    /// Gateway; none for on-link. An IPv4 route may have an IPv6 gateway (RTA_VIA).
    pub gateway: Option<IpAddr>,
    /// Weight among several paths, 1 or more.
    pub weight: u32,
    /// Marked dead by the kernel.
    pub dead: bool,
    /// Needs an encapsulation (lwtunnel, MPLS).
    pub encap: bool,
}

/// RTN_*: what a route does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RouteType {
    /// Forward.
    Unicast,
    /// Delivered by the kernel: local, broadcast, anycast, multicast.
    Local,
    /// Drop silently.
    Blackhole,
    /// ICMP unreachable.
    Unreachable,
    /// ICMP prohibited.
    Prohibit,
    /// Continue in the next table.
    Throw,
    /// NAT; unknown types.
    Other,
}

/// Where a route leads. Many routes have the same target, so the mirror keeps each target once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// What it does.
    pub kind: RouteType,
    /// Its paths; empty if `object` has them. A route that does not forward may have one too: when
    /// that device is deleted, so is the route.
    pub hops: Vec<Hop>,
    /// Number of its next-hop object (RTA_NH_ID).
    pub object: Option<u32>,
    /// Path MTU of the route, octets (RTAX_MTU).
    pub mtu: Option<u32>,
    /// Preferred source: IPv4 routes go when it goes.
    pub source: Option<IpAddr>,
}

/// A route as announced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteMessage {
    /// First address of the prefix.
    pub address: IpAddr,
    /// Prefix length.
    pub len: u8,
    /// IPv4 TOS it is for; 0 for all.
    pub tos: u8,
    /// Table number.
    pub table: u32,
    /// Metric; the lowest wins.
    pub metric: u32,
    /// Who made it (RTPROT_*).
    pub protocol: u8,
    /// IPv6's router preference (RFC 4191), as Linux ranks it: 1 low, 2 medium, 3 high.
    pub preference: u8,
    /// Time left in hundredths of a second; 0: no end; negative: expired.
    pub expires: i32,
    /// NLM_F_REPLACE: it replaced another route.
    pub replace: bool,
    /// NLM_F_APPEND: it was added behind others of its metric.
    pub append: bool,
    /// NLM_F_EXCL: IPv4 had no other of its metric when it was added.
    pub only: bool,
    /// It holds for some source addresses only (IPv6).
    pub source_specific: bool,
    /// Where it leads.
    pub target: Target,
}

/// Decodes; `None` for cache entries and other families, which are not in any table.
pub(super) fn decode(payload: &[u8], flags: u16) -> Result<Option<RouteMessage>, Malformed> {
    let head = header(payload, ROUTE_HEADER, "route message")?;
    let (any, bits) = match i32::from(head[0]) {
        libc::AF_INET => (IpAddr::V4(Ipv4Addr::UNSPECIFIED), 32),
        libc::AF_INET6 => (IpAddr::V6(Ipv6Addr::UNSPECIFIED), 128),
        _ => return Ok(None),
    };
    if u32_at(head, 8) & libc::RTM_F_CLONED != 0 {
        return Ok(None);
    }
    if head[1] > bits {
        return Err(Malformed("prefix length"));
    }
    let has = |flag: i32| flags & flag as u16 != 0;
    let mut route = RouteMessage {
        address: any,
        len: head[1],
        tos: head[3],
        table: u32::from(head[4]),
        metric: 0,
        protocol: head[5],
        preference: MEDIUM,
        expires: 0,
        replace: has(libc::NLM_F_REPLACE),
        append: has(libc::NLM_F_APPEND),
        only: has(libc::NLM_F_EXCL),
        source_specific: head[2] != 0,
        target: Target {
            kind: route_type(head[7]),
            hops: Vec::new(),
            object: None,
            mtu: None,
            source: None,
        },
    };
    let dead = head[8] & RTNH_F_DEAD != 0;
    let mut hop = Hop {
        device: 0,
        gateway: None,
        weight: 1,
        dead,
        encap: false,
    };
    for attribute in attributes(payload, ROUTE_HEADER) {
        read(&mut route, &mut hop, &attribute?)?;
    }
    if route.address.is_ipv4() != any.is_ipv4() {
        return Err(Malformed("route destination"));
    }
    finish(&mut route.target, hop);
    Ok(Some(route))
}

fn route_type(kind: u8) -> RouteType {
    match kind {
        libc::RTN_UNICAST => RouteType::Unicast,
        libc::RTN_LOCAL | libc::RTN_BROADCAST | libc::RTN_ANYCAST | libc::RTN_MULTICAST => {
            RouteType::Local
        }
        libc::RTN_BLACKHOLE => RouteType::Blackhole,
        libc::RTN_UNREACHABLE => RouteType::Unreachable,
        libc::RTN_PROHIBIT => RouteType::Prohibit,
        libc::RTN_THROW => RouteType::Throw,
        _ => RouteType::Other,
    }
}

fn read(
    route: &mut RouteMessage,
    hop: &mut Hop,
    attribute: &Attribute<'_>,
) -> Result<(), Malformed> {
    match attribute.kind {
        libc::RTA_DST => route.address = attribute.ip()?,
        libc::RTA_TABLE => route.table = attribute.u32()?,
        libc::RTA_PRIORITY => route.metric = attribute.u32()?,
        // two bits, of which medium is 0, high 1, low 3 (RFC 4191 2.1)
        RTA_PREF => route.preference = (attribute.u8()? & 3) ^ MEDIUM,
        libc::RTA_PREFSRC => route.target.source = Some(attribute.ip()?),
        libc::RTA_METRICS => {
            for metric in attribute.nested() {
                let metric = metric?;
                if metric.kind == RTAX_MTU {
                    route.target.mtu = Some(metric.u32()?).filter(|&mtu| mtu != 0);
                }
            }
        }
        libc::RTA_MULTIPATH => route.target.hops = hops(attribute)?,
        libc::RTA_CACHEINFO => {
            // rta_expires is the third word of struct rta_cacheinfo
            let info = header(attribute.value, 12, "route cache information")?;
            route.expires = u32_at(info, 8).cast_signed();
        }
        RTA_NH_ID => route.target.object = Some(attribute.u32()?),
        _ => way(hop, attribute)?,
    }
    Ok(())
}

// include/uapi/linux/rtnetlink.h; libc does not have them all
const RTA_VIA: u16 = 18;
const RTA_ENCAP_TYPE: u16 = 21;
const RTA_ENCAP: u16 = 22;
const RTA_PREF: u16 = 20;
const RTA_NH_ID: u16 = 30;
const RTA_NEWDST: u16 = 19;
const RTAX_MTU: u16 = 2;

/// Attributes that a route and a member of a multipath route share.
fn way(hop: &mut Hop, attribute: &Attribute<'_>) -> Result<(), Malformed> {
    match attribute.kind {
        libc::RTA_OIF => hop.device = attribute.u32()?,
        libc::RTA_GATEWAY => hop.gateway = Some(attribute.ip()?),
        RTA_VIA => {
            // struct rtvia: family, address
            let address = attribute.value.get(2..).ok_or(Malformed("RTA_VIA"))?;
            hop.gateway = Some(
                Attribute {
                    kind: RTA_VIA,
                    value: address,
                }
                .ip()?,
            );
        }
        RTA_ENCAP | RTA_ENCAP_TYPE | RTA_NEWDST => hop.encap = true,
        _ => {}
    }
    Ok(())
}

/// RTA_MULTIPATH: an array of struct rtnexthop, each with attributes.
fn hops(attribute: &Attribute<'_>) -> Result<Vec<Hop>, Malformed> {
    let mut bytes = attribute.value;
    let mut hops = Vec::new();
    while bytes.len() >= HOP_HEADER {
        let len = usize::from(u16::from_ne_bytes([bytes[0], bytes[1]]));
        let one = bytes.get(..len).filter(|one| one.len() >= HOP_HEADER);
        let one = one.ok_or(Malformed("multipath"))?;
        let mut hop = Hop {
            device: u32_at(one, 4),
            gateway: None,
            weight: u32::from(one[3]) + 1,
            dead: one[2] & RTNH_F_DEAD != 0,
            encap: false,
        };
        for attribute in attributes(one, HOP_HEADER) {
            way(&mut hop, &attribute?)?;
        }
        hops.push(hop);
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(hops)
}

/// Normalises a target, so that equal targets compare equal.
fn finish(target: &mut Target, hop: Hop) {
    if target.object.is_some() {
        target.hops = Vec::new(); // the kernel repeats the object's paths here
    } else if target.hops.is_empty() && hop.device != 0 {
        target.hops.push(hop);
    }
    if let [only] = target.hops.as_mut_slice() {
        only.weight = 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: [u8; 12] = [2, 24, 0, 0, 254, 4, 0, 1, 0, 0, 0, 0];

    fn message(attributes: &[&[u8]]) -> Vec<u8> {
        [&HEAD[..], &attributes.concat()].concat()
    }

    #[test]
    fn one_gateway() {
        let bytes = message(&[
            &[8, 0, 1, 0, 198, 51, 100, 0],
            &[8, 0, 4, 0, 3, 0, 0, 0],
            &[8, 0, 5, 0, 192, 0, 2, 1],
            &[8, 0, 6, 0, 20, 0, 0, 0],
            &[12, 0, 8, 0, 8, 0, 2, 0, 0x78, 5, 0, 0], // mtu 1400
        ]);
        let route = decode(&bytes, 0).unwrap().unwrap();
        assert_eq!(
            (route.address.to_string().as_str(), route.len),
            ("198.51.100.0", 24)
        );
        assert_eq!(
            (route.metric, route.table, route.target.mtu),
            (20, 254, Some(1400))
        );
        let gateway = Some("192.0.2.1".parse().unwrap());
        let hop = Hop {
            device: 3,
            gateway,
            weight: 1,
            dead: false,
            encap: false,
        };
        assert_eq!(route.target.hops, [hop]);
    }

    #[test]
    fn multipath() {
        let bytes = message(&[
            &[8, 0, 1, 0, 198, 51, 100, 0],
            &[36, 0, 9, 0],
            &[16, 0, 0, 2, 3, 0, 0, 0, 8, 0, 5, 0, 192, 0, 2, 1],
            &[16, 0, 1, 0, 4, 0, 0, 0, 8, 0, 5, 0, 192, 0, 2, 9],
        ]);
        let hops = decode(&bytes, 0).unwrap().unwrap().target.hops;
        assert_eq!(
            hops.iter()
                .map(|h| (h.device, h.weight, h.dead))
                .collect::<Vec<_>>(),
            [(3, 3, false), (4, 1, true)]
        );
    }

    #[test]
    fn ipv6_gateway_of_ipv4() {
        let mut via = vec![22, 0, 18, 0, 10, 0];
        via.extend("fe80::1".parse::<Ipv6Addr>().unwrap().octets());
        via.extend([0, 0]);
        let bytes = message(&[&[8, 0, 4, 0, 3, 0, 0, 0], &via]);
        let hop = decode(&bytes, 0).unwrap().unwrap().target.hops[0];
        assert_eq!(hop.gateway, Some("fe80::1".parse().unwrap()));
    }

    #[test]
    fn contradictions_are_refused() {
        assert!(decode(&HEAD[..11], 0).is_err());
        assert!(decode(&message(&[&[8, 0, 1, 0, 1]]), 0).is_err());
        // a multipath member shorter than its own header
        assert!(decode(&message(&[&[12, 0, 9, 0, 4, 0, 0, 0, 3, 0, 0, 0]]), 0).is_err());
        // an IPv6 destination in an IPv4 route
        let mut wrong = vec![20, 0, 1, 0];
        wrong.extend([0; 16]);
        assert!(decode(&message(&[&wrong]), 0).is_err());
        let mut long = HEAD;
        long[1] = 33;
        assert!(decode(&long, 0).is_err());
    }
}
