//! Measures Bora's rules beside DPDK's rte_acl and nftables in one run.
//!
//! Prints a table and writes `target/bench/acl.json`. `docs/bench-acl.md` describes the method.
#![forbid(unsafe_code)]

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::Context;
use bora_bench::acl::{self, Bora, Kind, Report, Subject, nft};
use bora_bench::{document, machine_text, write};
use bora_fib_bench::{report::number, results::Row};
use bora_forward::classify::Structure;
use clap::Parser;

/// Compare Bora's rules with DPDK's rte_acl and with nftables.
///
/// All must give the same answers as a scan of the rules, or nothing is reported.
#[derive(Parser)]
#[command(version)]
struct Options {
    /// Times each subject is measured, in turn with the others
    #[arg(long, default_value = "7", value_name = "COUNT")]
    rounds: usize,
    /// Numbers of rules
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "1,10,100,1000,10000,100000",
        value_name = "LIST"
    )]
    rules: Vec<usize>,
    /// Also measure both of Bora's structures at every size
    #[arg(long)]
    both: bool,
    /// Leave nftables out
    #[arg(long)]
    no_nft: bool,
    /// Replace the generated part of this Markdown document
    #[arg(long, value_name = "FILE")]
    document: Option<PathBuf>,
}

/// A scan of more rules than this would take very long.
const MOST_FOR_SCAN: usize = 4096;

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let start = start()?;
    let mut report = Report::default();
    for kind in [Kind::Filter, Kind::Blocklist] {
        for &count in &options.rules {
            one(&options, (kind, count), &start, &mut report)?;
        }
    }
    let rows = report.rows(if cfg!(feature = "dpdk") {
        "rte_acl"
    } else {
        "bora"
    });
    let conditions = format!("{}; medians of {} rounds.", machine_text(), options.rounds);
    let text = format!("{conditions}\n{}", tables(&rows));
    println!("{text}");
    if let Some(path) = &options.document {
        document::update(path, "bench-acl", &text)?;
    }
    write("acl", &rows)
}

/// A table for each metric: a line for each case, a column for each subject.
fn tables(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut subjects: Vec<&str> = Vec::new();
    for row in rows {
        if !subjects.contains(&row.subject.as_str()) {
            subjects.push(&row.subject);
        }
    }
    for metrics in rows.chunk_by(|a, b| a.metric == b.metric) {
        let Row { metric, unit, .. } = &metrics[0];
        let _ = writeln!(text, "\n| {metric}, {unit} | {} |", subjects.join(" | "));
        let _ = writeln!(text, "| --- |{}", " ---: |".repeat(subjects.len()));
        let mut cases: Vec<&str> = metrics.iter().map(|row| row.case.as_str()).collect();
        cases.dedup();
        for case in cases {
            let of = |subject: &&str| {
                let mut found = metrics.iter();
                let row = found.find(|row| row.case == case && row.subject == *subject);
                row.map_or("–".into(), |row| {
                    format!("{} ({:.2})", number(row.median), row.ratio)
                })
            };
            let cells: Vec<String> = subjects.iter().map(of).collect();
            let _ = writeln!(text, "| {case} | {} |", cells.join(" | "));
        }
    }
    text
}

fn one(
    options: &Options,
    (kind, count): (Kind, usize),
    start: &Start,
    report: &mut Report,
) -> anyhow::Result<()> {
    let case = format!("{} {count}", kind.name());
    eprintln!("{case}");
    let rules = acl::rules(kind, count);
    let headers = acl::packets(&rules);
    let mut subjects: Vec<(Box<dyn Subject>, _)> = Vec::new();
    let mut forms = vec![("bora", Structure::Best)];
    if options.both {
        forms.push(("bora trees", Structure::Trees));
        if count <= MOST_FOR_SCAN {
            forms.push(("bora scan", Structure::Scan));
        }
    }
    for (name, structure) in forms {
        let (classifier, took) = acl::load(|| acl::compile(&rules, structure))?;
        subjects.push((Box::new(Bora::new(name, classifier, &headers)?), took));
    }
    add_dpdk(start, &rules, &headers, &mut subjects)?;
    acl::measure(
        &case,
        &rules,
        &headers,
        &mut subjects,
        options.rounds,
        report,
    )?;
    if options.no_nft || kind == Kind::Filter && count > nft::MAX_CHAIN {
        return Ok(());
    }
    measure_nft(options.rounds, (kind, &case), &rules, &headers, report).context("nftables")
}

/// Measures nftables in a network namespace that goes with its thread.
fn measure_nft(
    rounds: usize,
    (kind, case): (Kind, &str),
    rules: &[acl::Rule],
    headers: &[acl::Header],
    report: &mut Report,
) -> anyhow::Result<()> {
    const SUBJECT: &str = "nftables";
    bora_linux::netns::in_new(|| {
        let linux = nft::Nft::new(headers)?;
        linux.load(kind, &[])?;
        let mut without: Vec<f64> = (0..rounds).map(|_| linux.cost()).collect();
        without.sort_by(f64::total_cmp);
        let took = linux.load(kind, rules)?;
        for _ in 0..rounds {
            let cost = linux.cost() - without[rounds / 2];
            report.costs.add(case, SUBJECT, cost.max(0.0));
        }
        report.load.add(case, SUBJECT, took.as_secs_f64() * 1e3);
        Ok(())
    })?
}

#[cfg(feature = "dpdk")]
type Start = bora_bench::dpdk::Dpdk;
#[cfg(not(feature = "dpdk"))]
struct Start;

#[cfg(feature = "dpdk")]
fn start() -> anyhow::Result<Start> {
    bora_bench::dpdk::Dpdk::start(false)
}

#[cfg(not(feature = "dpdk"))]
#[allow(clippy::unnecessary_wraps)] // its twin with DPDK can fail
fn start() -> anyhow::Result<Start> {
    Ok(Start)
}

#[cfg(feature = "dpdk")]
fn add_dpdk(
    start: &Start,
    rules: &[acl::Rule],
    headers: &[acl::Header],
    subjects: &mut Vec<(Box<dyn Subject>, std::time::Duration)>,
) -> anyhow::Result<()> {
    let (acl, took) = acl::load(|| acl::dpdk::Acl::new(*start, rules, headers))?;
    subjects.push((Box::new(acl), took));
    Ok(())
}

#[cfg(not(feature = "dpdk"))]
#[allow(clippy::unnecessary_wraps)] // its twin with DPDK can fail
fn add_dpdk(
    _: &Start,
    _: &[acl::Rule],
    _: &[acl::Header],
    _: &mut Vec<(Box<dyn Subject>, std::time::Duration)>,
) -> anyhow::Result<()> {
    Ok(())
}
