//! `[[rule]]`: ordered rules for the engine.

use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use bora_fib::{NextHopId, PortId};
use bora_forward::Class;
use bora_forward::classify::{Action, Addresses, Rule, Ternary};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::addresses::AddressSet;
use super::ternary::{AddressMatch, DscpMatch, PcpMatch, ProtocolMatch, TosMatch};
use bora_config::as_text;

/// One rule. The first rule whose conditions all hold decides; a rule without conditions matches
/// everything. Every match is counted (`bora show rules`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RuleSection {
    /// Its name in `bora show rules`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Source: an address, a prefix such as `10.0.0.0/8`, ADDRESS/MASK such as
    /// `10.0.0.1/255.0.0.255`, or a list of these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<AddressSet>,
    /// A file with sources, one a line; from the folder of this file on. Instead of `source`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_file: Option<PathBuf>,
    /// Destination, likewise and of the same IP version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination: Option<AddressSet>,
    /// A file with destinations, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination_file: Option<PathBuf>,
    /// IPv4 TOS octet or IPv6 traffic class with the ECN bits: a number, or VALUE/MASK such as
    /// `0x12/0xf3`. Not together with `dscp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tos: Option<TosMatch>,
    /// DSCP: a name such as `EF`, `CS6` or `AF41`, a number, or VALUE/MASK such as `0x20/0x38`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dscp: Option<DscpMatch>,
    /// IPv4 protocol, or what follows IPv6's extension headers: a name such as `tcp`, a number, or
    /// VALUE/MASK.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<ProtocolMatch>,
    /// Source port or range of ports such as `1024-65535` (TCP, UDP, UDP-Lite, DCCP, SCTP). Never
    /// matches a packet without ports, among them all fragments but the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_ports: Option<Ports>,
    /// Destination port or range of ports, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination_ports: Option<Ports>,
    /// Priority of the outermost VLAN tag, 0 to 7, or VALUE/MASK such as `4/4`. Never matches an
    /// untagged packet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pcp: Option<PcpMatch>,
    /// Name of the port, VLAN device, bond or macvlan that the packet came in by. Nothing matches while there is none of this
    /// name by which Bora forwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_port: Option<String>,
    /// What happens: `count` or `drop`.
    pub action: RuleAction,
    /// The packet's class, 0 to 7, instead of what its DSCP gives it; every port must have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<u8>,
    /// Its way out instead of the route's: `via ADDRESS dev PORT`, a neighbour behind a port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Via>,
}

/// What a rule does to a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RuleAction {
    /// Counts it; the packet goes on, with `class` and `output` where the rule gives them.
    #[default]
    Count,
    /// Drops it.
    Drop,
}

/// A neighbour: `via ADDRESS dev PORT`, as `ip route` words it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Via {
    /// The neighbour's address.
    pub address: IpAddr,
    /// The port it is behind.
    pub device: String,
}

impl FromStr for Via {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not of the form `via ADDRESS dev PORT`");
        let words: Vec<&str> = text.split_whitespace().collect();
        let &["via", address, "dev", device] = words.as_slice() else {
            return Err(wrong());
        };
        Ok(Self {
            address: address
                .parse()
                .map_err(|error| format!("{}: {error}", wrong()))?,
            device: device.into(),
        })
    }
}

impl fmt::Display for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "via {} dev {}", self.address, self.device)
    }
}

as_text!(Via, "a next hop: via ADDRESS dev PORT");

/// TCP or UDP ports: one, or a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ports(pub RangeInclusive<u16>);

impl FromStr for Ports {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| {
            text.trim()
                .parse::<u16>()
                .map_err(|error| format!("`{text}` is not a port from 0 to 65535: {error}"))
        };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let range = number(first)?..=number(last)?;
        if range.is_empty() {
            return Err(format!("`{text}`: the range ends before it begins"));
        }
        Ok(Self(range))
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.start(), self.0.end()) {
            (first, last) if first == last => first.fmt(f),
            (first, last) => write!(f, "{first}-{last}"),
        }
    }
}

as_text!(Ports, "a port such as 53, or a range such as 1024-65535");

/// What names in rules stand for.
pub(crate) trait Names {
    /// The number of a port or of a device on ports; of one that does not exist a number that nothing has.
    fn input(&mut self, name: &str) -> PortId;
    /// The next hop to a neighbour, for packets of IPv6 or IPv4.
    fn next_hop(&mut self, via: &Via, v6: bool) -> anyhow::Result<NextHopId>;
}

impl RuleSection {
    /// The IP version it is for: `Some(true)` for IPv6, `None` for both.
    pub(super) fn v6(&self) -> Option<bool> {
        let addresses = [&self.source, &self.destination].into_iter().flatten();
        let of_address = addresses.map(AddressSet::is_v6).next();
        // an output is one neighbour with one Ethernet header, which names one IP version
        of_address.or(self.output.as_ref().map(|via| via.address.is_ipv6()))
    }

    /// Reads the files with addresses.
    ///
    /// # Errors
    /// What is wrong with one of them, with its line.
    pub(super) fn read_files(&mut self, folder: &Path) -> anyhow::Result<()> {
        for (file, addresses) in [
            (&mut self.source_file, &mut self.source),
            (&mut self.destination_file, &mut self.destination),
        ] {
            if let Some(file) = file.take() {
                *addresses = Some(AddressSet::read(&folder.join(file))?);
            }
        }
        Ok(())
    }

    /// How many rules of the classifier it is: one for each pair of a source and a destination.
    pub(crate) fn count(&self) -> usize {
        let count = |set: &Option<AddressSet>| set.as_ref().map_or(1, |set| set.all().len());
        count(&self.source).saturating_mul(count(&self.destination))
    }

    /// As the classifier wants it: [`Self::count`] rules.
    ///
    /// # Errors
    /// What `names` does not know.
    pub(crate) fn compile(&self, names: &mut dyn Names) -> anyhow::Result<Vec<Rule>> {
        let rule = self.without_addresses(names)?;
        let v6 = self.v6();
        let mut rules = Vec::with_capacity(self.count());
        for source in each(&self.source) {
            for destination in each(&self.destination) {
                let addresses = match v6 {
                    None => Addresses::Any,
                    Some(false) => Addresses::V4 {
                        source: v4(source),
                        destination: v4(destination),
                    },
                    Some(true) => Addresses::V6 {
                        source: v6_of(source),
                        destination: v6_of(destination),
                    },
                };
                rules.push(Rule {
                    addresses,
                    ..rule.clone()
                });
            }
        }
        Ok(rules)
    }

    fn without_addresses(&self, names: &mut dyn Names) -> anyhow::Result<Rule> {
        let output = match &self.output {
            Some(via) => Some(names.next_hop(via, self.v6() == Some(true))?),
            None => None,
        };
        let in_port = self.in_port.as_ref().map(|name| names.input(name));
        Ok(Rule {
            addresses: Addresses::Any,
            tos: match (self.tos, self.dscp) {
                (Some(tos), _) => tos.0,
                (None, Some(dscp)) => dscp.tos(),
                (None, None) => Ternary::default(),
            },
            protocol: self.protocol.map_or(Ternary::default(), |found| found.0),
            pcp: self.pcp.map(|pcp| pcp.0),
            source_ports: self.source_ports.clone().map(|ports| ports.0),
            destination_ports: self.destination_ports.clone().map(|ports| ports.0),
            in_port,
            action: match self.action {
                RuleAction::Drop => Action::Drop,
                RuleAction::Count => Action::Pass {
                    class: self.class.map(Class),
                    output,
                },
            },
        })
    }
}

/// Each condition of a list; one that is none, without a list.
fn each(set: &Option<AddressSet>) -> Vec<Option<AddressMatch>> {
    match set {
        Some(set) => set.all().iter().copied().map(Some).collect(),
        None => vec![None],
    }
}

fn v4(one: Option<AddressMatch>) -> Ternary<u32> {
    match one {
        Some(AddressMatch::V4(found)) => found,
        _ => Ternary::default(),
    }
}

fn v6_of(one: Option<AddressMatch>) -> Ternary<u128> {
    match one {
        Some(AddressMatch::V6(found)) => found,
        _ => Ternary::default(),
    }
}

/// Conditions and action on one line.
impl fmt::Display for RuleSection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        let mut add = |name: &str, value: Option<&dyn fmt::Display>| {
            words.extend(value.map(|value| format!("{name} {value}")));
        };
        fn shown<T: fmt::Display>(value: &Option<T>) -> Option<&dyn fmt::Display> {
            value.as_ref().map(|value| value as &dyn fmt::Display)
        }
        add("in_port", shown(&self.in_port));
        add("source", shown(&self.source));
        add("destination", shown(&self.destination));
        add("tos", shown(&self.tos));
        add("dscp", shown(&self.dscp));
        add("protocol", shown(&self.protocol));
        add("source_ports", shown(&self.source_ports));
        add("destination_ports", shown(&self.destination_ports));
        add("pcp", shown(&self.pcp));
        if words.is_empty() {
            words.push("any".into());
        }
        words.push("->".into());
        match self.action {
            RuleAction::Drop => words.push("drop".into()),
            RuleAction::Count if self.class.is_none() && self.output.is_none() => {
                words.push("count".into());
            }
            RuleAction::Count => {
                words.extend(self.class.map(|class| format!("class {class}")));
                words.extend(self.output.as_ref().map(|via| format!("output {via}")));
            }
        }
        f.write_str(&words.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed;

    impl Names for Fixed {
        fn input(&mut self, name: &str) -> PortId {
            PortId(name.trim_start_matches("eth").parse().unwrap())
        }

        fn next_hop(&mut self, via: &Via, v6: bool) -> anyhow::Result<NextHopId> {
            assert_eq!(via.address.is_ipv6(), v6);
            Ok(NextHopId::NO_ROUTE)
        }
    }

    fn rule(text: &str) -> RuleSection {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn every_field_reaches_the_classifier() {
        let section = rule(
            "source = \"10.0.0.0/8\"\ndestination = \"192.0.0.1/255.255.0.255\"\ndscp = \"EF\"\n\
             protocol = \"udp\"\nsource_ports = \"1024-65535\"\ndestination_ports = 53\n\
             pcp = \"4/4\"\nin_port = \"eth3\"\nclass = 1\noutput = \"via 192.0.2.7 dev eth1\"\n",
        );
        let compiled = section.compile(&mut Fixed).unwrap();
        let expected = Rule {
            addresses: Addresses::V4 {
                source: Ternary {
                    value: 0x0a00_0000,
                    mask: 0xff00_0000,
                },
                destination: Ternary {
                    value: 0xc000_0001,
                    mask: 0xffff_00ff,
                },
            },
            tos: Ternary::dscp(46),
            protocol: Ternary::exact(17),
            pcp: Some(Ternary { value: 4, mask: 4 }),
            source_ports: Some(1024..=65535),
            destination_ports: Some(53..=53),
            in_port: Some(PortId(3)),
            action: Action::Pass {
                class: Some(Class(1)),
                output: Some(NextHopId::NO_ROUTE),
            },
        };
        assert_eq!(compiled, [expected]);
        let back: RuleSection = toml::from_str(&toml::to_string(&section).unwrap()).unwrap();
        assert_eq!(back, section);
    }

    #[test]
    fn no_conditions_match_everything() {
        assert_eq!(rule("").compile(&mut Fixed).unwrap(), [Rule::default()]);
        let drop = rule("action = \"drop\"").compile(&mut Fixed).unwrap();
        assert_eq!(drop[0].action, Action::Drop);
        let v6 = rule("output = \"via fe80::1 dev eth0\"").compile(&mut Fixed);
        assert!(matches!(v6.unwrap()[0].addresses, Addresses::V6 { .. }));
    }

    #[test]
    fn lists_are_a_rule_for_each_pair() {
        let section =
            rule("source = [\"10.0.0.1\", \"10.1.0.0/16\"]\ndestination = [\"192.0.2.1\"]\n");
        let compiled = section.compile(&mut Fixed).unwrap();
        let sources: Vec<u32> = compiled
            .iter()
            .map(|rule| match rule.addresses {
                Addresses::V4 {
                    source,
                    destination,
                } if destination.value == 0xc000_0201 => source.value,
                _ => 0,
            })
            .collect();
        assert_eq!(sources, [0x0a00_0001, 0x0a01_0000]);
        assert_eq!(section.count(), 2);
        let shown = "source 10.0.0.1/32 and 1 more destination 192.0.2.1/32 -> count";
        assert_eq!(section.to_string(), shown);
        let back: RuleSection = toml::from_str(&toml::to_string(&section).unwrap()).unwrap();
        assert_eq!(back, section);
        for wrong in ["[]", "[\"10.0.0.1\", \"::1\"]", "[\"10.0.0.1/8\"]", "7"] {
            let text = format!("source = {wrong}");
            assert!(toml::from_str::<RuleSection>(&text).is_err(), "{wrong}");
        }
    }

    #[test]
    fn one_line_says_it_all() {
        let section = rule("protocol = 17\ndestination_ports = \"53\"\naction = \"drop\"");
        assert_eq!(
            section.to_string(),
            "protocol udp destination_ports 53 -> drop"
        );
        assert_eq!(rule("").to_string(), "any -> count");
    }

    #[test]
    fn wrong_words() {
        for wrong in ["via 10.0.0.1", "10.0.0.1 dev eth0", "via eth0 dev eth1", ""] {
            assert!(wrong.parse::<Via>().is_err(), "{wrong}");
        }
        for wrong in ["9-1", "65536", "x", "1-", "-1"] {
            assert!(wrong.parse::<Ports>().is_err(), "{wrong}");
        }
    }
}
