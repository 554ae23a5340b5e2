//! Kinds of ports that are no part of the router: another program brings them (hero/bora).

use std::sync::{Arc, OnceLock};

use bora_config::typed;
use bora_port::kinds::Short;
use bora_port::port::Options;
use serde::de::DeserializeOwned;
use serde::ser::Error;
use serde::{Serialize, Serializer};
use toml::{Table, Value};

static BROUGHT: OnceLock<Vec<BroughtKind>> = OnceLock::new();

/// Adds kinds to those that files and `--port` know. To be called once, before a configuration is read.
pub fn bring(kinds: Vec<BroughtKind>) {
    BROUGHT.get_or_init(|| kinds);
}

/// The kinds that were brought.
pub(super) fn brought() -> &'static [BroughtKind] {
    BROUGHT.get().map_or(&[], |kinds| kinds)
}

/// A kind of port, and how its options are read.
#[derive(Debug)]
pub struct BroughtKind {
    /// As `kind` says it.
    pub(super) name: &'static str,
    pub(super) from_short: fn(&BroughtKind, &Short<'_>) -> Result<BroughtPort, String>,
    pub(super) from_keys: fn(&BroughtKind, Table) -> Result<BroughtPort, String>,
    /// The option that comes without its name in the short spelling.
    first: &'static str,
}

impl BroughtKind {
    /// A kind with options of type `T`; `first` comes without its name in the short spelling.
    pub fn new<T>(name: &'static str, first: &'static str) -> Self
    where
        T: Options + Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        Self {
            name,
            from_short: |kind, text| kind.port(text.read::<T>(kind.first)?),
            from_keys: |kind, keys| kind.port(typed::<T>(keys)?),
            first,
        }
    }

    fn port<T>(&self, options: T) -> Result<BroughtPort, String>
    where
        T: Options + Serialize + Send + Sync + 'static,
    {
        Ok(BroughtPort {
            kind: self.name,
            keys: Table::try_from(&options).map_err(|error| error.to_string())?,
            options: Arc::new(options),
        })
    }
}

/// A port of such a kind.
#[derive(Clone, Debug)]
pub struct BroughtPort {
    pub(super) kind: &'static str,
    keys: Table,
    options: Arc<dyn Options + Send + Sync>,
}

impl BroughtPort {
    pub(super) fn options(&self) -> &dyn Options {
        &*self.options
    }
}

impl PartialEq for BroughtPort {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, &self.keys) == (other.kind, &other.keys)
    }
}

// no option is a number with a fraction, which may differ from itself
impl Eq for BroughtPort {}

impl Serialize for BroughtPort {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut keys = self.keys.clone();
        match keys.insert("kind".into(), Value::String(self.kind.into())) {
            None => keys.serialize(to),
            Some(_) => Err(S::Error::custom("an option has the name `kind`")),
        }
    }
}
