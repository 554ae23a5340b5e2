//! Instructions a packet, in a guest whose clock counts them: the same number on every machine.
//!
//! What the router adds to the ends is counted on the whole way from the sender to the receiver, and what an XDP program
//! takes by the kernel's own statistics (`kernel.bpf_stats_enabled`).

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use bora_network::{Napi, Offer, Subject, Testbed, Traffic};
use bora_tester::traffic::{Stream, Values};

use crate::veth::Forwarder;
use crate::{Results, Row, nat, programs};

/// What the others are compared with.
const BASE: &str = "kernel";
/// Routes through host-b.
const ROUTES: &str = "ip route add 198.51.100.0/24 via 10.66.2.2 && ip -6 route add 2001:db8::/48 via fd66:2::2 \
     && ip -6 route add 2001:db8:1:1::/64 via fd66:2::2";
/// What is sent, and where to: one after the other.
const CASES: [(&str, &[&str]); 7] = [
    ("IPv4, a route of 24 bits", &["198.51.100.1"]),
    (
        "IPv4, a route of 24 bits, in turn",
        &["198.51.100.1", "198.51.100.2"],
    ),
    (
        "IPv4, a host on link, in turn",
        &["10.66.2.2", "198.51.100.1"],
    ),
    ("IPv6, a route of 48 bits", &["2001:db8::1"]),
    (
        "IPv6, a route of 48 bits, in turn",
        &["2001:db8::1", "2001:db8::2"],
    ),
    (
        "IPv6, a route of 64 bits, in turn",
        &["2001:db8:1:1::1", "2001:db8:1:1::2"],
    ),
    (
        "IPv6, a host on link, in turn",
        &["fd66:2::2", "2001:db8::1"],
    ),
];

const UNIT: &str = "instructions a packet";
/// Length of frames: the shortest that have the tester's signature, of IPv4 and of IPv6.
const OCTETS: [u16; 2] = [64, 84];

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Length of one measurement, by this machine's clock.
    pub time: Duration,
    /// How far the clock goes in an instruction, ns.
    pub instruction: f64,
    /// Measure express alone.
    pub only_express: bool,
}

/// Measures kernel, xdp-forward if there is its command, and express; programs also with flows through `ruleset`, which is one for
/// [`nat::measure`].
///
/// # Errors
/// A subject does not start, or not by a program where it should.
pub fn measure(
    bora: &Path,
    ruleset: &str,
    xdp_forward: &[&str],
    plan: Plan,
) -> anyhow::Result<Vec<Row>> {
    let mut testbed = Testbed::receiving(bora, Napi::Softirq)?;
    testbed.network().router().run(ROUTES)?;
    let (mut ways, mut programs) = (Results::default(), Results::default());
    let alone = alone(&mut testbed, plan)?;
    for subject in subjects(xdp_forward, plan.only_express) {
        eprintln!("{}", subject.name());
        let network = testbed.network();
        let running = subject.start(&network, 2, &[])?;
        for (case, destinations) in CASES {
            let destinations: Vec<IpAddr> = destinations
                .iter()
                .map(|address| address.parse())
                .collect::<Result<_, _>>()?;
            let added_to = alone[usize::from(destinations[0].is_ipv6())];
            let (time, program) = one(&mut testbed, destinations, plan)?;
            let added = time - added_to;
            ways.add(case, subject.name(), added / plan.instruction);
            if let Some(program) = program {
                programs.add(case, subject.name(), program / plan.instruction);
            }
            let has_program = subject != Forwarder::Lab(Subject::Kernel);
            ensure!(
                program.is_some() == has_program,
                "{}, {case}: a program ran or did not: {program:?}",
                subject.name()
            );
        }
        running.stop(&network)?;
        if subject != Forwarder::Lab(Subject::Kernel) {
            for (case, time) in nat::costs(&mut testbed, subject, ruleset, plan.time)? {
                programs.add(case, subject.name(), time / plan.instruction);
            }
        }
    }
    let only = plan.only_express.then(|| Subject::Express.name());
    let mut rows = ways.rows("router alone", UNIT, only.unwrap_or(BASE));
    rows.extend(programs.rows("program", UNIT, only.unwrap_or("xdp-forward")));
    Ok(rows)
}

fn subjects<'a>(xdp_forward: &'a [&'a str], only_express: bool) -> Vec<Forwarder<'a>> {
    let express = Forwarder::Lab(Subject::Express);
    let other = (!xdp_forward.is_empty()).then_some(Forwarder::XdpForward(xdp_forward, &[]));
    match only_express {
        true => vec![express],
        false => [Some(Forwarder::Lab(Subject::Kernel)), other, Some(express)]
            .into_iter()
            .flatten()
            .collect(),
    }
}

/// The time of the whole way for a packet, and that of the router's program if one ran, ns.
fn one(
    testbed: &mut Testbed,
    destinations: Vec<IpAddr>,
    plan: Plan,
) -> anyhow::Result<(f64, Option<f64>)> {
    let destination = destinations[0];
    let source = match destination {
        IpAddr::V4(_) => IpAddr::from([10, 66, 1, 2]),
        IpAddr::V6(_) => "fd66:1::2".parse()?,
    };
    let octets = OCTETS[usize::from(destination.is_ipv6())];
    let flows = destinations.len() as u32;
    let stream = Stream {
        destinations: Values::List(destinations),
        ..Stream::new((0, 1), source, destination).with_flows(flows)
    };
    // the first packets meet caches of Linux that are empty
    testbed.measure_stream(stream.clone(), octets, plan.time / 10)?;
    let (measured, runs) =
        programs::meanwhile(|| testbed.measure_stream(stream, octets, plan.time))?;
    let lost = measured.sent - measured.arrived.received;
    ensure!(
        measured.arrived.received > 0 && lost * 1000 <= measured.sent,
        "{destination}: {lost} of {} packets lost",
        measured.sent
    );
    let program = runs.time_of_each(measured.arrived.received);
    Ok((1e9 / measured.rate(), program))
}

/// The time of a packet from generator to sink without a router, of IPv4 and of IPv6, ns.
fn alone(testbed: &mut Testbed, plan: Plan) -> anyhow::Result<[f64; 2]> {
    let mut times = [0.0; 2];
    for (time, traffic) in times
        .iter_mut()
        .zip([Traffic::V4(OCTETS[0]), Traffic::V6(OCTETS[1])])
    {
        let offer = Offer {
            traffic,
            flows: 1,
            rate: 0,
            time: plan.time,
        };
        *time = 1e9 / testbed.measure_ends(offer)?.rate();
    }
    Ok(times)
}
