//! What this machine can do, found out by trying.

use bora_port::xdp::Program;

use crate::place::Place;

/// Loads the XDP program, without putting it on any interface; says what this kernel lacks and what is lost
/// by that. The program goes with the process.
pub fn try_program() -> anyhow::Result<Vec<&'static str>> {
    Ok(Program::load(Place::here()?.netns)?.lacks())
}
