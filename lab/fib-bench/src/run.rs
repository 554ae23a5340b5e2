//! A whole run: load, look-ups, updates, all subjects in turn.

use std::time::Duration;

use crate::churn::{self, Stream};
use crate::ends;
use crate::keys::{self, Pattern};
use crate::measure::{self, Disturbance, quantile};
use crate::subject::{KeysAlone, Reader};
use crate::{Fib, Prefix, Route, check, tables};

/// Where results and progress go.
pub trait Observer {
    /// One round's value.
    fn sample(&mut self, metric: Metric, case: &str, subject: &str, value: f64);

    /// Reports what is being done.
    fn progress(&mut self, what: &str);
}

/// A metric's name and unit.
pub type Metric = (&'static str, &'static str);

/// A look-up of one thread.
pub const LOOKUP: Metric = ("look-up", "ns");
/// CPU time to load the table.
pub const LOAD: Metric = ("load", "s");
/// [`crate::Memory::readers`].
pub const READERS_MEMORY: Metric = ("memory readers touch", "MB");
/// [`crate::Memory::total`].
pub const ALL_MEMORY: Metric = ("memory with the writer's", "MB");
/// Updates per second of the writer's CPU time.
pub const UPDATES: Metric = ("updates", "1/s");
/// Median time of a vector while updates run.
pub const VECTOR_P50: Metric = ("p50 of 64 keys", "ns");
/// 99.9 % quantile of the time of a vector while updates run.
pub const VECTOR_P999: Metric = ("p99.9 of 64 keys", "ns");
/// Updates per second that the writer reached while look-ups ran.
pub const UPDATES_REACHED: Metric = ("updates reached", "1/s");

/// Median, 99 % and longest of each kind of update.
const LATENCIES: [[&str; 3]; 3] = [
    ["delete p50", "delete p99", "delete max"],
    ["add p50", "add p99", "add max"],
    ["modify p50", "modify p99", "modify max"],
];

/// Names of look-up cases end with this and the number of keys.
pub const VECTOR: &str = ", vectors of ";
/// The table with its own next hops.
pub const BY_AS: &str = "next hops by AS";

const SEED: u64 = 1;
/// Number of next hops of the table with random next hops.
const SCATTERED: u32 = 4096;
/// Octets of the keys of one pattern.
const KEYS: usize = 16 << 20;
/// Keys of one pattern are this many times those of an own network.
const OWN_SHARE: usize = 4;
const VECTORS: [usize; 3] = [32, 64, 256];
/// Keys of a vector while updates run.
const CONCURRENT_VECTOR: usize = 64;
/// Updates per second while look-ups run.
const CONCURRENT_UPDATES: [u32; 2] = [0, 100_000];
/// Updates of one round, whole cycles of [`Stream`]; a hundredth for a slow subject.
const COUNT: usize = 60_000;
const CACHES: [&str; 2] = ["warm", "disturbed"];

/// The result of [`Subject::make`].
pub type Made<P> = anyhow::Result<Box<dyn Fib<P>>>;

/// How to make a subject.
pub struct Subject<P> {
    /// An empty FIB for a number of routes and next hops.
    pub make: Box<dyn Fn(usize, u32) -> Made<P>>,
    /// Whether loading takes minutes: then it is loaded once, only with the table by AS, and gets
    /// fewer updates.
    pub slow: bool,
}

impl<P: crate::bora::Family> Subject<P> {
    /// Bora's own FIB.
    pub fn bora(name: &'static str, config: bora_fib::FibConfig) -> Self {
        let make = move |_, next_hops| -> Made<P> {
            Ok(Box::new(crate::bora::Bora::new(name, next_hops, config)?))
        };
        Self {
            make: Box::new(make),
            slow: false,
        }
    }
}

/// How much to measure.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Times each subject is measured.
    pub rounds: usize,
    /// Keys, updates and time are divided by it.
    pub divide: usize,
}

impl Plan {
    /// A quick, rough measurement.
    pub const QUICK: Self = Self {
        rounds: 2,
        divide: 8,
    };
}

/// The table in `directory`, or a synthetic one as large as the Internet's.
///
/// # Errors
/// If it cannot be read.
pub fn table<P: Prefix>(directory: Option<&std::path::Path>) -> anyhow::Result<Vec<Route<P>>> {
    match directory {
        Some(directory) => tables::from_directory(directory),
        None => Ok(tables::synthetic(SEED, P::INTERNET)),
    }
}

/// Measures all subjects on a table, with its own next hops and with next hops at random; with
/// `only`, nothing but the look-ups that have it in their names.
///
/// # Errors
/// If a subject refuses, or if they do not agree on all answers.
pub fn measure<P: Prefix>(
    plan: Plan,
    only: Option<&str>,
    routes: &[Route<P>],
    subjects: &[Subject<P>],
    observer: &mut dyn Observer,
) -> anyhow::Result<()> {
    let scattered = tables::scattered(routes, SCATTERED, SEED);
    let count = KEYS / size_of::<P::Key>() / plan.divide;
    let keys = Pattern::ALL.map(|pattern| {
        (
            pattern.name(),
            keys::generate(pattern, routes, count, SEED + pattern as u64),
        )
    });
    let at_random = format!("{SCATTERED} next hops at random");
    for (next_hops, routes) in [(BY_AS, routes), (&at_random, &scattered)] {
        let wanted = |subject: &&Subject<P>| !subject.slow || next_hops == BY_AS;
        let subjects: Vec<&Subject<P>> = subjects.iter().filter(wanted).collect();
        let run = Run {
            plan,
            only,
            case: format!("{}, {next_hops}", P::FAMILY),
            routes,
        };
        let mut fibs = run.load_and_look_up(&subjects, &keys, observer)?;
        if only.is_some() {
            continue;
        }
        let (_, inside) = &keys[1];
        run.update(&subjects, &mut fibs, inside, observer)?;
        check::agree(&fibs, inside)?;
    }
    own_networks(plan, only, routes, subjects, observer)
}

/// Look-ups in a table that has the router's own networks beside the Internet's prefixes.
fn own_networks<P: Prefix>(
    plan: Plan,
    only: Option<&str>,
    routes: &[Route<P>],
    subjects: &[Subject<P>],
    observer: &mut dyn Observer,
) -> anyhow::Result<()> {
    let count = KEYS / size_of::<P::Key>() / plan.divide / OWN_SHARE;
    let subjects: Vec<&Subject<P>> = subjects.iter().filter(|subject| !subject.slow).collect();
    let (own, routes) = tables::with_own_networks(routes, SEED);
    let keys: Vec<_> = own
        .iter()
        .map(|(name, among)| (*name, keys::generate(Pattern::Inside, among, count, SEED)))
        .collect();
    let run = Run {
        plan,
        only,
        case: format!("{}, with own networks", P::FAMILY),
        routes: &routes,
    };
    run.load_and_look_up(&subjects, &keys, observer)?;
    Ok(())
}

/// One table of one family.
struct Run<'a, P> {
    plan: Plan,
    only: Option<&'a str>,
    /// Family and next hops.
    case: String,
    routes: &'a [Route<P>],
}

impl<P: Prefix> Run<'_, P> {
    /// Loads the table into each subject, and looks the keys up, if all agree on the answers.
    fn load_and_look_up(
        &self,
        subjects: &[&Subject<P>],
        keys: &[(&str, Vec<P::Key>)],
        observer: &mut dyn Observer,
    ) -> anyhow::Result<Vec<Box<dyn Fib<P>>>> {
        let fibs = self.load(subjects, observer)?;
        for (_, keys) in keys {
            check::agree(&fibs, keys)?;
        }
        self.look_up(&fibs, keys, observer)?;
        Ok(fibs)
    }

    /// Loads the table into each subject, in turn, and keeps the last.
    fn load(
        &self,
        subjects: &[&Subject<P>],
        observer: &mut dyn Observer,
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
                self.progress(round, name, "load", observer);
                let took = churn::processor_time(|| fib.load(self.routes))?;
                observer.sample(LOAD, &self.case, name, took.as_secs_f64());
                let memory = fib.memory();
                for (metric, octets) in [READERS_MEMORY, ALL_MEMORY]
                    .iter()
                    .zip([memory.readers, memory.total])
                {
                    observer.sample(*metric, &self.case, name, octets as f64 / 1e6);
                }
            }
        }
        Ok(fibs.into_iter().flatten().collect())
    }

    /// Look-ups without updates, with warm and with disturbed caches.
    fn look_up(
        &self,
        fibs: &[Box<dyn Fib<P>>],
        keys: &[(&str, Vec<P::Key>)],
        observer: &mut dyn Observer,
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
            self.progress(round, "all", "look up", observer);
            for (pattern, keys) in keys {
                for caches in CACHES {
                    for vector in VECTORS {
                        let case = format!("{}, {caches}, {pattern}{VECTOR}{vector}", self.case);
                        if !case.contains(self.only.unwrap_or_default()) {
                            continue;
                        }
                        let mut time = |reader: &mut dyn Reader<P::Key>| {
                            if caches == CACHES[0] {
                                measure::warm(reader, keys, vector)
                            } else {
                                measure::disturbed(reader, keys, vector, &mut disturbance)
                            }
                        };
                        for turn in 0..ways.len() {
                            let (fib, path, name) = ways[(turn + round) % ways.len()];
                            let took = time(&mut *fib.reader(path)?);
                            observer.sample(LOOKUP, &case, name, took);
                        }
                        observer.sample(
                            LOOKUP,
                            &case,
                            ends::ALONE,
                            time(&mut KeysAlone::default()),
                        );
                    }
                }
            }
        }
        Ok(())
    }

    /// Updates alone, then together with look-ups. They have no ends: the list of updates is made before, and
    /// the clock takes 20 to 30 ns of some 1000.
    fn update(
        &self,
        subjects: &[&Subject<P>],
        fibs: &mut [Box<dyn Fib<P>>],
        keys: &[P::Key],
        observer: &mut dyn Observer,
    ) -> anyhow::Result<()> {
        for round in 0..self.plan.rounds {
            for (subject, fib) in subjects.iter().zip(&mut *fibs) {
                let name = fib.paths()[0];
                self.progress(round, name, "update", observer);
                let count = COUNT / self.plan.divide / if subject.slow { 100 } else { 1 };
                let stream = || Stream::new(self.routes, SEED + round as u64);
                let rate = churn::rate(&mut **fib, &mut stream(), count)?;
                observer.sample(UPDATES, &self.case, name, rate);
                let mut times = churn::latencies(&mut **fib, &mut stream(), count)?;
                for (metrics, times) in
                    LATENCIES
                        .iter()
                        .zip([&mut times.delete, &mut times.add, &mut times.modify])
                {
                    for (metric, q) in metrics.iter().zip([0.5, 0.99, 1.0]) {
                        observer.sample((metric, "us"), &self.case, name, quantile(times, q));
                    }
                }
                self.concurrent(&mut **fib, &mut stream(), keys, observer)?;
            }
        }
        Ok(())
    }

    fn concurrent(
        &self,
        fib: &mut dyn Fib<P>,
        stream: &mut Stream<'_, P>,
        keys: &[P::Key],
        observer: &mut dyn Observer,
    ) -> anyhow::Result<()> {
        let name = fib.paths()[0];
        let time = Duration::from_millis(800) / self.plan.divide as u32;
        for updates in CONCURRENT_UPDATES {
            let case = format!("{}, vectors beside {updates} updates/s", self.case);
            let seen = churn::concurrent(fib, stream, keys, CONCURRENT_VECTOR, updates, time)?;
            observer.sample(VECTOR_P50, &case, name, seen.p50);
            observer.sample(VECTOR_P999, &case, name, seen.p999);
            if updates > 0 {
                observer.sample(UPDATES_REACHED, &case, name, seen.updates);
            }
        }
        Ok(())
    }

    fn progress(&self, round: usize, subject: &str, what: &str, observer: &mut dyn Observer) {
        let (case, rounds) = (&self.case, self.plan.rounds);
        observer.progress(&format!(
            "{case}: {what}, {subject}, round {} of {rounds}",
            round + 1
        ));
    }
}
