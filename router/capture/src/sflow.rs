//! Datagrams of sFlow version 5 (<https://sflow.org/sflow_version_5.txt>, section 5): samples of packets and of
//! counters, in XDR (RFC 4506). Names of fields are those of the specification.

use std::net::IpAddr;
use std::time::Duration;

use bora_contract::Reason;

use crate::Outcome;

/// UDP port of collectors (IANA).
pub const PORT: u16 = 6343;
/// Longest datagram, octets: with IP and UDP headers, and those of a tunnel, it fits into an MTU of 1500.
const LONGEST: usize = 1400;
/// Octets of a datagram before its samples, with an IPv6 address.
const BEFORE_SAMPLES: usize = 40;
/// Most octets of a packet's header: such a sample has a datagram for itself.
pub const MAX_HEADER: usize = 1024;
/// Octets of the FCS, which `frame_length` counts and Bora never gets.
const FCS: u32 = 4;
/// Stands for a counter that is not known.
const UNKNOWN: u32 = u32::MAX;

/// Data formats (`enterprise = 0`).
mod format {
    /// Formats of `sample_data`.
    pub(super) const FLOW_SAMPLE: u32 = 1;
    pub(super) const COUNTERS_SAMPLE: u32 = 2;
    /// Formats of `flow_data`.
    pub(super) const SAMPLED_HEADER: u32 = 1;
    pub(super) const EXTENDED_SWITCH: u32 = 1001;
    pub(super) const EXTENDED_ROUTER: u32 = 1002;
    /// Format of `counter_data`.
    pub(super) const IF_COUNTERS: u32 = 1;
}

/// Where a packet went (`interface`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Not known: Linux has it.
    Unknown,
    /// Out by the interface of this index.
    Interface(u32),
    /// To this machine itself.
    Here,
    /// Nowhere, for this reason: a code of ICMP's Destination Unreachable, or one above 255.
    Discarded(u32),
}

/// A code of the specification for packets that went nowhere.
mod discarded {
    pub(super) const NET_UNREACHABLE: u32 = 0;
    pub(super) const HOST_UNREACHABLE: u32 = 1;
    pub(super) const FRAGMENTATION_NEEDED: u32 = 4;
    pub(super) const PROHIBITED: u32 = 13;
    pub(super) const UNKNOWN: u32 = 256;
    pub(super) const TTL_EXCEEDED: u32 = 257;
    pub(super) const ACL: u32 = 258;
    pub(super) const NO_BUFFER_SPACE: u32 = 259;
    pub(super) const RATE_LIMITING: u32 = 261;
    pub(super) const TOO_BIG: u32 = 262;
}

impl Output {
    /// Where a packet went; `ifindex` says which interface a number is.
    pub fn of(outcome: Outcome, ifindex: impl Fn(u16) -> Option<u32>) -> Self {
        match outcome {
            Outcome::Sent(number) => ifindex(number).map_or(Self::Unknown, Self::Interface),
            Outcome::ToLinux(reason) => Self::of_linux(reason),
            Outcome::Dropped(reason) => Self::Discarded(code(reason)),
        }
    }

    /// What Linux does with a packet, where the reason alone says it.
    fn of_linux(reason: Reason) -> Self {
        match reason {
            Reason::Local => Self::Here,
            Reason::Malformed => Self::Discarded(discarded::UNKNOWN),
            Reason::TtlExceeded => Self::Discarded(discarded::TTL_EXCEEDED),
            Reason::NoRoute => Self::Discarded(discarded::NET_UNREACHABLE),
            Reason::Unreachable => Self::Discarded(discarded::HOST_UNREACHABLE),
            Reason::Prohibit => Self::Discarded(discarded::PROHIBITED),
            Reason::TooBig => Self::Discarded(discarded::FRAGMENTATION_NEEDED),
            _ => Self::Unknown,
        }
    }

    /// The two highest bits are the format, the others the value.
    fn word(self) -> u32 {
        const VALUE: u32 = 0x3fff_ffff;
        match self {
            Self::Unknown => 0,
            Self::Interface(index) => index & VALUE,
            Self::Here => VALUE,
            Self::Discarded(code) => 1 << 30 | code & VALUE,
        }
    }
}

/// The code that comes closest to a reason why Bora drops packets.
fn code(reason: Reason) -> u32 {
    match reason {
        Reason::Rule => discarded::ACL,
        Reason::SourceCheck => discarded::PROHIBITED,
        Reason::Blackhole => discarded::NET_UNREACHABLE,
        Reason::PuntBudget => discarded::RATE_LIMITING,
        Reason::RxTooLong => discarded::TOO_BIG,
        Reason::TxRingFull
        | Reason::QueueFull
        | Reason::PuntRingFull
        | Reason::WorkerRingFull
        | Reason::RxRingFull
        | Reason::NoFrame => discarded::NO_BUFFER_SPACE,
        _ => discarded::UNKNOWN,
    }
}

/// VLAN and priority of a frame as it came in and as it left; zeros without a tag (`extended_switch`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vlans {
    /// VLAN and priority as it came in.
    pub source: (u16, u8),
    /// VLAN and priority as it left.
    pub destination: (u16, u8),
}

/// VLAN and priority of a frame's outermost tag; zeros if it has none.
pub fn vlan(frame: &[u8]) -> (u16, u8) {
    match frame.get(12..16) {
        Some(&[0x81, 0x00, high, low] | &[0x88, 0xa8, high, low]) => {
            (u16::from_be_bytes([high & 0xf, low]), high >> 5)
        }
        _ => (0, 0),
    }
}

/// The route that a packet took (`extended_router`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The router that it went to; `None` if it went to its destination, or if that is not known.
    pub next_hop: Option<IpAddr>,
    /// Length of the source's prefix.
    pub source_length: u8,
    /// Length of the destination's prefix.
    pub destination_length: u8,
}

/// A sampled packet (`flow_sample`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowSample<'a> {
    /// Counts the samples of this source.
    pub sequence: u32,
    /// Index of the interface that samples are taken at, below 2²⁴.
    pub source: u32,
    /// One packet in this many is sampled.
    pub rate: u32,
    /// Packets of this source that could have been sampled, so far.
    pub pool: u32,
    /// Samples that were lost, so far.
    pub drops: u32,
    /// Index of the interface that the packet came in by.
    pub input: u32,
    /// Where it went.
    pub output: Output,
    /// Octets of the frame, without FCS.
    pub length: u32,
    /// The first of them, at most [`MAX_HEADER`].
    pub header: &'a [u8],
    /// VLAN and priority, if the packet had a tag before or after.
    pub vlans: Option<Vlans>,
    /// Its route, if that is known.
    pub route: Option<Route>,
}

/// Counters of an interface (`if_counters`, RFC 2863).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its index, below 2²⁴.
    pub index: u32,
    /// Bits a second; 0: not known.
    pub speed: u64,
    /// Administratively up.
    pub is_enabled: bool,
    /// With carrier.
    pub is_running: bool,
    /// What came in.
    pub received: Counters,
    /// What left.
    pub sent: Counters,
}

/// Counters of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Octets of frames without FCS.
    pub octets: u64,
    /// Packets to any address: broadcasts and multicasts are not counted apart.
    pub packets: u64,
    /// Packets that were lost though nothing is wrong with them.
    pub discards: u64,
    /// Packets that were wrong.
    pub errors: u64,
}

/// Puts samples into datagrams.
#[derive(Debug)]
pub struct Writer {
    agent: IpAddr,
    /// Datagrams so far.
    sequence: u32,
    samples: Xdr,
    count: u32,
}

impl Writer {
    /// A writer for the agent with this address.
    pub fn new(agent: IpAddr) -> Self {
        Self {
            agent,
            sequence: 0,
            samples: Xdr::default(),
            count: 0,
        }
    }

    /// The agent's address.
    pub fn agent(&self) -> IpAddr {
        self.agent
    }

    /// Adds a sample of a packet; returns the datagram that had no room for it. `uptime` is the agent's.
    pub fn flow(&mut self, sample: &FlowSample<'_>, uptime: Duration) -> Option<Vec<u8>> {
        let mut xdr = Xdr::default();
        xdr.block(format::FLOW_SAMPLE, |xdr| sample.write(xdr));
        self.add(&xdr, uptime)
    }

    /// Adds a sample of an interface's counters; `sequence` counts those of this interface.
    pub fn counters(&mut self, sequence: u32, of: &Interface, uptime: Duration) -> Option<Vec<u8>> {
        let mut xdr = Xdr::default();
        xdr.block(format::COUNTERS_SAMPLE, |xdr| {
            xdr.words(&[sequence, of.index, 1]);
            xdr.block(format::IF_COUNTERS, |xdr| of.write(xdr));
        });
        self.add(&xdr, uptime)
    }

    fn add(&mut self, sample: &Xdr, uptime: Duration) -> Option<Vec<u8>> {
        let has_room = BEFORE_SAMPLES + self.samples.0.len() + sample.0.len() <= LONGEST;
        let full = (!has_room).then(|| self.finish(uptime)).flatten();
        self.samples.0.extend_from_slice(&sample.0);
        self.count += 1;
        full
    }

    /// The datagram with what was added since the last one; `None` if that is nothing.
    pub fn finish(&mut self, uptime: Duration) -> Option<Vec<u8>> {
        if self.count == 0 {
            return None;
        }
        self.sequence = self.sequence.wrapping_add(1);
        let mut xdr = Xdr::default();
        xdr.words(&[5]);
        xdr.address(Some(self.agent));
        // no sub-agents
        xdr.words(&[0, self.sequence, uptime.as_millis() as u32, self.count]);
        xdr.0.append(&mut self.samples.0);
        self.count = 0;
        Some(xdr.0)
    }
}

impl FlowSample<'_> {
    fn write(&self, xdr: &mut Xdr) {
        let records = 1 + u32::from(self.vlans.is_some()) + u32::from(self.route.is_some());
        xdr.words(&[self.sequence, self.source, self.rate, self.pool]);
        xdr.words(&[self.drops, self.input, self.output.word(), records]);
        xdr.block(format::SAMPLED_HEADER, |xdr| {
            const ETHERNET: u32 = 1;
            xdr.words(&[ETHERNET, self.length + FCS, FCS]);
            xdr.opaque(&self.header[..self.header.len().min(MAX_HEADER)]);
        });
        if let Some(Vlans {
            source,
            destination,
        }) = self.vlans
        {
            xdr.block(format::EXTENDED_SWITCH, |xdr| {
                for (vlan, priority) in [source, destination] {
                    xdr.words(&[vlan.into(), priority.into()]);
                }
            });
        }
        if let Some(route) = self.route {
            xdr.block(format::EXTENDED_ROUTER, |xdr| {
                xdr.address(route.next_hop);
                let lengths = [route.source_length, route.destination_length];
                xdr.words(&lengths.map(u32::from));
            });
        }
    }
}

impl Interface {
    fn write(&self, xdr: &mut Xdr) {
        const ETHERNET: u32 = 6;
        const FULL_DUPLEX: u32 = 1;
        let status = u32::from(self.is_enabled) | u32::from(self.is_running) << 1;
        xdr.words(&[self.index, ETHERNET]);
        xdr.hyper(self.speed);
        xdr.words(&[FULL_DUPLEX, status]);
        self.received.write(xdr);
        xdr.words(&[UNKNOWN]); // ifInUnknownProtos
        self.sent.write(xdr);
        xdr.words(&[0]); // ifPromiscuousMode
    }
}

impl Counters {
    fn write(&self, xdr: &mut Xdr) {
        xdr.hyper(self.octets);
        let [packets, discards, errors] =
            [self.packets, self.discards, self.errors].map(|count| count as u32);
        // unicast, multicast, broadcast
        xdr.words(&[packets, UNKNOWN, UNKNOWN, discards, errors]);
    }
}

/// External data representation (RFC 4506): big-endian words, lengths in front, padded to four octets.
#[derive(Debug, Default)]
struct Xdr(Vec<u8>);

impl Xdr {
    fn words(&mut self, words: &[u32]) {
        self.0
            .extend(words.iter().flat_map(|word| word.to_be_bytes()));
    }

    fn hyper(&mut self, value: u64) {
        self.0.extend(value.to_be_bytes());
    }

    fn opaque(&mut self, octets: &[u8]) {
        self.words(&[octets.len() as u32]);
        self.0.extend_from_slice(octets);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    fn address(&mut self, address: Option<IpAddr>) {
        match address {
            None => self.words(&[0]),
            Some(IpAddr::V4(address)) => {
                self.words(&[1]);
                self.0.extend(address.octets());
            }
            Some(IpAddr::V6(address)) => {
                self.words(&[2]);
                self.0.extend(address.octets());
            }
        }
    }

    /// A format, and octets of that format.
    fn block(&mut self, format: u32, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.words(&[format]);
        self.opaque(&inner.0);
    }
}

#[cfg(test)]
mod tests;
