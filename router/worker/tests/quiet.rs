//! The loop is quiet: once it has warmed up it makes no allocation and no system call of its own,
//! and so takes no lock that it could wait for (waiting is a system call). What is planted in the
//! middle of it shows that each of these would be found.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command as Process, ExitStatus};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bora_worker::Mode;
use common::everything::{Plant, Subject};

/// Packets after which nothing new happens.
const WARM_UP: u64 = 500_000;
/// Packets that are watched.
const WATCHED: u64 = 4_000_000;
/// Empty rounds that are watched.
const IDLE: u64 = 100_000;
const PATIENCE: Duration = Duration::from_secs(60);
/// How a child ends that has done it: as no test harness does.
const DONE: i32 = 42;
/// Tells the child what to do.
const CASE: &str = "BORA_QUIET";

/// Counts the calls of the threads that want it, frees among them: they may lock, too.
struct Counting;

thread_local! {
    static CALLS: Cell<Option<&'static AtomicU64>> = const { Cell::new(None) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count() {
    if let Some(calls) = CALLS.get() {
        calls.fetch_add(1, Relaxed);
    }
}

// SAFETY: all is left to `System`; counting touches no memory of the heap.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is that of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count();
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// Calls of the allocator that a worker makes in the packets of a run.
fn allocations(mode: Mode, plant: Plant) -> u64 {
    let calls: &'static AtomicU64 = Box::leak(Box::default());
    let mut subject = Subject::new(mode, plant.after(WARM_UP), u64::MAX);
    subject.start(move || CALLS.set(Some(calls)));
    wait(|| subject.received() > WARM_UP);
    let before = calls.load(Relaxed);
    wait(|| subject.received() > WARM_UP + WATCHED);
    let after = calls.load(Relaxed);
    subject.check();
    subject.stop();
    after - before
}

#[track_caller]
fn wait(mut until: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !until() {
        assert!(Instant::now() < deadline, "the worker stands still");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn the_loop_does_not_allocate() {
    for mode in [Mode::Poll, Mode::Adaptive] {
        assert_eq!(allocations(mode, Plant::Nothing), 0, "{mode}");
    }
}

#[test]
fn an_allocation_in_the_loop_is_found() {
    let allocate = || drop(std::hint::black_box(Box::new(1u8)));
    assert_eq!(allocations(Mode::Poll, Plant::Once(allocate)), 2);
}

/// From here on a system call of this thread ends the process by SIGSYS. That is seccomp's strict
/// mode with nothing left, not even read and write; strict mode itself would forbid the processor's
/// time stamp counter as well (`seccomp_set_mode_strict` calls `disable_TSC`), that is, the clock.
fn no_more_system_calls() {
    let mut kill = libc::sock_filter {
        code: (libc::BPF_RET | libc::BPF_K) as u16,
        jt: 0,
        jf: 0,
        k: libc::SECCOMP_RET_KILL_PROCESS,
    };
    let program = libc::sock_fprog {
        len: 1,
        filter: &raw mut kill,
    };
    // SAFETY: prctl reads only `program`, which lives until it returns.
    let done = unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) == 0
    };
    assert!(done, "no seccomp: {}", std::io::Error::last_os_error());
}

static HELD: Mutex<()> = Mutex::new(());

/// Does in this process what the tests below want of another one; a worker without system calls
/// cannot even end.
#[test]
#[ignore = "the other process of the tests below"]
fn child() {
    let Ok(case) = std::env::var(CASE) else {
        return;
    };
    let call = || _ = std::hint::black_box(rustix::process::getppid());
    let lock = || drop(HELD.lock().unwrap_or_else(PoisonError::into_inner));
    let (mode, plant) = match case.as_str() {
        "clock" => return clock(),
        "adaptive" => (Mode::Adaptive, Plant::Nothing),
        "call" => (Mode::Poll, Plant::Once(call)),
        "lock" => (Mode::Poll, Plant::Once(lock)),
        _ => (Mode::Poll, Plant::Nothing),
    };
    let _held = HELD.lock();
    // one that may sleep must have no reason to
    let polls = mode == Mode::Poll;
    let packets = if polls { WATCHED } else { u64::MAX };
    let mut subject = Subject::new(mode, plant.after(WARM_UP), packets);
    subject.start(no_more_system_calls);
    wait(|| subject.received() >= WATCHED && (!polls || subject.idle_rounds() > IDLE));
    subject.check();
    std::process::exit(DONE);
}

/// Whether the clock can be read without a system call.
fn clock() {
    let read = Arc::new(AtomicBool::new(false));
    let done = read.clone();
    thread::spawn(move || {
        no_more_system_calls();
        std::hint::black_box(Instant::now());
        done.store(true, Relaxed);
        loop {
            std::hint::spin_loop();
        }
    });
    wait(|| read.load(Relaxed));
    std::process::exit(DONE);
}

/// How a process of its own ended.
fn child_with(case: &str) -> ExitStatus {
    let program = std::env::current_exe().unwrap();
    let mut child = Process::new(program);
    child.args(["--exact", "child", "--ignored", "--nocapture"]);
    let output = child.env(CASE, case).output().unwrap();
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    output.status
}

/// Every round reads the clock, which is not the loop's fault.
fn clock_is_a_system_call() -> bool {
    let killed = child_with("clock").signal() == Some(libc::SIGSYS);
    if killed {
        eprintln!("skipped: reading this machine's clock takes a system call");
    }
    killed
}

#[test]
fn the_loop_makes_no_system_call() {
    if clock_is_a_system_call() {
        return;
    }
    for mode in ["poll", "adaptive"] {
        let status = child_with(mode);
        assert_eq!(status.code(), Some(DONE), "{mode}: {status}");
    }
}

#[test]
fn a_system_call_in_the_loop_is_found() {
    if clock_is_a_system_call() {
        return;
    }
    for plant in ["call", "lock"] {
        let status = child_with(plant);
        assert_eq!(status.signal(), Some(libc::SIGSYS), "{plant}: {status}");
    }
}
