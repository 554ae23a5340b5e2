//! Linux's multipath hash, bit for bit: fib_multipath_hash() of net/ipv4/route.c and
//! rt6_multipath_hash() of net/ipv6/route.c, for forwarded packets. The same flow takes the same
//! path whether Linux, `bpf_fib_lookup` or a worker forwards it.

use bora_wire::EtherType;

use crate::Family;
use crate::dissect::{Addresses, Dissected, dissect};

/// What tells flows apart: `net.ipv4.fib_multipath_hash_policy` and its IPv6 twin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HashPolicy {
    /// 0: addresses; of IPv6 also the flow label and the next header (RFC 6438). ICMP errors go
    /// with the packet they tell of.
    #[default]
    L3,
    /// 1: addresses, protocol and ports; fragments without ports, so that all of a packet's
    /// fragments take one way.
    L4,
    /// 2: as 0, of the packet inside if there is one.
    Inner,
    /// 3: the fields of `fib_multipath_hash_fields`.
    Fields,
    /// Unknown: only Linux can choose.
    Unknown,
}

impl HashPolicy {
    /// By its number.
    pub fn from_number(number: u8) -> Self {
        match number {
            0 => Self::L3,
            1 => Self::L4,
            2 => Self::Inner,
            3 => Self::Fields,
            _ => Self::Unknown,
        }
    }
}

/// How the flows of one IP version are hashed (control plane: writes; workers: read).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowHash {
    /// What of a packet is hashed.
    pub policy: HashPolicy,
    /// `fib_multipath_hash_fields`: FIB_MULTIPATH_HASH_FIELD_* of include/net/ip_fib.h.
    pub fields: u32,
    /// Linux's secret: key\[0\] and key\[1\] of its siphash_key_t.
    pub key: [u64; 2],
}

// FIB_MULTIPATH_HASH_FIELD_*; the inner ones are the same, six bits up
const SRC_IP: u32 = 1 << 0;
const DST_IP: u32 = 1 << 1;
const IP_PROTO: u32 = 1 << 2;
const FLOW_LABEL: u32 = 1 << 3;
const SRC_PORT: u32 = 1 << 4;
const DST_PORT: u32 = 1 << 5;
const OUTER: u32 = 0x3f;
const INNER_SHIFT: u32 = 6;

/// Octets of struct flow_keys from flow_keys_hash_start() to the addresses.
const HEAD: usize = 36;
/// The structure's end, which is hashed as well: it is aligned to 8.
const PADDING: usize = 4;

impl FlowHash {
    /// The number, below 2^31, that chooses a path for an IP packet whose header has been checked;
    /// `octets` end where the header says. `None` if only Linux can tell.
    pub fn of(&self, octets: &[u8], family: Family) -> Option<u32> {
        let hash = match self.policy {
            HashPolicy::L3 => self.hash(l3(octets, family)?),
            HashPolicy::L4 => self.hash(l4(&dissect(octets, true)?)),
            HashPolicy::Inner => self.hash(inner(&dissect(octets, false)?)),
            HashPolicy::Fields => self.fields(octets, family)?,
            HashPolicy::Unknown => return None,
        };
        Some(hash >> 1)
    }

    /// Linux's skb_get_hash() of an IP packet whose socket buffer has no hash yet, with this key; `octets` as for [`FlowHash::of`]. Where
    /// Linux looks deeper than [`dissect`], only the addresses count. `None` if there is no header.
    pub(crate) fn of_buffer(&self, octets: &[u8], family: Family) -> Option<u32> {
        let label = match (family, octets.first_chunk::<40>()) {
            (Family::V6, Some(header)) => {
                u32::from_be_bytes([0, header[1] & 15, header[2], header[3]])
            }
            _ => 0,
        };
        // Linux looks no further than a flow label (FLOW_DISSECTOR_F_STOP_AT_FLOW_LABEL)
        let keys = match (label, dissect(octets, false)) {
            (0, Some(found)) => l4(&found),
            (flow_label, _) => Keys {
                flow_label,
                ..l3(octets, family)?
            },
        };
        Some(self.hash(Keys {
            ethertype: match keys.addresses {
                Addresses::V4 { .. } => EtherType::IPV4.0,
                Addresses::V6 { .. } => EtherType::IPV6.0,
            },
            ..keys
        }))
    }

    /// The hash for an outer IPv4 header that this machine writes, before it is cut to 31 bits: fib_multipath_hash()
    /// without a socket buffer. `ports`: of UDP, or the key of GRE, which Linux keeps in the same place. `None` if only
    /// Linux can tell.
    pub(crate) fn of_outer(&self, header: &[u8; 20], ports: [u8; 4]) -> Option<u32> {
        let keys = l3(header, Family::V4)?;
        match self.policy {
            HashPolicy::L3 | HashPolicy::Inner => Some(self.hash(keys)),
            HashPolicy::L4 => Some(self.hash(Keys {
                protocol: header[9],
                ports,
                ..keys
            })),
            HashPolicy::Fields | HashPolicy::Unknown => None,
        }
    }

    /// Linux's flow_hash_from_keys(): the same for both directions, and never 0.
    fn hash(&self, mut keys: Keys) -> u32 {
        keys.sort();
        let hash = match keys.addresses {
            Addresses::V4 { src, dst } => {
                let mut octets = [0; HEAD + 8 + PADDING];
                keys.write(&mut octets);
                octets[HEAD..HEAD + 4].copy_from_slice(&src);
                octets[HEAD + 4..HEAD + 8].copy_from_slice(&dst);
                siphash(self.key, &octets)
            }
            Addresses::V6 { src, dst } => {
                let mut octets = [0; HEAD + 32 + PADDING];
                keys.write(&mut octets);
                octets[HEAD..HEAD + 16].copy_from_slice(&src);
                octets[HEAD + 16..HEAD + 32].copy_from_slice(&dst);
                siphash(self.key, &octets)
            }
        };
        (hash as u32).max(1)
    }

    /// Linux's fib_multipath_custom_hash_skb().
    fn fields(&self, octets: &[u8], family: Family) -> Option<u32> {
        let (mut outer, mut inner, mut has_inner) = (0, 0, true);
        if self.fields & OUTER != 0 {
            let found = dissect(octets, true)?;
            has_inner = found.encapsulated;
            outer = self.hash(chosen(&found, self.fields, family == Family::V6));
        }
        if has_inner && self.fields >> INNER_SHIFT & OUTER != 0 {
            let found = dissect(octets, false)?;
            if found.encapsulated {
                let v6 = matches!(found.addresses, Addresses::V6 { .. });
                inner = self.hash(chosen(&found, self.fields >> INNER_SHIFT, v6));
            }
        }
        Some(jhash_2words(outer, inner, 0))
    }
}

/// What Linux hashes of a flow, in the form of its struct flow_keys.
struct Keys {
    /// Only socket buffers' hashes have it.
    ethertype: u16,
    addresses: Addresses,
    protocol: u8,
    ports: [u8; 4],
    /// As Linux has it in the field: of policy 0 in network order, else in the machine's.
    flow_label: u32,
}

impl Keys {
    /// Linux's __flow_hash_consistentify(), which compares addresses and ports as they are in memory.
    fn sort(&mut self) {
        let swapped = match &self.addresses {
            Addresses::V4 { src, dst } => (u32::from_ne_bytes(*dst) < u32::from_ne_bytes(*src))
                .then_some(Addresses::V4 {
                    src: *dst,
                    dst: *src,
                }),
            Addresses::V6 { src, dst } => (dst < src).then_some(Addresses::V6 {
                src: *dst,
                dst: *src,
            }),
        };
        self.addresses = swapped.unwrap_or(self.addresses);
        let [a, b, c, d] = self.ports;
        if u16::from_ne_bytes([c, d]) < u16::from_ne_bytes([a, b]) {
            self.ports = [c, d, a, b];
        }
    }

    /// The fields before the addresses, from flow_keys_hash_start() on.
    fn write(&self, octets: &mut [u8]) {
        octets[..2].copy_from_slice(&self.ethertype.to_be_bytes());
        octets[2] = self.protocol;
        octets[4..8].copy_from_slice(&self.flow_label.to_ne_bytes());
        octets[28..32].copy_from_slice(&self.ports);
    }
}

/// Policy 0: ip_multipath_l3_keys() and ip6_multipath_l3_keys().
fn l3(octets: &[u8], family: Family) -> Option<Keys> {
    match family {
        Family::V4 => {
            let outer = octets.first_chunk::<20>()?;
            let header = told_of4(outer, octets).unwrap_or(outer);
            let [.., a, b, c, d, e, f, g, h] = *header;
            Some(Keys {
                ethertype: 0,
                addresses: Addresses::V4 {
                    src: [a, b, c, d],
                    dst: [e, f, g, h],
                },
                protocol: 0,
                ports: [0; 4],
                flow_label: 0,
            })
        }
        Family::V6 => {
            let outer = octets.first_chunk::<40>()?;
            let header = told_of6(outer, octets).unwrap_or(outer);
            let (mut src, mut dst) = ([0; 16], [0; 16]);
            src.copy_from_slice(&header[8..24]);
            dst.copy_from_slice(&header[24..]);
            Some(Keys {
                ethertype: 0,
                addresses: Addresses::V6 { src, dst },
                protocol: header[6],
                ports: [0; 4],
                flow_label: u32::from_ne_bytes([0, header[1] & 15, header[2], header[3]]),
            })
        }
    }
}

/// The header inside an ICMP error.
fn told_of4<'a>(outer: &[u8; 20], octets: &'a [u8]) -> Option<&'a [u8; 20]> {
    const ICMP: u8 = 1;
    let later_fragment = u16::from_be_bytes([outer[6], outer[7]]) & 0x1fff != 0;
    if outer[9] != ICMP || later_fragment {
        return None;
    }
    let icmp = octets.get(usize::from(outer[0] & 15) * 4..)?;
    // icmp_is_err(): unreachable, source quench, redirect, time exceeded, parameter problem
    matches!(icmp.first()?, 3 | 4 | 5 | 11 | 12)
        .then(|| icmp.get(8..)?.first_chunk())
        .flatten()
}

/// The header inside an ICMPv6 error.
fn told_of6<'a>(outer: &[u8; 40], octets: &'a [u8]) -> Option<&'a [u8; 40]> {
    const ICMPV6: u8 = 58;
    let icmp = octets.get(40..).filter(|_| outer[6] == ICMPV6)?;
    // icmpv6_is_err(): unreachable, too big, time exceeded, parameter problem
    matches!(icmp.first()?, 1..=4)
        .then(|| icmp.get(8..)?.first_chunk())
        .flatten()
}

/// Policy 1.
fn l4(found: &Dissected) -> Keys {
    Keys {
        ethertype: 0,
        addresses: found.addresses,
        protocol: found.protocol,
        ports: found.ports,
        flow_label: 0,
    }
}

/// Policy 2.
fn inner(found: &Dissected) -> Keys {
    let v6 = matches!(found.addresses, Addresses::V6 { .. });
    Keys {
        ethertype: 0,
        addresses: found.addresses,
        protocol: if v6 { found.protocol } else { 0 },
        ports: [0; 4],
        flow_label: if v6 { found.flow_label } else { 0 },
    }
}

/// Policy 3: the fields that were asked for.
fn chosen(found: &Dissected, fields: u32, v6: bool) -> Keys {
    let asked = |field: u32| fields & field != 0;
    let (with_src, with_dst) = (asked(SRC_IP), asked(DST_IP));
    let addresses = match found.addresses {
        Addresses::V4 { src, dst } => Addresses::V4 {
            src: if with_src { src } else { [0; 4] },
            dst: if with_dst { dst } else { [0; 4] },
        },
        Addresses::V6 { src, dst } => Addresses::V6 {
            src: if with_src { src } else { [0; 16] },
            dst: if with_dst { dst } else { [0; 16] },
        },
    };
    let [a, b, c, d] = found.ports;
    let (src, dst) = (
        if asked(SRC_PORT) { [a, b] } else { [0; 2] },
        if asked(DST_PORT) { [c, d] } else { [0; 2] },
    );
    Keys {
        ethertype: 0,
        addresses,
        protocol: if asked(IP_PROTO) { found.protocol } else { 0 },
        ports: [src[0], src[1], dst[0], dst[1]],
        flow_label: if asked(FLOW_LABEL) && v6 {
            found.flow_label
        } else {
            0
        },
    }
}

/// SipHash-2-4 (Aumasson and Bernstein 2012).
#[inline]
fn siphash(key: [u64; 2], octets: &[u8]) -> u64 {
    let mut v = [
        key[0] ^ 0x736f_6d65_7073_6575,
        key[1] ^ 0x646f_7261_6e64_6f6d,
        key[0] ^ 0x6c79_6765_6e65_7261,
        key[1] ^ 0x7465_6462_7974_6573,
    ];
    let (words, rest) = octets.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let last = u64::from_le_bytes(last) | (octets.len() as u64) << 56;
    for word in words
        .iter()
        .map(|word| u64::from_le_bytes(*word))
        .chain([last])
    {
        v[3] ^= word;
        round(&mut v);
        round(&mut v);
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    (0..4).for_each(|_| round(&mut v));
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

#[inline]
fn round([a, b, c, d]: &mut [u64; 4]) {
    *a = a.wrapping_add(*b);
    *b = b.rotate_left(13) ^ *a;
    *a = a.rotate_left(32);
    *c = c.wrapping_add(*d);
    *d = d.rotate_left(16) ^ *c;
    *a = a.wrapping_add(*d);
    *d = d.rotate_left(21) ^ *a;
    *c = c.wrapping_add(*b);
    *b = b.rotate_left(17) ^ *c;
    *c = c.rotate_left(32);
}

/// Linux's jhash_2words() (include/linux/jhash.h).
pub(crate) fn jhash_2words(a: u32, b: u32, initial: u32) -> u32 {
    let start = initial.wrapping_add(0xdead_beef + (2 << 2));
    let (mut a, mut b, mut c) = (a.wrapping_add(start), b.wrapping_add(start), start);
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    (c ^ b).wrapping_sub(b.rotate_left(24))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_vectors() {
        // appendix A of the paper: key 00 01 .. 0f; lengths 0, 15 and 8 of vectors_sip64
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let octets: Vec<u8> = (0..15).collect();
        assert_eq!(siphash(key, &octets), 0xa129_ca61_49be_45e5);
        assert_eq!(siphash(key, &[]), 0x726f_db47_dd0e_0e31);
        assert_eq!(siphash(key, &octets[..8]), 0x93f5_f579_9a93_2462);
    }

    #[test]
    fn both_directions_hash_alike() {
        let hash = FlowHash {
            policy: HashPolicy::L4,
            key: [1, 2],
            ..FlowHash::default()
        };
        let packet = |src: [u8; 4], dst: [u8; 4], ports: [u8; 4]| {
            let mut octets = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0];
            octets.extend(src.into_iter().chain(dst).chain(ports).chain([0; 4]));
            hash.of(&octets, Family::V4)
        };
        let there = packet([192, 0, 2, 1], [198, 51, 100, 9], [4, 1, 0, 53]);
        assert_eq!(
            there,
            packet([198, 51, 100, 9], [192, 0, 2, 1], [0, 53, 4, 1])
        );
        assert_ne!(
            there,
            packet([192, 0, 2, 1], [198, 51, 100, 9], [4, 2, 0, 53])
        );
    }
}
