//! What is to be done to get from one configuration to another. It is found by comparing what the
//! files would say, so that a new key needs nothing here.

use std::fmt;

use anyhow::Context;
use serde_json::{Map, Value};

use super::{File, PortSection};

/// One change of a running Bora.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// Forwards on one more interface.
    AddPort(Box<PortSection>),
    /// Gives a key another value.
    Set(Setting),
    /// Leaves an interface to Linux.
    RemovePort(String),
}

/// A key that gets another value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Setting {
    /// The port, by its name, if the key is of a `[[port]]`.
    pub(crate) port: Option<String>,
    /// The key below the file's root, or below the port.
    path: Vec<String>,
    /// The value before and now; null for none.
    was: Value,
    is: Value,
}

/// The actions that make `new` of `old`, in the order they are to be done: what may fail for want of
/// something comes first, what others might still refer to goes last. The order of ports means
/// nothing.
pub(crate) fn diff(old: &File, new: &File) -> Vec<Action> {
    let added = new
        .ports
        .iter()
        .filter(|port| old.port(&port.name).is_none());
    let added = added.map(|port| Action::AddPort(Box::new(port.clone())));
    let mut settings = Vec::new();
    for port in &new.ports {
        if let Some(was) = old.port(&port.name) {
            compare(
                Some(&port.name),
                &mut Vec::new(),
                &json(was),
                &json(port),
                &mut settings,
            );
        }
    }
    compare(
        None,
        &mut Vec::new(),
        &without_ports(old),
        &without_ports(new),
        &mut settings,
    );
    let gone = old
        .ports
        .iter()
        .filter(|port| new.port(&port.name).is_none());
    let gone = gone.map(|port| Action::RemovePort(port.name.clone()));
    added
        .chain(settings.into_iter().map(Action::Set))
        .chain(gone)
        .collect()
}

/// Notes the keys below `path` whose values differ. Tables are gone into; arrays are one value.
fn compare(
    port: Option<&str>,
    path: &mut Vec<String>,
    was: &Value,
    is: &Value,
    found: &mut Vec<Setting>,
) {
    let none = Map::new();
    let table = |value: &Value| value.is_object() || value.is_null();
    if table(was) && table(is) {
        let (was, is) = (
            was.as_object().unwrap_or(&none),
            is.as_object().unwrap_or(&none),
        );
        let new = is.keys().filter(|key| !was.contains_key(*key));
        for key in was.keys().chain(new) {
            let of = |table: &Map<String, Value>| table.get(key).cloned().unwrap_or_default();
            path.push(key.clone());
            compare(port, path, &of(was), &of(is), found);
            path.pop();
        }
    } else if was != is {
        found.push(Setting {
            port: port.map(Into::into),
            path: path.clone(),
            was: was.clone(),
            is: is.clone(),
        });
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the sections of files are tables with names for keys, each of which JSON can say"
)]
fn json<T: serde::Serialize>(of: &T) -> Value {
    serde_json::to_value(of).unwrap_or_default()
}

/// All but the ports, which are compared by their names.
fn without_ports(file: &File) -> Value {
    let ports = Vec::new();
    let mut all = json(&File {
        ports,
        ..file.clone()
    });
    // files leave it out, but a change says which defaults there were
    all["sflow"] = json(&file.sflow);
    all
}

impl Setting {
    /// Such as `workers.budget`, or `port eth0: queues.rate`.
    pub(crate) fn name(&self) -> String {
        let port = self.port.iter().map(|port| format!("port {port}: "));
        port.chain([self.path.join(".")]).collect()
    }

    /// Such as `workers.budget`, or `port.queues.rate`.
    fn key(&self) -> String {
        let port = self.port.iter().map(|_| "port");
        let path = self.path.iter().map(String::as_str);
        port.chain(path).collect::<Vec<_>>().join(".")
    }

    /// Whether it is this key or one below it.
    pub(crate) fn is_in(&self, key: &str) -> bool {
        let own = self.key();
        own.strip_prefix(key)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    /// Gives the key its new value in a configuration, which stays as it is if it has no such port.
    ///
    /// # Errors
    /// The key cannot have the value; the configuration stays as it is.
    pub(crate) fn apply(&self, file: &mut File) -> anyhow::Result<()> {
        let set = match &self.port {
            None => self.set_in(file),
            Some(name) => match file.ports.iter_mut().find(|port| port.name == *name) {
                Some(port) => self.set_in(port),
                None => Ok(()),
            },
        };
        set.with_context(|| self.name())
    }

    fn set_in<T: serde::Serialize + serde::de::DeserializeOwned>(
        &self,
        section: &mut T,
    ) -> serde_json::Result<()> {
        let mut all = json(section);
        let mut at = &mut all;
        for key in &self.path {
            if at.is_null() {
                *at = Value::Object(Map::new());
            }
            at = &mut at[key];
        }
        *at = self.is.clone();
        // a key that is null is one that the file does not have
        strip_nulls(&mut all);
        *section = serde_json::from_value(all)?;
        Ok(())
    }
}

fn strip_nulls(value: &mut Value) {
    if let Value::Object(table) = value {
        table.retain(|_, value| !value.is_null());
        table.values_mut().for_each(strip_nulls);
    }
}

/// As `bora apply` lists it.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddPort(port) => write!(f, "add port {}", port.name),
            Self::RemovePort(name) => write!(f, "remove port {name}"),
            Self::Set(setting) => setting.fmt(f),
        }
    }
}

/// Such as `port eth0: quota 7 (was 64)`, `workers: mode poll (was adaptive)`, `path: engine (was auto)`.
impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.join(".");
        match (&self.port, path.split_once('.')) {
            (Some(port), _) => write!(f, "port {port}: {path} ")?,
            (None, Some((section, key))) => write!(f, "{section}: {key} ")?,
            (None, None) => write!(f, "{path}: ")?,
        }
        let (was, is) = (brief(&self.was), brief(&self.is));
        if was == is {
            write!(f, "{is}, changed")
        } else {
            write!(f, "{is} (was {was})")
        }
    }
}

/// A value as one reads it: of tables only how many there are.
fn brief(value: &Value) -> String {
    match value {
        Value::Null => "none".into(),
        Value::String(text) => text.clone(),
        Value::Array(values) if values.iter().any(Value::is_object) => match values.len() {
            1 => "1 entry".into(),
            count => format!("{count} entries"),
        },
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(brief).collect();
            format!("[{}]", values.join(", "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_a_key_cannot_have_changes_nothing() {
        let old: File = toml::from_str("[[port]]\nname = \"eth0\"\n").unwrap();
        let mut file = old.clone();
        let setting = Setting {
            port: None,
            path: vec!["workers".into(), "budget".into()],
            was: Value::Null,
            is: "many".into(),
        };
        let error = setting.apply(&mut file).unwrap_err();
        assert!(format!("{error:#}").contains("workers.budget"), "{error:#}");
        assert_eq!(file, old);
    }

    #[test]
    fn a_change_says_what_was_and_what_is() {
        let old = "[[port]]\nname = \"a\"\n[[rule]]\naction = \"drop\"\n";
        let new = "path = \"engine\"\n[[port]]\nname = \"a\"\nquota = 7\n[port.queues]\nrate = \"1Gbit\"\n\
                   [[port.queues.class]]\n[workers]\ncores = [1, 2]\n[dscp]\nEF = 0\n\
                   [sflow]\ncollector = \"192.0.2.9\"\nsampling = 7\n[[rule]]\nprotocol = 6\n";
        let [old, new] = [old, new].map(|text| File::parse(text).unwrap());
        let mut lines: Vec<_> = diff(&old, &new).iter().map(ToString::to_string).collect();
        lines.sort();
        let expected = [
            "dscp: EF 0 (was none)",
            "path: engine (was auto)",
            "port a: queues.class 1 entry (was none)",
            "port a: queues.rate 1Gbit (was none)",
            "port a: quota 7 (was 64)",
            "rule: 1 entry, changed",
            "sflow: collector 192.0.2.9:6343 (was none)",
            "sflow: sampling 7 (was 1000)",
            "workers: cores [1, 2] (was [])",
        ];
        assert_eq!(lines, expected);
        let mut lines: Vec<_> = diff(&new, &old).iter().map(ToString::to_string).collect();
        lines.sort();
        assert_eq!(lines[2], "port a: queues.class none (was 1 entry)");
    }
}
