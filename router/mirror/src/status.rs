//! What `bora show sync` prints.

use std::time::{Duration, SystemTime};

use serde::Serialize;

/// Whether kernel and FIB agree, and counters of the mirror.
#[derive(Clone, Debug, Serialize)]
pub struct SyncStatus {
    /// Nothing waits to be read, reconciled or written, and everything fitted into the FIB.
    pub in_sync: bool,
    /// When `in_sync` last changed.
    pub since: SystemTime,
    /// IPv4.
    pub v4: FamilyCounts,
    /// IPv6.
    pub v6: FamilyCounts,
    /// Neighbours with a usable link-layer address.
    pub neighbours: usize,
    /// Next-hop objects of the kernel (`ip nexthop`).
    pub kernel_next_hops: usize,
    /// Next hops in the FIB.
    pub fib_next_hops: usize,
    /// Paths of routes for which no next hop was free: their packets go to the kernel.
    pub next_hops_refused: usize,
    /// Reconciliations since the start.
    pub reconciliations: u64,
    /// The latest reconciliation.
    pub last_reconciliation: Option<Reconciliation>,
    /// Background checks since the start.
    pub checks: u64,
    /// Entries that background checks and the FIB's audit have corrected.
    pub mended: u64,
    /// Times the kernel dropped events because the socket was full (ENOBUFS).
    pub overflows: u64,
    /// Events since the start.
    pub events: u64,
    /// Events in the last full second.
    pub events_per_second: u64,
    /// Messages that could not be decoded; the first one is logged.
    pub decode_errors: u64,
    /// Routes Bora leaves to the kernel, by reason.
    pub unsupported: Vec<Unsupported>,
}

/// Sizes of one address family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FamilyCounts {
    /// Routes in the kernel's tables that its rules and VRFs use.
    pub kernel_routes: usize,
    /// Prefixes in the FIB, the fixed ones and neighbours included.
    pub fib_prefixes: usize,
    /// Host routes to neighbours among these.
    pub fib_neighbours: usize,
    /// Prefixes the FIB had no room for. If there are any, the kernel forwards all of this IP
    /// version.
    pub refused: usize,
    /// On-link hosts for which no next hop was free: their packets go to the kernel.
    pub hosts_refused: usize,
}

/// One comparison of the kernel's tables with ours.
#[derive(Clone, Debug, Serialize)]
pub struct Reconciliation {
    /// When it ended.
    pub at: SystemTime,
    /// How long it took.
    pub took: Duration,
    /// What triggered it.
    pub reason: &'static str,
    /// Entries that differed from the mirror.
    pub differences: usize,
    /// Why it has to be repeated, if it has to.
    pub failure: Option<String>,
}

/// Routes left to the kernel for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unsupported {
    /// Why.
    pub reason: &'static str,
    /// How many.
    pub routes: usize,
}

/// One disagreement that [`crate::Mirror::verify_some`] found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The prefix, as text.
    pub prefix: String,
    /// What the FIB should have according to the kernel's tables; `None`: no entry.
    pub kernel: Option<String>,
    /// What the FIB has.
    pub fib: Option<String>,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let none = || "nothing".to_owned();
        write!(
            f,
            "{}: the kernel says {}, the FIB {}",
            self.prefix,
            self.kernel.clone().unwrap_or_else(none),
            self.fib.clone().unwrap_or_else(none)
        )
    }
}
