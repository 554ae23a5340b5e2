//! What a configuration needs of this machine, for `bora run` before it changes anything, and for `bora check`.

use crate::api;
use crate::config::File;
use crate::ports;
use crate::process::cpus::check_cpus;
use bora_mirror::{Mirror, MirrorConfig};

/// Checks what needs no look at interfaces: values, CPUs, and the files and the address of `[api]`.
///
/// # Errors
/// What is wrong, or missing on this machine.
pub fn check_machine(file: &File) -> anyhow::Result<()> {
    file.check()?;
    check_cpus(&file.workers.cores)?;
    api::check(&file.api)
}

/// Checks everything that `bora run` needs before it touches an interface.
///
/// # Errors
/// What is wrong, or missing on this machine.
pub fn check_all(file: &File) -> anyhow::Result<()> {
    check_machine(file)?;
    let (writer, _) = bora_fib::new(File::default().fib.config())?;
    let mirror = Mirror::open(MirrorConfig::default(), writer)?;
    let mut interfaces = file.ports.iter().filter(|port| port.is_interface());
    interfaces.try_for_each(|port| ports::find(&mirror, &port.name).map(drop))
}
