//! `bora-test run --lab`: a router on this machine, for a plan to test.

use std::process::exit;

use anyhow::ensure;
use bora_network::{Lab, Subject};
use bora_tester::plan::Plan;
use bora_tester::ports::{Kind, PortSpec};
use bora_tester::router::Device;

use crate::arguments::{LabKind, LabOptions, LabSubject};

/// Builds the router that the options ask for, if they do, and tells the plan how to reach it.
pub(crate) fn build(options: &LabOptions, plan: &mut Plan) -> anyhow::Result<Option<Lab>> {
    let Some(subject) = options.lab else {
        return Ok(None);
    };
    ensure!(
        rustix::process::geteuid().is_root(),
        "a lab needs network namespaces; run as root"
    );
    let subject = match subject {
        LabSubject::Kernel => Subject::Kernel,
        LabSubject::Express => Subject::Express,
        LabSubject::Engine => Subject::Engine,
    };
    let more: Vec<String> = options
        .lab_bora
        .iter()
        .flat_map(|text| text.split_whitespace())
        .map(str::to_owned)
        .collect();
    ensure!(
        subject != Subject::Kernel || more.is_empty(),
        "--lab-bora: in a lab of the kernel no Bora runs"
    );
    let bora = bora_terminal::beside("bora");
    let lab = Lab::new(subject, options.lab_ports.into(), &bora, more)?;
    plan.router.shell = Some(lab.shell());
    Ok(Some(lab))
}

/// The tester's ports in a lab.
pub(crate) fn ports(lab: &Lab, options: &LabOptions) -> Vec<PortSpec> {
    lab.ports(match options.lab_kind {
        LabKind::Xdp => Kind::Xdp,
        LabKind::AfXdp => Kind::AfXdp,
        LabKind::AfPacket => Kind::af_packet,
    })
}

/// The device under test: the lab's router, or that of the plan.
pub(crate) fn device(lab: Option<&Lab>, plan: &Plan) -> Device {
    let restart = lab.map(Lab::restart);
    let reset = lab.map(Lab::reset);
    Device::new(plan.router.clone(), restart, reset)
}

/// Ends the process at once, without leaving namespaces.
pub(crate) fn abandon() -> ! {
    bora_network::remove_own();
    exit(130);
}
