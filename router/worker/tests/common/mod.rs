//! Tables, settings and packets for workers on memory ports.
#![allow(dead_code)] // each test uses its part

pub(crate) mod everything;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use bora_buffer::{Region, SharedFrames};
use bora_fib::{Adjacency, FibConfig, FibHandle, FibWriter, NextHop, PortId};
use bora_forward::{Gate, Ingress};
use bora_port::Queue;
use bora_wire::{MacAddr, udp};
use bora_worker::{WorkerConfig, WorkerPort, free_frames};

/// The Ethernet address of all ports.
pub(crate) const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

/// Tables of these prefixes and the ports they lead to.
pub(crate) fn tables(routes: &[(&str, u16)]) -> (FibWriter, FibHandle) {
    let (mut writer, handle) = bora_fib::new(FibConfig::default()).unwrap();
    for &(prefix, port) in routes {
        let hop = NextHop::Forward(Adjacency {
            port: PortId(port),
            mtu: 1500,
            l2: [2; 14],
            unconfirmed: None,
        });
        let hop = writer.add_next_hop(hop).unwrap();
        match prefix.contains(':') {
            true => writer.insert6(prefix.parse().unwrap(), hop).unwrap(),
            false => writer.insert4(prefix.parse().unwrap(), hop).unwrap(),
        };
    }
    (writer, handle)
}

/// The settings of a port that forwards everything.
pub(crate) fn ingress(port: u16) -> Ingress {
    Ingress::new(PortId(port), MAC)
}

/// A port that no XDP program stands in front of: a worker that stops does not wait until it is
/// empty.
pub(crate) fn port_without_xdp(number: u16, queue: Queue) -> WorkerPort {
    let gate = Some(Gate {
        up: true,
        kernel4: false,
        kernel6: false,
        promiscuous: true,
    });
    let ingress = Ingress {
        gate,
        ..ingress(number)
    };
    WorkerPort::new(ingress, queue)
}

/// A worker of these ports, with the usual settings.
pub(crate) fn worker_config(
    region: &Arc<Region>,
    frames: &SharedFrames,
    fib: &FibHandle,
    ports: Vec<WorkerPort>,
) -> WorkerConfig {
    let pool = free_frames(frames, region, &ports);
    WorkerConfig::new(region.clone(), pool, fib.reader().unwrap(), ports).unwrap()
}

/// A UDP packet of 60 octets from 198.18.0.1.
pub(crate) fn ipv4_packet(destination: u32, tos: u8, destination_port: u16) -> Vec<u8> {
    let frame = udp::Frame {
        tos,
        ..to_port(
            Ipv4Addr::new(198, 18, 0, 1),
            Ipv4Addr::from(destination),
            destination_port,
        )
    };
    octets_of(frame, 60)
}

/// A UDP packet of 62 octets from 2001:db8::1 to 2001:db8::2.
pub(crate) fn ipv6_packet(traffic_class: u8, destination_port: u16) -> Vec<u8> {
    let [source, destination] =
        [1, 2].map(|last| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last));
    let frame = udp::Frame {
        tos: traffic_class,
        ..to_port(source, destination, destination_port)
    };
    octets_of(frame, 62)
}

fn to_port(source: impl Into<IpAddr>, destination: impl Into<IpAddr>, dst_port: u16) -> udp::Frame {
    udp::Frame {
        dst_mac: MAC,
        dst_port,
        ..udp::Frame::new(source, destination)
    }
}

fn octets_of(frame: udp::Frame, length: usize) -> Vec<u8> {
    let mut octets = vec![0; length];
    frame.emit(&mut octets).unwrap();
    octets
}
