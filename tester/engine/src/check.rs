//! Traffic that cannot be sent is refused before a trial.

use std::net::IpAddr;

use anyhow::{anyhow, bail, ensure};

use crate::frame;
use crate::traffic::{Stream, Traffic, Values};

/// Longest frame, octets with FCS: what a frame of the packet pool holds.
pub const LONGEST: u16 = 9216;
/// Shortest Ethernet frame, octets with FCS.
pub const SHORTEST: u16 = 64;

impl Traffic {
    /// Whether all of it can be sent.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> anyhow::Result<()> {
        let (count, frames) = (self.streams.len(), &self.frames);
        ensure!(count > 0, "there is no stream; a test sends at least one");
        ensure!(
            count <= usize::from(u16::MAX),
            "{count} streams are more than the 65535 that a signature can name"
        );
        ensure!(
            !frames.lengths.is_empty(),
            "the frame mix \"{}\" has no lengths",
            frames.name
        );
        if let Some(length) = frames.lengths.iter().find(|&&length| length > LONGEST) {
            bail!("frames of {length} octets are longer than the {LONGEST} that ports take");
        }
        for (id, stream) in self.streams.iter().enumerate() {
            stream
                .check()
                .map_err(|what| anyhow!("stream {id}: {what}"))?;
            let least = frame::least_length(stream);
            if let Some(length) = frames.lengths.iter().find(|&&length| length < least) {
                bail!(
                    "stream {id} needs frames of at least {least} octets (headers, signature, FCS), \
                     not {length}"
                );
            }
        }
        Ok(())
    }
}

impl Stream {
    fn check(&self) -> anyhow::Result<()> {
        ensure!(self.flows > 0, "no flows; a stream needs at least one");
        check_values(&self.sources, "source addresses")?;
        check_values(&self.destinations, "destination addresses")?;
        check_values(&self.source_ports, "source ports")?;
        check_values(&self.destination_ports, "destination ports")?;
        let all = [ends(&self.sources), ends(&self.destinations)].concat();
        ensure!(
            all.iter()
                .all(|address| address.is_ipv4() == all[0].is_ipv4()),
            "IPv4 and IPv6 addresses together; make two streams of it"
        );
        ensure!(
            self.flow_length != Some(0),
            "flows of no length; leave the flow length out for flows without end"
        );
        ensure!(
            self.flow_length.is_none()
                || changes(&self.source_ports, self.flows)
                || changes(&self.destination_ports, self.flows),
            "new flows would have the ports of old ones; give it a range of ports longer than the \
             number of flows, or random ones"
        );
        ensure!(self.dscp <= 63, "DSCP {} is above 63", self.dscp);
        if let Some((vid, priority)) = self.vlan {
            ensure!(
                vid <= 4094 && priority <= 7,
                "VLAN {vid} with priority {priority}; they go to 4094 and 7"
            );
        }
        Ok(())
    }
}

fn check_values<T: PartialOrd>(values: &Values<T>, what: &str) -> anyhow::Result<()> {
    match values {
        Values::List(list) if list.is_empty() => bail!("no {what}"),
        Values::Range(first, last) | Values::Random { first, last, .. } if last < first => {
            bail!("the range of {what} ends before it begins")
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
