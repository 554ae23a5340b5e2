//! What the tests of several crates share.

use std::env;
use std::fmt::Display;

/// Says why a test is skipped on this machine: a program is not installed, or the test may not do
/// what it has to.
///
/// # Panics
///
/// Where everything must be tested: the environment has `CI` or `BORA_ALL` (`make test` sets it).
pub fn skip(why: impl Display) {
    let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    assert!(
        !is_set("CI") && !is_set("BORA_ALL"),
        "this cannot be tested here: {why}"
    );
    eprintln!("skipped: {why}");
}
