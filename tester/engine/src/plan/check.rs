//! What the syntax of a plan does not say: ranges, and what fields say about each other.

use std::ops::RangeInclusive;
use std::time::Duration;

use bora_config::{Problem, at, wrong};

use super::method::TestSection;
use super::traffic::TrafficSection;
use super::{Addresses, Family, Length, Plan, Share, Time, Variant};
use crate::frame::least_length_of;
use crate::method::{Method, Search};
use crate::routes::MAX_ROUTES;
use crate::traffic::FrameMix;

/// Most frames sent back to back before a sender waits.
const MAX_BURST: u32 = 10_000;
/// Longest pause between two trials.
const MAX_SETTLE: Duration = Duration::from_secs(3600);
/// Most flows of a stream.
const MAX_FLOWS: u32 = 1 << 24;

impl Plan {
    /// What the syntax does not say.
    ///
    /// # Errors
    /// The first [`Problem`] found.
    pub fn check(&self) -> Result<(), Problem> {
        if self.tests.is_empty() {
            return wrong([], "no tests; a plan has at least one [[test]]".into());
        }
        for (index, port) in self.ports.iter().enumerate() {
            if let Some((field, what)) = port.problem() {
                return wrong(at!["port", index, field], what);
            }
            if self.ports[..index]
                .iter()
                .any(|other| other.name == port.name)
            {
                let what = format!("port {} is named twice", port.name);
                return wrong(at!["port", index, "name"], what);
            }
        }
        if self.ports.len() == 1 {
            let what = "one port; a test needs at least two".into();
            return wrong(at!["port", 0], what);
        }
        if let Some((field, what)) = problem_of_traffic(&self.traffic) {
            return wrong(at!["traffic", field], what);
        }
        if [self.settle.short, self.settle.full]
            .iter()
            .any(|time| time.0 > MAX_SETTLE)
        {
            return wrong(at!["settle"], "a pause is from 0 s to 1 h".into());
        }
        self.check_router()?;
        self.check_sizes(&self.sizes, self.family, &self.traffic, None)?;
        for (index, test) in self.tests.iter().enumerate() {
            self.check_test(index, test)?;
        }
        Ok(())
    }

    fn check_router(&self) -> Result<(), Problem> {
        if let Some(routes) = self.router.routes
            && !(1..=MAX_ROUTES).contains(&routes.count)
        {
            let what = format!(
                "{} routes; from 1 to {MAX_ROUTES} are possible",
                routes.count
            );
            return wrong(at!["router", "routes", "count"], what);
        }
        let Some(churn) = self.router.churn else {
            return Ok(());
        };
        if !(1..=1_000_000).contains(&churn.rate) {
            let what = "from 1 to 1000000 route changes a second are possible".into();
            return wrong(at!["router", "churn", "rate"], what);
        }
        match churn.routes {
            Some(routes) if !(1..=500_000).contains(&routes) => {
                let what = "from 1 to 500000 routes are possible".into();
                wrong(at!["router", "churn", "routes"], what)
            }
            _ => Ok(()),
        }
    }

    fn check_sizes(
        &self,
        sizes: &Variant<Vec<FrameMix>>,
        family: Family,
        traffic: &TrafficSection,
        test: Option<usize>,
    ) -> Result<(), Problem> {
        let place = |what: String| match test {
            Some(test) => wrong(at!["test", test, "sizes"], what),
            None => wrong(at!["sizes"], what),
        };
        for length in [Length::Short, Length::Full] {
            let sizes = sizes.pick(length);
            if sizes.is_empty() {
                return place("no frame sizes".into());
            }
            for (index, size) in sizes.iter().enumerate() {
                if sizes[..index].contains(size) {
                    return place(format!("{size} is there twice"));
                }
                for &v6 in family.versions() {
                    let least = least_length_of(!v6, traffic.vlan.is_some());
                    // mixes are made to fit
                    if let &[only] = &size.lengths[..]
                        && only < least
                    {
                        let version = if v6 { 6 } else { 4 };
                        return place(format!(
                            "{size} is too short: headers and signature of these IPv{version} \
                             frames take {least} octets"
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    fn check_test(&self, index: usize, test: &TestSection) -> Result<(), Problem> {
        let bad = |field: &str, what: String| wrong(at!["test", index, field], what);
        let same = |other: &&TestSection| other.name() == test.name();
        if self.tests[..index].iter().any(|other| same(&other)) {
            let what = format!("two tests are called {}; give this one a name", test.name());
            return bad(
                if test.name.is_some() {
                    "name"
                } else {
                    "method"
                },
                what,
            );
        }
        let known = test.method.options();
        if let Some(field) = test.given().iter().find(|field| !known.contains(field)) {
            let what = format!(
                "method {} does not use `{field}`; it uses {}",
                test.method.name(),
                known.join(", ")
            );
            return bad(field, what);
        }
        if let Some((field, what)) = problem_of_traffic(&test.traffic) {
            return wrong(at!["test", index, "traffic", field], what);
        }
        let traffic = test.traffic.or(&self.traffic);
        if test.sizes.is_some() || test.family.is_some() || test.traffic.vlan.is_some() {
            let sizes = test.sizes.as_ref().unwrap_or(&self.sizes);
            let family = test.family.unwrap_or(self.family);
            self.check_sizes(sizes, family, &traffic, Some(index))?;
        }
        if test.ports.is_some_and(|ports| ports < 2) {
            return bad("ports", "a test needs at least two ports".into());
        }
        self.check_router_of(index, test, &traffic)?;
        if let Some(field) = empty_time(test) {
            return bad(field, "a trial takes at least 1 ms".into());
        }
        match problem_of_numbers(test) {
            Some((field, what)) => bad(field, what),
            None => Ok(()),
        }
    }

    /// What the test needs of `[router]`.
    fn check_router_of(
        &self,
        index: usize,
        test: &TestSection,
        traffic: &TrafficSection,
    ) -> Result<(), Problem> {
        let without_routes = self.router.routes.is_none() || test.routes == Some(false);
        let to_routes = |addresses: &Option<Addresses>| *addresses == Some(Addresses::Routes);
        if to_routes(&traffic.sources) {
            let what = "`routes` are for destinations".into();
            return wrong(at!["test", index, "traffic", "sources"], what);
        }
        if to_routes(&traffic.destinations) && without_routes {
            let what = "destinations are `routes`, but there are none: [router] needs `routes`";
            return wrong(at!["test", index, "traffic", "destinations"], what.into());
        }
        if test.routes == Some(true) && self.router.routes.is_none() {
            let what = "[router] has no `routes`".into();
            return wrong(at!["test", index, "routes"], what);
        }
        if test.method == Method::Churn && self.router.churn.is_none() {
            let what = "method churn needs `churn` in [router], such as churn = {rate = 10000}";
            return wrong(at!["test", index, "method"], what.into());
        }
        Ok(())
    }
}

fn problem_of_traffic(traffic: &TrafficSection) -> Option<(&'static str, String)> {
    if traffic
        .flows
        .is_some_and(|flows| !(1..=MAX_FLOWS).contains(&flows))
    {
        return Some(("flows", format!("from 1 to {MAX_FLOWS} flows are possible")));
    }
    if traffic.flow_length == Some(0) {
        return Some(("flow_length", "a flow has at least one frame".into()));
    }
    if traffic.dscp.is_some_and(|dscp| dscp > 63) {
        return Some(("dscp", "a DSCP is from 0 to 63".into()));
    }
    if traffic.vlan.is_some_and(|vlan| !(1..=4094).contains(&vlan)) {
        return Some(("vlan", "a VLAN identifier is from 1 to 4094".into()));
    }
    if traffic.priority.is_some_and(|priority| priority > 7) {
        return Some(("priority", "a priority is from 0 to 7".into()));
    }
    None
}

/// The first time of a test that is zero, which only pauses may be.
fn empty_time(test: &TestSection) -> Option<&'static str> {
    let times = [
        ("time", &test.time),
        ("initial_time", &test.initial_time),
        ("sum_time", &test.sum_time),
    ];
    let is_empty = |time: &Variant<Time>| time.short.0.is_zero() || time.full.0.is_zero();
    let found = times
        .into_iter()
        .find(|(_, time)| time.as_ref().is_some_and(is_empty));
    found.map(|(field, _)| field)
}

fn problem_of_numbers(test: &TestSection) -> Option<(&'static str, String)> {
    fn outside<T: PartialOrd>(
        range: RangeInclusive<T>,
        values: impl IntoIterator<Item = T>,
    ) -> bool {
        values.into_iter().any(|value| !range.contains(&value))
    }
    let trials = test.trials.iter().flat_map(|it| [it.short, it.full]);
    let widths = test.width.iter().flat_map(|it| [it.short.0, it.full.0]);
    let shares = |list: &Option<Vec<Share>>| -> Vec<f64> {
        list.iter().flatten().map(|share| share.0).collect()
    };
    let all_lost = shares(&test.loss).iter().any(|loss| *loss >= 1.0);
    let no_loss = test.loss.as_ref().is_some_and(Vec::is_empty);
    let binary = test.exceed.is_some() && test.search == Some(Search::Binary);
    let exceeds = test.exceed.is_some_and(|exceed| exceed.0 >= 1.0);
    let bursts = outside(1..=MAX_BURST, test.burst);
    let steps = outside(0.01..=0.5, test.step.map(|step| step.0));
    let trials = outside(1..=10_000, trials);
    let widths = outside(1e-4..=0.5, widths);
    let loads = outside(0.001..=2.0, shares(&test.loads));
    let problems = [
        (trials, "trials", "from 1 to 10000 trials are possible"),
        (no_loss, "loss", "an empty list"),
        (all_lost, "loss", "a loss of 100 % is no goal"),
        (exceeds, "exceed", "not all trials may exceed the loss"),
        (binary, "exceed", "only the search `mlr` uses it"),
        (widths, "width", "from 0.01 % to 50 % are possible"),
        (steps, "step", "from 1 % to 50 % are possible"),
        (loads, "loads", "loads from 0.1 % to 200 % are possible"),
        (bursts, "burst", "from 1 to 10000 frames are possible"),
    ];
    let found = problems.into_iter().find(|(is_wrong, _, _)| *is_wrong);
    found.map(|(_, field, what)| (field, what.into()))
}
