//! `[dscp]`: classes of the differentiated services code points.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use bora_forward::Class;
use bora_forward::classify::{DEFAULT_DSCP, DscpClasses};
use schemars::JsonSchema;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use bora_config::{as_text, number};

/// Names of code points: RFC 2474 4.2.2 (CS), RFC 2597 6 (AF), RFC 3246 (EF), RFC 5865
/// (VOICE-ADMIT), RFC 8622 (LE).
const NAMES: [(&str, u8); 24] = [
    ("CS0", 0),
    ("BE", 0),
    ("LE", 1),
    ("CS1", 8),
    ("AF11", 10),
    ("AF12", 12),
    ("AF13", 14),
    ("CS2", 16),
    ("AF21", 18),
    ("AF22", 20),
    ("AF23", 22),
    ("CS3", 24),
    ("AF31", 26),
    ("AF32", 28),
    ("AF33", 30),
    ("CS4", 32),
    ("AF41", 34),
    ("AF42", 36),
    ("AF43", 38),
    ("CS5", 40),
    ("VOICE-ADMIT", 44),
    ("EF", 46),
    ("CS6", 48),
    ("CS7", 56),
];

/// The code point of a name.
pub(super) fn code_point(text: &str) -> Option<u8> {
    let known = NAMES
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(text));
    known.map(|&(_, value)| value)
}

/// The name of a code point, if it has one.
pub(super) fn name(value: u8) -> Option<&'static str> {
    let known = NAMES.iter().find(|&&(_, known)| known == value);
    known.map(|&(name, _)| name)
}

/// One code point, 0 to 63.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CodePoint(pub u8);

impl FromStr for CodePoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(value) = code_point(text) {
            return Ok(Self(value));
        }
        match number::<u8>(text) {
            Ok(value) if value < 64 => Ok(Self(value)),
            _ => Err(format!(
                "`{text}` is neither a name such as EF, CS6 or AF41 nor a number below 64"
            )),
        }
    }
}

impl fmt::Display for CodePoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match name(self.0) {
            Some(name) => f.write_str(name),
            None => self.0.fmt(f),
        }
    }
}

as_text!(CodePoint, "a DSCP: a name such as EF, or a number below 64");

/// Classes of code points: `EF = 1`. What is not named keeps its default: 1 for EF, CS6 and CS7, 0
/// for the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct DscpSection(pub BTreeMap<CodePoint, u8>);

impl DscpSection {
    /// The class of each code point.
    pub fn classes(&self) -> DscpClasses {
        let mut classes = DEFAULT_DSCP;
        for (point, &class) in &self.0 {
            if let Some(slot) = classes.get_mut(usize::from(point.0)) {
                *slot = Class(class);
            }
        }
        classes
    }
}

impl<'a> Deserialize<'a> for DscpSection {
    fn deserialize<D: Deserializer<'a>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(DscpVisitor)
    }
}

/// Refuses a code point that is there twice under two names.
struct DscpVisitor;

impl<'a> Visitor<'a> for DscpVisitor {
    type Value = DscpSection;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of code points and their classes, such as EF = 1")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<DscpSection, A::Error> {
        let mut classes = BTreeMap::new();
        while let Some((point, class)) = map.next_entry::<CodePoint, u8>()? {
            if classes.insert(point, class).is_some() {
                return Err(A::Error::custom(format!(
                    "code point {point} ({}) has two classes",
                    point.0
                )));
            }
        }
        Ok(DscpSection(classes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        for (text, value) in [("EF", 46), ("ef", 46), ("CS6", 48), ("0x2e", 46), ("3", 3)] {
            assert_eq!(text.parse(), Ok(CodePoint(value)), "{text}");
        }
        assert!("64".parse::<CodePoint>().is_err() && "AF44".parse::<CodePoint>().is_err());
        for value in 0..64 {
            let text = CodePoint(value).to_string();
            assert_eq!(text.parse(), Ok(CodePoint(value)), "{text}");
        }
    }

    #[test]
    fn the_table_changes_the_default() {
        let section: DscpSection = toml::from_str("EF = 0\n10 = 1\n").unwrap();
        let classes = section.classes();
        assert_eq!(
            (classes[46], classes[10], classes[48]),
            (Class(0), Class(1), Class(1))
        );
        let error = toml::from_str::<DscpSection>("EF = 1\n46 = 2\n").unwrap_err();
        assert!(
            error.to_string().contains("EF (46) has two classes"),
            "{error}"
        );
        let text = toml::to_string(&section).unwrap();
        assert_eq!(toml::from_str::<DscpSection>(&text).unwrap(), section);
    }
}
