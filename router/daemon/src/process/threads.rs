//! What threads share, where a panic of any ends the process: the command line's panic hook aborts it, so that the lease ends
//! and Linux forwards.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Waits until a mutex is free, and holds it.
#[expect(
    clippy::disallowed_methods,
    reason = "the error says that a holder has panicked, and then this process has ended"
)]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until a thread has ended.
#[expect(
    clippy::let_underscore_must_use,
    reason = "the error says that it has panicked, and then this process has ended"
)]
pub(crate) fn join<T>(thread: JoinHandle<T>) {
    let _ = thread.join();
}
