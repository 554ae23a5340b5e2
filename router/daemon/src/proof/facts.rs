//! What the control loop tells those who ask Linux.

use bora_contract::{MAX_PORTS, RpFilter};
use bora_fib::PortId;
use bora_prove::{Asker, Decider, Entry, Input, Linux, ProveError};
use bora_wire::MacAddr;
use bora_worker::Tables;

use crate::process::calls::Caller;
use crate::router::Router;

/// What Bora decides by, but for the FIB.
pub(super) struct Facts {
    /// Ports and devices.
    pub(super) inputs: Vec<Input>,
    /// The tables of workers, as they are or would be.
    pub(super) tables: Tables,
}

impl Facts {
    /// As they are now; `None` if the control loop has ended.
    pub(super) fn of(calls: &Caller<Router>) -> Option<Self> {
        calls.ask("what decides", Self::now)
    }

    pub(super) fn now(router: &mut Router) -> Self {
        let plane = &router.plane;
        // what comes in by a port of a bond comes in by the bond
        let ports = plane.ports().iter();
        let ports =
            ports.filter(|port| !port.is_gone && port.settings.trunk == port.settings.index);
        let ports = ports.map(|port| {
            let entry = (port.id, port.ifindex);
            (port.ifindex, &port.name, &port.settings, Some(entry))
        });
        let devices = plane.devices().iter().map(|device| {
            let entry = device.lower.ports.first();
            let entry = entry.map(|port| (port.id, port.ifindex));
            (device.ifindex, &device.name, &device.settings, entry)
        });
        let inputs = ports.chain(devices);
        let inputs = inputs.map(|(ifindex, name, settings, entry)| Input {
            number: PortId(settings.index),
            ifindex,
            name: name.clone(),
            card: { plane.offload() }
                .routes_of(PortId(settings.index))
                .collect(),
            mac: MacAddr(settings.mac),
            to_linux: [settings.kernel4, settings.kernel6],
            checks_sources: settings.rp_filter != RpFilter::Off,
            entry: entry
                .filter(|(port, _)| settings.gated && usize::from(port.0) < MAX_PORTS)
                .map(|(_, ifindex)| Entry {
                    ifindex,
                    tags: settings.tags,
                }),
        });
        Self {
            inputs: inputs.collect(),
            tables: plane.tables(router.in_force.file()),
        }
    }
}

/// Somebody who asks about what the facts say; `None` if the control loop has ended.
pub(super) fn asker(calls: &Caller<Router>, facts: Facts) -> Option<Result<Asker, ProveError>> {
    let parts = |router: &mut Router| {
        let plane = &router.plane;
        (plane.fib_reader(), plane.express().program.parts())
    };
    let (reader, program) = calls.ask("a reader of the FIB", parts)?;
    let made = || {
        let reader = reader.map_err(|error| ProveError::Memory(error.to_string()))?;
        let program = program.map_err(|error| ProveError::Program(error.to_string()))?;
        let program = program.load();
        let program = program.map_err(|error| ProveError::Program(error.to_string()))?;
        let decider = Decider::new(reader)?;
        let mut asker = Asker::new(Linux::open()?, decider, Some(program))?;
        asker.adopt(facts.inputs, facts.tables);
        Ok(asker)
    };
    Some(made())
}
