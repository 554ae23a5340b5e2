//! What `bora show` shows, one report a file. A report is a closure that makes it of what it reads,
//! and how it looks as a table. The API, the command line and its completions come from [`REPORTS`].

mod bonds;
mod bridges;
mod classes;
mod config;
mod drops;
mod fib;
mod frames;
mod history;
mod lease;
mod macvlans;
mod neighbours;
mod offload;
mod on_ports;
mod ports;
mod pppoe;
mod profile;
mod reasons;
pub(crate) mod route;
mod routes;
pub(crate) mod rules;
mod sflow;
mod sync;
mod table;
mod tables;
pub(crate) mod trace;
mod tunnels;
mod vlans;
mod workers;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bora_contract::Counts;
use bora_mirror::Mirror;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::router::Router;

pub(crate) use sync::{guard, shaper};

/// All reports, in the order in which the help lists them.
pub static REPORTS: &[Report] = &[
    ports::REPORT,
    tables::REPORT,
    vlans::REPORT,
    bonds::REPORT,
    bridges::REPORT,
    macvlans::REPORT,
    pppoe::REPORT,
    tunnels::REPORT,
    drops::REPORT,
    reasons::REPORT,
    workers::REPORT,
    profile::REPORT,
    frames::REPORT,
    classes::REPORT,
    rules::REPORT,
    sflow::REPORT,
    offload::REPORT,
    routes::REPORT,
    route::REPORT,
    fib::REPORT,
    neighbours::REPORT,
    sync::REPORT,
    lease::REPORT,
    config::REPORT,
    history::REPORT,
];

/// One report: `bora show NAME`.
#[derive(Debug)]
pub struct Report {
    /// What one types after `bora show`.
    pub name: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// What must be typed after the name.
    pub argument: Option<Argument>,
    /// Options: name, and a line of help.
    pub flags: &'static [(&'static str, &'static str)],
    /// Flags that only admins may give.
    pub(crate) admin_flags: &'static [&'static str],
    /// Where the API has it, below `/v1/`.
    path: &'static str,
    make: fn(&mut Router, &Request) -> Result<Answer, String>,
    show: fn(Value, &Request) -> anyhow::Result<String>,
}

/// What a report is about.
#[derive(Clone, Copy, Debug)]
pub struct Argument {
    /// Its name in the help.
    pub name: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// Says what is wrong with one.
    pub check: fn(&str) -> Result<String, String>,
}

/// What was asked for.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// [`Report::argument`]; empty if the report has none.
    pub argument: String,
    /// The flags of [`Report::flags`] that were given.
    pub flags: Vec<String>,
    /// Whether who asks may know secrets; the API says so.
    pub secrets: bool,
}

/// What the control loop has for a report.
pub(crate) enum Answer {
    /// All of it.
    Whole(Json),
    /// The beginning of a long one: what is to be called again and again until it has all, with Linux followed in between.
    Begun(Steps),
}

/// The steps of a long report; the last one returns it.
pub(crate) type Steps = Box<dyn FnMut(&mut Router) -> Option<Json> + Send>;

/// A report's JSON, still to be written: the control loop leaves that to others.
pub(crate) type Json = Box<dyn FnOnce() -> serde_json::Result<String> + Send>;

/// Longest time of the control loop for one step of a long report; the last part of a step may add a millisecond or two.
const STEP: Duration = Duration::from_millis(2);

/// The answer that a closure of a report returns.
fn answer<T: Serialize + Send + 'static>(report: T) -> Result<Answer, String> {
    Ok(Answer::Whole(json(report)))
}

fn json<T: Serialize + Send + 'static>(report: T) -> Json {
    Box::new(move || serde_json::to_string(&report))
}

/// An answer of many rows. `part` adds some to those that there are, and says whether there are more; `json` makes the
/// report of all.
fn answer_in_steps<R: Send + 'static>(
    mut part: impl FnMut(&Mirror, &mut Vec<R>) -> bool + Send + 'static,
    json: fn(Vec<R>) -> serde_json::Result<String>,
) -> Result<Answer, String> {
    let mut rows = Vec::new();
    let step = move |router: &mut Router| {
        let until = Instant::now() + STEP;
        while part(router.plane.mirror(), &mut rows) {
            if Instant::now() >= until {
                return None;
            }
        }
        let rows = std::mem::take(&mut rows);
        Some(Box::new(move || json(rows)) as Json)
    };
    Ok(Answer::Begun(Box::new(step)))
}

impl Report {
    const fn new(
        name: &'static str,
        help: &'static str,
        make: fn(&mut Router, &Request) -> Result<Answer, String>,
        show: fn(Value, &Request) -> anyhow::Result<String>,
    ) -> Self {
        Self {
            name,
            help,
            argument: None,
            flags: &[],
            admin_flags: &[],
            path: name,
            make,
            show,
        }
    }

    /// Where the API has it; the argument is a placeholder of the name `argument`.
    pub(crate) fn route(&self) -> String {
        let argument = self.argument.map_or("", |_| "/{argument}");
        format!("/v1/{}{argument}", self.path)
    }

    /// The path and query that ask the API for it.
    pub fn url(&self, request: &Request) -> String {
        let mut url = self.route().replace("{argument}", &request.argument);
        for (number, flag) in request.flags.iter().enumerate() {
            url += if number == 0 { "?" } else { "&" };
            url += &format!("{flag}=true");
        }
        url
    }

    /// Makes it, or begins to.
    ///
    /// # Errors
    /// What is wrong with the request.
    pub(crate) fn make(&self, router: &mut Router, request: &Request) -> Result<Answer, String> {
        if let Some(argument) = self.argument {
            (argument.check)(&request.argument)?;
        }
        (self.make)(router, request)
    }

    /// As a text for people, from its JSON.
    ///
    /// # Errors
    /// It is not the JSON of such a report.
    pub fn text(&self, json: &str, request: &Request) -> anyhow::Result<String> {
        (self.show)(serde_json::from_str(json)?, request)
    }
}

/// Shows a report whose text is written from its own type.
fn typed<T: DeserializeOwned>(json: Value, text: fn(&T) -> String) -> anyhow::Result<String> {
    Ok(text(&serde_json::from_value(json)?))
}

/// Counts by reason as reports have them; zeros are not listed.
pub(crate) fn by_name(counts: &Counts) -> BTreeMap<String, u64> {
    let named = counts.named();
    named.map(|(name, count)| (name.into(), count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_paths_are_told_apart() {
        for (index, report) in REPORTS.iter().enumerate() {
            let mut others = REPORTS[..index].iter();
            assert!(
                others.all(|other| other.name != report.name && other.route() != report.route())
            );
        }
    }

    #[test]
    fn requests_become_urls() {
        let report = |name| REPORTS.iter().find(|report| report.name == name).unwrap();
        let request = |argument: &str, flags: &[&str]| Request {
            argument: argument.into(),
            flags: flags.iter().map(|&flag| flag.into()).collect(),
            secrets: false,
        };
        assert_eq!(report("ports").url(&Request::default()), "/v1/ports");
        assert_eq!(
            report("route").url(&request("10.0.0.1", &[])),
            "/v1/routes/10.0.0.1"
        );
        assert_eq!(
            report("sync").url(&request("", &["verify"])),
            "/v1/sync?verify=true"
        );
    }
}
