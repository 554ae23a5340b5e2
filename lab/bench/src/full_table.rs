//! Kernel, xdp-forward and express between two veth pairs, with one route and with a full table.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::Duration;

use bora_fib::Prefix4;
use bora_fib_bench::Prefix;
use bora_fib_bench::random::Random;
use bora_network::{Network, Subject, Testbed};

use crate::veth::Forwarder;
use crate::{Results, Row};

const TIME: Duration = Duration::from_millis(700);
/// Destinations of the full table's case, sent to in turn.
const DESTINATIONS: usize = 1 << 20;
/// Host-b, where all routes lead.
const HOST: usize = 1;

/// Measures all subjects in turn, `rounds` times each case.
///
/// # Errors
/// If a subject does not start, or the routes cannot be written.
pub fn measure(
    testbed: &mut Testbed,
    routes: usize,
    rounds: usize,
    xdp_forward: Option<&Path>,
) -> anyhow::Result<Vec<Row>> {
    let network = testbed.network();
    let xdp_forward = xdp_forward.map(Path::to_string_lossy);
    let command = xdp_forward.as_deref().map(|program| [program]);
    let mut forwarders = vec![
        Forwarder::Lab(Subject::Kernel),
        Forwarder::Lab(Subject::Express),
    ];
    match &command {
        Some(command) => forwarders.insert(1, Forwarder::XdpForward(command, &[])),
        None => eprintln!("there is no xdp-forward (xdp-tools 1.5 and later): it is left out"),
    }
    let connected = IpAddr::from(Ipv4Addr::new(10, 66, 2, 2));
    let mut results = Results::default();
    for (case, count) in [
        ("1 route, 1 destination".to_owned(), 0),
        (format!("{routes} routes, random"), routes),
    ] {
        let destinations = match count {
            0 => vec![connected],
            _ => write_table(&network, count)?,
        };
        for round in 1..=rounds {
            for &forwarder in &forwarders {
                eprintln!("{case}, round {round} of {rounds}: {}", forwarder.name());
                let running = forwarder.start(&network, 2, &[])?;
                let measured = testbed.measure_to(destinations.clone(), TIME)?;
                running.stop(&network)?;
                results.add(&case, forwarder.name(), measured.rate());
            }
        }
    }
    Ok(results.rows("throughput", "packets/s", "kernel"))
}

/// Writes a table like the Internet's into the router; returns destinations inside it.
fn write_table(network: &Network, count: usize) -> anyhow::Result<Vec<IpAddr>> {
    let is_transit = |prefix: &Prefix4| {
        let first = prefix.addr() >> 24;
        (1..224).contains(&first) && first != 10 && first != 127
    };
    let mut table = <Prefix4 as Prefix>::synthetic(1, count);
    table.retain(|(prefix, _)| is_transit(prefix));
    // next hops are 1 to 254; .1 is the router itself, .2 the host
    let gateway = |number: u32| Ipv4Addr::new(10, 66, 2, 2 + (number % 252) as u8);
    let gateways: Vec<_> = (1..252).map(gateway).collect();
    network.add_neighbours(HOST, &gateways)?;
    let mut commands = String::new();
    for (prefix, number) in &table {
        writeln!(commands, "route replace {prefix} via {}", gateway(*number))?;
    }
    network.batch(&commands)?;
    let mut random = Random::new(2);
    let mut inside = || table[random.below(table.len())].0;
    let prefixes: Vec<_> = (0..DESTINATIONS).map(|_| inside()).collect();
    let mut random = Random::new(3);
    let address = |prefix: Prefix4| Ipv4Addr::from_bits(prefix.inside(&mut random)).into();
    Ok(prefixes.into_iter().map(address).collect())
}
