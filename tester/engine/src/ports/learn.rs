//! Address resolution before a trial: the tester asks for the routers' Ethernet addresses, announces
//! its own, and answers questions for them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::bail;

use super::hosts::Neighbours;
use super::open::Port;
use crate::frame::tag_of;
use crate::link::Link;
use crate::traffic::{Stream, Traffic};

/// Time between questions (RFC 4861 has 1 s, for many hosts).
const RETRANSMIT: Duration = Duration::from_millis(200);
const LOOK: Duration = Duration::from_micros(200);
/// Questions at once, so that the router's queue for the slow path holds them.
const AT_ONCE: usize = 32;

/// Finds the Ethernet addresses of all routers that the traffic needs; returns the neighbours of
/// each port, and a link for each stream.
///
/// # Errors
/// A router does not answer, or the user asked to stop.
pub(crate) fn learn(
    ports: &mut [Port],
    traffic: &Traffic,
    patience: Duration,
    stop: &AtomicBool,
) -> anyhow::Result<(Vec<Neighbours>, Vec<Link>)> {
    let mut all: Vec<Neighbours> = Vec::with_capacity(ports.len());
    for (index, port) in ports.iter_mut().enumerate() {
        // frames that came before belong to no trial
        while port.side.receive(|_, _| None) > 0 {}
        all.push(Neighbours::new(index, &port.spec, port.info.mac, traffic));
    }
    for (index, port) in ports.iter_mut().enumerate() {
        for some in all[index].introductions(index, traffic).chunks(AT_ONCE) {
            for frame in some {
                port.side.send(frame);
            }
            hear(port, &mut all[index]);
            thread::sleep(LOOK);
        }
    }
    let start = Instant::now();
    let mut asked: Option<Instant> = None;
    loop {
        for (port, neighbours) in ports.iter_mut().zip(&mut all) {
            hear(port, neighbours);
        }
        if all.iter().all(Neighbours::is_complete) {
            let links = links(ports, traffic, &all);
            return Ok((all, links));
        }
        if stop.load(Ordering::Relaxed) {
            bail!("stopped while addresses were learned");
        }
        if start.elapsed() > patience {
            bail!(silence(ports, &all));
        }
        if asked.is_none_or(|asked| asked.elapsed() > RETRANSMIT) {
            asked = Some(Instant::now());
            for (port, neighbours) in ports.iter_mut().zip(&all) {
                let questions: Vec<Vec<u8>> = neighbours.questions().collect();
                for frame in questions {
                    port.side.send(&frame);
                }
            }
        }
        thread::sleep(LOOK);
    }
}

fn hear(port: &mut Port, neighbours: &mut Neighbours) {
    port.side.receive(|frame, _| {
        neighbours.learn(frame);
        neighbours.answer(frame)
    });
    port.side.settle();
}

fn links(ports: &[Port], traffic: &Traffic, all: &[Neighbours]) -> Vec<Link> {
    let link = |stream: &Stream| {
        let neighbours = &all[stream.from];
        let own = neighbours.own_like(stream);
        let gateway = own.and_then(|(_, gateway)| gateway);
        let router = gateway.and_then(|gateway| neighbours.router(gateway, tag_of(stream)));
        Link {
            source: ports[stream.from].info.mac,
            next_hop: router.unwrap_or(ports[stream.to].info.mac),
        }
    };
    traffic.streams.iter().map(link).collect()
}

fn silence(ports: &[Port], all: &[Neighbours]) -> String {
    let mut silent = Vec::new();
    for (port, neighbours) in ports.iter().zip(all) {
        for router in neighbours
            .routers
            .iter()
            .filter(|router| router.mac.is_none())
        {
            let how = if router.address.is_ipv4() {
                "ARP"
            } else {
                "neighbour solicitations"
            };
            let vlan = router
                .tag
                .map_or_else(String::new, |tci| format!(" in VLAN {}", tci.vid()));
            silent.push(format!(
                "{} does not answer {how} on port {} ({}){vlan}",
                router.address, port.spec.name, port.info.kind
            ));
        }
    }
    format!(
        "{}; is the router up, is that its address on this link, and is the cable in the right \
         port?",
        silent.join("; ")
    )
}
