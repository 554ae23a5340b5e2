//! Side-by-side measurements: one run, the same work for each subject, medians and ratios.
#![deny(unsafe_code)]

pub mod chart;
pub mod cpu;
pub mod document;
#[cfg(feature = "dpdk")]
#[allow(unsafe_code)]
pub mod dpdk;
pub mod engine;
pub mod fib_plot;
pub mod fib_report;
pub mod machine;
pub mod packets;
pub mod plot;
pub mod tester;

use std::collections::BTreeMap;
use std::fs;

use anyhow::Context;
use serde::Serialize;

/// One line of a result.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What was done.
    pub case: String,
    /// Who did it.
    pub subject: String,
    /// What was measured.
    pub metric: String,
    /// In what unit.
    pub unit: String,
    /// Median of the rounds.
    pub median: f64,
    /// Lowest round.
    pub low: f64,
    /// Highest round.
    pub high: f64,
    /// Whom it is compared with.
    pub ratio_to: String,
    /// Median divided by the other's median.
    pub ratio: f64,
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
            }
        };
        self.order.iter().map(row).collect()
    }
}

/// Prints the table and writes `target/bench/NAME.json`.
///
/// # Errors
/// If the file cannot be written.
pub fn publish(name: &str, rows: &[Row]) -> anyhow::Result<()> {
    println!(
        "{:<26}{:<10}{:>13}{:>13}{:>13}  {:>7}",
        "case", "subject", "median", "low", "high", "ratio"
    );
    for row in rows {
        println!(
            "{:<26}{:<10}{:>13.0}{:>13.0}{:>13.0}  {:>6.2}x",
            row.case, row.subject, row.median, row.low, row.high, row.ratio
        );
    }
    write(name, rows)
}

/// Writes `target/bench/NAME.json`.
///
/// # Errors
/// If the file cannot be written.
pub fn write(name: &str, rows: &[Row]) -> anyhow::Result<()> {
    fs::create_dir_all("target/bench").context("target/bench")?;
    let path = format!("target/bench/{name}.json");
    fs::write(&path, serde_json::to_string_pretty(rows)?).with_context(|| path.clone())?;
    println!("\nwritten to {path}");
    Ok(())
}

/// The processor and how Linux hands out huge pages.
pub fn machine_text() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let cache = read("/sys/devices/system/cpu/cpu0/cache/index2/size");
    let transparent = read("/sys/kernel/mm/transparent_hugepage/enabled");
    let chosen = transparent.split(['[', ']']).nth(1).unwrap_or("unknown");
    format!(
        "{} ({}AVX-512, L2 {}), transparent huge pages: {chosen}",
        value(&cpuinfo, "model name").unwrap_or("unknown processor"),
        if cpuinfo.contains("avx512bw") {
            ""
        } else {
            "no "
        },
        cache.trim(),
    )
}

/// The value of a `NAME : VALUE` line.
pub fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    lines
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim())
}

fn median(values: &[f64]) -> f64 {
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
