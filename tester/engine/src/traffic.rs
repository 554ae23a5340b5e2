//! What is sent: streams of flows in frames of certain sizes.

use std::net::IpAddr;

/// Frame lengths in octets, FCS included, as RFC 2544 counts; sent in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameMix {
    /// What reports call it: `64`, `imix`, `imix:abg`.
    pub name: String,
    /// One entry for a fixed length.
    pub lengths: Vec<u16>,
}

impl FrameMix {
    /// Frames of one length.
    pub fn of(length: u16) -> Self {
        Self {
            name: length.to_string(),
            lengths: vec![length],
        }
    }

    /// Mean length.
    pub fn mean(&self) -> f64 {
        let sum: f64 = self.lengths.iter().copied().map(f64::from).sum();
        sum / self.lengths.len().max(1) as f64
    }
}

/// Values that the flows of a stream take, flow by flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values<T> {
    /// These in turn.
    List(Vec<T>),
    /// Values from the first to the last in turn.
    Range(T, T),
    /// Values between the two, drawn with the seed (RFC 4814).
    Random {
        /// Least value.
        first: T,
        /// Greatest value.
        last: T,
        /// Equal seeds give equal values.
        seed: u64,
    },
}

/// Frames from one port to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Which port sends; index into the ports of the test.
    pub from: usize,
    /// Where the frames must come out.
    pub to: usize,
    /// How many of its port's frames are of this stream, in relation to the other streams.
    pub weight: u32,
    /// Flows, numbered from 0: flow n has the nth of the values below.
    pub flows: u32,
    /// Frames of a flow, after which a new one takes its place with new ports; `None`: for ever
    /// (KTH08: 30).
    pub flow_length: Option<u32>,
    /// IP source addresses.
    pub sources: Values<IpAddr>,
    /// IP destination addresses, of the same family.
    pub destinations: Values<IpAddr>,
    /// UDP source ports.
    pub source_ports: Values<u16>,
    /// UDP destination ports.
    pub destination_ports: Values<u16>,
    /// DSCP, 0 to 63 (RFC 2474).
    pub dscp: u8,
    /// VLAN identifier of an 802.1Q tag, and its priority.
    pub vlan: Option<(u16, u8)>,
}

impl Stream {
    /// One flow from one address to another, and from UDP port 1024 to 9 (discard).
    pub fn new(
        (from, to): (usize, usize),
        source: impl Into<IpAddr>,
        destination: impl Into<IpAddr>,
    ) -> Self {
        Self {
            from,
            to,
            weight: 1,
            flows: 1,
            flow_length: None,
            sources: Values::List(vec![source.into()]),
            destinations: Values::List(vec![destination.into()]),
            source_ports: Values::Range(1024, u16::MAX),
            destination_ports: Values::List(vec![9]),
            dscp: 0,
            vlan: None,
        }
    }

    /// This stream with `flows` flows, which differ in their source ports.
    #[must_use]
    pub fn with_flows(self, flows: u32) -> Self {
        Self { flows, ..self }
    }
}

/// All that a trial sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// The signature names them by index, so there are at most 65536.
    pub streams: Vec<Stream>,
    /// Frames of all streams.
    pub frames: FrameMix,
}

impl Traffic {
    /// Ports that send, in order.
    pub fn senders(&self) -> Vec<usize> {
        let mut ports: Vec<usize> = self.streams.iter().map(|stream| stream.from).collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    }
}
