//! Times by the machine's clock, which may be set at any moment.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// From 1970 to `time`.
pub(crate) fn since_1970(time: SystemTime) -> Duration {
    between(UNIX_EPOCH, time)
}

/// From `time` until now.
pub(crate) fn age(time: SystemTime) -> Duration {
    between(time, SystemTime::now())
}

#[expect(
    clippy::disallowed_methods,
    reason = "where the clock was set back, `from` may be later than `to`, and no better number is known than none"
)]
fn between(from: SystemTime, to: SystemTime) -> Duration {
    to.duration_since(from).unwrap_or_default()
}
