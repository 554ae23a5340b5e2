//! Survives that a peer takes memory away which it shares.
//!
//! Whoever touches mapped memory behind the end of its file, or a hole in it for which there is no page, gets
//! SIGBUS: a peer that shrinks its file, or punches holes into huge pages, would end this process. The
//! handler here puts zeros in place of such memory and lets the access happen; the control channel then takes
//! the link down. SIGBUS for other reasons does what it did before.

use std::io;
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use libc::{c_int, c_void, siginfo_t};

/// A mapping that may be taken away. Places are never freed, because the handler may look at them at any
/// time, but used again.
struct Place {
    /// Address of the mapping; 0 while the place is free.
    start: AtomicUsize,
    length: AtomicUsize,
    taken: AtomicBool,
    next: AtomicPtr<Place>,
}

static FIRST: AtomicPtr<Place> = AtomicPtr::new(null_mut());
/// For who takes a place, not for the handler.
static CHANGES: Mutex<()> = Mutex::new(());
/// What SIGBUS did before.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Keeps a mapping in the handler's list.
pub(super) struct Guard(&'static Place);

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Guard").field(&self.taken()).finish()
    }
}

impl Guard {
    /// Guards a shared mapping of `length` octets, whole pages, at `start`. Drop the guard before the
    /// mapping.
    pub(super) fn new(start: usize, length: usize) -> io::Result<Self> {
        let _changes = CHANGES.lock().unwrap_or_else(PoisonError::into_inner);
        if BEFORE.get().is_none() {
            let _ = BEFORE.set(install()?);
        }
        let free = places().find(|place| place.start.load(Ordering::Relaxed) == 0);
        let place = free.unwrap_or_else(add);
        place.taken.store(false, Ordering::Relaxed);
        place.length.store(length, Ordering::Relaxed);
        place.start.store(start, Ordering::Release);
        Ok(Self(place))
    }

    /// Whether memory was taken away, and zeros are in its place.
    pub(super) fn taken(&self) -> bool {
        self.0.taken.load(Ordering::Acquire)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.start.store(0, Ordering::Release);
    }
}

fn places() -> impl Iterator<Item = &'static Place> {
    let mut next = FIRST.load(Ordering::Acquire);
    std::iter::from_fn(move || {
        // SAFETY: the list holds places that `add` leaked, and null at its end.
        let place = unsafe { next.as_ref() }?;
        next = place.next.load(Ordering::Acquire);
        Some(place)
    })
}

/// Under the lock of `CHANGES`.
fn add() -> &'static Place {
    let place = Box::leak(Box::new(Place {
        start: AtomicUsize::new(0),
        length: AtomicUsize::new(0),
        taken: AtomicBool::new(false),
        next: AtomicPtr::new(FIRST.load(Ordering::Relaxed)),
    }));
    FIRST.store(place, Ordering::Release);
    place
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
    if code > 0 && places().any(|place| place.covers(address) && place.replace()) {
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

impl Place {
    fn covers(&self, address: usize) -> bool {
        let start = self.start.load(Ordering::Acquire);
        start != 0 && address.wrapping_sub(start) < self.length.load(Ordering::Relaxed)
    }

    /// Puts zeros in the mapping's place; false if the kernel has no memory for its books.
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
