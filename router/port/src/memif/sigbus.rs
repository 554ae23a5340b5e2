//! A SIGBUS handler, so that a peer cannot end this process by taking shared memory away.
//!
//! An access to mapped memory behind the end of its file, or to a hole in it for which there is no page, is a
//! SIGBUS: a peer that shrinks its file, or punches holes into huge pages, would end this process. The
//! handler here maps zeros over such memory and lets the access go on; the control channel then takes the
//! link down. SIGBUS for other reasons does what it did before.

use std::io;
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

use libc::{c_int, c_void, siginfo_t};

use bora_linux::lock;

/// A mapping whose memory may be taken away. Entries are never freed, because the handler may look at
/// them at any time; they are used again.
struct Mapping {
    /// Address of the mapping; 0 while the entry is free.
    start: AtomicUsize,
    length: AtomicUsize,
    taken: AtomicBool,
    next: AtomicPtr<Mapping>,
}

static FIRST: AtomicPtr<Mapping> = AtomicPtr::new(null_mut());
/// Held while the list changes; the handler does not take it.
static CHANGES: Mutex<()> = Mutex::new(());
/// What SIGBUS did before.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Keeps a mapping in the handler's list.
pub(super) struct Guard(&'static Mapping);

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Guard").field(&self.taken()).finish()
    }
}

impl Guard {
    /// Guards a shared mapping of `length` octets, whole pages, at `start`. Drop the guard before the
    /// mapping.
    pub(super) fn new(start: usize, length: usize) -> io::Result<Self> {
        let _changes = lock(&CHANGES);
        if BEFORE.get().is_none() {
            let before = install()?;
            BEFORE.get_or_init(|| before);
        }
        let free = mappings().find(|mapping| mapping.start.load(Ordering::Relaxed) == 0);
        let mapping = free.unwrap_or_else(add);
        mapping.taken.store(false, Ordering::Relaxed);
        mapping.length.store(length, Ordering::Relaxed);
        mapping.start.store(start, Ordering::Release);
        Ok(Self(mapping))
    }

    /// Whether memory was taken away, and zeros are mapped over it.
    pub(super) fn taken(&self) -> bool {
        self.0.taken.load(Ordering::Acquire)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.start.store(0, Ordering::Release);
    }
}

fn mappings() -> impl Iterator<Item = &'static Mapping> {
    let mut next = FIRST.load(Ordering::Acquire);
    std::iter::from_fn(move || {
        // SAFETY: the list holds entries that `add` leaked, and null at its end.
        let mapping = unsafe { next.as_ref() }?;
        next = mapping.next.load(Ordering::Acquire);
        Some(mapping)
    })
}

/// Under the lock of `CHANGES`.
fn add() -> &'static Mapping {
    let mapping = Box::leak(Box::new(Mapping {
        start: AtomicUsize::new(0),
        length: AtomicUsize::new(0),
        taken: AtomicBool::new(false),
        next: AtomicPtr::new(FIRST.load(Ordering::Relaxed)),
    }));
    FIRST.store(mapping, Ordering::Release);
    mapping
}

/// Returns what the signal did before.
fn install() -> io::Result<libc::sigaction> {
    // SAFETY: zeros are a valid sigaction: no handler, no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    let mut before = action;
    let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = on_sigbus;
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: both are valid, and the handler does only what a signal handler may.
    if unsafe { libc::sigaction(libc::SIGBUS, &raw const action, &raw mut before) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(before)
}

/// Reads atomics and makes system calls, nothing else.
extern "C" fn on_sigbus(signal: c_int, info: *mut siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel gives a valid siginfo_t to a handler with SA_SIGINFO; for SIGBUS of the kernel's
    // own (a positive code) it holds an address.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    if code > 0 && mappings().any(|mapping| mapping.covers(address) && mapping.replace()) {
        return;
    }
    // the access is tried again and meets what was there before; so must a signal that somebody sent
    // SAFETY: `BEFORE` is what sigaction returned, or nothing yet and then the default.
    unsafe {
        match BEFORE.get() {
            Some(before) => libc::sigaction(signal, before, null_mut()),
            None => libc::signal(signal, libc::SIG_DFL) as c_int,
        };
        if code <= 0 {
            libc::raise(signal);
        }
    }
}

impl Mapping {
    fn covers(&self, address: usize) -> bool {
        let start = self.start.load(Ordering::Acquire);
        start != 0 && address.wrapping_sub(start) < self.length.load(Ordering::Relaxed)
    }

    /// Maps zeros over the mapping; false if the kernel has no memory for its books.
    fn replace(&self) -> bool {
        let start = self.start.load(Ordering::Acquire);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let length = self.length.load(Ordering::Relaxed);
        // SAFETY: who touches the memory keeps it mapped, so exactly this mapping is replaced. It holds
        // no Rust references; whoever uses it expects that its octets change at any time.
        let replaced =
            unsafe { libc::mmap(without_provenance_mut(start), length, access, flags, -1, 0) };
        self.taken.store(true, Ordering::Release);
        replaced != libc::MAP_FAILED
    }
}
