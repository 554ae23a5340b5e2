//! Traffic that cannot be sent is refused before a trial.

use std::net::IpAddr;

use thiserror::Error;

use crate::flow::Number;
use crate::frame;
use crate::traffic::{Stream, Traffic, Values};

/// Longest frame, octets with FCS: what a frame of the packet pool holds.
pub const LONGEST: u16 = 9216;
/// Shortest Ethernet frame, octets with FCS.
pub const SHORTEST: u16 = 64;

/// What is wrong with the traffic of a test.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum TrafficError {
    #[error("there is no stream; a test sends at least one")]
    NoStreams,
    #[error("{0} streams are more than the 65535 that a signature can name")]
    TooManyStreams(usize),
    #[error("no stream sends from port {0}")]
    NothingToSend(usize),
    #[error("the frame mix \"{0}\" has no lengths")]
    NoLengths(String),
    #[error(
        "stream {stream} needs frames of at least {least} octets (headers, signature, FCS), not {length}"
    )]
    TooShort {
        stream: usize,
        length: u16,
        least: u16,
    },
    #[error("frames of {0} octets are longer than the {LONGEST} that ports take")]
    TooLong(u16),
    #[error("stream {0} has no flows; it needs at least one")]
    NoFlows(usize),
    #[error("stream {stream} has no {field}")]
    NoValues { stream: usize, field: &'static str },
    #[error("stream {0} mixes IPv4 and IPv6 addresses; make two streams of it")]
    MixedFamilies(usize),
    #[error("stream {stream}: the range of {field} ends before it begins")]
    Backwards { stream: usize, field: &'static str },
    #[error("stream {0} has flows of no length; leave the flow length out for flows without end")]
    NoFlowLength(usize),
    #[error(
        "stream {0} has a flow length, but new flows would have the ports of old ones; give it a range of ports longer than the number of flows, or random ones"
    )]
    SamePorts(usize),
    #[error("stream {stream}: DSCP {dscp} is above 63")]
    Dscp { stream: usize, dscp: u8 },
    #[error("stream {stream}: VLAN {vid} with priority {priority}; they go to 4094 and 7")]
    Vlan {
        stream: usize,
        vid: u16,
        priority: u8,
    },
    #[error("the streams of port {0} all have weight 0, so none would be sent")]
    NoWeight(usize),
    #[error(
        "the weights of port {port}'s streams, without common factors, sum to {sum}; at most {most} keep the order of sending short"
    )]
    Weights { port: usize, sum: u64, most: u64 },
    #[error("stream {0} has no link addresses")]
    NoLink(usize),
}

impl Traffic {
    /// Whether all of it can be sent.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), TrafficError> {
        if self.streams.is_empty() {
            return Err(TrafficError::NoStreams);
        }
        if self.streams.len() > usize::from(u16::MAX) {
            return Err(TrafficError::TooManyStreams(self.streams.len()));
        }
        if self.frames.lengths.is_empty() {
            return Err(TrafficError::NoLengths(self.frames.name.clone()));
        }
        if let Some(&length) = self.frames.lengths.iter().find(|&&length| length > LONGEST) {
            return Err(TrafficError::TooLong(length));
        }
        for (id, stream) in self.streams.iter().enumerate() {
            stream.check(id)?;
            let least = frame::least_length(stream);
            let short = self.frames.lengths.iter().find(|&&length| length < least);
            if let Some(&length) = short {
                return Err(TrafficError::TooShort {
                    stream: id,
                    length,
                    least,
                });
            }
        }
        Ok(())
    }
}

impl Stream {
    fn check(&self, stream: usize) -> Result<(), TrafficError> {
        if self.flows == 0 {
            return Err(TrafficError::NoFlows(stream));
        }
        check_values(&self.sources, stream, "source addresses")?;
        check_values(&self.destinations, stream, "destination addresses")?;
        check_values(&self.source_ports, stream, "source ports")?;
        check_values(&self.destination_ports, stream, "destination ports")?;
        let mut addresses = ends(&self.sources)
            .into_iter()
            .chain(ends(&self.destinations));
        let first = addresses.next().is_some_and(|address| address.is_ipv4());
        if addresses.any(|address| address.is_ipv4() != first) {
            return Err(TrafficError::MixedFamilies(stream));
        }
        if self.flow_length == Some(0) {
            return Err(TrafficError::NoFlowLength(stream));
        }
        if self.flow_length.is_some()
            && !changes(&self.source_ports, self.flows)
            && !changes(&self.destination_ports, self.flows)
        {
            return Err(TrafficError::SamePorts(stream));
        }
        if self.dscp > 63 {
            return Err(TrafficError::Dscp {
                stream,
                dscp: self.dscp,
            });
        }
        match self.vlan {
            Some((vid, priority)) if vid > 4094 || priority > 7 => Err(TrafficError::Vlan {
                stream,
                vid,
                priority,
            }),
            _ => Ok(()),
        }
    }
}

fn check_values<T: Number + PartialOrd>(
    values: &Values<T>,
    stream: usize,
    field: &'static str,
) -> Result<(), TrafficError> {
    match values {
        Values::List(list) if list.is_empty() => Err(TrafficError::NoValues { stream, field }),
        Values::Range(first, last) | Values::Random { first, last, .. } if last < first => {
            Err(TrafficError::Backwards { stream, field })
        }
        _ => Ok(()),
    }
}

/// Values between which all others are.
fn ends(values: &Values<IpAddr>) -> Vec<IpAddr> {
    match values {
        Values::List(list) => list.clone(),
        Values::Range(first, last) | Values::Random { first, last, .. } => vec![*first, *last],
    }
}

/// Whether the next generation of flows has other ports.
fn changes(ports: &Values<u16>, flows: u32) -> bool {
    match ports {
        Values::Random { first, last, .. } => first != last,
        _ => u128::from(flows) % ports.count() != 0,
    }
}
