//! `bora-lab fib`: the benchmark of the FIB on the user's own table.

use std::collections::HashMap;
use std::net::IpAddr;

use anyhow::{Context, ensure};
use bora_fib::{FibConfig, Ipv4Table, Prefix4, Prefix6};
use bora_fib_bench::bora::Family;
use bora_fib_bench::report::{Report, markdown};
use bora_fib_bench::results::Row;
use bora_fib_bench::run::{self, Plan, Subject};
use bora_fib_bench::{Prefix, Route, tables};
use bora_mirror::message::Target;
use bora_mirror::{Mirror, MirrorConfig};

use crate::arguments::FibOptions;
use bora_terminal::say;

/// Measures and prints.
pub(crate) fn bench(options: &FibOptions) -> anyhow::Result<()> {
    let (v4, v6) = routes(options)?;
    ensure!(!v4.is_empty() || !v6.is_empty(), "the table is empty");
    let dir24 = FibConfig {
        ipv4: Ipv4Table::Dir24,
        ..FibConfig::default()
    };
    let tree = FibConfig::default;
    let subjects4 = [Subject::bora("tree", tree()), Subject::bora("dir24", dir24)];
    let mut rows = measure(options, &v4, &subjects4)?;
    rows.extend(measure(options, &v6, &[Subject::bora("tree", tree())])?);
    if options.json {
        say!("{}", serde_json::to_string_pretty(&rows)?)?;
    } else {
        say!(
            "{} IPv4 and {} IPv6 prefixes\n{}",
            v4.len(),
            v6.len(),
            markdown(&rows)
        )?;
    }
    Ok(())
}

fn measure<P: Family>(
    options: &FibOptions,
    routes: &[Route<P>],
    subjects: &[Subject<P>],
) -> anyhow::Result<Vec<Row>> {
    if routes.is_empty() {
        return Ok(Vec::new());
    }
    let plan = Plan {
        rounds: options.rounds.into(),
        ..Plan::QUICK
    };
    let mut report = Report::default();
    run::measure(plan, None, routes, subjects, &mut report)?;
    Ok(report.rows("tree"))
}

type Tables = (Vec<Route<Prefix4>>, Vec<Route<Prefix6>>);

fn routes(options: &FibOptions) -> anyhow::Result<Tables> {
    if options.kernel {
        return kernel();
    }
    if options.table.is_empty() {
        return Ok((
            tables::synthetic(options.seed, Prefix4::INTERNET),
            tables::synthetic(options.seed, Prefix6::INTERNET),
        ));
    }
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    for path in &options.table {
        match tables::from_file::<Prefix4>(path) {
            Ok(routes) => v4.extend(routes),
            Err(not_v4) => {
                v6.extend(tables::from_file::<Prefix6>(path).map_err(|not_v6| {
                    anyhow::anyhow!("as IPv4: {not_v4:#}; as IPv6: {not_v6:#}")
                })?)
            }
        }
    }
    Ok((v4, v6))
}

/// The best route of each prefix that Linux has; next hops numbered as they come.
fn kernel() -> anyhow::Result<Tables> {
    let (fib, _) = bora_fib::new(FibConfig::default())?;
    let mirror = Mirror::open(MirrorConfig::default(), fib).context("cannot read the routes")?;
    let (mut v4, mut v6) = (HashMap::new(), HashMap::new());
    let mut numbers: HashMap<Target, u32> = HashMap::new();
    for route in mirror.routes().filter(|route| route.usable) {
        let next = numbers.len() as u32 + 1;
        let next_hop = *numbers.entry(route.target.clone()).or_insert(next);
        // the lowest metric wins
        match route.address {
            IpAddr::V4(addr) => {
                let prefix = Prefix4::masked(addr.to_bits(), route.len);
                keep_better(&mut v4, prefix, route.metric, next_hop);
            }
            IpAddr::V6(addr) => {
                let prefix = Prefix6::masked(addr.to_bits(), route.len);
                keep_better(&mut v6, prefix, route.metric, next_hop);
            }
        }
    }
    Ok((in_order(v4), in_order(v6)))
}

fn keep_better<P: Eq + std::hash::Hash>(
    table: &mut HashMap<P, (u32, u32)>,
    prefix: P,
    metric: u32,
    next_hop: u32,
) {
    let best = table.entry(prefix).or_insert((metric, next_hop));
    *best = (*best).min((metric, next_hop));
}

/// Sorted, so that the same table gives the same keys.
fn in_order<P: Ord + Copy>(table: HashMap<P, (u32, u32)>) -> Vec<Route<P>> {
    let mut routes: Vec<_> = table
        .into_iter()
        .map(|(prefix, (_, next_hop))| Route { prefix, next_hop })
        .collect();
    routes.sort_by_key(|route| route.prefix);
    routes
}
