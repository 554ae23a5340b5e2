//! `[[port]]` sections, whose keys depend on their `kind`.

use serde::de::DeserializeOwned;
use toml::{Table, Value};

use crate::{Problem, at, plain};

/// Reads the keys of one kind.
///
/// # Errors
/// What is wrong; a key that is wrong comes first, in backquotes.
pub fn typed<T: DeserializeOwned>(keys: Table) -> Result<T, String> {
    let read = Value::Table(keys).try_into();
    read.map_err(|error: toml::de::Error| plain(error.message()))
}

/// The first `[[port]]` of a file in which `read` finds something wrong, in the keys that are not
/// `common` to all ports. The parser cannot say where, because it gets these keys only as a whole.
pub fn port_problem<T>(
    text: &str,
    common: &[&str],
    read: impl Fn(Table) -> Result<T, String>,
) -> Option<Problem> {
    let file: Table = toml::from_str(text).ok()?;
    let mut ports = file.get("port")?.as_array()?.iter().enumerate();
    ports.find_map(|(index, port)| {
        let mut keys = port.as_table()?.clone();
        keys.retain(|key, _| !common.contains(&key));
        let what = read(keys).err()?;
        let key = what.split('`').nth(1).unwrap_or("kind");
        let at = at!["port", index, key].into();
        Some(Problem { at, what })
    })
}
