//! What the process gives up when it has started, whoever has started it: docs/install.md has the list.

use bora_confine::{CONTROL, Capabilities, NONE, START, held, process, reduce};

use bora_port::kinds::AnyKind;

use crate::config::{File, PortKind, TwinKind};

/// Before the first other thread, which inherits it.
pub(crate) fn start(file: &File) {
    if !has_dpdk(file) {
        process(START);
    }
}

/// When everything is open. Says in the log what stays.
pub(crate) fn settle(file: &File) {
    if has_dpdk(file) {
        log::warn!(
            "DPDK's drivers need more than Bora knows of: the control loop keeps {}",
            held()
        );
        return;
    }
    reduce(CONTROL.union(of_files(file)));
    log::info!(
        "the control loop keeps {}; API and workers keep none",
        held()
    );
}

/// Sockets and capture files of ports may be other users'.
fn of_files(file: &File) -> Capabilities {
    let interfaces = file
        .ports
        .iter()
        .all(|port| port.kind == PortKind::Interface);
    if interfaces {
        NONE
    } else {
        Capabilities::DAC_OVERRIDE
    }
}

fn has_dpdk(file: &File) -> bool {
    let kinds = file.ports.iter().map(|port| &port.kind);
    let mut of_dpdk =
        kinds.filter(|kind| matches!(kind, PortKind::Twin(TwinKind::Other(AnyKind::Dpdk(_)))));
    of_dpdk.next().is_some()
}
