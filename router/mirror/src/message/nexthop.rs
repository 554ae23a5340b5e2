//! RTM_NEWNEXTHOP, RTM_NEWNEXTHOPBUCKET (struct nhmsg): next-hop objects, `ip nexthop`.

use std::net::IpAddr;

use crate::attribute::{Attribute, Malformed, attributes, header, u32_at};

// include/uapi/linux/nexthop.h
const NHA_ID: u16 = 1;
const NHA_GROUP: u16 = 2;
const NHA_GROUP_TYPE: u16 = 3;
const NHA_BLACKHOLE: u16 = 4;
const NHA_OIF: u16 = 5;
const NHA_GATEWAY: u16 = 6;
const NHA_ENCAP_TYPE: u16 = 7;
const NHA_ENCAP: u16 = 8;
const NHA_FDB: u16 = 11;
const NHA_RES_BUCKET: u16 = 13;
const NHA_RES_BUCKET_INDEX: u16 = 1;
const NHA_RES_BUCKET_NH_ID: u16 = 3;
const NEXTHOP_GRP_TYPE_RES: u16 = 1;
/// struct nexthop_grp.
const GROUP_ENTRY: usize = 8;
const RTNH_F_DEAD: u32 = 1;

/// A next-hop object as the kernel announced it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextHopMessage {
    /// Its number.
    pub id: u32,
    /// What it is.
    pub object: NextHopObject,
}

/// What a next-hop object is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NextHopObject {
    /// One path.
    Single {
        /// Interface index.
        device: u32,
        /// Gateway, none for on-link.
        gateway: Option<IpAddr>,
        /// Marked dead by the kernel.
        dead: bool,
        /// Needs an encapsulation (lwtunnel, MPLS).
        encap: bool,
    },
    /// Several paths.
    Group {
        /// Ids and weights of the members.
        members: Vec<(u32, u32)>,
        /// Flows are assigned by buckets ([`Bucket`]) and not by hash thresholds.
        resilient: bool,
    },
    /// Packets are dropped.
    Blackhole,
    /// An object that is not for routes (bridge FDB), or of an unknown kind.
    Unsupported,
}

/// One bucket of a resilient group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The group's number.
    pub group: u32,
    /// Number of the bucket; it gets the flows whose hash modulo the number of buckets is this.
    pub index: u16,
    /// Number of the next-hop object they take.
    pub next_hop: u32,
}

pub(super) fn bucket(payload: &[u8]) -> Result<Bucket, Malformed> {
    const WHAT: Malformed = Malformed("next-hop bucket");
    header(payload, 8, "next-hop bucket")?;
    let (mut group, mut index, mut next_hop) = (None, None, None);
    for attribute in attributes(payload, 8) {
        let attribute = attribute?;
        match attribute.kind {
            NHA_ID => group = Some(attribute.u32()?),
            NHA_RES_BUCKET => {
                for nested in attribute.nested() {
                    let nested = nested?;
                    match nested.kind {
                        NHA_RES_BUCKET_INDEX => index = Some(nested.u16()?),
                        NHA_RES_BUCKET_NH_ID => next_hop = Some(nested.u32()?),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    Ok(Bucket {
        group: group.ok_or(WHAT)?,
        index: index.ok_or(WHAT)?,
        next_hop: next_hop.ok_or(WHAT)?,
    })
}

pub(super) fn decode(payload: &[u8]) -> Result<NextHopMessage, Malformed> {
    let head = header(payload, 8, "next-hop message")?;
    let dead = u32_at(head, 4) & RTNH_F_DEAD != 0;
    let (mut id, mut device, mut gateway) = (None, None, None);
    let (mut group, mut resilient) = (None, false);
    let (mut blackhole, mut encap, mut unsupported) = (false, false, false);
    for attribute in attributes(payload, 8) {
        let attribute = attribute?;
        match attribute.kind {
            NHA_ID => id = Some(attribute.u32()?),
            NHA_GROUP => group = Some(members(&attribute)?),
            NHA_GROUP_TYPE => resilient = attribute.u16()? == NEXTHOP_GRP_TYPE_RES,
            NHA_BLACKHOLE => blackhole = true,
            NHA_OIF => device = Some(attribute.u32()?),
            NHA_GATEWAY => gateway = Some(attribute.ip()?),
            NHA_ENCAP_TYPE | NHA_ENCAP => encap = true,
            NHA_FDB => unsupported = true,
            _ => {}
        }
    }
    let id = id.ok_or(Malformed("next-hop message"))?;
    let object = match (group, device) {
        _ if unsupported => NextHopObject::Unsupported,
        _ if blackhole => NextHopObject::Blackhole,
        (Some(members), _) => NextHopObject::Group { members, resilient },
        (None, Some(device)) => NextHopObject::Single {
            device,
            gateway,
            dead,
            encap,
        },
        (None, None) => NextHopObject::Unsupported,
    };
    Ok(NextHopMessage { id, object })
}

fn members(attribute: &Attribute<'_>) -> Result<Vec<(u32, u32)>, Malformed> {
    if !attribute.value.len().is_multiple_of(GROUP_ENTRY) {
        return Err(Malformed("next-hop group"));
    }
    let entry = |bytes: &[u8]| {
        // the message holds the weight minus one; its high octet was zero before Linux 6.12
        let weight = u32::from(bytes[4]) + (u32::from(bytes[5]) << 8) + 1;
        (u32_at(bytes, 0), weight)
    };
    Ok(attribute
        .value
        .chunks_exact(GROUP_ENTRY)
        .map(entry)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gateway() {
        let bytes = [
            2, 0, 0, 0, 0, 0, 0, 0, // AF_INET
            8, 0, 1, 0, 7, 0, 0, 0, // id 7
            8, 0, 5, 0, 3, 0, 0, 0, // device 3
            8, 0, 6, 0, 192, 0, 2, 1,
        ];
        let gateway = Some("192.0.2.1".parse().unwrap());
        let object = NextHopObject::Single {
            device: 3,
            gateway,
            dead: false,
            encap: false,
        };
        assert_eq!(decode(&bytes), Ok(NextHopMessage { id: 7, object }));
        assert!(decode(&bytes[..8]).is_err(), "no id");
        assert!(decode(&bytes[..7]).is_err());
    }

    #[test]
    fn resilient_bucket() {
        let bytes = [
            0, 0, 0, 0, 0, 0, 0, 0, //
            8, 0, 1, 0, 9, 0, 0, 0, // group 9
            20, 0, 13, 128, 6, 0, 1, 0, 5, 0, 0, 0, 8, 0, 3, 0, 2, 0, 0, 0,
        ];
        let found = Bucket {
            group: 9,
            index: 5,
            next_hop: 2,
        };
        assert_eq!(bucket(&bytes), Ok(found));
        assert!(bucket(&bytes[..16]).is_err(), "no bucket");
    }

    #[test]
    fn group_weights() {
        let bytes = [
            0, 0, 0, 0, 0, 0, 0, 0, //
            8, 0, 1, 0, 9, 0, 0, 0, //
            20, 0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 255, 1, 0, 0,
        ];
        let object = NextHopObject::Group {
            members: vec![(1, 1), (2, 512)],
            resilient: false,
        };
        assert_eq!(decode(&bytes), Ok(NextHopMessage { id: 9, object }));
    }
}
