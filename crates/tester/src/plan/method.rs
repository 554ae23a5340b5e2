//! `[[test]]`: a method, on what, for how long.

use bora_config::as_text;
use schemars::JsonSchema;
use serde::Deserialize;

use super::traffic::TrafficSection;
use super::values::{Rate, Share, Time};
use super::variant::Variant;
use super::{Family, Mix};

/// One test: a method, done for each frame mix and family.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestSection {
    /// What is measured, and how.
    pub method: Method,
    /// What reports call it. Without: the method.
    pub name: Option<String>,
    /// Instead of the plan's.
    pub sizes: Option<Variant<Vec<Mix>>>,
    /// Instead of the plan's.
    pub family: Option<Family>,
    /// Uses the first so many ports. Without: all.
    pub ports: Option<u32>,
    /// Instead of the plan's, field by field.
    #[serde(default)]
    pub traffic: TrafficSection,
    /// Whether `[router] routes` are installed meanwhile. Without: yes.
    pub routes: Option<bool>,
    /// Search for the throughput (throughput, latency, recovery): `mlr` (RFC 9971, the default) or
    /// `binary`.
    pub search: Option<Search>,
    /// Loss that is tolerated, one result each. Without: 0 %.
    pub loss: Option<Vec<Share>>,
    /// Part of the trials at a load that may exceed the loss (RFC 9971). Without: 50 %, and 0 % for
    /// a binary search.
    pub exceed: Option<Share>,
    /// How close the search must come, of the load. Without: 0.5 %.
    pub width: Option<Variant<Share>>,
    /// Length of a trial; of the search's final ones.
    pub time: Option<Variant<Time>>,
    /// Length of the search's first trials. Without: 1 s, at most `time`.
    pub initial_time: Option<Variant<Time>>,
    /// Sum of trial lengths by which a load is decided (RFC 9971). Without: `time`.
    pub sum_time: Option<Variant<Time>>,
    /// Repetitions.
    pub trials: Option<Variant<u32>>,
    /// Loads to measure at: of the throughput found (latency), of the line rate (saturation).
    pub loads: Option<Vec<Share>>,
    /// Loads to measure at, of each sending port.
    pub rates: Option<Vec<Rate>>,
    /// Load of each sending port meanwhile.
    pub rate: Option<Rate>,
    /// Steps of the offered load (frame-loss). Without: 10 %.
    pub step: Option<Share>,
}

/// Ways to find a throughput.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Search {
    /// RFC 9971.
    #[default]
    Mlr,
    /// RFC 2544, 26.1.
    Binary,
}

/// What is measured, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// RFC 2544, 26.1.
    Throughput,
    /// RFC 2544, 26.2; RFC 8219.
    Latency,
    /// RFC 2544, 26.3.
    FrameLoss,
    /// RFC 2544, 26.4; RFC 9004.
    BackToBack,
    /// RFC 2544, 26.5.
    Recovery,
    /// RFC 2544, 26.6; RFC 6201.
    Reset,
    /// Bianco05.
    Saturation,
    /// RFC 2889, 5.1 to 5.4.
    Forwarding,
    /// How long a restart is felt.
    Outage,
    /// Loss and latency while routes change.
    Churn,
}

/// Each method's name, and the fields of a test that it obeys beside those of the traffic.
const METHODS: [(&str, Method, &[&str]); 10] = [
    ("throughput", Method::Throughput, SEARCH),
    ("latency", Method::Latency, LATENCY),
    ("frame-loss", Method::FrameLoss, &["time", "step"]),
    ("back-to-back", Method::BackToBack, &["time", "trials"]),
    ("recovery", Method::Recovery, RECOVERY),
    ("reset", Method::Reset, &["time", "trials", "rate"]),
    (
        "saturation",
        Method::Saturation,
        &["time", "trials", "loads", "rates"],
    ),
    ("forwarding", Method::Forwarding, &["time", "trials"]),
    ("outage", Method::Outage, &["time", "trials", "rate"]),
    ("churn", Method::Churn, &["time", "trials", "rate"]),
];
const SEARCH: &[&str] = &[
    "search",
    "loss",
    "exceed",
    "width",
    "time",
    "initial_time",
    "sum_time",
];
const RECOVERY: &[&str] = &[
    "search",
    "loss",
    "exceed",
    "width",
    "time",
    "initial_time",
    "sum_time",
    "trials",
];
const LATENCY: &[&str] = &[
    "search",
    "loss",
    "exceed",
    "width",
    "time",
    "initial_time",
    "sum_time",
    "trials",
    "loads",
    "rates",
];

impl Method {
    /// As plans and reports call it.
    pub fn name(self) -> &'static str {
        self.entry().0
    }

    /// The fields of a test that it obeys.
    pub(super) fn options(self) -> &'static [&'static str] {
        self.entry().2
    }

    fn entry(self) -> &'static (&'static str, Self, &'static [&'static str]) {
        let mut all = METHODS.iter();
        all.find(|(_, method, _)| *method == self)
            .expect("every method is in the table")
    }
}

impl std::str::FromStr for Method {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = METHODS.iter().find(|(name, _, _)| *name == text);
        found.map(|(_, method, _)| *method).ok_or_else(|| {
            let names: Vec<&str> = METHODS.iter().map(|(name, _, _)| *name).collect();
            format!("`{text}` is none of the methods {}", names.join(", "))
        })
    }
}

impl std::fmt::Display for Method {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

as_text!(Method, "the name of a method");

impl TestSection {
    /// What reports call it.
    pub fn name(&self) -> String {
        let given = self.name.clone();
        given.unwrap_or_else(|| self.method.name().into())
    }

    /// The fields that were given, beside those that every method has.
    pub(super) fn given(&self) -> Vec<&'static str> {
        let fields = [
            ("search", self.search.is_some()),
            ("loss", self.loss.is_some()),
            ("exceed", self.exceed.is_some()),
            ("width", self.width.is_some()),
            ("time", self.time.is_some()),
            ("initial_time", self.initial_time.is_some()),
            ("sum_time", self.sum_time.is_some()),
            ("trials", self.trials.is_some()),
            ("loads", self.loads.is_some()),
            ("rates", self.rates.is_some()),
            ("rate", self.rate.is_some()),
            ("step", self.step.is_some()),
        ];
        let given = fields.iter().filter(|(_, given)| *given);
        given.map(|(name, _)| *name).collect()
    }
}
