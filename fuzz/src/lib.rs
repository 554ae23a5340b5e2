//! The checks of the fuzz targets, one module for each crate under test. The checks are those of the crates'
//! own property tests, so that a finding becomes a test by adding its bytes there.

#[path = "../../router/wire/tests/checks/mod.rs"]
pub mod wire;

#[path = "../../router/port/tests/checks/mod.rs"]
pub mod port;
