//! Netlink attributes (struct nlattr): a bounds-checked iterator and readers of their values.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A message or attribute whose lengths contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is cut short or has the wrong size")]
pub struct Malformed(pub &'static str);

/// Length of an attribute header.
const HEADER: usize = 4;

/// One attribute: its type without the NLA_F_* bits, and its value.
#[derive(Clone, Copy, Debug)]
pub struct Attribute<'a> {
    /// Its type, without NLA_F_NESTED and NLA_F_NET_BYTEORDER.
    pub kind: u16,
    /// The octets behind its header.
    pub value: &'a [u8],
}

/// The attributes of a message or a nested attribute, in order.
#[derive(Clone, Debug)]
pub struct Attributes<'a>(&'a [u8]);

/// Reads the attributes behind a fixed header of `offset` octets.
pub fn attributes(payload: &[u8], offset: usize) -> Attributes<'_> {
    Attributes(payload.get(offset..).unwrap_or_default())
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Result<Attribute<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.len() < HEADER {
            return None; // up to three octets of padding
        }
        let len = usize::from(u16::from_ne_bytes([self.0[0], self.0[1]]));
        let kind = u16::from_ne_bytes([self.0[2], self.0[3]]) & libc::NLA_TYPE_MASK as u16;
        let Some(value) = self.0.get(HEADER..len) else {
            self.0 = &[];
            return Some(Err(Malformed("attribute")));
        };
        self.0 = self.0.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(Ok(Attribute { kind, value }))
    }
}

impl<'a> Attribute<'a> {
    /// The value, if it has this many octets.
    fn exactly<const N: usize>(&self) -> Option<[u8; N]> {
        let array = self.value.first_chunk();
        array.copied().filter(|_| self.value.len() == N)
    }

    fn array<const N: usize>(&self) -> Result<[u8; N], Malformed> {
        self.exactly().ok_or(Malformed("attribute value"))
    }

    /// An octet.
    ///
    /// # Errors
    /// The value has another size.
    pub fn u8(&self) -> Result<u8, Malformed> {
        Ok(u8::from_ne_bytes(self.array()?))
    }

    /// 16 bits in the order of the host.
    ///
    /// # Errors
    /// The value has another size.
    pub fn u16(&self) -> Result<u16, Malformed> {
        Ok(u16::from_ne_bytes(self.array()?))
    }

    /// 32 bits in the order of the host.
    ///
    /// # Errors
    /// The value has another size.
    pub fn u32(&self) -> Result<u32, Malformed> {
        Ok(u32::from_ne_bytes(self.array()?))
    }

    /// 32 bits in network order.
    ///
    /// # Errors
    /// The value has another size.
    pub fn u32_be(&self) -> Result<u32, Malformed> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// 64 bits in network order.
    ///
    /// # Errors
    /// The value has another size.
    pub fn u64_be(&self) -> Result<u64, Malformed> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    /// An IP address: 4 octets are IPv4, 16 are IPv6.
    ///
    /// # Errors
    /// The value has another size.
    pub fn ip(&self) -> Result<IpAddr, Malformed> {
        match self.value.len() {
            4 => Ok(IpAddr::V4(Ipv4Addr::from(self.array::<4>()?))),
            16 => Ok(IpAddr::V6(Ipv6Addr::from(self.array::<16>()?))),
            _ => Err(Malformed("address")),
        }
    }

    /// The link-layer address; `None` if it does not have Ethernet's size.
    pub fn mac(&self) -> Option<[u8; 6]> {
        self.exactly()
    }

    /// A string, up to its NUL.
    pub fn text(&self) -> String {
        let end = self
            .value
            .iter()
            .position(|&b| b == 0)
            .unwrap_or(self.value.len());
        String::from_utf8_lossy(&self.value[..end]).into_owned()
    }

    /// The attributes inside.
    pub fn nested(&self) -> Attributes<'a> {
        Attributes(self.value)
    }
}

/// Fields of a fixed header, which must have at least `size` octets.
///
/// # Errors
/// It is shorter.
pub fn header<'a>(
    payload: &'a [u8],
    size: usize,
    what: &'static str,
) -> Result<&'a [u8], Malformed> {
    payload.get(..size).ok_or(Malformed(what))
}

/// A native-order u32 at `at` of a header whose size has been checked.
///
/// # Panics
/// The header ends before.
pub fn u32_at(header: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_padding() {
        // u8 attribute padded to 4, then a nested-flagged u32
        let bytes = [5, 0, 7, 0, 9, 0, 0, 0, 8, 0, 3, 0x80, 1, 0, 0, 0];
        let found: Vec<_> = attributes(&bytes, 0).map(Result::unwrap).collect();
        assert_eq!((found[0].kind, found[0].value), (7, &[9][..]));
        assert_eq!((found[1].kind, found[1].u32()), (3, Ok(1u32.to_le())));
        assert_eq!(found.len(), 2);
        assert!(found[0].u32().is_err());
    }

    #[test]
    fn wrong_lengths_are_refused() {
        for bytes in [[3, 0, 1, 0, 0, 0, 0, 0], [200, 0, 1, 0, 0, 0, 0, 0], [0; 8]] {
            let mut found = attributes(&bytes, 0);
            assert!(found.next().unwrap().is_err());
            assert!(found.next().is_none(), "a wrong length ends the iteration");
        }
        assert!(attributes(&[1, 2], 9).next().is_none());
    }
}
