//! What must hold in kind: a value, or the ratio of two, within bounds.

use anyhow::{Context, bail};
use bora_fib_bench::results::Row;
use serde::Deserialize;

use crate::row::Pattern;

/// One thing that must hold.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hold {
    /// What it shows, for people.
    what: String,
    /// The row whose median counts.
    value: String,
    /// The row that it is divided by, if any.
    to: Option<String>,
    /// A number that it is divided by, if any: another unit.
    divisor: Option<f64>,
    /// The least it may be.
    least: Option<f64>,
    /// The most it may be.
    most: Option<f64>,
    /// What the bound is in a short run, if that is rougher: short runs meet more disturbance.
    short_least: Option<f64>,
    /// See `short_least`.
    short_most: Option<f64>,
}

/// Whether it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does.
    Holds,
    /// It does not.
    Fails,
    /// This machine cannot show it.
    NotHere,
}

/// What a verdict is called; of no verdict, too.
pub fn verdict(verdict: Option<Verdict>) -> &'static str {
    match verdict {
        Some(Verdict::Holds) => "holds",
        Some(Verdict::Fails) => "fails",
        Some(Verdict::NotHere) => "not here",
        None => "-",
    }
}

/// What a check found.
#[derive(Clone, Debug)]
pub struct Checked {
    /// What it shows.
    pub what: String,
    /// What was found, and its bounds.
    pub found: String,
    /// Whether it holds.
    pub verdict: Verdict,
}

impl Hold {
    /// Checks that the names can be read, and that there is a bound.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn validate(&self) -> anyhow::Result<()> {
        Pattern::new(&self.value)?;
        self.to.as_deref().map(Pattern::new).transpose()?;
        if self.least.is_none() && self.most.is_none() {
            bail!("`{}` has no bound: `least` or `most`", self.what);
        }
        Ok(())
    }

    /// Looks the value up and compares it with its bounds.
    ///
    /// # Errors
    /// There is no such row.
    pub(crate) fn check(&self, rows: &[Row], short: bool) -> anyhow::Result<Checked> {
        let value = median(rows, &self.value)?;
        let value = match &self.to {
            Some(to) => value / median(rows, to)?,
            None => value,
        } / self.divisor.unwrap_or(1.0);
        let or = |rough: Option<f64>, exact| rough.filter(|_| short).or(exact);
        let least = or(self.short_least, self.least);
        let most = or(self.short_most, self.most);
        let holds =
            least.is_none_or(|least| value >= least) && most.is_none_or(|most| value <= most);
        let bounds = [("at least", least), ("at most", most)];
        let bounds = bounds
            .iter()
            .filter_map(|(text, bound)| Some(format!("{text} {}", number((*bound)?))));
        Ok(Checked {
            what: self.what.clone(),
            found: format!(
                "{} ({})",
                number(value),
                bounds.collect::<Vec<_>>().join(", ")
            ),
            verdict: if holds {
                Verdict::Holds
            } else {
                Verdict::Fails
            },
        })
    }
}

fn median(rows: &[Row], name: &str) -> anyhow::Result<f64> {
    let pattern = Pattern::new(name)?;
    let row = rows.iter().find(|row| pattern.matches(row).is_some());
    row.map(|row| row.median)
        .with_context(|| format!("the work found no value for `{name}`"))
}

/// A number as people read it: `5.93 M`, `0.987`, `12.4`.
pub(crate) fn number(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        size if size >= 1e9 => (value / 1e9, " G"),
        size if size >= 1e6 => (value / 1e6, " M"),
        size if size >= 1e4 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let digits = match scaled.abs() {
        size if size == 0.0 || size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{scaled:.digits$}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(least: f64) -> Hold {
        Hold {
            what: "it keeps up".into(),
            value: "rate | load 10 | poll".into(),
            to: Some("rate | load 1 | poll".into()),
            divisor: None,
            least: Some(least),
            most: None,
            short_least: Some(least / 2.0),
            short_most: None,
        }
    }

    #[test]
    fn a_ratio_is_compared_with_its_bound() {
        let row = |case: &str, median| Row {
            case: case.into(),
            subject: "poll".into(),
            metric: "rate".into(),
            unit: String::new(),
            median,
            low: median,
            high: median,
            ratio_to: String::new(),
            ratio: f64::NAN,
            ends: None,
        };
        let rows = [row("load 1", 200.0), row("load 10", 120.0)];
        let found = |least, short| hold(least).check(&rows, short).unwrap();
        assert_eq!(found(0.5, false).verdict, Verdict::Holds);
        assert_eq!(found(0.9, false).verdict, Verdict::Fails);
        assert_eq!(found(0.9, true).verdict, Verdict::Holds);
        assert_eq!(found(0.9, true).found, "0.600 (at least 0.450)");
        let error = hold(1.0).check(&rows[..1], false).unwrap_err();
        assert!(error.to_string().contains("rate | load 10 | poll"));
    }

    #[test]
    fn numbers_have_three_digits() {
        let shown = [5_934_000.0, 0.0, 0.98765, 12.37, 9_999.0, 45_678.0].map(number);
        assert_eq!(shown, ["5.93 M", "0", "0.988", "12.4", "9999", "45.7 k"]);
    }
}
