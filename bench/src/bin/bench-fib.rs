//! Bora's FIB and DPDK's tables, side by side in one run.
//!
//! The numbers come out as a table, as `target/bench/fib.json` and, when asked, as a plot and as
//! the generated part of a document. How they are measured is in `docs/bench-fib.md`.
#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use bora_bench::fib_report::{self, LOOKUP, Metric, Report, VECTOR};
use bora_bench::plot::{self, Panel};
use bora_bench::{Row, write};
use bora_fib::{Prefix4, Prefix6, Simd};
use bora_fib_bench::bora::{Bora, Family};
use bora_fib_bench::churn::{self, Stream};
use bora_fib_bench::keys::{self, Pattern};
use bora_fib_bench::measure::{self, Disturbance, quantile};
use bora_fib_bench::{Fib, Prefix, Route, check, tables};
use clap::Parser;

/// Sizes of a full table when there is none to read.
const SYNTHETIC: [usize; 2] = [1_168_945, 279_855];
const SEED: u64 = 1;
/// Next hops of the table whose next hops are at random.
const SCATTERED: u32 = 4096;
/// Octets of keys of one pattern.
const KEYS: usize = 16 << 20;
const VECTORS: [usize; 3] = [32, 64, 256];
/// Keys of a vector while updates run.
const CONCURRENT_VECTOR: usize = 64;
/// Updates per second while look-ups run.
const CONCURRENT_UPDATES: [u32; 2] = [0, 100_000];
/// Updates of one round; a hundredth of it for a subject that is slow to update.
const UPDATES: usize = 60_000;
const CACHES: [&str; 2] = ["warm", "disturbed"];
const BY_AS: &str = "next hops by AS";

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
    #[arg(long, default_value_t = 7, value_name = "COUNT")]
    rounds: usize,
    /// Less than a minute: 2 rounds, fewer keys and updates, no rte_lpm
    #[arg(long)]
    quick: bool,
    /// Leave rte_lpm out, which takes minutes to load a full table
    #[arg(long)]
    no_lpm: bool,
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

type Made<P> = anyhow::Result<Box<dyn Fib<P>>>;

/// How to make a subject.
struct Subject<P> {
    /// An empty FIB for a number of routes and next hops.
    make: Box<dyn Fn(usize, u32) -> Made<P>>,
    /// Loads for minutes: once, and only the table by AS; fewer updates.
    slow: bool,
}

/// How much to measure.
#[derive(Clone, Copy)]
struct Plan {
    rounds: usize,
    /// Everything is divided by it.
    divide: usize,
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let plan = if options.quick {
        Plan {
            rounds: 2,
            divide: 8,
        }
    } else {
        Plan {
            rounds: options.rounds,
            divide: 1,
        }
    };
    let paths: &[Simd] = if options.all_paths {
        &[Simd::Auto, Simd::Avx2, Simd::Scalar]
    } else {
        &[Simd::Auto]
    };
    let mut subjects4: Vec<Subject<Prefix4>> = paths.iter().map(|&simd| bora(simd)).collect();
    let mut subjects6: Vec<Subject<Prefix6>> = paths.iter().map(|&simd| bora(simd)).collect();
    let with = add_dpdk(&options, &mut subjects4, &mut subjects6)?;

    let (count4, rows4) = family(&options, plan, SYNTHETIC[0], &subjects4)?;
    let (count6, rows6) = family(&options, plan, SYNTHETIC[1], &subjects6)?;
    let rows = [rows4, rows6].concat();
    let table = if options.tables.is_some() {
        "read"
    } else {
        "synthetic"
    };
    let conditions = format!(
        "{}; {with}; {table} table of {count4} IPv4 and {count6} IPv6 prefixes; medians of {} rounds.",
        machine(),
        plan.rounds
    );
    let text = format!("{conditions}\n{}", fib_report::markdown(&rows));
    println!("{text}");
    if let Some(path) = &options.plot {
        let plot = plot::bars("FIB: nanoseconds a look-up, one core", "ns", &panels(&rows));
        fs::write(path, plot).with_context(|| path.display().to_string())?;
    }
    if let Some(path) = &options.document {
        let name = || path.display().to_string();
        let document = fs::read_to_string(path).with_context(name)?;
        fs::write(path, fib_report::replace(&document, &text)?).with_context(name)?;
    }
    write("fib", &rows)
}

fn bora<P: Family>(simd: Simd) -> Subject<P> {
    let make = move |_, next_hops| -> Made<P> { Ok(Box::new(Bora::new(next_hops, simd)?)) };
    Subject {
        make: Box::new(make),
        slow: false,
    }
}

/// Starts DPDK and adds its tables; gives its version and conditions.
#[cfg(feature = "dpdk")]
fn add_dpdk(
    options: &Options,
    subjects4: &mut Vec<Subject<Prefix4>>,
    subjects6: &mut Vec<Subject<Prefix6>>,
) -> anyhow::Result<String> {
    /// Huge pages that its largest tables need.
    const HUGE_PAGES: usize = 600;
    let meminfo = fs::read_to_string("/proc/meminfo")?;
    let free = value(&meminfo, "HugePages_Free").and_then(|free| free.parse().ok());
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
        eprintln!("rte_lpm is part of it: it takes minutes to load (--no-lpm leaves it out)");
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
#[allow(clippy::ptr_arg, clippy::unnecessary_wraps)] // as the other
fn add_dpdk(
    _: &Options,
    _: &mut Vec<Subject<Prefix4>>,
    _: &mut Vec<Subject<Prefix6>>,
) -> anyhow::Result<String> {
    Ok("without DPDK (build with the feature `dpdk`)".into())
}

/// Measures one family; gives the size of its table and the results.
fn family<P: Family>(
    options: &Options,
    plan: Plan,
    synthetic: usize,
    subjects: &[Subject<P>],
) -> anyhow::Result<(usize, Vec<Row>)> {
    let routes: Vec<Route<P>> = match &options.tables {
        Some(directory) => tables::from_directory(directory)?,
        None => tables::synthetic(SEED, synthetic / plan.divide),
    };
    let scattered = tables::scattered(&routes, SCATTERED, SEED);
    let count = KEYS / size_of::<P::Key>() / plan.divide;
    let keys = Pattern::ALL.map(|pattern| {
        let keys = keys::generate(pattern, &routes, count, SEED + pattern as u64);
        (pattern, keys)
    });
    let mut report = Report::default();
    let mut base = "bora";
    let at_random = format!("{SCATTERED} next hops at random");
    for (next_hops, routes) in [(BY_AS, &routes), (&at_random, &scattered)] {
        let all: Vec<&Subject<P>> = subjects
            .iter()
            .filter(|subject| !subject.slow || next_hops == BY_AS)
            .collect();
        let bench = Bench {
            plan,
            case: format!("{}, {next_hops}", P::FAMILY),
            routes,
        };
        let mut fibs = bench.load(&all, &mut report)?;
        let names = fibs.iter().map(|fib| fib.paths()[0]);
        base = names
            .into_iter()
            .find(|name| name.starts_with("rte_fib"))
            .unwrap_or(base);
        for (_, keys) in &keys {
            check::agree(&fibs, keys)?;
        }
        bench.look_up(&fibs, &keys, &mut report)?;
        bench.update(&all, &mut fibs, &keys[1].1, &mut report)?;
        check::agree(&fibs, &keys[1].1)?;
    }
    Ok((routes.len(), report.rows(base)))
}

/// One table of one family.
struct Bench<'a, P> {
    plan: Plan,
    case: String,
    routes: &'a [Route<P>],
}

impl<P: Prefix> Bench<'_, P> {
    /// Loads the table into each subject, in turn, and keeps the last.
    fn load(
        &self,
        subjects: &[&Subject<P>],
        report: &mut Report,
    ) -> anyhow::Result<Vec<Box<dyn Fib<P>>>> {
        let mut fibs: Vec<Option<Box<dyn Fib<P>>>> = subjects.iter().map(|_| None).collect();
        let next_hops = tables::last_next_hop(self.routes);
        for round in 0..self.plan.rounds {
            for (subject, kept) in subjects.iter().zip(&mut fibs) {
                if subject.slow && kept.is_some() {
                    continue;
                }
                *kept = None;
                let fib = kept.insert((subject.make)(self.routes.len(), next_hops)?);
                let name = fib.paths()[0];
                self.progress(round, name, "load");
                let took = churn::processor_time(|| fib.load(self.routes))?;
                report.add(("load", "s"), &self.case, name, took.as_secs_f64());
                let memory = fib.memory();
                let mut add = |metric, octets: u64| {
                    report.add((metric, "MB"), &self.case, name, octets as f64 / 1e6);
                };
                add("memory readers touch", memory.readers);
                add("memory with the writer's", memory.total);
            }
        }
        Ok(fibs.into_iter().flatten().collect())
    }

    /// Look-ups without updates, with warm and with disturbed caches.
    fn look_up(
        &self,
        fibs: &[Box<dyn Fib<P>>],
        keys: &[(Pattern, Vec<P::Key>)],
        report: &mut Report,
    ) -> anyhow::Result<()> {
        let mut disturbance = Disturbance::new(SEED);
        let ways: Vec<(&dyn Fib<P>, usize, &str)> = fibs
            .iter()
            .flat_map(|fib| {
                (0..)
                    .zip(fib.paths())
                    .map(|(path, name)| (&**fib, path, name))
            })
            .collect();
        for round in 0..self.plan.rounds {
            self.progress(round, "all", "look up");
            for (pattern, keys) in keys {
                for caches in CACHES {
                    for vector in VECTORS {
                        let case = format!(
                            "{}, {caches}, {}{VECTOR}{vector}",
                            self.case,
                            pattern.name()
                        );
                        for turn in 0..ways.len() {
                            let (fib, path, name) = ways[(turn + round) % ways.len()];
                            let reader = &mut *fib.reader(path)?;
                            let took = if caches == CACHES[0] {
                                measure::warm(reader, keys, vector)
                            } else {
                                measure::disturbed(reader, keys, vector, &mut disturbance)
                            };
                            report.add(LOOKUP, &case, name, took);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Updates alone, then beside look-ups.
    fn update(
        &self,
        subjects: &[&Subject<P>],
        fibs: &mut [Box<dyn Fib<P>>],
        keys: &[P::Key],
        report: &mut Report,
    ) -> anyhow::Result<()> {
        for round in 0..self.plan.rounds {
            for (subject, fib) in subjects.iter().zip(&mut *fibs) {
                let name = fib.paths()[0];
                self.progress(round, name, "update");
                let count = UPDATES / self.plan.divide / if subject.slow { 100 } else { 1 };
                let stream = || Stream::new(self.routes, SEED + round as u64);
                let rate = churn::rate(&mut **fib, &mut stream(), count)?;
                report.add(("updates", "1/s"), &self.case, name, rate);
                let mut times = churn::latencies(&mut **fib, &mut stream(), count)?;
                for (metrics, times) in UPDATE_METRICS.iter().zip([
                    &mut times.delete,
                    &mut times.add,
                    &mut times.modify,
                ]) {
                    for (metric, q) in metrics.iter().zip([0.5, 0.99, 1.0]) {
                        report.add((metric, "us"), &self.case, name, quantile(times, q));
                    }
                }
                self.concurrent(&mut **fib, &mut stream(), keys, report)?;
            }
        }
        Ok(())
    }

    fn concurrent(
        &self,
        fib: &mut dyn Fib<P>,
        stream: &mut Stream<'_, P>,
        keys: &[P::Key],
        report: &mut Report,
    ) -> anyhow::Result<()> {
        let name = fib.paths()[0];
        let time = Duration::from_millis(800) / self.plan.divide as u32;
        for updates in CONCURRENT_UPDATES {
            let case = format!("{}, vectors beside {updates} updates/s", self.case);
            let seen = churn::concurrent(fib, stream, keys, CONCURRENT_VECTOR, updates, time)?;
            report.add(("p50 of 64 keys", "ns"), &case, name, seen.p50);
            report.add(("p99.9 of 64 keys", "ns"), &case, name, seen.p999);
            if updates > 0 {
                report.add(("updates reached", "1/s"), &case, name, seen.updates);
            }
        }
        Ok(())
    }

    fn progress(&self, round: usize, subject: &str, what: &str) {
        eprintln!(
            "{}: {what}, {subject}, round {} of {}",
            self.case,
            round + 1,
            self.plan.rounds
        );
    }
}

/// Median, 99 % and longest of each kind of update.
const UPDATE_METRICS: [[&str; 3]; 3] = [
    ["delete p50", "delete p99", "delete max"],
    ["add p50", "add p99", "add max"],
    ["modify p50", "modify p99", "modify max"],
];

/// Look-ups of the tables by AS: a panel for each family and state of the caches.
fn panels(rows: &[Row]) -> Vec<Panel> {
    let mut panels: Vec<Panel> = vec![];
    let metric: Metric = LOOKUP;
    let wanted = |row: &&Row| row.metric == metric.0 && row.case.contains(BY_AS);
    for row in rows.iter().filter(wanted) {
        let (case, vector) = fib_report::split(row);
        let mut parts = case.splitn(4, ", ");
        let (Some(family), Some(_), Some(caches), Some(keys)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let title = format!("{family}, caches {caches}");
        let index = position(
            &mut panels,
            |panel| panel.title == title,
            || Panel {
                title: title.clone(),
                series: vec![],
                groups: vec![],
            },
        );
        let Panel { series, groups, .. } = &mut panels[index];
        let labels = [keys.to_string(), format!("vectors of {vector}")];
        let group = position(
            groups,
            |group| group.0 == labels,
            || (labels.clone(), vec![]),
        );
        let subject = position(series, |name| *name == row.subject, || row.subject.clone());
        let values = &mut groups[group].1;
        values.resize(values.len().max(subject + 1), f64::NAN);
        values[subject] = row.median;
    }
    panels
}

/// Where it is; at the end if it was not there.
fn position<T>(all: &mut Vec<T>, is: impl Fn(&T) -> bool, make: impl Fn() -> T) -> usize {
    all.iter().position(is).unwrap_or_else(|| {
        all.push(make());
        all.len() - 1
    })
}

/// The processor and how Linux hands out huge pages.
fn machine() -> String {
    let read = |path: &str| fs::read_to_string(Path::new(path)).unwrap_or_default();
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
fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    lines
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim())
}
