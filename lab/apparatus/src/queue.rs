//! A queue of a source and a sink.

use std::fmt::Debug;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use bora_buffer::{Packet, Pool, Region, SharedFrames};
use bora_port::{Closing, PortQueue, Queue, StatsReader, Tally};

use crate::sink::{Observer, Sink, SinkCounter};

/// Where the packets of a queue come from; the calls are those of [`PortQueue`].
pub(crate) trait Source: Debug + Send {
    fn receive(&mut self, out: &mut Vec<Packet>, max: usize) -> usize;
    fn waiting(&mut self, enough: usize) -> usize;
    fn refill(&mut self, pool: &mut Pool);
    fn frames(&self) -> usize;

    fn wait(&mut self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn stats_reader(&self) -> StatsReader {
        StatsReader::new(Arc::<Tally>::default())
    }
}

/// The source of a queue that receives nothing.
#[derive(Debug)]
pub(crate) struct Nothing;

impl Source for Nothing {
    fn receive(&mut self, _: &mut Vec<Packet>, _: usize) -> usize {
        0
    }

    fn waiting(&mut self, _: usize) -> usize {
        0
    }

    fn refill(&mut self, _: &mut Pool) {}

    fn frames(&self) -> usize {
        0
    }
}

/// A queue that receives nothing, and shows `observer` what it transmits before it swallows it.
pub fn observed(region: Arc<Region>, observer: Box<dyn Observer>) -> (Queue, SinkCounter) {
    with_sink(Nothing, region, Some(observer))
}

/// A queue that receives from `source`, and swallows what it transmits.
pub(crate) fn with_sink(
    source: impl Source + 'static,
    region: Arc<Region>,
    observer: Option<Box<dyn Observer>>,
) -> (Queue, SinkCounter) {
    let (sink, counter) = Sink::new(region, observer);
    (Queue::other(Ends { source, sink }), counter)
}

#[derive(Debug)]
struct Ends<S> {
    source: S,
    sink: Sink,
}

impl<S: Source> PortQueue for Ends<S> {
    #[inline]
    fn receive(&mut self, out: &mut Vec<Packet>, max: usize) -> usize {
        self.source.receive(out, max)
    }

    fn waiting(&mut self, enough: usize) -> usize {
        self.source.waiting(enough)
    }

    #[inline]
    fn refill(&mut self, pool: &mut Pool) {
        self.source.refill(pool);
    }

    #[inline]
    fn transmit(&mut self, packets: &mut Vec<Packet>) -> usize {
        self.sink.transmit(packets)
    }

    #[inline]
    fn reclaim(&mut self, pool: &mut Pool) {
        self.sink.reclaim(pool);
    }

    /// Packets that were swallowed and not reclaimed.
    fn in_flight(&self) -> u32 {
        self.sink.held() as u32
    }

    fn frames(&self) -> u32 {
        (self.source.frames() + self.sink.held()) as u32
    }

    fn wait(&mut self) -> Option<BorrowedFd<'_>> {
        self.source.wait()
    }

    /// Its frames are lost with it: a bench has a region of its own.
    fn close(self: Box<Self>, _: &SharedFrames) -> Option<Closing> {
        None
    }

    fn stats_reader(&self) -> io::Result<StatsReader> {
        Ok(self.source.stats_reader())
    }
}
