//! What the tests send.

use std::sync::Arc;

use bora_tester::traffic::{FrameMix, Stream, Traffic, Values};

/// A stream of IPv4 from one port's network to another's.
pub(crate) fn ipv4(from: usize, to: usize, flows: u32) -> Stream {
    let host = |port: usize| [10, 0, port as u8, 2];
    let stream = Stream::new((from, to), host(from), host(to)).with_flows(flows);
    Stream {
        source_ports: Values::Range(1024, 1024 + (flows.max(1) - 1).min(60_000) as u16),
        ..stream
    }
}

/// A stream of IPv6 from one port's network to another's.
pub(crate) fn ipv6(from: usize, to: usize, flows: u32) -> Stream {
    let host = |port: usize| [0x2001, 0xdb8, port as u16, 0, 0, 0, 0, 2];
    let stream = Stream::new((from, to), host(from), host(to));
    Stream {
        sources: stream.sources,
        destinations: stream.destinations,
        ..ipv4(from, to, flows)
    }
}

/// Streams of frames of one length.
pub(crate) fn of(streams: Vec<Stream>, length: u16) -> Arc<Traffic> {
    let frames = FrameMix::of(length);
    Arc::new(Traffic { streams, frames })
}

/// One flow of IPv4 from port 0 to port 1, in frames of 128 octets.
pub(crate) fn one_way() -> Arc<Traffic> {
    of(vec![ipv4(0, 1, 1)], 128)
}
