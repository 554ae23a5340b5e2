//! Values that are written as text, or as a number where the text is one.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{Error, Visitor};

/// Reads a value by its [`FromStr`].
pub struct TextVisitor<T>(&'static str, PhantomData<T>);

impl<T> TextVisitor<T> {
    /// `what` describes the expected value, for errors.
    pub fn new(what: &'static str) -> Self {
        Self(what, PhantomData)
    }
}

impl<T: FromStr<Err = String>> Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
}

/// Reads and writes a type by its `FromStr` and `Display`; `$what` describes it, for editors and
/// errors.
#[macro_export]
macro_rules! as_text {
    ($type:ident, $what:literal) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'a> serde::Deserialize<'a> for $type {
            fn deserialize<D: serde::Deserializer<'a>>(from: D) -> Result<Self, D::Error> {
                let visitor = $crate::TextVisitor::new($what);
                from.deserialize_any(visitor)
            }
        }

        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({"type": ["string", "integer"], "description": $what})
            }
        }
    };
}

/// A decimal number, or a hexadecimal one after `0x`.
///
/// # Errors
/// What is wrong with the text.
pub fn number<T>(text: &str) -> Result<T, String>
where
    T: TryFrom<u128>,
{
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (digits, radix) = digits.map_or((text, 10), |digits| (digits, 16));
    let signed = digits.starts_with('+');
    let number = u128::from_str_radix(digits, radix).ok().filter(|_| !signed);
    number
        .and_then(|number| T::try_from(number).ok())
        .ok_or_else(|| format!("`{text}` is not a number in the allowed range"))
}
