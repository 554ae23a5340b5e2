//! What threads share, where a panic of any ends the process: the command line's panic hook aborts it, so that the lease ends
//! and Linux forwards.

use std::thread::{Builder, JoinHandle};

/// The lowest priority (nice(2)).
const NICE: i32 = 19;

/// Starts a thread of the lowest priority, which ends by itself. To be called by the control loop, whose rights it inherits.
///
/// # Errors
/// There can be no more threads.
pub(crate) fn in_background(
    name: &'static str,
    run: impl FnOnce() + Send + 'static,
) -> Result<(), String> {
    let run = move || {
        bora_confine::thread(bora_confine::KERNEL);
        if let Err(error) = rustix::process::nice(NICE) {
            log::warn!("{name} runs at the usual priority: {error}");
        }
        run();
    };
    let started = Builder::new().name(name.into()).spawn(run);
    started.map_err(|error| format!("cannot start a thread: {error}"))?;
    Ok(())
}

/// Waits until a thread has ended.
#[expect(
    clippy::let_underscore_must_use,
    reason = "the error says that it has panicked, and then this process has ended"
)]
pub(crate) fn join<T>(thread: JoinHandle<T>) {
    let _ = thread.join();
}
