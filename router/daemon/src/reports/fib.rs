//! The FIB.

use bora_fib::FamilyStats;
use bora_mirror::Mirror;
use serde::{Deserialize, Serialize};

use super::table::table;
use super::{Report, answer, typed};
use crate::config::FibSection;
use crate::live::fib_rates::FibRates;

pub(super) const REPORT: Report = Report::new(
    "fib",
    "The FIB: prefixes, memory, depth, updates",
    |router, _| {
        let limits = &router.in_force.file().fib;
        answer(report(router.plane.mirror(), limits, &router.fib_rates))
    },
    |json, _| typed(json, text),
);

/// The FIB that workers look in. Octets and numbers of prefixes, nodes, objects.
#[derive(Debug, Serialize, Deserialize)]
struct FibReport {
    /// IPv4.
    ipv4: FamilyReport,
    /// IPv6.
    ipv6: FamilyReport,
    /// Next-hop objects.
    next_hops: usize,
    /// What they take.
    next_hop_bytes: usize,
    /// Most there can be.
    max_next_hops: usize,
    /// Objects that some worker may still look at, waiting to be freed.
    retired: usize,
    /// Changes that the slowest worker has yet to pass.
    behind: u64,
    /// Seconds since something was last freed.
    last_reclaim_seconds: Option<u64>,
}

/// One family's table.
#[derive(Debug, Serialize, Deserialize)]
struct FamilyReport {
    /// Prefixes.
    prefixes: usize,
    /// Prefixes of the kernel that found no room.
    missing: usize,
    /// Nodes.
    nodes: usize,
    /// Most words a look-up reads from root to leaf.
    depth: u32,
    /// What workers may touch.
    table_bytes: usize,
    /// Octets of it that nodes take.
    node_bytes: usize,
    /// The limit for nodes (`fib.memory`).
    max_bytes: usize,
    /// The writer's lists.
    control_bytes: usize,
    /// Changes since the start.
    updates: u64,
    /// Changes in the last second.
    updates_per_second: u64,
}

fn report(mirror: &Mirror, limits: &FibSection, rates: &FibRates) -> FibReport {
    let stats = mirror.fib().stats();
    let (updates, missing) = (rates.updates_per_second(), mirror.refused());
    let family = |prefixes, of: &FamilyStats, index: usize| FamilyReport {
        prefixes,
        missing: missing[index],
        nodes: of.nodes,
        depth: of.depth,
        table_bytes: of.table_bytes,
        node_bytes: of.node_bytes,
        max_bytes: of.max_bytes,
        control_bytes: of.control_bytes,
        updates: of.updates,
        updates_per_second: updates[index],
    };
    FibReport {
        ipv4: family(stats.prefixes4, &stats.ipv4, 0),
        ipv6: family(stats.prefixes6, &stats.ipv6, 1),
        next_hops: stats.next_hops,
        next_hop_bytes: stats.next_hop_bytes,
        max_next_hops: limits.config().max_next_hops as usize,
        retired: stats.retired,
        behind: stats.epoch - stats.passed,
        last_reclaim_seconds: rates.last_reclaim(),
    }
}

fn text(report: &FibReport) -> String {
    let kib = |octets: usize| format!("{} KiB", octets >> 10);
    type Line = (&'static str, fn(&FamilyReport) -> String);
    let lines: [Line; 9] = [
        ("prefixes", |f| f.prefixes.to_string()),
        ("without room", |f| f.missing.to_string()),
        ("nodes", |f| f.nodes.to_string()),
        ("deepest look-up", |f| f.depth.to_string()),
        ("memory of the table", |f| {
            format!("{} KiB", f.table_bytes >> 10)
        }),
        ("of the writer's lists", |f| {
            format!("{} KiB", f.control_bytes >> 10)
        }),
        ("updates", |f| f.updates.to_string()),
        ("in the last second", |f| f.updates_per_second.to_string()),
        ("limit of nodes", |f| {
            format!("{} KiB of {} KiB", f.node_bytes >> 10, f.max_bytes >> 10)
        }),
    ];
    let row = |(name, of): &Line| vec![name.to_string(), of(&report.ipv4), of(&report.ipv6)];
    let rows: Vec<_> = lines.iter().map(row).collect();
    let reclaim = match report.last_reclaim_seconds {
        Some(seconds) => format!("{seconds} s ago"),
        None => "never needed".into(),
    };
    table(&["FIB", "IPV4", "IPV6"], &rows)
        + &format!(
            "next hops: {} of {}, {}; waiting for workers to pass: {} objects, {} changes behind; \
             last reclaim: {reclaim}\n",
            report.next_hops,
            report.max_next_hops,
            kib(report.next_hop_bytes),
            report.retired,
            report.behind
        )
}
