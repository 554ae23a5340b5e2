//! `[sflow]`: samples of packets and counters for collectors.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use bora_capture::sflow;
use bora_config::{Problem, at, wrong};
use schemars::JsonSchema;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The most collectors.
const MOST: usize = 8;
/// The shortest header that has Ethernet addresses and a VLAN tag, octets.
const MIN_HEADER: usize = 18;
/// Packets of an hour at 10 million a second: one sample of more than these tells nothing.
const MAX_SAMPLING: u32 = 1 << 30;

/// Which packets are sampled for which collectors of sFlow version 5. Without collectors none are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SflowSection {
    /// Where the samples go: an address such as `192.0.2.9` or `[2001:db8::9]:6343`, or a list of these. The port is
    /// 6343 if it is not given.
    #[serde(skip_serializing_if = "Collectors::is_empty")]
    pub collector: Collectors,
    /// One packet in this many is sampled, by chance; 1: all.
    pub sampling: u32,
    /// Seconds between two samples of the ports' counters; 0: none.
    pub polling: u16,
    /// The address that collectors know this router by; without, the one that it sends from to the first collector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<IpAddr>,
    /// Octets of each sampled packet, from the Ethernet header on, 18 to 1024.
    pub header: usize,
}

impl Default for SflowSection {
    fn default() -> Self {
        Self {
            collector: Collectors::default(),
            sampling: 1000,
            polling: 20,
            agent: None,
            header: 128,
        }
    }
}

impl SflowSection {
    pub(super) fn check(&self) -> Result<(), Problem> {
        if self.sampling == 0 || self.sampling > MAX_SAMPLING {
            let what = format!(
                "1 in {} packets cannot be sampled; give 1, for all, to {MAX_SAMPLING}, or leave out `collector` to \
                 sample none",
                self.sampling
            );
            return wrong(at!["sflow", "sampling"], what);
        }
        if !(MIN_HEADER..=sflow::MAX_HEADER).contains(&self.header) {
            let (header, most) = (self.header, sflow::MAX_HEADER);
            let what = format!("{header} octets; it is from {MIN_HEADER} to {most}");
            return wrong(at!["sflow", "header"], what);
        }
        let collectors = &self.collector.0;
        if collectors.len() > MOST {
            let what = format!(
                "{} collectors; at most {MOST} are possible",
                collectors.len()
            );
            return wrong(at!["sflow", "collector"], what);
        }
        for (place, one) in collectors.iter().enumerate() {
            let what = match () {
                () if one.port() == 0 => "port 0 is none".into(),
                () if one.ip().is_unspecified() => format!("{} is no machine's address", one.ip()),
                () if collectors[..place].contains(one) => format!("{one} is named twice"),
                () => continue,
            };
            return wrong(at!["sflow", "collector"], what);
        }
        if collectors.is_empty() && *self != Self::default() {
            let what = "without `collector` this has no effect".into();
            return wrong(at!["sflow"], what);
        }
        Ok(())
    }

    /// What is legal and foolish.
    pub(super) fn warnings(&self) -> Vec<String> {
        /// Below this, most packets of a fast port find no room among the samples.
        const FEW: u32 = 50;
        let is_little = !self.collector.is_empty() && self.sampling < FEW;
        let text = format!(
            "sflow.sampling = {}: of fast ports more samples will be lost than sent; 1000 is usual",
            self.sampling
        );
        is_little.then_some(text).into_iter().collect()
    }
}

/// Addresses and UDP ports of collectors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collectors(pub(super) Vec<SocketAddr>);

impl Collectors {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them.
    pub fn all(&self) -> &[SocketAddr] {
        &self.0
    }
}

const EXAMPLES: &str = "192.0.2.9 or [2001:db8::9]:6343";
const WHAT: &str = "an address such as 192.0.2.9 or [2001:db8::9]:6343, or a list of these";

/// An address with or without a port.
fn collector(text: &str) -> Result<SocketAddr, String> {
    let plain = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    let alone = IpAddr::from_str(plain.unwrap_or(text)).map(|ip| SocketAddr::new(ip, sflow::PORT));
    let wrong = |_| format!("`{text}` is no address such as {EXAMPLES}; names are not looked up");
    alone.or_else(|_| text.parse().map_err(wrong))
}

impl fmt::Display for Collectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&all.join(", "))
    }
}

impl Serialize for Collectors {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match &self.0[..] {
            [one] => one.serialize(to),
            all => all.serialize(to),
        }
    }
}

impl<'a> Deserialize<'a> for Collectors {
    fn deserialize<D: Deserializer<'a>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(CollectorsVisitor)
    }
}

struct CollectorsVisitor;

impl<'a> Visitor<'a> for CollectorsVisitor {
    type Value = Collectors;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(WHAT)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Collectors, E> {
        let one = collector(text).map_err(E::custom)?;
        Ok(Collectors(vec![one]))
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut list: A) -> Result<Collectors, A::Error> {
        let mut all = Vec::new();
        while let Some(one) = list.next_element::<String>()? {
            all.push(collector(&one).map_err(A::Error::custom)?);
        }
        Ok(Collectors(all))
    }
}

impl JsonSchema for Collectors {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Collectors".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": ["string", "array"],
            "items": {"type": "string"},
            "description": WHAT,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::config::File;

    const PORTS: &str = "[[port]]\nname = \"a\"\n[[port]]\nname = \"b\"\n";

    fn read(section: &str) -> Result<File, String> {
        File::parse(&format!("{PORTS}[sflow]\n{section}")).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn collectors_with_and_without_port() {
        for (text, expected) in [
            ("\"192.0.2.9\"", "192.0.2.9:6343"),
            ("\"192.0.2.9:7\"", "192.0.2.9:7"),
            ("\"2001:db8::9\"", "[2001:db8::9]:6343"),
            ("\"[2001:db8::9]\"", "[2001:db8::9]:6343"),
            ("[\"[::1]:7\", \"192.0.2.9\"]", "[::1]:7, 192.0.2.9:6343"),
        ] {
            let file = read(&format!("collector = {text}\n")).unwrap();
            assert_eq!(file.sflow.collector.to_string(), expected);
            assert_eq!(File::parse(&file.to_text().unwrap()).unwrap(), file);
        }
        assert!(read("").unwrap().sflow.collector.is_empty());
    }

    #[test]
    fn errors_say_what_and_where() {
        let one = "collector = \"192.0.2.9\"\n";
        for (text, words) in [
            (format!("{one}sampling = 0\n"), "line 7, column 12"),
            (format!("{one}header = 9\n"), "9 octets; it is from 18"),
            (format!("{one}sampling = 0\n"), "1 in 0 packets cannot"),
            ("sampling = 5\n".into(), "without `collector`"),
            ("collector = \"host\"\n".into(), "`host` is no address"),
            ("collector = \"192.0.2.9:0\"\n".into(), "port 0"),
            ("collector = \"0.0.0.0\"\n".into(), "no machine's"),
            ("collector = [\"::1\", \"::1\"]\n".into(), "named twice"),
            ("collector = 5\n".into(), "expected an address"),
        ] {
            let error = read(&text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
