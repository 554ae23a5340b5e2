//! The short spelling of a port on the command line: `KIND:FIRST,OPTION=VALUE,…`. The options are
//! those of a file, so this reads whatever a file could say.

use serde::de::value::{Error, MapDeserializer};
use serde::de::{DeserializeOwned, Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

/// What comes after `KIND:`.
#[derive(Clone, Debug)]
pub struct Short<'a> {
    first: &'a str,
    options: Vec<(&'a str, &'a str)>,
}

impl<'a> Short<'a> {
    /// Splits it.
    ///
    /// # Errors
    /// An option without a value.
    pub fn parse(text: &'a str) -> Result<Self, String> {
        let mut parts = text.split(',').map(str::trim);
        let first = parts.next().unwrap_or_default();
        let option = |part: &'a str| {
            part.split_once('=')
                .ok_or_else(|| format!("option `{part}` is not KEY=VALUE"))
        };
        let options = parts.map(option).collect::<Result<_, _>>()?;
        Ok(Self { first, options })
    }

    /// Takes an option out that is not the kind's.
    pub fn take(&mut self, option: &str) -> Option<&'a str> {
        let index = self.options.iter().position(|(key, _)| *key == option)?;
        Some(self.options.remove(index).1)
    }

    /// The options of a kind; the one named `first` comes without its name.
    ///
    /// # Errors
    /// What is wrong, and with which option.
    pub fn read<T: DeserializeOwned>(&self, first: &'static str) -> Result<T, String> {
        let first = (!self.first.is_empty()).then_some((first, self.first));
        let all = first.into_iter().chain(self.options.iter().copied());
        let all = all.map(|(key, value)| (key, Value(value)));
        let read = T::deserialize(MapDeserializer::new(all));
        read.map_err(|error: Error| error.to_string())
    }
}

/// A value whose type follows from the option.
#[derive(Clone, Copy)]
struct Value<'a>(&'a str);

impl<'de> IntoDeserializer<'de> for Value<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

macro_rules! numbers {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            match self.0.parse::<u64>() {
                Ok(number) => visitor.visit_u64(number),
                Err(_) => self.deserialize_any(visitor), // it says that it wants a number
            }
        })*
    };
}

impl<'de> Deserializer<'de> for Value<'de> {
    type Error = Error;

    numbers! { deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_borrowed_str(self.0)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            "yes" => visitor.visit_bool(true),
            "no" => visitor.visit_bool(false),
            other => Err(serde::de::Error::custom(format!(
                "`{other}` is neither yes nor no"
            ))),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_enum(self.0.into_deserializer())
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}
