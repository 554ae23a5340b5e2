//! The tester's ways to send, measured beside DPDK's testpmd.

pub mod memif;
pub mod veth;

use std::net::{IpAddr, Ipv4Addr};

use bora_tester::link::Link;
use bora_tester::traffic::{FrameMix, Stream, Traffic, Values};
use bora_wire::MacAddr;

/// Frames of 64 octets from port 0 to port 1 in some flows.
pub fn traffic(flows: u32) -> Traffic {
    let address = |last| Values::List(vec![IpAddr::V4(Ipv4Addr::new(198, 18, 0, last))]);
    Traffic {
        streams: vec![Stream {
            from: 0,
            to: 1,
            weight: 1,
            flows,
            flow_length: None,
            sources: address(2),
            destinations: address(3),
            source_ports: Values::Range(1024, u16::MAX),
            destination_ports: Values::List(vec![9]),
            dscp: 0,
            vlan: None,
        }],
        frames: FrameMix::of(64),
    }
}

/// Ethernet addresses of nobody.
pub fn link() -> Link {
    Link {
        source: MacAddr([2, 0, 0, 0, 0, 1]),
        next_hop: MacAddr([2, 0, 0, 0, 0, 2]),
    }
}
