//! ICMPv6 (RFC 4443): echo, and the errors a router sends or passes on. Neighbour discovery, which
//! is ICMPv6 too, is in [`crate::ndisc`].

use core::fmt;

use crate::checksum::{self, Sum, Transport};
use crate::{Error, Protocol, field};

const TYPE: usize = 0;
const CODE: usize = 1;
const CHECKSUM: usize = 2;
const REST: usize = 4;
const IDENT: usize = 4;
const SEQ: usize = 6;

/// Length of the header; the quote of an error, or the data of an echo, follows.
pub const HEADER_LEN: usize = 8;

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Type(pub u8);

impl Type {
    /// Destination unreachable; see [`mod@unreachable`] for the codes.
    pub const UNREACHABLE: Type = Type(1);
    /// Too big for the next link.
    pub const PACKET_TOO_BIG: Type = Type(2);
    /// Time exceeded; see [`time_exceeded`] for the codes.
    pub const TIME_EXCEEDED: Type = Type(3);
    /// A parameter of a header is wrong; see [`parameter_problem`] for the codes.
    pub const PARAMETER_PROBLEM: Type = Type(4);
    /// Echo request.
    pub const ECHO_REQUEST: Type = Type(128);
    /// Answer to an echo request.
    pub const ECHO_REPLY: Type = Type(129);
    /// Router solicitation (RFC 4861).
    pub const ROUTER_SOLICITATION: Type = Type(133);
    /// Router advertisement (RFC 4861).
    pub const ROUTER_ADVERTISEMENT: Type = Type(134);
    /// Neighbour solicitation (RFC 4861).
    pub const NEIGHBOUR_SOLICITATION: Type = Type(135);
    /// Neighbour advertisement (RFC 4861).
    pub const NEIGHBOUR_ADVERTISEMENT: Type = Type(136);
    /// Redirect (RFC 4861).
    pub const REDIRECT: Type = Type(137);

    /// Whether the message is an error (RFC 4443 2.1). No error may be sent about one, nor about a
    /// redirect, which is informational by its number (2.4).
    #[inline]
    #[must_use]
    pub const fn is_error(self) -> bool {
        self.0 < 128
    }

    /// Whether the message belongs to neighbour discovery, and never leaves its link.
    #[inline]
    #[must_use]
    pub const fn is_ndisc(self) -> bool {
        self.0 >= Type::ROUTER_SOLICITATION.0 && self.0 <= Type::REDIRECT.0
    }
}

/// Codes of [`Type::UNREACHABLE`] (RFC 4443 3.1).
pub mod unreachable {
    /// No route to the destination.
    pub const NO_ROUTE: u8 = 0;
    /// Administratively prohibited: a filter's answer.
    pub const PROHIBITED: u8 = 1;
    /// Beyond the scope of the source address.
    pub const BEYOND_SCOPE: u8 = 2;
    /// The address does not answer on its link.
    pub const ADDRESS: u8 = 3;
    /// Nobody listens on the port.
    pub const PORT: u8 = 4;
    /// The source address failed an ingress or egress policy.
    pub const POLICY: u8 = 5;
    /// The route rejects it.
    pub const REJECT_ROUTE: u8 = 6;
}

/// Codes of [`Type::TIME_EXCEEDED`] (RFC 4443 3.3).
pub mod time_exceeded {
    /// The hop limit ran out in transit.
    pub const HOP_LIMIT: u8 = 0;
    /// Not all fragments came in time.
    pub const REASSEMBLY: u8 = 1;
}

/// Codes of [`Type::PARAMETER_PROBLEM`] (RFC 4443 3.4).
pub mod parameter_problem {
    /// A field has an impossible value.
    pub const HEADER_FIELD: u8 = 0;
    /// A next header nobody knows.
    pub const NEXT_HEADER: u8 = 1;
    /// An option nobody knows.
    pub const OPTION: u8 = 2;
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match *self {
            Type::UNREACHABLE => "unreachable",
            Type::PACKET_TOO_BIG => "packet too big",
            Type::TIME_EXCEEDED => "time exceeded",
            Type::PARAMETER_PROBLEM => "parameter problem",
            Type::ECHO_REQUEST => "echo request",
            Type::ECHO_REPLY => "echo reply",
            Type::ROUTER_SOLICITATION => "router solicitation",
            Type::ROUTER_ADVERTISEMENT => "router advertisement",
            Type::NEIGHBOUR_SOLICITATION => "neighbour solicitation",
            Type::NEIGHBOUR_ADVERTISEMENT => "neighbour advertisement",
            Type::REDIRECT => "redirect",
            Type(other) => return write!(f, "type {other}"),
        };
        f.write_str(name)
    }
}

/// A view of an ICMPv6 message: the buffer is exactly the message.
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

    /// MTU of the next link, in bytes ("packet too big").
    #[inline]
    pub fn mtu(&self) -> u32 {
        field::u32(self.buffer.as_ref(), REST)
    }

    /// Where in the quoted packet the problem is, in bytes ("parameter problem").
    #[inline]
    pub fn pointer(&self) -> u32 {
        field::u32(self.buffer.as_ref(), REST)
    }

    /// The data of an echo, or the start of the packet an error is about. That is cut short:
    /// look at it with [`crate::ipv6::Packet::new_unchecked`].
    #[inline]
    pub fn payload(&self) -> &[u8] {
        self.buffer.as_ref().get(HEADER_LEN..).unwrap_or(&[])
    }

    /// Checks the checksum; `pseudo` is the pseudo-header's sum with the buffer's length in it.
    pub fn verify_checksum(&self, pseudo: Sum) -> Transport {
        checksum::transport(pseudo, Protocol::ICMPV6, self.buffer.as_ref())
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets type and code.
    #[inline]
    pub fn set_kind(&mut self, kind: Type, code: u8) {
        field::put(self.buffer.as_mut(), TYPE, [kind.0, code]);
    }

    /// Sets the checksum field.
    #[inline]
    pub fn set_checksum(&mut self, value: u16) {
        field::put_u16(self.buffer.as_mut(), CHECKSUM, value);
    }

    /// Sets identifier and sequence number of an echo.
    #[inline]
    pub fn set_echo(&mut self, ident: u16, seq: u16) {
        field::put_u16(self.buffer.as_mut(), IDENT, ident);
        field::put_u16(self.buffer.as_mut(), SEQ, seq);
    }

    /// Sets the MTU of the next link, in bytes.
    #[inline]
    pub fn set_mtu(&mut self, value: u32) {
        field::put_u32(self.buffer.as_mut(), REST, value);
    }

    /// Sets where the problem is, in bytes.
    #[inline]
    pub fn set_pointer(&mut self, value: u32) {
        field::put_u32(self.buffer.as_mut(), REST, value);
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Packet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ICMPv6 {} code {}", self.kind(), self.code())
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
    /// It cannot get there.
    Unreachable { code: u8 },
    /// It does not fit the next link.
    PacketTooBig { mtu: u32 },
    /// It took too long.
    TimeExceeded { code: u8 },
    /// A header is wrong.
    ParameterProblem { code: u8, pointer: u32 },
}

impl<'a> Repr<'a> {
    /// Reads a checked message; `pseudo` is as for [`Packet::verify_checksum`].
    ///
    /// # Errors
    /// [`Error::BadChecksum`], [`Error::UnknownType`] for any other type.
    pub fn parse<T: AsRef<[u8]>>(packet: &'a Packet<T>, pseudo: Sum) -> Result<Self, Error> {
        if packet.verify_checksum(pseudo) != Transport::Valid {
            return Err(Error::BadChecksum);
        }
        let code = packet.code();
        let (ident, seq) = (packet.ident(), packet.seq());
        let message = match packet.kind() {
            Type::ECHO_REQUEST => Message::EchoRequest { ident, seq },
            Type::ECHO_REPLY => Message::EchoReply { ident, seq },
            Type::UNREACHABLE => Message::Unreachable { code },
            Type::PACKET_TOO_BIG => Message::PacketTooBig { mtu: packet.mtu() },
            Type::TIME_EXCEEDED => Message::TimeExceeded { code },
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

    /// Writes header, payload and checksum at the start of `buffer`; `pseudo` is the
    /// pseudo-header's sum with [`Repr::len`] in it.
    ///
    /// # Errors
    /// [`Error::Truncated`] if they do not fit.
    pub fn emit(&self, buffer: &mut [u8], pseudo: Sum) -> Result<(), Error> {
        let buffer = buffer.get_mut(..self.len()).ok_or(Error::Truncated)?;
        let (header, payload) = buffer.split_at_mut(HEADER_LEN);
        header.fill(0);
        payload.copy_from_slice(self.payload);
        let mut packet = Packet::new_unchecked(&mut *buffer);
        match self.message {
            Message::EchoRequest { ident, seq } => {
                packet.set_kind(Type::ECHO_REQUEST, 0);
                packet.set_echo(ident, seq);
            }
            Message::EchoReply { ident, seq } => {
                packet.set_kind(Type::ECHO_REPLY, 0);
                packet.set_echo(ident, seq);
            }
            Message::Unreachable { code } => packet.set_kind(Type::UNREACHABLE, code),
            Message::PacketTooBig { mtu } => {
                packet.set_kind(Type::PACKET_TOO_BIG, 0);
                packet.set_mtu(mtu);
            }
            Message::TimeExceeded { code } => packet.set_kind(Type::TIME_EXCEEDED, code),
            Message::ParameterProblem { code, pointer } => {
                packet.set_kind(Type::PARAMETER_PROBLEM, code);
                packet.set_pointer(pointer);
            }
        }
        checksum::fill_transport(pseudo, Protocol::ICMPV6, buffer)
    }
}

#[cfg(test)]
#[path = "icmpv6_tests.rs"]
mod tests;
