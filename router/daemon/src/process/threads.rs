//! What threads share, where a panic of any ends the process: the command line's panic hook aborts it, so that the lease ends
//! and Linux forwards.

use std::thread::JoinHandle;

/// Waits until a thread has ended.
#[expect(
    clippy::let_underscore_must_use,
    reason = "the error says that it has panicked, and then this process has ended"
)]
pub(crate) fn join<T>(thread: JoinHandle<T>) {
    let _ = thread.join();
}
