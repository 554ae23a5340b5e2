//! Why a header is refused.

use core::fmt;

/// The reasons a header can be refused, each one a reason a forwarder counts by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Error {
    /// The buffer ends before the header does, or before the end its length field promises.
    Truncated,
    /// The IP version is not the one the EtherType announced.
    BadVersion,
    /// The header length field (IPv4 IHL) is below its minimum.
    BadHeaderLength,
    /// The total length (IPv4 total length, UDP length) is smaller than the header, or the payload
    /// to emit makes it larger than the field can hold.
    BadTotalLength,
    /// The checksum does not match the bytes it covers.
    BadChecksum,
    /// An ARP packet that is not about Ethernet and IPv4 addresses, or a packet to emit from an
    /// IPv4 address to an IPv6 address or the other way round.
    BadAddressFormat,
    /// More IPv6 extension headers, or VLAN tags, than Bora walks through.
    TooManyHeaders,
    /// A message type that the parser asked for does not know.
    UnknownType,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::Truncated => "truncated",
            Error::BadVersion => "bad version",
            Error::BadHeaderLength => "bad header length",
            Error::BadTotalLength => "bad total length",
            Error::BadChecksum => "bad checksum",
            Error::BadAddressFormat => "bad address format",
            Error::TooManyHeaders => "too many headers",
            Error::UnknownType => "unknown type",
        })
    }
}

impl core::error::Error for Error {}
