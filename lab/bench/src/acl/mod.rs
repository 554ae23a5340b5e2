//! Bora's rules beside DPDK's `rte_acl` and a set of nftables: the same rules, the same packets, the same answers.

mod bora;
#[cfg(feature = "dpdk")]
#[allow(unsafe_code)]
pub mod dpdk;
pub mod nft;
mod rules;

use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use bora_fib_bench::results::{Results, Row};

pub use bora::{Bora, compile};
pub use rules::{Kind, Rule, packets, rules};

/// IPv4 headers with ports: what classifiers look at, from the first octet of the IP header on.
pub type Header = [u8; HEADER];
/// Octets of a [`Header`].
pub const HEADER: usize = 24;
/// Packets that are classified in turn.
pub const PACKETS: usize = 4 * 1024;

/// A classifier with its rules loaded.
pub trait Subject {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Classifies all packets once.
    fn classify(&mut self);

    /// The number of the first rule that matches, for each packet.
    fn answers(&mut self) -> Vec<Option<usize>>;

    /// Octets of memory that it takes.
    fn memory(&self) -> u64;
}

/// What is measured of some subjects.
#[derive(Debug, Default)]
pub struct Report {
    /// Nanoseconds of a packet.
    pub costs: Results,
    /// Octets for a rule.
    pub memory: Results,
    /// Milliseconds to load all rules.
    pub load: Results,
}

impl Report {
    /// The costs as rows, with ratios to the subject `base`.
    pub fn rows(&self, base: &str) -> Vec<Row> {
        let mut rows = self.costs.rows("time", "ns/packet", base);
        rows.extend(self.memory.rows("memory", "octets/rule", base));
        rows.extend(self.load.rows("load", "ms", base));
        rows
    }
}

/// Makes a subject and notes how long that takes.
///
/// # Errors
/// It cannot be made.
pub fn load<T>(make: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(T, Duration)> {
    let start = Instant::now();
    let made = make()?;
    Ok((made, start.elapsed()))
}

/// Measures subjects in turn, after they have given the same answers.
///
/// # Errors
/// They have not.
pub fn measure(
    case: &str,
    rules: &[Rule],
    headers: &[Header],
    subjects: &mut [(Box<dyn Subject>, Duration)],
    rounds: usize,
    report: &mut Report,
) -> anyhow::Result<()> {
    let wanted = sample(rules, headers);
    for (subject, load) in &mut *subjects {
        let answers = subject.answers();
        for (place, wanted) in &wanted {
            ensure!(
                answers[*place] == *wanted,
                "{case}: {} says rule {:?} for packet {place}, and a scan says {wanted:?}",
                subject.name(),
                answers[*place]
            );
        }
        let per_rule = subject.memory() as f64 / rules.len() as f64;
        report.memory.add(case, subject.name(), per_rule);
        report
            .load
            .add(case, subject.name(), load.as_secs_f64() * 1e3);
    }
    agree(case, subjects)?;
    for _ in 0..rounds {
        for (subject, _) in &mut *subjects {
            subject.classify(); // warm
            let start = Instant::now();
            let mut passes = Vec::new();
            while passes.is_empty() || start.elapsed() < Duration::from_millis(60) {
                let start = Instant::now();
                subject.classify();
                passes.push(start.elapsed());
            }
            // the median, because other programs may take the CPU during some
            passes.sort_unstable();
            let pass = passes[passes.len() / 2];
            let cost = pass.as_secs_f64() * 1e9 / headers.len() as f64;
            report.costs.add(case, subject.name(), cost);
        }
    }
    Ok(())
}

/// Whether all subjects say the same of all packets.
fn agree(case: &str, subjects: &mut [(Box<dyn Subject>, Duration)]) -> anyhow::Result<()> {
    let mut answers = subjects
        .iter_mut()
        .map(|(subject, _)| (subject.name(), subject.answers()));
    let Some((first, wanted)) = answers.next() else {
        return Ok(());
    };
    for (name, found) in answers {
        let differ = found
            .iter()
            .zip(&wanted)
            .position(|(found, wanted)| found != wanted);
        if let Some(place) = differ {
            let (found, wanted) = (found[place], wanted[place]);
            bail!("{case}: of packet {place} {name} says rule {found:?} and {first} {wanted:?}");
        }
    }
    Ok(())
}

/// The right answers for some packets, by reading the rules in order.
fn sample(rules: &[Rule], headers: &[Header]) -> Vec<(usize, Option<usize>)> {
    let few = headers.len().min(40_000_000 / rules.len().max(1)).min(2000);
    let step = headers.len() / few;
    let places = (0..headers.len()).step_by(step);
    places
        .map(|place| {
            let matches = |rule: &Rule| rule.matches(&headers[place]);
            (place, rules.iter().position(matches))
        })
        .collect()
}
