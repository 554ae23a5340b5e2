//! From a plan and the ports to the streams of each test.

use std::net::IpAddr;
use std::sync::Arc;

use anyhow::{Context, bail};

use super::addresses::{Addresses, Numbers, Order};
use super::method::TestSection;
use super::traffic::{Pattern, TrafficSection};
use super::{Length, Plan};
use crate::frame::least_length;
use crate::ports::PortSpec;
use crate::prefix::{BENCHMARK_V4, BENCHMARK_V6, Prefix};
use crate::routes;
use crate::traffic::{Stream, Traffic, Values};

/// Source ports, where the plan says nothing: the dynamic ones (RFC 6335).
const SOURCE_PORTS: (u16, u16) = (49_152, 65_535);
/// The echo service (RFC 2544, C.2.6.4).
const DESTINATION_PORT: u16 = 7;

/// A test on one frame mix and IP version.
#[derive(Clone, Debug)]
pub struct Case {
    /// Index into [`Plan::tests`].
    pub test: usize,
    /// Whether it is IPv6.
    pub v6: bool,
    /// What is sent.
    pub traffic: Arc<Traffic>,
    /// Which ports send to which.
    pub pattern: Pattern,
    /// Networks that the router must have routes to, and the port behind which they are.
    pub networks: Vec<(Prefix, usize)>,
    /// Ports among which `[router] routes` are divided; `None`: no routes.
    pub routed: Option<Vec<usize>>,
}

impl Plan {
    /// All tests, frame mix by frame mix, in the order in which they are done; and what the user
    /// must know before: why tests were left out, which routes the router needs.
    ///
    /// # Errors
    /// If a test does not fit the ports.
    pub fn cases(
        &self,
        ports: &[PortSpec],
        length: Length,
    ) -> anyhow::Result<(Vec<Case>, Vec<String>)> {
        let (mut cases, mut notes) = (Vec::new(), Vec::new());
        for (index, test) in self.tests.iter().enumerate() {
            let count = test.ports.map_or(ports.len(), |count| count as usize);
            if count > ports.len() {
                let name = test.name();
                let there = ports.len();
                notes.push(format!(
                    "{name} was left out: it needs {count} ports, not {there}"
                ));
                continue;
            }
            let family = test.family.unwrap_or(self.family);
            let sizes = test.sizes.as_ref().unwrap_or(&self.sizes).pick(length);
            for &v6 in family.versions() {
                let expansion = Expansion::new(self, test, &ports[..count], v6);
                let streams = expansion.streams();
                let streams = streams.with_context(|| format!("test {}", test.name()))?;
                let networks = expansion.networks()?;
                let missing = expansion.missing_routes(&networks);
                notes.extend(missing.filter(|note| !notes.contains(note)));
                let least = streams.iter().map(least_length).max().unwrap_or(0);
                for size in &sizes {
                    let traffic = Traffic {
                        streams: streams.clone(),
                        frames: size.clone().at_least(least),
                    };
                    cases.push(Case {
                        test: index,
                        v6,
                        traffic: Arc::new(traffic),
                        pattern: expansion.pattern,
                        networks: networks.clone(),
                        routed: expansion.routed(),
                    });
                }
            }
        }
        Ok((cases, notes))
    }
}

/// What the streams of a test follow from.
struct Expansion<'a> {
    plan: &'a Plan,
    test: &'a TestSection,
    section: TrafficSection,
    pattern: Pattern,
    ports: &'a [PortSpec],
    v6: bool,
}

impl<'a> Expansion<'a> {
    fn new(plan: &'a Plan, test: &'a TestSection, ports: &'a [PortSpec], v6: bool) -> Self {
        let section = test.traffic.or(&plan.traffic);
        let pattern = section.pattern.unwrap_or_default();
        Self {
            plan,
            test,
            section,
            pattern,
            ports,
            v6,
        }
    }

    fn streams(&self) -> anyhow::Result<Vec<Stream>> {
        let pairs = self.pairs()?;
        let ports = |numbers: &Option<Numbers>, default, salt| match numbers {
            Some(numbers) => numbers.values(self.plan.seed.wrapping_add(salt)),
            None => default,
        };
        let (first, last) = SOURCE_PORTS;
        let (section, vlan) = (&self.section, self.section.vlan);
        let stream = |(from, to)| {
            let sources = section.sources.as_ref().unwrap_or(&Addresses::Port);
            let destinations = section.destinations.as_ref().unwrap_or(&Addresses::Port);
            anyhow::Ok(Stream {
                from,
                to,
                weight: 1,
                flows: section.flows.unwrap_or(1),
                flow_length: section.flow_length,
                sources: self.values(sources, from).context("sources")?,
                destinations: self.values(destinations, to).context("destinations")?,
                source_ports: ports(&section.source_ports, Values::Range(first, last), 1),
                destination_ports: ports(
                    &section.destination_ports,
                    Values::List(vec![DESTINATION_PORT]),
                    2,
                ),
                dscp: section.dscp.unwrap_or(0),
                vlan: vlan.map(|vlan| (vlan, section.priority.unwrap_or(0))),
            })
        };
        pairs.into_iter().map(stream).collect()
    }

    fn pairs(&self) -> anyhow::Result<Vec<(usize, usize)>> {
        let pairs = self.pattern.streams(self.ports.len());
        pairs.map_err(anyhow::Error::msg)
    }

    /// Ports that receive, in order.
    fn receivers(&self) -> Vec<usize> {
        let mut receivers: Vec<usize> = self
            .pairs()
            .into_iter()
            .flatten()
            .map(|(_, to)| to)
            .collect();
        receivers.sort_unstable();
        receivers.dedup();
        receivers
    }

    /// The addresses of hosts behind a port.
    fn values(&self, addresses: &Addresses, port: usize) -> anyhow::Result<Values<IpAddr>> {
        let range = |first, last, order| match order {
            Order::InTurn => Values::Range(first, last),
            Order::Random => {
                let seed = self.plan.seed.wrapping_add(port as u64);
                Values::Random { first, last, seed }
            }
        };
        let values = match addresses {
            Addresses::Port => Values::List(vec![self.own(port)?]),
            Addresses::Routes => {
                let (first, last) = self.share_of_routes(port)?;
                range(first, last, Order::Random)
            }
            Addresses::Prefix(prefix, order) => {
                let (first, last) = self.share(*prefix, port)?.hosts();
                range(first, last, *order)
            }
            Addresses::Range(first, last, order) => range(*first, *last, *order),
            Addresses::List(list) => Values::List(list.clone()),
        };
        let of_family = match &values {
            Values::List(list) => list.iter().all(|address| address.is_ipv6() == self.v6),
            Values::Range(first, _) | Values::Random { first, .. } => first.is_ipv6() == self.v6,
        };
        if !of_family {
            let version = if self.v6 { 6 } else { 4 };
            bail!("addresses that are not IPv{version}; `benchmark` and `port` suit both versions");
        }
        Ok(values)
    }

    fn own(&self, port: usize) -> anyhow::Result<IpAddr> {
        let spec = &self.ports[port];
        let option = if self.v6 { "address6" } else { "address" };
        let own = spec.address(self.v6);
        own.with_context(|| format!("port {} has no `{option}`", spec.name))
    }

    fn share(&self, prefix: Option<Prefix>, port: usize) -> anyhow::Result<Prefix> {
        let benchmark = if self.v6 { BENCHMARK_V6 } else { BENCHMARK_V4 };
        let prefix = prefix.unwrap_or(benchmark);
        let share = prefix.share(port, self.ports.len());
        share.map_err(anyhow::Error::msg)
    }

    fn share_of_routes(&self, port: usize) -> anyhow::Result<(IpAddr, IpAddr)> {
        let receivers = self.receivers();
        let routes = self
            .plan
            .router
            .routes
            .context("[router] has no `routes`")?;
        let shares = routes::shares(self.v6, routes.count, self.plan.seed, receivers.len());
        let place = receivers.iter().position(|&receiver| receiver == port);
        let share = place.and_then(|place| shares.get(place).copied());
        share.with_context(|| format!("no routes for port {}", self.ports[port].name))
    }

    fn networks(&self) -> anyhow::Result<Vec<(Prefix, usize)>> {
        let Some(Addresses::Prefix(prefix, _)) = self.section.destinations else {
            return Ok(Vec::new());
        };
        let receivers = self.receivers().into_iter();
        receivers
            .map(|port| Ok((self.share(prefix, port)?, port)))
            .collect()
    }

    /// What to type on a router on which the tester does not install the routes itself.
    fn missing_routes(&self, networks: &[(Prefix, usize)]) -> Option<String> {
        if networks.is_empty() || self.plan.router.installs() {
            return None;
        }
        let routes = networks.iter().filter_map(|&(prefix, port)| {
            let via = self.own(port).ok()?;
            Some(format!("`ip route add {prefix} via {via}`"))
        });
        let routes: Vec<String> = routes.collect();
        Some(format!(
            "The router needs routes to the test networks: {}. With `shell` in [router], or \
             --shell, the tester adds and removes them itself.",
            routes.join(", ")
        ))
    }

    fn routed(&self) -> Option<Vec<usize>> {
        let wanted = self.plan.router.routes.is_some() && self.test.routes != Some(false);
        wanted.then(|| self.receivers())
    }
}
