//! Makes rows from rounds of measurements: medians and ratios.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

/// One line of a result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The case.
    pub case: String,
    /// The subject.
    pub subject: String,
    /// The metric.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Median of the rounds.
    pub median: f64,
    /// Lowest round.
    pub low: f64,
    /// Highest round.
    pub high: f64,
    /// The subject that it is compared with.
    pub ratio_to: String,
    /// Median divided by the other's median; NaN (`null` in JSON) if there is no other.
    #[serde(deserialize_with = "null_is_nan")]
    pub ratio: f64,
    /// Share of the case's time that its ends take by themselves, 0 to 1, where they were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<f64>,
}

fn null_is_nan<'de, D: Deserializer<'de>>(json: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(json)?.unwrap_or(f64::NAN))
}

/// Collects the rounds of all cases and subjects.
#[derive(Debug, Default)]
pub struct Results {
    order: Vec<(String, String)>,
    values: BTreeMap<(String, String), Vec<f64>>,
}

impl Results {
    /// Adds one round.
    pub fn add(&mut self, case: &str, subject: &str, value: f64) {
        let key = (case.to_string(), subject.to_string());
        if !self.values.contains_key(&key) {
            self.order.push(key.clone());
        }
        self.values.entry(key).or_default().push(value);
    }

    /// Medians, and ratios to the subject `base` of the same case.
    pub fn rows(&self, metric: &str, unit: &str, base: &str) -> Vec<Row> {
        let median_of = |case: &str, subject: &str| {
            self.values
                .get(&(case.into(), subject.into()))
                .map_or(f64::NAN, |all| median(all))
        };
        let row = |(case, subject): &(String, String)| {
            let all = &self.values[&(case.clone(), subject.clone())];
            Row {
                case: case.clone(),
                subject: subject.clone(),
                metric: metric.into(),
                unit: unit.into(),
                median: median(all),
                low: all.iter().copied().fold(f64::INFINITY, f64::min),
                high: all.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                ratio_to: base.into(),
                ratio: median(all) / median_of(case, base),
                ends: None,
            }
        };
        self.order.iter().map(row).collect()
    }
}

/// The median; NaN if there are no values.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_compare_medians_of_one_case() {
        let mut results = Results::default();
        for value in [1.0, 3.0, 2.0] {
            results.add("a", "kernel", value);
            results.add("a", "express", 2.0 * value);
        }
        results.add("b", "kernel", 100.0);
        let rows = results.rows("throughput", "packets/s", "kernel");
        assert_eq!((rows[1].median, rows[1].low, rows[1].high), (4.0, 2.0, 6.0));
        assert_eq!(
            (rows[0].ratio, rows[1].ratio, rows[2].ratio),
            (1.0, 2.0, 1.0)
        );
    }
}
