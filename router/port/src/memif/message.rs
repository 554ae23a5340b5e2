//! The messages of the control channel, each 128 octets in the machine's own byte order, packed.

use std::fmt;

/// Octets of every message.
pub const MESSAGE_SIZE: usize = 128;
/// Version 2.0, the only one in use.
pub(super) const VERSION: u16 = 2 << 8;
const MODE_ETHERNET: u8 = 0;
const ADD_RING_FLAG_S2M: u16 = 1;
/// Octets of the reason in DISCONNECT.
const REASON: usize = 96;

/// Why octets are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Not one whole message.
    #[error("message of {0} octets instead of {MESSAGE_SIZE}")]
    Size(usize),
    /// A type the protocol does not have.
    #[error("unknown message type {0}")]
    Type(u16),
    /// An interface mode other than Ethernet.
    #[error("interface mode {0}, only ethernet (0) is supported")]
    Mode(u8),
    /// More slots than 16-bit ring indices can tell apart safely.
    #[error("ring of 2^{0} slots, at most 2^14 are allowed")]
    RingSize(u8),
}

/// A name of up to 31 octets, padded with zeros.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Name([u8; 32]);

impl Name {
    /// The first 31 octets of `name`.
    pub fn new(name: &str) -> Self {
        Self(padded(name))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text(&self.0))
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", text(&self.0))
    }
}

/// What a server offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The server's software.
    pub name: Name,
    /// Lowest protocol version.
    pub min_version: u16,
    /// Highest protocol version.
    pub max_version: u16,
    /// Highest region index.
    pub max_region: u16,
    /// Highest index of a ring from server to client.
    pub max_m2s_ring: u16,
    /// Highest index of a ring from client to server.
    pub max_s2m_ring: u16,
    /// Largest ring, as power of two.
    pub max_log2_ring_size: u8,
}

/// Which interface a client wants to connect to. The mode is always Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Init {
    /// Protocol version.
    pub version: u16,
    /// Interface id on the server.
    pub id: u32,
    /// Shared secret; all zero for none.
    pub secret: [u8; 24],
    /// The client's software.
    pub name: Name,
}

/// A region of the client's memory; its file descriptor travels with the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddRegion {
    /// Its number; they count up from zero.
    pub index: u16,
    /// Octets.
    pub size: u64,
}

/// A ring; its eventfd travels with the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddRing {
    /// From client to server (S2M), otherwise from server to client (M2S).
    pub s2m: bool,
    /// Its number in this direction.
    pub index: u16,
    /// The region that it is in.
    pub region: u16,
    /// Octets from the region's beginning.
    pub offset: u32,
    /// Slots, as power of two, at most 14.
    pub log2_ring_size: u8,
    /// Octets of private metadata before packets; Bora has none.
    pub private_hdr_size: u16,
}

/// The end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disconnect {
    /// Error code of the sender's own.
    pub code: u32,
    /// The reason, for people; up to 95 octets are sent.
    pub reason: String,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Taken note, next please.
    Ack,
    /// Server to client, first of all.
    Hello(Hello),
    /// Client to server.
    Init(Init),
    /// Client to server.
    AddRegion(AddRegion),
    /// Client to server.
    AddRing(AddRing),
    /// Client to server: all is there. With the client's interface name.
    Connect(Name),
    /// Server to client: the link is up. With the server's interface name.
    Connected(Name),
    /// Either way.
    Disconnect(Disconnect),
}

impl Message {
    /// Its name in the protocol.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Ack => "ACK",
            Self::Hello(_) => "HELLO",
            Self::Init(_) => "INIT",
            Self::AddRegion(_) => "ADD_REGION",
            Self::AddRing(_) => "ADD_RING",
            Self::Connect(_) => "CONNECT",
            Self::Connected(_) => "CONNECTED",
            Self::Disconnect(_) => "DISCONNECT",
        }
    }

    /// Its number in the protocol.
    fn number(&self) -> u16 {
        match self {
            Self::Ack => 1,
            Self::Hello(_) => 2,
            Self::Init(_) => 3,
            Self::AddRegion(_) => 4,
            Self::AddRing(_) => 5,
            Self::Connect(_) => 6,
            Self::Connected(_) => 7,
            Self::Disconnect(_) => 8,
        }
    }

    /// Reads a message.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(octets: &[u8]) -> Result<Self, MessageError> {
        let whole = octets.first_chunk::<MESSAGE_SIZE>();
        let whole = whole.filter(|whole| whole.len() == octets.len());
        let octets = whole.ok_or(MessageError::Size(octets.len()))?;
        let mut fields = Fields(octets, 0);
        let log2 = |log2| match log2 {
            0..=14 => Ok(log2),
            _ => Err(MessageError::RingSize(log2)),
        };
        Ok(match fields.u16() {
            1 => Self::Ack,
            2 => Self::Hello(Hello {
                name: Name(fields.take()),
                min_version: fields.u16(),
                max_version: fields.u16(),
                max_region: fields.u16(),
                max_m2s_ring: fields.u16(),
                max_s2m_ring: fields.u16(),
                max_log2_ring_size: fields.u8(),
            }),
            3 => Self::Init(Init::parse(&mut fields)?),
            4 => Self::AddRegion(AddRegion {
                index: fields.u16(),
                size: u64::from_ne_bytes(fields.take()),
            }),
            5 => Self::AddRing(AddRing {
                s2m: fields.u16() & ADD_RING_FLAG_S2M != 0,
                index: fields.u16(),
                region: fields.u16(),
                offset: fields.u32(),
                log2_ring_size: log2(fields.u8())?,
                private_hdr_size: fields.u16(),
            }),
            6 => Self::Connect(Name(fields.take())),
            7 => Self::Connected(Name(fields.take())),
            8 => Self::Disconnect(Disconnect {
                code: fields.u32(),
                reason: text(&fields.take::<REASON>()),
            }),
            other => return Err(MessageError::Type(other)),
        })
    }

    /// Writes the message.
    pub fn emit(&self) -> [u8; MESSAGE_SIZE] {
        let mut out = Vec::with_capacity(MESSAGE_SIZE);
        let mut put = |octets: &[u8]| out.extend_from_slice(octets);
        put(&self.number().to_ne_bytes());
        match self {
            Self::Ack => {}
            Self::Hello(hello) => {
                put(&hello.name.0);
                put(&hello.min_version.to_ne_bytes());
                put(&hello.max_version.to_ne_bytes());
                put(&hello.max_region.to_ne_bytes());
                put(&hello.max_m2s_ring.to_ne_bytes());
                put(&hello.max_s2m_ring.to_ne_bytes());
                put(&[hello.max_log2_ring_size]);
            }
            Self::Init(init) => {
                put(&init.version.to_ne_bytes());
                put(&init.id.to_ne_bytes());
                put(&[MODE_ETHERNET]);
                put(&init.secret);
                put(&init.name.0);
            }
            Self::AddRegion(region) => {
                put(&region.index.to_ne_bytes());
                put(&region.size.to_ne_bytes());
            }
            Self::AddRing(ring) => {
                put(&(u16::from(ring.s2m) * ADD_RING_FLAG_S2M).to_ne_bytes());
                put(&ring.index.to_ne_bytes());
                put(&ring.region.to_ne_bytes());
                put(&ring.offset.to_ne_bytes());
                put(&[ring.log2_ring_size]);
                put(&ring.private_hdr_size.to_ne_bytes());
            }
            Self::Connect(name) | Self::Connected(name) => put(&name.0),
            Self::Disconnect(disconnect) => {
                put(&disconnect.code.to_ne_bytes());
                put(&padded::<REASON>(&disconnect.reason));
            }
        }
        let mut message = [0; MESSAGE_SIZE];
        message[..out.len()].copy_from_slice(&out);
        message
    }
}

impl Init {
    fn parse(fields: &mut Fields<'_>) -> Result<Self, MessageError> {
        let (version, id) = (fields.u16(), fields.u32());
        match fields.u8() {
            MODE_ETHERNET => {}
            mode => return Err(MessageError::Mode(mode)),
        }
        Ok(Self {
            version,
            id,
            secret: fields.take(),
            name: Name(fields.take()),
        })
    }
}

/// Reads fields one after the other. No message is longer than what there is.
struct Fields<'a>(&'a [u8; MESSAGE_SIZE], usize);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut field = [0; N];
        field.copy_from_slice(&self.0[self.1..self.1 + N]);
        self.1 += N;
        field
    }

    fn u8(&mut self) -> u8 {
        let [octet] = self.take();
        octet
    }

    fn u16(&mut self) -> u16 {
        u16::from_ne_bytes(self.take())
    }

    fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.take())
    }
}

/// `text` and at least one zero.
pub(super) fn padded<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [0; N];
    let length = text.len().min(N - 1);
    field[..length].copy_from_slice(&text.as_bytes()[..length]);
    field
}

/// Up to the first zero. Control characters, with which a peer could write over a terminal or forge lines of
/// the log, become U+FFFD.
fn text(field: &[u8]) -> String {
    let end = field.iter().position(|&octet| octet == 0);
    let text = String::from_utf8_lossy(&field[..end.unwrap_or(field.len())]);
    text.replace(char::is_control, "\u{fffd}")
}

#[cfg(test)]
mod tests;
