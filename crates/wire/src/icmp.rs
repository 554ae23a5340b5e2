//! ICMP (RFC 792): echo, and the errors a router sends or passes on.

use core::fmt;
use core::net::Ipv4Addr;

use crate::{Error, checksum, field};

const TYPE: usize = 0;
const CODE: usize = 1;
const CHECKSUM: usize = 2;
const REST: usize = 4;
const IDENT: usize = 4;
const POINTER: usize = 4;
const SEQ: usize = 6;
const MTU: usize = 6;

/// Length of the header; the quote of an error, or the data of an echo, follows.
pub const HEADER_LEN: usize = 8;

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Type(pub u8);

impl Type {
    /// Answer to an echo request.
    pub const ECHO_REPLY: Type = Type(0);
    /// Destination unreachable; see [`mod@unreachable`] for the codes.
    pub const UNREACHABLE: Type = Type(3);
    /// Source quench (deprecated by RFC 6633), an error too.
    pub const SOURCE_QUENCH: Type = Type(4);
    /// Redirect; see [`redirect`] for the codes.
    pub const REDIRECT: Type = Type(5);
    /// Echo request.
    pub const ECHO_REQUEST: Type = Type(8);
    /// Time exceeded; see [`time_exceeded`] for the codes.
    pub const TIME_EXCEEDED: Type = Type(11);
    /// A parameter of the header is wrong.
    pub const PARAMETER_PROBLEM: Type = Type(12);

    /// Whether the message reports about another packet, so that no error may be sent about it
    /// (RFC 1812 4.3.2.7).
    #[inline]
    #[must_use]
    pub const fn is_error(self) -> bool {
        matches!(
            self,
            Type::UNREACHABLE
                | Type::SOURCE_QUENCH
                | Type::REDIRECT
                | Type::TIME_EXCEEDED
                | Type::PARAMETER_PROBLEM
        )
    }
}

/// Codes of [`Type::UNREACHABLE`] (RFC 792, RFC 1812 5.2.7.1).
pub mod unreachable {
    /// No route to the network.
    pub const NETWORK: u8 = 0;
    /// The host does not answer on its link.
    pub const HOST: u8 = 1;
    /// The host does not speak the protocol.
    pub const PROTOCOL: u8 = 2;
    /// Nobody listens on the port.
    pub const PORT: u8 = 3;
    /// Too big, and routers may not fragment it.
    pub const FRAGMENTATION_NEEDED: u8 = 4;
    /// The source route failed.
    pub const SOURCE_ROUTE_FAILED: u8 = 5;
    /// The network is administratively prohibited.
    pub const NETWORK_PROHIBITED: u8 = 9;
    /// The host is administratively prohibited.
    pub const HOST_PROHIBITED: u8 = 10;
    /// Communication is administratively prohibited: a filter's answer.
    pub const PROHIBITED: u8 = 13;
}

/// Codes of [`Type::TIME_EXCEEDED`].
pub mod time_exceeded {
    /// The TTL ran out in transit.
    pub const TTL: u8 = 0;
    /// Not all fragments came in time.
    pub const REASSEMBLY: u8 = 1;
}

/// Codes of [`Type::REDIRECT`].
pub mod redirect {
    /// For the network; not to be sent (RFC 1812 5.2.7.2).
    pub const NETWORK: u8 = 0;
    /// For the host.
    pub const HOST: u8 = 1;
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match *self {
            Type::ECHO_REPLY => "echo reply",
            Type::UNREACHABLE => "unreachable",
            Type::SOURCE_QUENCH => "source quench",
            Type::REDIRECT => "redirect",
            Type::ECHO_REQUEST => "echo request",
            Type::TIME_EXCEEDED => "time exceeded",
            Type::PARAMETER_PROBLEM => "parameter problem",
            Type(other) => return write!(f, "type {other}"),
        };
        f.write_str(name)
    }
}

/// A view of an ICMP message: the buffer is exactly the message.
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

    /// A view of a message whose header is all there.
    ///
    /// # Errors
    /// [`Error::Truncated`] below [`HEADER_LEN`] bytes.
    #[inline]
    pub fn new_checked(buffer: T) -> Result<Self, Error> {
        if buffer.as_ref().len() < HEADER_LEN {
            return Err(Error::Truncated);
        }
        Ok(Packet { buffer })
    }

    /// What the message is.
    #[inline]
    pub fn kind(&self) -> Type {
        Type(field::u8(self.buffer.as_ref(), TYPE))
    }

    /// The code: what exactly, depending on the type.
    #[inline]
    pub fn code(&self) -> u8 {
        field::u8(self.buffer.as_ref(), CODE)
    }

    /// The checksum field.
    #[inline]
    pub fn checksum(&self) -> u16 {
        field::u16(self.buffer.as_ref(), CHECKSUM)
    }

    /// Identifier of an echo.
    #[inline]
    pub fn ident(&self) -> u16 {
        field::u16(self.buffer.as_ref(), IDENT)
    }

    /// Sequence number of an echo.
    #[inline]
    pub fn seq(&self) -> u16 {
        field::u16(self.buffer.as_ref(), SEQ)
    }

    /// Next-hop MTU of "fragmentation needed", in bytes; zero from a router older than RFC 1191.
    #[inline]
    pub fn mtu(&self) -> u16 {
        field::u16(self.buffer.as_ref(), MTU)
    }

    /// Where in the quoted packet the problem is, in bytes.
    #[inline]
    pub fn pointer(&self) -> u8 {
        field::u8(self.buffer.as_ref(), POINTER)
    }

    /// The better gateway of a redirect.
    #[inline]
    pub fn gateway(&self) -> Ipv4Addr {
        Ipv4Addr::from(field::array::<4>(self.buffer.as_ref(), REST))
    }

    /// The data of an echo, or the start of the packet an error is about. That is cut short:
    /// look at it with [`crate::ipv4::Packet::new_unchecked`].
    #[inline]
    pub fn payload(&self) -> &[u8] {
        self.buffer.as_ref().get(HEADER_LEN..).unwrap_or(&[])
    }

    /// Checks the checksum.
    ///
    /// # Errors
    /// [`Error::BadChecksum`].
    pub fn verify_checksum(&self) -> Result<(), Error> {
        if checksum::is_valid(self.buffer.as_ref()) {
            Ok(())
        } else {
            Err(Error::BadChecksum)
        }
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets type and code.
    #[inline]
    pub fn set_kind(&mut self, kind: Type, code: u8) {
        field::put(self.buffer.as_mut(), TYPE, [kind.0, code]);
    }

    /// Sets identifier and sequence number of an echo.
    #[inline]
    pub fn set_echo(&mut self, ident: u16, seq: u16) {
        field::put_u16(self.buffer.as_mut(), IDENT, ident);
        field::put_u16(self.buffer.as_mut(), SEQ, seq);
    }

    /// Sets the next-hop MTU, in bytes.
    #[inline]
    pub fn set_mtu(&mut self, value: u16) {
        field::put_u32(self.buffer.as_mut(), REST, u32::from(value));
    }

    /// Sets where the problem is, in bytes.
    #[inline]
    pub fn set_pointer(&mut self, value: u8) {
        field::put(self.buffer.as_mut(), REST, [value, 0, 0, 0]);
    }

    /// Sets the better gateway.
    #[inline]
    pub fn set_gateway(&mut self, value: Ipv4Addr) {
        field::put(self.buffer.as_mut(), REST, value.octets());
    }

    /// Computes the checksum over the whole buffer and writes it.
    pub fn fill_checksum(&mut self) {
        field::put_u16(self.buffer.as_mut(), CHECKSUM, 0);
        let value = checksum::checksum(self.buffer.as_ref());
        field::put_u16(self.buffer.as_mut(), CHECKSUM, value);
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Packet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ICMP {} code {}", self.kind(), self.code())
    }
}

/// The values of the messages Bora builds or judges; `payload` is the data of an echo, or the
/// start of the packet an error is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr<'a> {
    /// What it says.
    pub message: Message,
    /// What follows the header.
    pub payload: &'a [u8],
}

/// What a message says in its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(
    missing_docs,
    reason = "the fields are those of the packet view, by the same names"
)]
pub enum Message {
    /// Please send this back.
    EchoRequest { ident: u16, seq: u16 },
    /// Here it is.
    EchoReply { ident: u16, seq: u16 },
    /// It cannot get there; `mtu` counts with "fragmentation needed" and is zero otherwise.
    Unreachable { code: u8, mtu: u16 },
    /// It took too long.
    TimeExceeded { code: u8 },
    /// There is a shorter way.
    Redirect { code: u8, gateway: Ipv4Addr },
    /// Its header is wrong.
    ParameterProblem { code: u8, pointer: u8 },
}

impl<'a> Repr<'a> {
    /// Reads a checked message.
    ///
    /// # Errors
    /// [`Error::BadChecksum`], [`Error::UnknownType`] for any other type.
    pub fn parse<T: AsRef<[u8]>>(packet: &'a Packet<T>) -> Result<Self, Error> {
        packet.verify_checksum()?;
        let code = packet.code();
        let (ident, seq) = (packet.ident(), packet.seq());
        let message = match packet.kind() {
            Type::ECHO_REQUEST => Message::EchoRequest { ident, seq },
            Type::ECHO_REPLY => Message::EchoReply { ident, seq },
            Type::UNREACHABLE if code == unreachable::FRAGMENTATION_NEEDED => {
                Message::Unreachable {
                    code,
                    mtu: packet.mtu(),
                }
            }
            Type::UNREACHABLE => Message::Unreachable { code, mtu: 0 },
            Type::TIME_EXCEEDED => Message::TimeExceeded { code },
            Type::REDIRECT => Message::Redirect {
                code,
                gateway: packet.gateway(),
            },
            Type::PARAMETER_PROBLEM => Message::ParameterProblem {
                code,
                pointer: packet.pointer(),
            },
            _ => return Err(Error::UnknownType),
        };
        Ok(Repr {
            message,
            payload: packet.payload(),
        })
    }

    /// Length of the whole message in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        HEADER_LEN + self.payload.len()
    }

    /// Whether there is nothing behind the header.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.payload.is_empty()
    }

    /// Writes header, payload and checksum at the start of `buffer`.
    ///
    /// # Errors
    /// [`Error::Truncated`] if they do not fit.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), Error> {
        let buffer = buffer.get_mut(..self.len()).ok_or(Error::Truncated)?;
        let (header, payload) = buffer.split_at_mut(HEADER_LEN);
        header.fill(0);
        payload.copy_from_slice(self.payload);
        let mut packet = Packet::new_unchecked(buffer);
        match self.message {
            Message::EchoRequest { ident, seq } => {
                packet.set_kind(Type::ECHO_REQUEST, 0);
                packet.set_echo(ident, seq);
            }
            Message::EchoReply { ident, seq } => {
                packet.set_kind(Type::ECHO_REPLY, 0);
                packet.set_echo(ident, seq);
            }
            Message::Unreachable { code, mtu } => {
                packet.set_kind(Type::UNREACHABLE, code);
                packet.set_mtu(mtu);
            }
            Message::TimeExceeded { code } => packet.set_kind(Type::TIME_EXCEEDED, code),
            Message::Redirect { code, gateway } => {
                packet.set_kind(Type::REDIRECT, code);
                packet.set_gateway(gateway);
            }
            Message::ParameterProblem { code, pointer } => {
                packet.set_kind(Type::PARAMETER_PROBLEM, code);
                packet.set_pointer(pointer);
            }
        }
        packet.fill_checksum();
        Ok(())
    }
}

#[cfg(test)]
#[path = "icmp_tests.rs"]
mod tests;
