//! Measures Bora's FIB and DPDK's tables side by side in one run.
//!
//! Prints a table, writes `target/bench/fib.json` and, on request, a plot and the generated part of
//! a document. `docs/bench-fib.md` describes the method.
#![forbid(unsafe_code)]

use std::fs;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::Context;
use bora_bench::{Row, document, ends, fib_plot, machine_text, trip, write};
use bora_fib::{FibConfig, Ipv4Table, Prefix4, Prefix6, Simd};
use bora_fib_bench::bora::Family;
use bora_fib_bench::report::{self, Report};
use bora_fib_bench::run::{self, Plan, Subject};
use bora_tester::report::svg::sheet;
use clap::Parser;

/// Compare Bora's FIB with DPDK's rte_fib, rte_fib6 and rte_lpm.
///
/// Built with the feature `dpdk` it measures all of them in turn, otherwise Bora alone. All
/// subjects must give the same answers, or nothing is reported.
#[derive(Parser)]
#[command(version)]
struct Options {
    /// Tables directory: one *_v4.txt and one *_v6.txt, either with .xz, of lines
    /// `PREFIX/LENGTH NEXTHOP`; without it a synthetic table
    #[arg(long, env = "BORA_TABLES", value_name = "DIRECTORY")]
    tables: Option<PathBuf>,
    /// Times each subject is measured, in turn with the others
    #[arg(long, default_value = "7", value_name = "COUNT")]
    rounds: NonZeroUsize,
    /// Less than a minute: 2 rounds, fewer keys and updates, no rte_lpm
    #[arg(long)]
    quick: bool,
    /// Leave rte_lpm out, which takes minutes to load a full table
    #[arg(long)]
    no_lpm: bool,
    /// Only the look-ups with this in their names, and nothing else; for profiles
    #[arg(long, value_name = "TEXT")]
    case: Option<String>,
    /// Also measure Bora's AVX2 and scalar look-ups
    #[arg(long)]
    all_paths: bool,
    /// Plot the look-ups to this SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Replace the generated part of this Markdown document
    #[arg(long, value_name = "FILE")]
    document: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let plan = if options.quick {
        Plan::QUICK
    } else {
        Plan {
            rounds: options.rounds.get(),
            divide: 1,
        }
    };
    let mut subjects4: Vec<Subject<Prefix4>> = vec![Subject::bora("bora", FibConfig::default())];
    let mut subjects6: Vec<Subject<Prefix6>> = vec![Subject::bora("bora", FibConfig::default())];
    let dir24 = FibConfig {
        ipv4: Ipv4Table::Dir24,
        ..FibConfig::default()
    };
    subjects4.push(Subject::bora("bora dir24", dir24));
    if options.all_paths {
        for (name, simd) in [("bora avx2", Simd::Avx2), ("bora scalar", Simd::Scalar)] {
            let config = FibConfig {
                simd,
                ..FibConfig::default()
            };
            subjects4.push(Subject::bora(name, config));
            subjects6.push(Subject::bora(name, config));
        }
    }
    let with = add_dpdk(&options, &mut subjects4, &mut subjects6)?;

    let (count4, rows4) = family(&options, plan, &subjects4, "rte_fib")?;
    let (count6, rows6) = family(&options, plan, &subjects6, "rte_fib6")?;
    let rows = [rows4, rows6].concat();
    let table = if options.tables.is_some() {
        "read"
    } else {
        "synthetic"
    };
    // the ends of look-ups while routes change take two
    let trip = trip::row()?;
    let conditions = format!(
        "{}; {with}; {table} table of {count4} IPv4 and {count6} IPv6 prefixes; medians of {} \
         rounds. {}.",
        machine_text(),
        plan.rounds,
        trip::text(trip.as_ref())
    );
    let text = format!("{conditions}\n{}", report::markdown(&rows));
    println!("{text}");
    if let Some(path) = &options.plot {
        let plots = fib_plot::plots(&rows);
        let plot = sheet("FIB: nanoseconds a look-up, one core", &plots);
        fs::write(path, plot).with_context(|| path.display().to_string())?;
    }
    if let Some(path) = &options.document {
        document::update(path, "bench-fib", &text)?;
    }
    write("fib", &rows.into_iter().chain(trip).collect::<Vec<_>>())
}

/// Starts DPDK and adds its tables; returns its version and conditions.
#[cfg(feature = "dpdk")]
fn add_dpdk(
    options: &Options,
    subjects4: &mut Vec<Subject<Prefix4>>,
    subjects6: &mut Vec<Subject<Prefix6>>,
) -> anyhow::Result<String> {
    /// Huge pages that its largest tables need.
    const HUGE_PAGES: usize = 1000;
    let meminfo = fs::read_to_string("/proc/meminfo")?;
    let free = bora_bench::value(&meminfo, "HugePages_Free").and_then(|free| free.parse().ok());
    let huge = free.unwrap_or(0) >= HUGE_PAGES;
    let dpdk = bora_bench::dpdk::Dpdk::start(huge)?;
    subjects4.push(Subject {
        make: Box::new(move |routes, _| dpdk.fib(routes)),
        slow: false,
    });
    subjects6.push(Subject {
        make: Box::new(move |routes, _| dpdk.fib6(routes)),
        slow: false,
    });
    if !options.no_lpm && !options.quick {
        eprintln!("rte_lpm is measured too, and takes minutes to load (--no-lpm leaves it out)");
        subjects4.push(Subject {
            make: Box::new(move |routes, _| dpdk.lpm(routes)),
            slow: true,
        });
    }
    let pages = if huge {
        "in huge pages"
    } else {
        "without huge pages"
    };
    Ok(format!("{} {pages}", dpdk.version()))
}

#[cfg(not(feature = "dpdk"))]
#[allow(clippy::ptr_arg, clippy::unnecessary_wraps)] // same signature as above
fn add_dpdk(
    _: &Options,
    _: &mut Vec<Subject<Prefix4>>,
    _: &mut Vec<Subject<Prefix6>>,
) -> anyhow::Result<String> {
    Ok("without DPDK (build with the feature `dpdk`)".into())
}

/// Measures one family. Returns the size of its table and the results, with ratios to `base` or,
/// without DPDK, to Bora itself.
fn family<P: Family>(
    options: &Options,
    plan: Plan,
    subjects: &[Subject<P>],
    base: &str,
) -> anyhow::Result<(usize, Vec<Row>)> {
    let routes = run::table(options.tables.as_deref())?;
    let mut report = Report::default();
    run::measure(
        plan,
        options.case.as_deref(),
        &routes,
        subjects,
        &mut report,
    )?;
    let base = if cfg!(feature = "dpdk") { base } else { "bora" };
    let mut rows = report.rows(base);
    ends::compare(&mut rows);
    Ok((routes.len(), rows))
}
