//! Locks.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock.
#[expect(
    clippy::disallowed_methods,
    reason = "a thread that panicked with it ends the process, or a test; the values are whole at every moment"
)]
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
