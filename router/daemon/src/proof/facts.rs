//! What the control loop tells those who ask Linux.

use std::io;
use std::time::Instant;

use bora_contract::{MAX_PORTS, RpFilter};
use bora_fib::{FibError, FibReader, PortId};
use bora_prove::{Asker, Decider, Entry, Input, Linux, ProveError};
use bora_wire::MacAddr;
use bora_worker::Tables;
use bora_xdp::Questions;

use crate::config::File;
use crate::data_plane::DataPlane;
use crate::process::calls::Caller;
use crate::router::Router;

/// What Bora decides by, but for the FIB.
pub(crate) struct Facts {
    /// Ports and devices.
    pub(crate) inputs: Vec<Input>,
    /// The tables of workers, as they are or would be.
    pub(crate) tables: Tables,
    /// When Linux had been followed.
    pub(super) caught_up: Instant,
}

impl Facts {
    /// As they are now; `None` if the control loop has ended.
    pub(crate) fn of(calls: &Caller<Router>) -> Option<Self> {
        calls.ask("what decides", Self::now)
    }

    pub(super) fn now(router: &mut Router) -> Self {
        Self::of_plane(&router.plane, router.in_force.file())
    }

    /// As they are, where there is no control loop.
    pub(crate) fn of_plane(plane: &DataPlane, config: &File) -> Self {
        let ports = plane.ports().iter().filter(|port| !port.is_gone);
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
            in_bond: usize::from(settings.index) < MAX_PORTS && settings.trunk != settings.index,
            to_linux: [settings.kernel4, settings.kernel6],
            checks_sources: settings.rp_filter != RpFilter::Off,
            entry: entry
                .filter(|(port, _)| settings.gated && usize::from(port.0) < MAX_PORTS)
                .map(|(_, ifindex)| Entry {
                    ifindex,
                    tags: settings.tags,
                    session: { settings.pppoe() }.map(|(number, peer)| (number, MacAddr(peer))),
                }),
        });
        Self {
            inputs: inputs.collect(),
            tables: plane.tables(config),
            caught_up: plane.mirror().caught_up(),
        }
    }

    /// Without what Linux is not asked about.
    pub(super) fn for_linux(mut self) -> Self {
        self.inputs.retain(|input| !input.in_bond);
        self
    }
}

/// What decides, for another thread to load.
pub(crate) struct Parts {
    reader: Result<FibReader, FibError>,
    program: io::Result<bora_xdp::Parts>,
}

impl Parts {
    /// The parts of a running Bora; `None` if the control loop has ended.
    pub(crate) fn of(calls: &Caller<Router>) -> Option<Self> {
        calls.ask("a reader of the FIB", |router| {
            Self::of_plane(&router.plane)
        })
    }

    /// As they are, where there is no control loop.
    pub(crate) fn of_plane(plane: &DataPlane) -> Self {
        Self {
            reader: plane.fib_reader(),
            program: plane.express().program.parts(),
        }
    }

    /// The stages of a worker, and the program.
    ///
    /// # Errors
    /// There is no memory, or the kernel refuses the program.
    pub(crate) fn load(self) -> Result<(Decider, Questions), ProveError> {
        let reader = self.reader;
        let reader = reader.map_err(|error| ProveError::Memory(error.to_string()))?;
        let program = self.program;
        let program = program.map_err(|error| ProveError::Program(error.to_string()))?;
        let program = program.load();
        let program = program.map_err(|error| ProveError::Program(error.to_string()))?;
        Ok((Decider::new(reader)?, program))
    }
}

/// Somebody who asks about what the facts say; `None` if the control loop has ended.
pub(super) fn asker(calls: &Caller<Router>, facts: Facts) -> Option<Result<Asker, ProveError>> {
    let parts = Parts::of(calls)?;
    let made = || {
        let (decider, program) = parts.load()?;
        let mut asker = Asker::new(Linux::open()?, decider, Some(program))?;
        asker.adopt(facts.inputs, facts.tables, facts.caught_up);
        Ok(asker)
    };
    Some(made())
}
