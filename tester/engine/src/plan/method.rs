//! `[[test]]`: a method, on what, for how long.

use schemars::JsonSchema;
use serde::Deserialize;

use super::Family;
use super::traffic::TrafficSection;
use super::values::{Share, Time};
use super::variant::Variant;
use crate::method::{Method, Search};
use crate::rate::Load;
use crate::traffic::FrameMix;

/// One test: a method, done for each frame mix and family.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestSection {
    /// What is measured, and how.
    pub method: Method,
    /// What reports call it. Without: the method.
    pub name: Option<String>,
    /// Frame sizes, instead of the plan's.
    pub sizes: Option<Variant<Vec<FrameMix>>>,
    /// IP versions, instead of the plan's.
    pub family: Option<Family>,
    /// Uses only the first ports, this many. Without: all.
    pub ports: Option<u32>,
    /// Traffic, instead of the plan's, field by field.
    #[serde(default)]
    pub traffic: TrafficSection,
    /// Whether `[router] routes` are installed meanwhile. Without: yes.
    pub routes: Option<bool>,
    /// How the throughput is searched, by itself or for a method that needs it: `mlr` (RFC 9971,
    /// the default) or `binary` (RFC 2544, 26.1).
    pub search: Option<Search>,
    /// Loss that is tolerated, one result each. Without: 0 %.
    pub loss: Option<Vec<Share>>,
    /// Part of the trial time at a load in which more may be lost (RFC 9971, goal exceed ratio).
    /// Without: 0 %, as RFC 2544's goal has it (RFC 9971, 4.10.2).
    pub exceed: Option<Share>,
    /// How close the search must come, of the load. Without: 0.5 %.
    pub width: Option<Variant<Share>>,
    /// Length of a trial; of the search's final ones; of the longest burst (back-to-back). Without:
    /// 1 s.
    pub time: Option<Variant<Time>>,
    /// Length of the search's first trials. Without: 1 s, at most `time`.
    pub initial_time: Option<Variant<Time>>,
    /// Sum of trial lengths by which a load is decided (RFC 9971, goal duration sum). Without:
    /// `time`.
    pub sum_time: Option<Variant<Time>>,
    /// Repetitions. Without: 1.
    pub trials: Option<Variant<u32>>,
    /// Loads to measure at: of the throughput found (latency; without: 10 %, 50 % and 90 %), or of
    /// the highest load, which is the line rate unless the tester can do less (saturation; without:
    /// 100 %).
    pub loads: Option<Vec<Share>>,
    /// Loads to measure at, of each sending port.
    pub rates: Option<Vec<Load>>,
    /// Load of each sending port while something is done to the router (reset, outage, churn).
    /// Without: half of the throughput, which is searched first.
    pub rate: Option<Load>,
    /// Steps of the offered load (frame-loss). Without: 10 %.
    pub step: Option<Share>,
    /// Frames sent back to back before the sender waits for what is due, 1 to 10000 (burst
    /// size of RFC 2889, there 1 to 930). Without: 1.
    pub burst: Option<u32>,
}

/// Fields of a search for the throughput.
const SEARCH: &[&str] = &[
    "search",
    "loss",
    "exceed",
    "width",
    "initial_time",
    "sum_time",
];

impl Method {
    /// The fields of a test that it uses, beside those of the traffic.
    pub(super) fn options(self) -> Vec<&'static str> {
        let (search, own): (&[_], &[_]) = match self {
            Self::Throughput => (SEARCH, &["time", "burst"]),
            Self::Latency => (SEARCH, &["time", "trials", "loads", "rates", "burst"]),
            Self::FrameLoss => (&[], &["time", "step", "burst"]),
            // these begin with a search for the throughput
            Self::BackToBack | Self::Recovery => (SEARCH, &["time", "trials"]),
            Self::Reset | Self::Outage | Self::Churn => (SEARCH, &["time", "trials", "rate"]),
            Self::Saturation => (&[], &["time", "trials", "loads", "rates", "burst"]),
            Self::Forwarding => (&[], &["time", "trials", "burst"]),
        };
        [search, own].concat()
    }
}

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
            ("burst", self.burst.is_some()),
        ];
        let given = fields.iter().filter(|(_, given)| *given);
        given.map(|(name, _)| *name).collect()
    }
}
