//! UDP flows through masquerade and DNAT: by nftables' chains, by Linux's flowtable, and by programs that read it.

use std::net::IpAddr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use bora_network::{Measured, Network, Offer, Subject as Tier, Testbed, Traffic};
use bora_tester::traffic::{Stream, Values};

use crate::programs;
use crate::veth::{Forwarder, Running};
use crate::{Results, Row, ends};

/// What the others are compared with.
const BASE: &str = "nftables";
/// What programs are compared with.
const RIVAL: &str = "xdp-forward";
/// Flows of masquerade, and as many of DNAT, in the table in every case: as many as the sender has frames.
pub const FLOWS: u32 = 8192;
/// Flows in turn where programs alone are measured: more than a program remembers, so that none has been seen just before.
const IN_TURN: u32 = 256;
/// Length of frames.
const OCTETS: u16 = 64;
/// How often packets of all flows are sent until all are there: some of the first packets are lost.
const ATTEMPTS: usize = 20;
/// First UDP port of the clients. Masquerade keeps it.
const FIRST_PORT: u16 = 1024;
/// UDP port of the servers.
const SERVER_PORT: u16 = 9;
/// UDP port of the router that DNAT gives to the server behind it.
const PUBLIC_PORT: u16 = 53;
/// How long Bora may take until it knows a flowtable.
const PATIENCE: Duration = Duration::from_secs(60);
/// Options of xdp-forward.
const FLOWTABLE: [&str; 2] = ["--fwd-mode", "flowtable"];
/// Flows and connections outlive the measurement.
const SYSCTLS: &str = "modprobe -a nf_conntrack nft_flow_offload nf_flow_table_inet && sysctl -qw \
     net.netfilter.nf_conntrack_max=65536 net.netfilter.nf_conntrack_udp_timeout=7200 \
     net.netfilter.nf_conntrack_udp_timeout_stream=7200 net.netfilter.nf_flowtable_udp_timeout=3600";

/// How much is measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Times each subject is measured, in turn with the others.
    pub rounds: usize,
    /// Length of one measurement, by this machine's clock.
    pub time: Duration,
    /// How far the clock goes in an instruction, ns.
    pub instruction: f64,
    /// Numbers of flows that packets are sent of, at most [`FLOWS`].
    pub flows: Vec<u32>,
}

/// A program that forwards.
struct Subject<'a> {
    name: &'static str,
    forwarder: Forwarder<'a>,
    /// Whether the ruleset has its flowtable.
    flowtable: bool,
}

/// What is translated, and which end sends. host-a is behind the router, host-b sees only the router's address.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// Clients on host-a to a server on host-b: their source becomes the router's.
    Masquerade,
    /// The server's answers.
    MasqueradeBack,
    /// Clients on host-b to a server on host-a, by a port of the router.
    Dnat,
    /// The server's answers.
    DnatBack,
}

impl Way {
    /// A flow's first packet comes by the first of each pair.
    const ALL: [Self; 4] = [
        Self::Masquerade,
        Self::MasqueradeBack,
        Self::Dnat,
        Self::DnatBack,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Masquerade => "masquerade",
            Self::MasqueradeBack => "masquerade, back",
            Self::Dnat => "DNAT",
            Self::DnatBack => "DNAT, back",
        }
    }

    fn stream(self, flows: u32) -> Stream {
        let (inside, router, outside) = ([10, 66, 1, 2], [10, 66, 2, 1], [10, 66, 2, 2]);
        let clients = Values::Range(FIRST_PORT, u16::MAX);
        let port = |port| Values::List(vec![port]);
        let (ends, source, target, source_ports, destination_ports) = match self {
            Self::Masquerade => ((0, 1), inside, outside, clients, port(SERVER_PORT)),
            Self::MasqueradeBack => ((1, 0), outside, router, port(SERVER_PORT), clients),
            Self::Dnat => ((1, 0), outside, router, clients, port(PUBLIC_PORT)),
            Self::DnatBack => ((0, 1), inside, outside, port(SERVER_PORT), clients),
        };
        Stream {
            source_ports,
            destination_ports,
            ..Stream::new(ends, IpAddr::from(source), IpAddr::from(target)).with_flows(flows)
        }
    }

    /// The router's interface that receives.
    fn input(self) -> &'static str {
        match self {
            Self::Masquerade | Self::DnatBack => "ra",
            Self::MasqueradeBack | Self::Dnat => "rb",
        }
    }
}

/// Measures all subjects in turn, through a ruleset for the interfaces `lan0` and `wan0`.
///
/// # Errors
/// A subject does not start, or forwards by another way than it should.
pub fn measure(
    bora: &Path,
    ruleset: &str,
    xdp_forward: &[&str],
    plan: &Plan,
) -> anyhow::Result<Vec<Row>> {
    let ruleset = with_server(ruleset);
    let mut testbed = Testbed::receiving(bora, bora_network::Napi::Softirq)?;
    testbed.network().router().run(SYSCTLS)?;
    let (mut rates, mut costs) = (Results::default(), Results::default());
    let mut programs = Results::default();
    for round in 1..=plan.rounds {
        let mut times = vec![];
        for subject in &subjects(xdp_forward) {
            eprintln!("round {round} of {}: {}", plan.rounds, subject.name);
            for (case, rate, program) in one(&mut testbed, subject, &ruleset, plan)? {
                rates.add(&case, subject.name, rate);
                if let Some(time) = program {
                    programs.add(&case, subject.name, time / plan.instruction);
                }
                times.push((case, subject.name, 1e9 / rate));
            }
        }
        for (case, flows) in cases(plan).map(|(way, flows)| (case(way, flows), flows)) {
            let alone = alone(&mut testbed, flows, plan.time)?;
            rates.add(&case, ends::ALONE, alone);
            for (_, name, time) in times.iter().filter(|(of, ..)| *of == case) {
                costs.add(&case, name, time - 1e9 / alone);
            }
        }
    }
    let mut rows = rates.rows("throughput", "packets/s", BASE);
    rows.extend(costs.rows("router alone", "ns", BASE));
    rows.extend(programs.rows("program", "instructions a packet", RIVAL));
    Ok(rows)
}

/// What a program takes for a packet of masqueraded flows, ns: of one, and of several in turn. The ruleset is that of [`measure`].
///
/// # Errors
/// It does not start, or does not forward the flows.
pub(crate) fn costs(
    testbed: &mut Testbed,
    forwarder: Forwarder<'_>,
    ruleset: &str,
    time: Duration,
) -> anyhow::Result<[(&'static str, f64); 2]> {
    let subject = Subject {
        name: forwarder.name(),
        forwarder: match forwarder {
            Forwarder::XdpForward(command, _) => Forwarder::XdpForward(command, &FLOWTABLE),
            other => other,
        },
        flowtable: true,
    };
    let network = testbed.network();
    network.router().run(SYSCTLS)?;
    let running = begin(&network, &subject, &with_server(ruleset))?;
    make_flows(testbed, &subject, IN_TURN, time)?;
    let mut found = [("NAT, a flow", 0.0), ("NAT, flows in turn", 0.0)];
    for ((_, program), flows) in found.iter_mut().zip([1, IN_TURN]) {
        let (sent, runs) =
            programs::meanwhile(|| send(testbed, &subject, Way::Masquerade, flows, time))?;
        *program = runs
            .time_of_each(sent.arrived.received)
            .context("no program ran")?;
    }
    running.stop(&network)?;
    network.router().run("nft flush ruleset")?;
    Ok(found)
}

/// A ruleset for `lan0` and `wan0`, for the network's interfaces, with a server that is reached by DNAT.
fn with_server(ruleset: &str) -> String {
    ruleset.replace("lan0", "ra").replace("wan0", "rb")
        + &format!(
            "table ip servers {{\n chain prerouting {{\n type nat hook prerouting priority -100\n \
             iifname rb udp dport {PUBLIC_PORT} dnat to 10.66.1.2:{SERVER_PORT}\n }}\n}}\n"
        )
}

fn subjects<'a>(xdp_forward: &'a [&'a str]) -> Vec<Subject<'a>> {
    let subject = |name, forwarder, flowtable| Subject {
        name,
        forwarder,
        flowtable,
    };
    let mut all = vec![
        subject(BASE, Forwarder::Lab(Tier::Kernel), false),
        subject("flowtable", Forwarder::Lab(Tier::Kernel), true),
        subject("express", Forwarder::Lab(Tier::Express), true),
    ];
    if !xdp_forward.is_empty() {
        let forwarder = Forwarder::XdpForward(xdp_forward, &FLOWTABLE);
        all.insert(2, subject(RIVAL, forwarder, true));
    }
    all
}

fn cases(plan: &Plan) -> impl Iterator<Item = (Way, u32)> {
    Way::ALL
        .into_iter()
        .flat_map(|way| plan.flows.iter().map(move |&flows| (way, flows)))
}

fn case(way: Way, flows: u32) -> String {
    let plural = if flows > 1 { "s" } else { "" };
    format!("{}, {flows} flow{plural}", way.name())
}

/// One round of a subject: cases, their rates, and what its program takes for a packet if it has one, ns.
fn one(
    testbed: &mut Testbed,
    subject: &Subject<'_>,
    ruleset: &str,
    plan: &Plan,
) -> anyhow::Result<Vec<(String, f64, Option<f64>)>> {
    let network = testbed.network();
    let running = begin(&network, subject, ruleset)?;
    make_flows(testbed, subject, FLOWS, plan.time)?;
    let mut rates = vec![];
    for (way, flows) in cases(plan) {
        let measured = send(testbed, subject, way, flows, plan.time)?;
        let (again, runs) =
            programs::meanwhile(|| send(testbed, subject, way, flows, plan.time / 4))?;
        let program = runs.time_of_each(again.arrived.received);
        rates.push((case(way, flows), measured.rate(), program));
    }
    running.stop(&network)?;
    Ok(rates)
}

/// Takes a subject's rules and starts it.
fn begin<'a>(
    network: &Network,
    subject: &Subject<'a>,
    ruleset: &str,
) -> anyhow::Result<Running<'a>> {
    let rules = match subject.flowtable {
        true => ruleset.to_owned(),
        false => without_flowtable(ruleset),
    };
    let load = format!("nft -f - <<'END'\nflush ruleset\n{rules}\nEND");
    network.router().run(&load)?;
    let running = subject.forwarder.start(network, 2, &[])?;
    if subject.forwarder == Forwarder::Lab(Tier::Express) {
        wait_for_flows(network)?;
    }
    Ok(running)
}

/// Sends packets of this number of flows. A program must have forwarded them if it should, and none if it should not.
fn send(
    testbed: &mut Testbed,
    subject: &Subject<'_>,
    way: Way,
    flows: u32,
    time: Duration,
) -> anyhow::Result<Measured> {
    let network = testbed.network();
    let before = redirected(&network, way)?;
    let measured = testbed.measure_stream(way.stream(flows), OCTETS, time)?;
    let (redirected, arrived) = (
        redirected(&network, way)? - before,
        measured.arrived.received,
    );
    let share = redirected as f64 / arrived as f64;
    ensure!(
        match subject.forwarder {
            Forwarder::Lab(Tier::Kernel) => share == 0.0,
            _ => share > 0.99,
        },
        "{}, {}: {arrived} packets arrived, and a program forwarded {redirected} of them",
        subject.name,
        case(way, flows)
    );
    Ok(measured)
}

/// Sends in both directions until every flow has been seen in both, which puts it into the flowtable.
fn make_flows(
    testbed: &mut Testbed,
    subject: &Subject<'_>,
    flows_each: u32,
    time: Duration,
) -> anyhow::Result<()> {
    let count = match subject.flowtable {
        true => "grep -c 'udp .*OFFLOAD' /proc/net/nf_conntrack || true",
        false => "grep 'udp .*10.66.2.2' /proc/net/nf_conntrack | grep -vc UNREPLIED || true",
    };
    let (wanted, mut flows) = (2 * flows_each, String::new());
    for _ in 0..ATTEMPTS {
        for way in Way::ALL {
            testbed.measure_stream(way.stream(flows_each), OCTETS, time)?;
        }
        flows = testbed.network().router().run(count)?;
        if flows.trim() == wanted.to_string() {
            return Ok(());
        }
    }
    bail!("{}: {} flows, not {wanted}", subject.name, flows.trim())
}

/// Waits until Bora forwards flows of the ruleset.
fn wait_for_flows(network: &Network) -> anyhow::Result<()> {
    let start = Instant::now();
    loop {
        let sync = network.show("sync")?;
        if sync["flows"]["forwards"] == true {
            return Ok(());
        }
        ensure!(
            start.elapsed() < PATIENCE,
            "Bora does not forward flows: {}",
            sync["flows"]
        );
        thread::sleep(Duration::from_millis(100));
    }
}

/// Packets that an XDP program on the router's input has redirected.
fn redirected(network: &Network, way: Way) -> anyhow::Result<u64> {
    let text = network
        .router()
        .run(&format!("ethtool -S {}", way.input()))?;
    let counts = text.lines().filter_map(|line| line.split_once(':'));
    let mut counts = counts.filter(|(name, _)| name.trim().ends_with("xdp_redirect"));
    let (_, count) = counts.next().context("veth counts no xdp_redirect")?;
    Ok(count.trim().parse()?)
}

/// The rate of generator and sink without a router.
fn alone(testbed: &mut Testbed, flows: u32, time: Duration) -> anyhow::Result<f64> {
    let offer = Offer {
        traffic: Traffic::V4(OCTETS),
        flows,
        rate: 0,
        time,
    };
    Ok(testbed.measure_ends(offer)?.rate())
}

/// The ruleset without its flowtable, and without the rule that puts flows into it.
fn without_flowtable(ruleset: &str) -> String {
    let mut inside = false;
    let keep = |line: &&str| {
        let was_inside = inside;
        inside = (inside && line.trim() != "}") || line.trim().starts_with("flowtable ");
        !was_inside && !inside && !line.contains("flow add")
    };
    let lines: Vec<&str> = ruleset.lines().filter(keep).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flowtable_is_taken_out() {
        let rules = "table inet t {\n  flowtable ft {\n    hook x\n  }\n  chain c {\n    ct flow add @ft\n    accept\n  }\n}";
        let wanted = "table inet t {\n  chain c {\n    accept\n  }\n}";
        assert_eq!(without_flowtable(rules), wanted);
    }
}
