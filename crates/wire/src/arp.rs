//! ARP (RFC 826) for IPv4 over Ethernet.

use core::fmt;
use core::net::Ipv4Addr;

use crate::{Error, EtherType, MacAddr, field};

const HARDWARE: usize = 0;
const PROTOCOL: usize = 2;
const HARDWARE_LEN: usize = 4;
const PROTOCOL_LEN: usize = 5;
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

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Operation::REQUEST => f.write_str("request"),
            Operation::REPLY => f.write_str("reply"),
            Operation(other) => write!(f, "operation {other}"),
        }
    }
}

/// A view of an ARP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view that has seen no check; see the crate's page.
    #[inline]
    pub const fn new_unchecked(buffer: T) -> Self {
        Packet { buffer }
    }

    /// A view of a packet that is all there and about Ethernet and IPv4 addresses.
    ///
    /// # Errors
    /// [`Error::Truncated`] below [`LEN`] bytes, [`Error::BadAddressFormat`].
    #[inline]
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        let data = buffer.as_ref();
        if data.len() < LEN {
            return Err(Error::Truncated);
        }
        if field::array(data, HARDWARE) != ETHERNET_IPV4 {
            return Err(Error::BadAddressFormat);
        }
        Ok(Packet { buffer })
    }

    /// Request, reply or another.
    #[inline]
    pub fn operation(&self) -> Operation {
        Operation(field::u16(self.buffer.as_ref(), OPERATION))
    }

    /// Link-layer address of who sent it.
    #[inline]
    pub fn sender_mac(&self) -> MacAddr {
        MacAddr(field::array(self.buffer.as_ref(), SENDER_MAC))
    }

    /// IPv4 address of who sent it; unspecified in a probe (RFC 5227).
    #[inline]
    pub fn sender_ip(&self) -> Ipv4Addr {
        Ipv4Addr::from(field::array::<4>(self.buffer.as_ref(), SENDER_IP))
    }

    /// Link-layer address of who is asked; without meaning in a request.
    #[inline]
    pub fn target_mac(&self) -> MacAddr {
        MacAddr(field::array(self.buffer.as_ref(), TARGET_MAC))
    }

    /// IPv4 address asked about.
    #[inline]
    pub fn target_ip(&self) -> Ipv4Addr {
        Ipv4Addr::from(field::array::<4>(self.buffer.as_ref(), TARGET_IP))
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets the fields that make it about Ethernet and IPv4 addresses.
    #[inline]
    pub fn set_ethernet_ipv4(&mut self) {
        let data = self.buffer.as_mut();
        field::put_u16(data, HARDWARE, 1);
        field::put_u16(data, PROTOCOL, EtherType::IPV4.0);
        field::put_u8(data, HARDWARE_LEN, 6);
        field::put_u8(data, PROTOCOL_LEN, 4);
    }

    /// Sets the operation.
    #[inline]
    pub fn set_operation(&mut self, value: Operation) {
        field::put_u16(self.buffer.as_mut(), OPERATION, value.0);
    }

    /// Sets both addresses of the sender.
    #[inline]
    pub fn set_sender(&mut self, mac: MacAddr, ip: Ipv4Addr) {
        let data = self.buffer.as_mut();
        field::put(data, SENDER_MAC, mac.0);
        field::put(data, SENDER_IP, ip.octets());
    }

    /// Sets both addresses of the target.
    #[inline]
    pub fn set_target(&mut self, mac: MacAddr, ip: Ipv4Addr) {
        let data = self.buffer.as_mut();
        field::put(data, TARGET_MAC, mac.0);
        field::put(data, TARGET_IP, ip.octets());
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Packet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sender, target) = (self.sender_ip(), self.target_ip());
        write!(
            f,
            "{} {sender} ({}) > {target}",
            self.operation(),
            self.sender_mac()
        )
    }
}

/// The values of an ARP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Request or reply.
    pub operation: Operation,
    /// Link-layer address of the sender.
    pub sender_mac: MacAddr,
    /// IPv4 address of the sender.
    pub sender_ip: Ipv4Addr,
    /// Link-layer address of the target.
    pub target_mac: MacAddr,
    /// IPv4 address of the target.
    pub target_ip: Ipv4Addr,
}

impl Repr {
    /// Reads a checked packet.
    #[must_use]
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Repr {
        Repr {
            operation: packet.operation(),
            sender_mac: packet.sender_mac(),
            sender_ip: packet.sender_ip(),
            target_mac: packet.target_mac(),
            target_ip: packet.target_ip(),
        }
    }

    /// Writes the packet at the start of `buffer`.
    ///
    /// # Errors
    /// [`Error::Truncated`] if it does not fit.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), Error> {
        if buffer.len() < LEN {
            return Err(Error::Truncated);
        }
        let mut packet = Packet::new_unchecked(buffer);
        packet.set_ethernet_ipv4();
        packet.set_operation(self.operation);
        packet.set_sender(self.sender_mac, self.sender_ip);
        packet.set_target(self.target_mac, self.target_ip);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    const REQUEST: [u8; 30] = [
        0x00, 0x01, 0x08, 0x00, 0x06, 0x04, 0x00, 0x01, // Ethernet, IPv4, request
        0x02, 0x00, 0x00, 0x00, 0x00, 0x0a, 192, 0, 2, 1, // sender
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 192, 0, 2, 254, // target
        0xee, 0xee, // padding
    ];

    #[test]
    fn reads_fields() {
        let packet = Packet::new_checked(REQUEST).unwrap();
        assert_eq!(packet.operation(), Operation::REQUEST);
        assert_eq!(packet.sender_mac(), MacAddr([2, 0, 0, 0, 0, 10]));
        assert_eq!(packet.sender_ip(), Ipv4Addr::new(192, 0, 2, 1));
        assert_eq!(packet.target_mac(), MacAddr::ZERO);
        assert_eq!(packet.target_ip(), Ipv4Addr::new(192, 0, 2, 254));
        assert_eq!(
            packet.to_string(),
            "request 192.0.2.1 (02:00:00:00:00:0a) > 192.0.2.254"
        );
        assert_eq!(Operation(9).to_string(), "operation 9");
    }

    #[test]
    fn emits_what_it_parsed() {
        let repr = Repr::parse(&Packet::new_checked(REQUEST).unwrap());
        let mut out = [0xee; 30];
        repr.emit(&mut out).unwrap();
        assert_eq!(out, REQUEST);
        assert_eq!(repr.emit(&mut [0; 27]), Err(Error::Truncated));
    }

    #[test]
    fn every_refusal() {
        assert_eq!(Packet::new_checked(&REQUEST[..27]), Err(Error::Truncated));
        assert!(Packet::new_checked(&REQUEST[..28]).is_ok());
        for at in 0..6 {
            let mut bytes = REQUEST;
            bytes[at] ^= 0x10;
            assert_eq!(
                Packet::new_checked(bytes),
                Err(Error::BadAddressFormat),
                "byte {at}"
            );
        }
    }
}
