//! ARP (RFC 826) for IPv4 over Ethernet.

use core::net::Ipv4Addr;

use crate::{Error, MacAddr, field};

const FORMAT: usize = 0;
const OPERATION: usize = 6;
const SENDER_MAC: usize = 8;
const SENDER_IP: usize = 14;
const TARGET_MAC: usize = 18;
const TARGET_IP: usize = 24;

/// Length of a packet; what follows in a frame is padding.
pub const LEN: usize = 28;

/// The first six bytes of every packet about Ethernet and IPv4: hardware type 1, protocol type
/// 0x0800, and the lengths of their addresses.
const ETHERNET_IPV4: [u8; 6] = [0, 1, 0x08, 0x00, 6, 4];

/// What a packet asks or tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Operation(pub u16);

impl Operation {
    /// Who has the target address?
    pub const REQUEST: Operation = Operation(1);
    /// The sender has it.
    pub const REPLY: Operation = Operation(2);
}

/// The values of an ARP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Request or reply.
    pub operation: Operation,
    /// Link-layer address of the sender.
    pub sender_mac: MacAddr,
    /// IPv4 address of the sender; unspecified in a probe (RFC 5227).
    pub sender_ip: Ipv4Addr,
    /// Link-layer address of the target; without meaning in a request.
    pub target_mac: MacAddr,
    /// IPv4 address of the target: the one asked about.
    pub target_ip: Ipv4Addr,
}

impl Repr {
    /// Reads the packet at the start of `buffer`.
    ///
    /// # Errors
    /// [`Error::Truncated`] below [`LEN`] bytes, [`Error::BadAddressFormat`] if it is not about
    /// Ethernet and IPv4 addresses.
    pub fn parse(buffer: &[u8]) -> Result<Repr, Error> {
        if buffer.len() < LEN {
            return Err(Error::Truncated);
        }
        if field::array(buffer, FORMAT) != ETHERNET_IPV4 {
            return Err(Error::BadAddressFormat);
        }
        Ok(Repr {
            operation: Operation(field::u16(buffer, OPERATION)),
            sender_mac: MacAddr(field::array(buffer, SENDER_MAC)),
            sender_ip: Ipv4Addr::from(field::array(buffer, SENDER_IP)),
            target_mac: MacAddr(field::array(buffer, TARGET_MAC)),
            target_ip: Ipv4Addr::from(field::array(buffer, TARGET_IP)),
        })
    }

    /// Writes the packet at the start of `buffer`.
    ///
    /// # Errors
    /// [`Error::Truncated`] if it does not fit.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), Error> {
        if buffer.len() < LEN {
            return Err(Error::Truncated);
        }
        field::put(buffer, FORMAT, ETHERNET_IPV4);
        field::put_u16(buffer, OPERATION, self.operation.0);
        field::put(buffer, SENDER_MAC, self.sender_mac.0);
        field::put(buffer, SENDER_IP, self.sender_ip.octets());
        field::put(buffer, TARGET_MAC, self.target_mac.0);
        field::put(buffer, TARGET_IP, self.target_ip.octets());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: [u8; 30] = [
        0x00, 0x01, 0x08, 0x00, 0x06, 0x04, 0x00, 0x01, // Ethernet, IPv4, request
        0x02, 0x00, 0x00, 0x00, 0x00, 0x0a, 192, 0, 2, 1, // sender
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 192, 0, 2, 254, // target
        0xee, 0xee, // padding
    ];

    #[test]
    fn reads_and_writes_all_fields() {
        let request = Repr {
            operation: Operation::REQUEST,
            sender_mac: MacAddr([2, 0, 0, 0, 0, 10]),
            sender_ip: Ipv4Addr::new(192, 0, 2, 1),
            target_mac: MacAddr::ZERO,
            target_ip: Ipv4Addr::new(192, 0, 2, 254),
        };
        assert_eq!(Repr::parse(&REQUEST), Ok(request));
        let mut out = [0xee; 30];
        request.emit(&mut out).unwrap();
        assert_eq!(out, REQUEST);
        assert_eq!(request.emit(&mut [0; 27]), Err(Error::Truncated));
    }

    #[test]
    fn every_refusal() {
        assert_eq!(Repr::parse(&REQUEST[..27]), Err(Error::Truncated));
        assert!(Repr::parse(&REQUEST[..28]).is_ok());
        for at in 0..6 {
            let mut bytes = REQUEST;
            bytes[at] ^= 0x10;
            assert_eq!(
                Repr::parse(&bytes),
                Err(Error::BadAddressFormat),
                "byte {at}"
            );
        }
    }
}
