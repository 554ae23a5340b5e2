//! `null`: a port that receives nothing, and counts and drops what is sent. To measure what the rest
//! costs, and to show what a kind of port is made of.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bora_buffer::{Packet, Pool, Region, SharedFrames};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::closing::Closing;
use crate::copying::Copying;
use crate::port::{self, OpenError, Port, Setup};
use crate::port_queue::PortQueue;
use crate::queue::Queue;
use crate::tally::StatsReader;

/// There is no option, so nothing comes first in the short spelling, `null:`.
pub(super) const FIRST: &str = "option";

/// Receives nothing, and drops what is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Null")]
pub struct Options {}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing")
    }
}

impl port::Options for Options {
    fn default_name(&self) -> String {
        "null0".into()
    }

    fn open(&self, setup: &Setup<'_>) -> Result<(Box<dyn Port>, Vec<Queue>), OpenError> {
        let port = Null::default();
        let queue = Sink::new(setup.region.clone(), &port);
        Ok((Box::new(port), vec![Queue::other(queue)]))
    }
}

/// The control side: how many packets were dropped.
#[derive(Debug, Default)]
struct Null(Arc<AtomicU64>);

impl Port for Null {
    fn is_up(&self) -> bool {
        true
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("swallowed", self.0.load(Relaxed))]
    }
}

/// The one queue.
#[derive(Debug)]
struct Sink {
    frames: Copying,
    swallowed: Arc<AtomicU64>,
}

impl Sink {
    fn new(region: Arc<Region>, port: &Null) -> Self {
        Self {
            frames: Copying::new(region, 0),
            swallowed: port.0.clone(),
        }
    }
}

impl PortQueue for Sink {
    fn receive(&mut self, _: &mut Vec<Packet>, _: usize) -> usize {
        0
    }

    fn waiting(&mut self, _: usize) -> usize {
        0
    }

    fn refill(&mut self, _: &mut Pool) {}

    fn transmit(&mut self, packets: &mut Vec<Packet>) -> usize {
        let count = packets.len();
        self.frames.sent(packets, count, 0);
        self.swallowed.fetch_add(count as u64, Relaxed);
        count
    }

    fn reclaim(&mut self, pool: &mut Pool) {
        self.frames.reclaim(pool);
    }

    fn in_flight(&self) -> u32 {
        self.frames.in_flight()
    }

    fn frames(&self) -> u32 {
        self.frames.frames()
    }

    fn close(mut self: Box<Self>, frames: &SharedFrames) -> Option<Closing> {
        self.frames.close(frames);
        None
    }

    fn stats_reader(&self) -> io::Result<StatsReader> {
        Ok(self.frames.stats_reader())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::Options as _;

    #[test]
    fn what_is_sent_is_counted_and_its_frames_come_home() {
        let region = Arc::new(Region::new(8, 2048).unwrap());
        let frames = SharedFrames::of_new_region(&region);
        let mut pool = Pool::new(frames.clone(), 8);
        let setup = Setup {
            name: "null0",
            mac: [2, 0, 0, 0, 0, 1],
            region: &region,
            frames: &frames,
        };
        let (port, mut queues) = Options {}.open(&setup).unwrap();
        let mut queue = queues.pop().unwrap();
        let packet = |_| pool.take().unwrap().into_packet(&region, 60).unwrap();
        let mut packets: Vec<Packet> = (0..3).map(packet).collect();
        assert_eq!((queue.transmit(&mut packets), queue.in_flight()), (3, 3));
        assert_eq!(queue.receive(&mut packets, 64), 0);
        assert_eq!(port.counters(), [("swallowed", 3)]);
        queue.close(&frames);
        drop(pool);
        assert_eq!(frames.len(), 8);
    }
}
