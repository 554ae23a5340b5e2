//! Values that differ between a short and a full run.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Error, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Which of the two is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Length {
    /// A short run, to see soon what is about right.
    #[default]
    Short,
    /// A full run, as long as the standard or the paper has it.
    Full,
}

impl Length {
    /// The word that is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Short => "short",
            Self::Full => "full",
        }
    }
}

/// `VALUE`, or `{short = VALUE, full = VALUE}`.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant<T> {
    /// The value in short runs.
    pub short: T,
    /// The value in full runs.
    pub full: T,
}

impl<T: Clone> Variant<T> {
    /// The value in runs of this length.
    pub fn pick(&self, length: Length) -> T {
        match length {
            Length::Short => self.short.clone(),
            Length::Full => self.full.clone(),
        }
    }

    /// One value for both.
    pub fn both(value: T) -> Self {
        let short = value.clone();
        Self { short, full: value }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table<T> {
    short: T,
    full: T,
}

struct Either<T>(PhantomData<T>);

impl<'a, T: Deserialize<'a> + Clone> Visitor<'a> for Either<T> {
    type Value = Variant<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value, or {short = VALUE, full = VALUE}")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        T::deserialize(text.into_deserializer()).map(Variant::both)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        T::deserialize(number.into_deserializer()).map(Variant::both)
    }

    fn visit_seq<A: SeqAccess<'a>>(self, list: A) -> Result<Self::Value, A::Error> {
        T::deserialize(SeqAccessDeserializer::new(list)).map(Variant::both)
    }

    fn visit_map<A: MapAccess<'a>>(self, map: A) -> Result<Self::Value, A::Error> {
        let Table { short, full } = Table::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Variant { short, full })
    }
}

impl<'a, T: Deserialize<'a> + Clone> Deserialize<'a> for Variant<T> {
    fn deserialize<D: Deserializer<'a>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Either(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for Variant<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("Variant{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        json_schema!({"anyOf": [one.clone(), {
            "type": "object",
            "properties": {"short": one.clone(), "full": one},
            "required": ["short", "full"],
            "additionalProperties": false,
        }]})
    }
}
