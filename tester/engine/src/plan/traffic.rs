//! `traffic = {…}`: what is sent from where to where.

use bora_config::as_text;
use schemars::JsonSchema;
use serde::Deserialize;

use super::addresses::{Addresses, Numbers};

/// What is sent. A test's own fields replace the plan's.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TrafficSection {
    /// Which ports send to which. Without: `one way`.
    pub pattern: Option<Pattern>,
    /// Flows of each stream, 1 to 16777216. Without: 1.
    pub flows: Option<u32>,
    /// Frames of a flow, after which a new one with new ports takes its place. Without: for ever.
    pub flow_length: Option<u32>,
    /// IP source addresses. Without: `port`.
    pub sources: Option<Addresses>,
    /// IP destination addresses. Without: `port`.
    pub destinations: Option<Addresses>,
    /// UDP source ports: a number, a range, `random 1024-65535`, or a list. Without: 49152-65535.
    pub source_ports: Option<Numbers>,
    /// UDP destination ports. Without: 7, the echo service's, as in RFC 2544, C.2.6.4.
    pub destination_ports: Option<Numbers>,
    /// DSCP, 0 to 63. Without: 0.
    pub dscp: Option<u8>,
    /// VLAN identifier of an 802.1Q tag, 1 to 4094. Without: no tag.
    pub vlan: Option<u16>,
    /// Priority in the tag, 0 to 7. Without: 0.
    pub priority: Option<u8>,
}

impl TrafficSection {
    /// This, with what it leaves open taken from `other`.
    pub fn or(&self, other: &Self) -> Self {
        let (this, other) = (self.clone(), other.clone());
        Self {
            pattern: this.pattern.or(other.pattern),
            flows: this.flows.or(other.flows),
            flow_length: this.flow_length.or(other.flow_length),
            sources: this.sources.or(other.sources),
            destinations: this.destinations.or(other.destinations),
            source_ports: this.source_ports.or(other.source_ports),
            destination_ports: this.destination_ports.or(other.destination_ports),
            dscp: this.dscp.or(other.dscp),
            vlan: this.vlan.or(other.vlan),
            priority: this.priority.or(other.priority),
        }
    }
}

/// Which ports send to which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pattern {
    /// The ports in pairs, the first of each sends to the second.
    #[default]
    OneWay,
    /// The ports in pairs, both ways (RFC 2544, 14; RFC 2285, 3.2.2: bidirectional).
    BothWays,
    /// Each port sends to the next, the last to the first (Bianco05: one-to-one).
    OneToOne,
    /// Each port sends equally to every other one (Bianco05). The order is that of the ports, so
    /// all senders meet at one receiver after the other.
    Uniform,
    /// Each port sends equally to every other one, in the order of RFC 2889, 5.1: the frames of the senders
    /// meet nowhere.
    FullMesh,
    /// The first half of the ports sends to each of the second half (RFC 2889, 5.4).
    PartialMesh,
    /// The first port sends to all others (RFC 2889, 5.2).
    OneToMany,
    /// All others send to the first port (RFC 2889, 5.2).
    ManyToOne,
}

const PATTERNS: [(&str, Pattern); 9] = [
    ("one way", Pattern::OneWay),
    ("both ways", Pattern::BothWays),
    ("pairs", Pattern::BothWays),
    ("one to one", Pattern::OneToOne),
    ("uniform", Pattern::Uniform),
    ("full mesh", Pattern::FullMesh),
    ("partial mesh", Pattern::PartialMesh),
    ("one to many", Pattern::OneToMany),
    ("many to one", Pattern::ManyToOne),
];

impl std::str::FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let same = |name: &str| name == text.replace('-', " ");
        let found = PATTERNS.iter().find(|(name, _)| same(name));
        found.map(|(_, pattern)| *pattern).ok_or_else(|| {
            let names: Vec<&str> = PATTERNS.iter().map(|(name, _)| *name).collect();
            format!("`{text}` is none of the patterns {}", names.join(", "))
        })
    }
}

impl std::fmt::Display for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let found = PATTERNS.iter().find(|(_, pattern)| pattern == self);
        f.write_str(found.map_or("", |(name, _)| name))
    }
}

as_text!(
    Pattern,
    "one way, both ways (in pairs), one to one, uniform, full mesh, partial mesh, one to many or \
     many to one"
);

impl Pattern {
    /// Which port sends to which, among this many, in the order in which a port takes its receivers.
    ///
    /// # Errors
    /// If the pattern does not fit the number.
    pub fn streams(self, ports: usize) -> Result<Vec<(usize, usize)>, String> {
        let others = |from: usize| (0..ports).filter(move |&to| to != from);
        let needs_pairs = matches!(self, Self::OneWay | Self::BothWays | Self::PartialMesh);
        if ports < 2 {
            return Err(format!("{ports} ports; a test needs at least two"));
        }
        if needs_pairs && ports % 2 == 1 {
            return Err(format!(
                "`{self}` needs an even number of ports, not {ports}"
            ));
        }
        let pairs = (0..ports / 2).map(|pair| (2 * pair, 2 * pair + 1));
        Ok(match self {
            Self::OneWay => pairs.collect(),
            Self::BothWays => pairs.flat_map(|(a, b)| [(a, b), (b, a)]).collect(),
            Self::OneToOne => (0..ports).map(|from| (from, (from + 1) % ports)).collect(),
            Self::Uniform => (0..ports)
                .flat_map(|from| others(from).map(move |to| (from, to)))
                .collect(),
            Self::FullMesh => (0..ports)
                .flat_map(|from| (1..ports).map(move |n| (from, (from + n) % ports)))
                .collect(),
            Self::PartialMesh => (0..ports / 2)
                .flat_map(|from| (ports / 2..ports).map(move |to| (from, to)))
                .collect(),
            Self::OneToMany => others(0).map(|to| (0, to)).collect(),
            Self::ManyToOne => others(0).map(|from| (from, 0)).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_has_its_streams() {
        for (pattern, ports, count) in [
            ("one way", 4, 2),
            ("both ways", 2, 2),
            ("pairs", 6, 6),
            ("one to one", 3, 3),
            ("uniform", 4, 12),
            ("full mesh", 14, 182),
            ("partial mesh", 6, 9),
            ("one to many", 5, 4),
            ("many-to-one", 5, 4),
        ] {
            let streams = pattern.parse::<Pattern>().unwrap().streams(ports).unwrap();
            assert_eq!(streams.len(), count, "{pattern}");
            assert!(streams.iter().all(|(from, to)| from != to), "{pattern}");
            let mut once = streams.clone();
            once.sort_unstable();
            once.dedup();
            assert_eq!(once.len(), count, "{pattern}");
        }
        assert!(Pattern::BothWays.streams(3).is_err());
        assert!(Pattern::Uniform.streams(1).is_err());
        assert!("ring".parse::<Pattern>().unwrap_err().contains("full mesh"));
    }

    #[test]
    fn senders_of_a_full_mesh_never_meet() {
        let streams = Pattern::FullMesh.streams(5).unwrap();
        for turn in 0..4 {
            let mut receivers: Vec<usize> = (0..5).map(|from| streams[from * 4 + turn].1).collect();
            receivers.sort_unstable();
            assert_eq!(receivers, [0, 1, 2, 3, 4]);
        }
    }
}
