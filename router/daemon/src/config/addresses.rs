//! Lists of addresses in rules, written there or read from a file.

use std::fmt;
use std::fs;
use std::path::Path;

use schemars::JsonSchema;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::ternary::AddressMatch;

const WHAT: &str = "an address, a prefix such as 10.0.0.0/8, ADDRESS/MASK such as 10.0.0.1/255.0.0.255, or a list of these";

/// One or more conditions on an address, of one IP version. A packet needs to meet one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressSet(Vec<AddressMatch>);

impl AddressSet {
    /// Several conditions.
    ///
    /// # Errors
    /// There is none, or they are of two IP versions.
    pub fn new(all: Vec<AddressMatch>) -> Result<Self, String> {
        let Some(first) = all.first() else {
            return Err("a list without addresses matches nothing; leave the rule out".into());
        };
        match all.iter().find(|one| one.is_v6() != first.is_v6()) {
            Some(other) => Err(format!(
                "{first} and {other} differ in IP version; make two rules"
            )),
            None => Ok(Self(all)),
        }
    }

    /// Reads a file: an address, a prefix or ADDRESS/MASK on each line; what follows `#` is a comment.
    ///
    /// # Errors
    /// What is wrong, with its line.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let file = path.display();
        let text = fs::read_to_string(path).map_err(|error| anyhow::anyhow!("{file}: {error}"))?;
        let mut all = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let at = |error| anyhow::anyhow!("{file}, line {}: {error}", number + 1);
            all.push(line.parse().map_err(at)?);
        }
        Self::new(all).map_err(|error| anyhow::anyhow!("{file}: {error}"))
    }

    /// The conditions, at least one.
    pub fn all(&self) -> &[AddressMatch] {
        &self.0
    }

    /// Whether it is for IPv6.
    pub fn is_v6(&self) -> bool {
        self.0.iter().any(|one| one.is_v6())
    }
}

impl fmt::Display for AddressSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0[..] {
            [] => Ok(()),
            [one] => one.fmt(f),
            [first, others @ ..] => write!(f, "{first} and {} more", others.len()),
        }
    }
}

impl Serialize for AddressSet {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match &self.0[..] {
            [one] => one.serialize(to),
            all => all.serialize(to),
        }
    }
}

impl<'a> Deserialize<'a> for AddressSet {
    fn deserialize<D: Deserializer<'a>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(SetVisitor)
    }
}

struct SetVisitor;

impl<'a> Visitor<'a> for SetVisitor {
    type Value = AddressSet;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(WHAT)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<AddressSet, E> {
        let one = text.parse().map_err(E::custom)?;
        Ok(AddressSet(vec![one]))
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut list: A) -> Result<AddressSet, A::Error> {
        let mut all = Vec::new();
        while let Some(one) = list.next_element()? {
            all.push(one);
        }
        AddressSet::new(all).map_err(A::Error::custom)
    }
}

impl JsonSchema for AddressSet {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "AddressSet".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": ["string", "array"],
            "items": {"type": "string"},
            "minItems": 1,
            "description": WHAT,
        })
    }
}
