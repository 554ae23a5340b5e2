//! DPDK's tables as subjects: `rte_fib`, `rte_fib6` and `rte_lpm`, through `dpdk.c`.
//!
//! DPDK allows one writer and any number of readers without a lock, as Bora does. But these tables
//! (DPDK 22.11) reuse groups of entries without waiting for readers.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;
use std::sync::Arc;
use std::{io, ptr};

use anyhow::Context;
use bora_fib::{Prefix4, Prefix6};
use bora_fib_bench::subject::MAX_VECTOR;
use bora_fib_bench::{Fib, Memory, Reader};

mod c {
    use super::{c_char, c_int, c_void};

    unsafe extern "C" {
        pub(super) fn dpdk_start(huge_pages: c_int) -> c_int;
        pub(super) fn dpdk_version() -> *const c_char;
        pub(super) fn dpdk_allocated() -> u64;

        pub(super) fn dpdk_fib_new(routes: u32, groups: u32) -> *mut c_void;
        pub(super) fn dpdk_fib_add(fib: *mut c_void, ip: u32, depth: u8, next_hop: u32) -> c_int;
        pub(super) fn dpdk_fib_delete(fib: *mut c_void, ip: u32, depth: u8) -> c_int;
        pub(super) fn dpdk_fib_select(fib: *mut c_void, avx512: c_int) -> c_int;
        pub(super) fn dpdk_fib_lookup(fib: *mut c_void, ips: *const u32, out: *mut u64, n: u32);
        pub(super) fn dpdk_fib_groups(fib: *mut c_void) -> u32;
        pub(super) fn dpdk_fib_free(fib: *mut c_void);

        pub(super) fn dpdk_fib6_new(routes: u32, groups: u32) -> *mut c_void;
        pub(super) fn dpdk_fib6_add(
            fib: *mut c_void,
            ip: *const [u8; 16],
            depth: u8,
            next_hop: u32,
        ) -> c_int;
        pub(super) fn dpdk_fib6_delete(fib: *mut c_void, ip: *const [u8; 16], depth: u8) -> c_int;
        pub(super) fn dpdk_fib6_select(fib: *mut c_void, avx512: c_int) -> c_int;
        pub(super) fn dpdk_fib6_lookup(
            fib: *mut c_void,
            ips: *const [u8; 16],
            out: *mut u64,
            n: u32,
        );
        pub(super) fn dpdk_fib6_groups(fib: *mut c_void) -> u32;
        pub(super) fn dpdk_fib6_free(fib: *mut c_void);

        pub(super) fn dpdk_lpm_new(routes: u32, groups: u32) -> *mut c_void;
        pub(super) fn dpdk_lpm_add(lpm: *mut c_void, ip: u32, depth: u8, next_hop: u32) -> c_int;
        pub(super) fn dpdk_lpm_delete(lpm: *mut c_void, ip: u32, depth: u8) -> c_int;
        pub(super) fn dpdk_lpm_lookup(lpm: *mut c_void, ips: *const u32, out: *mut u32, n: u32);
        pub(super) fn dpdk_lpm_groups(lpm: *mut c_void, groups: u32) -> u32;
        pub(super) fn dpdk_lpm_free(lpm: *mut c_void);
    }
}

/// Capacity of a table, in percent of the number of routes.
const ROOM: usize = 125;
/// Groups of 256 entries below the first 24 bits; the most that 2 octets can number.
const GROUPS4: u32 = 32_767;
/// Groups of IPv6; DPDK reserves more of them than it uses.
const GROUPS6: u32 = 1 << 20;
/// Entries of the first 24 bits.
const ROOT: u64 = 1 << 24;
/// RTE_LPM_LOOKUP_SUCCESS.
const LPM_FOUND: u32 = 0x0100_0000;

/// Proof that DPDK has been started.
#[derive(Clone, Copy, Debug)]
pub struct Dpdk(());

impl Dpdk {
    /// Starts DPDK's environment without devices. Call it once in a process.
    ///
    /// # Errors
    /// DPDK's error, for instance if there is too little memory.
    pub fn start(huge_pages: bool) -> anyhow::Result<Self> {
        // SAFETY: takes no pointer; DPDK refuses a second start by itself.
        check(unsafe { c::dpdk_start(huge_pages.into()) }).context("DPDK's start")?;
        Ok(Self(()))
    }

    /// DPDK's name and version.
    pub fn version(self) -> String {
        // SAFETY: a constant string that ends with a zero.
        unsafe { CStr::from_ptr(c::dpdk_version()) }
            .to_string_lossy()
            .into_owned()
    }

    /// An empty `rte_fib` for a table of this many routes.
    ///
    /// # Errors
    /// If there is too little memory.
    pub fn fib(self, routes: usize) -> anyhow::Result<Box<dyn Fib<Prefix4>>> {
        let table = Table::new(c::dpdk_fib_new, c::dpdk_fib_free, routes, GROUPS4)?;
        Ok(Box::new(RteFib(table)))
    }

    /// An empty `rte_fib6`.
    ///
    /// # Errors
    /// If there is too little memory.
    pub fn fib6(self, routes: usize) -> anyhow::Result<Box<dyn Fib<Prefix6>>> {
        let table = Table::new(c::dpdk_fib6_new, c::dpdk_fib6_free, routes, GROUPS6)?;
        Ok(Box::new(RteFib6(table)))
    }

    /// An empty `rte_lpm`.
    ///
    /// # Errors
    /// If there is too little memory.
    pub fn lpm(self, routes: usize) -> anyhow::Result<Box<dyn Fib<Prefix4>>> {
        let table = Table::new(c::dpdk_lpm_new, c::dpdk_lpm_free, routes, GROUPS4)?;
        Ok(Box::new(RteLpm(table)))
    }
}

/// A table of DPDK. It is freed when its writer and all readers have been dropped.
struct Table {
    raw: NonNull<c_void>,
    free: unsafe extern "C" fn(*mut c_void),
    /// Octets that DPDK had allocated before.
    before: u64,
}

// SAFETY: DPDK binds no table to a thread, and any thread may free it.
unsafe impl Send for Table {}
// SAFETY: shared access is look-ups, which DPDK allows in any number of threads beside the one
// writer, and the choice of the look-up function, which no look-up runs beside (see `choose`).
unsafe impl Sync for Table {}

impl Table {
    fn new(
        new: unsafe extern "C" fn(u32, u32) -> *mut c_void,
        free: unsafe extern "C" fn(*mut c_void),
        routes: usize,
        groups: u32,
    ) -> anyhow::Result<Arc<Self>> {
        let before = allocated();
        // SAFETY: `new` takes sizes only, and callers have a `Dpdk`, so it has been started.
        let raw = unsafe { new(u32::try_from(routes * ROOM / 100)?, groups) };
        let raw = NonNull::new(raw).context("DPDK has too little memory for the table")?;
        Ok(Arc::new(Self { raw, free, before }))
    }

    fn raw(&self) -> *mut c_void {
        self.raw.as_ptr()
    }

    /// What DPDK has allocated for this table; tables are made one after the other.
    fn memory(&self, readers: u64) -> Memory {
        Memory {
            readers,
            total: allocated().saturating_sub(self.before),
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // SAFETY: made by the `new` that belongs to `free`; nobody uses it any more.
        unsafe { (self.free)(self.raw()) }
    }
}

pub(crate) fn allocated() -> u64 {
    // SAFETY: takes no pointer; called only after DPDK has been started.
    unsafe { c::dpdk_allocated() }
}

fn check(result: c_int) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::from_raw_os_error(-result))
    } else {
        Ok(())
    }
}

struct RteFib(Arc<Table>);

impl Fib<Prefix4> for RteFib {
    fn insert(&mut self, prefix: Prefix4, next_hop: u32) -> anyhow::Result<()> {
        // SAFETY: the table is an rte_fib, and this is its one writer.
        check(unsafe { c::dpdk_fib_add(self.0.raw(), prefix.addr(), prefix.len(), next_hop) })?;
        Ok(())
    }

    fn remove(&mut self, prefix: Prefix4) -> anyhow::Result<()> {
        // SAFETY: as in `insert`.
        check(unsafe { c::dpdk_fib_delete(self.0.raw(), prefix.addr(), prefix.len()) })?;
        Ok(())
    }

    fn memory(&self) -> Memory {
        // SAFETY: the table is an rte_fib.
        let groups = unsafe { c::dpdk_fib_groups(self.0.raw()) };
        self.0.memory((ROOT + u64::from(groups) * 256) * 2)
    }

    fn paths(&self) -> Vec<&'static str> {
        vec!["rte_fib", "rte_fib scalar"]
    }

    fn reader(&self, path: usize) -> anyhow::Result<Box<dyn Reader<u32>>> {
        choose(&self.0, c::dpdk_fib_select, path)?;
        Ok(worker(&self.0, c::dpdk_fib_lookup, |found| found as u32))
    }
}

struct RteFib6(Arc<Table>);

impl Fib<Prefix6> for RteFib6 {
    fn insert(&mut self, prefix: Prefix6, next_hop: u32) -> anyhow::Result<()> {
        let ip = prefix.addr().to_be_bytes();
        // SAFETY: the table is an rte_fib6, and this is its one writer.
        check(unsafe { c::dpdk_fib6_add(self.0.raw(), &ip, prefix.len(), next_hop) })?;
        Ok(())
    }

    fn remove(&mut self, prefix: Prefix6) -> anyhow::Result<()> {
        let ip = prefix.addr().to_be_bytes();
        // SAFETY: as in `insert`.
        check(unsafe { c::dpdk_fib6_delete(self.0.raw(), &ip, prefix.len()) })?;
        Ok(())
    }

    fn memory(&self) -> Memory {
        // SAFETY: the table is an rte_fib6.
        let groups = unsafe { c::dpdk_fib6_groups(self.0.raw()) };
        self.0.memory((ROOT + u64::from(groups) * 256) * 4)
    }

    fn paths(&self) -> Vec<&'static str> {
        vec!["rte_fib6", "rte_fib6 scalar"]
    }

    fn reader(&self, path: usize) -> anyhow::Result<Box<dyn Reader<[u8; 16]>>> {
        choose(&self.0, c::dpdk_fib6_select, path)?;
        Ok(worker(&self.0, c::dpdk_fib6_lookup, |found| found as u32))
    }
}

struct RteLpm(Arc<Table>);

impl Fib<Prefix4> for RteLpm {
    fn insert(&mut self, prefix: Prefix4, next_hop: u32) -> anyhow::Result<()> {
        // SAFETY: the table is an rte_lpm, and this is its one writer.
        check(unsafe { c::dpdk_lpm_add(self.0.raw(), prefix.addr(), prefix.len(), next_hop) })?;
        Ok(())
    }

    fn remove(&mut self, prefix: Prefix4) -> anyhow::Result<()> {
        // SAFETY: as in `insert`.
        check(unsafe { c::dpdk_lpm_delete(self.0.raw(), prefix.addr(), prefix.len()) })?;
        Ok(())
    }

    fn memory(&self) -> Memory {
        // SAFETY: the table is an rte_lpm, which has [`GROUPS4`] groups.
        let groups = unsafe { c::dpdk_lpm_groups(self.0.raw(), GROUPS4) };
        self.0.memory((ROOT + u64::from(groups) * 256) * 4)
    }

    fn paths(&self) -> Vec<&'static str> {
        vec!["rte_lpm"]
    }

    fn reader(&self, _: usize) -> anyhow::Result<Box<dyn Reader<u32>>> {
        let number = |found| {
            if found & LPM_FOUND != 0 {
                found & (LPM_FOUND - 1)
            } else {
                0
            }
        };
        Ok(worker(&self.0, c::dpdk_lpm_lookup, number))
    }
}

/// Chooses the look-up function: 0 with AVX-512 if available, 1 without. Fails if there is a
/// reader, that is, if the table has an owner besides the writer.
fn choose(
    table: &Arc<Table>,
    select: unsafe extern "C" fn(*mut c_void, c_int) -> c_int,
    path: usize,
) -> anyhow::Result<()> {
    anyhow::ensure!(
        Arc::strong_count(table) == 1,
        "a DPDK table can have only one reader at a time"
    );
    // SAFETY: `select` belongs to the table, and nobody looks up meanwhile.
    check(unsafe { select(table.raw(), (path == 0).into()) }).context("choice of the look-up")
}

type LookUp<K, N> = unsafe extern "C" fn(*mut c_void, *const K, *mut N, u32);

/// A reader: `K` is a key, `N` what DPDK returns for it.
struct Worker<K, N> {
    table: Arc<Table>,
    look_up: LookUp<K, N>,
    /// Converts what DPDK returned to a next-hop number.
    number: fn(N) -> u32,
    found: [N; MAX_VECTOR],
}

fn worker<K: 'static, N: Copy + Default + Send + 'static>(
    table: &Arc<Table>,
    look_up: LookUp<K, N>,
    number: fn(N) -> u32,
) -> Box<dyn Reader<K>> {
    Box::new(Worker {
        table: table.clone(),
        look_up,
        number,
        found: [N::default(); MAX_VECTOR],
    })
}

impl<K, N: Copy + Send> Reader<K> for Worker<K, N> {
    fn look_up(&mut self, keys: &[K]) {
        let found = &mut self.found[..keys.len()];
        // SAFETY: `look_up` belongs to the table and to K and N; both slices have this length.
        unsafe {
            (self.look_up)(
                self.table.raw(),
                keys.as_ptr(),
                ptr::from_mut(found).cast(),
                keys.len() as u32,
            );
        }
    }

    fn answer(&self, index: usize) -> u32 {
        (self.number)(self.found[index])
    }
}
