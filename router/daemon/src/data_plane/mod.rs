//! The ports, and the three that must agree about them: the mirror's FIB, the XDP program and the
//! engine's workers. Others only look at it; what changes it is in this folder.

mod converge;
mod interfaces;
mod live;
mod membership;
mod start;
mod update;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bora_capture::Subscription;
use bora_fib::{FibError, FibHandle, FibReader, PortId};
use bora_mirror::{Mirror, Waker};
use bora_worker::{Command, Mode};
use bora_xdp::{Allowances, ProgramError, SeenPackets};

use crate::config::File;
use crate::devices::{Channels, Device, DeviceTable, DeviceTotals};
use crate::engine::Engine;
use crate::express::Express;
use crate::express::reclaim::Reclaimer;
use crate::guard::flowtables::Flows;
use crate::guard::hooks::Held;
use crate::guard::minute::Sample;
use crate::guard::own_flows::Decision;
use crate::multipath::Multipath;
use crate::offload::{Offload, OffloadReport, Surroundings};
use crate::policy::Policy;
use crate::ports::Port;
use crate::ports::table::PortTable;
use crate::ports::totals::Totals;
use crate::process::lease::Vitals;
use crate::process::runtime_dir::RuntimeLock;
use crate::rules::CompiledRules;

pub(crate) use live::Change;
pub(crate) use start::detach_pinned;

/// All that forwards.
pub(crate) struct DataPlane {
    ports: PortTable,
    devices: DeviceTable,
    /// What PPP interfaces are on.
    channels: Channels,
    /// What Linux's hooks hold back of tunnels.
    held: Held,
    /// Whether Bora offers a flowtable, as it was decided last.
    own_flows: Decision,
    mirror: Mirror,
    /// Makes readers of the mirror's FIB.
    fib: FibHandle,
    /// Where the program reads the FIB.
    reclaimer: Option<Reclaimer>,
    express: Express,
    /// None if every port takes the express path.
    engine: Option<Engine>,
    rules: CompiledRules,
    /// Rules whose next hops a worker may still use.
    old_rules: Vec<CompiledRules>,
    policy: Policy,
    multipath: Multipath,
    offload: Offload,
    runtime: RuntimeLock,
    vitals: Vitals,
}

impl DataPlane {
    pub(crate) fn ports(&self) -> &PortTable {
        &self.ports
    }

    pub(crate) fn mirror(&self) -> &Mirror {
        &self.mirror
    }

    /// Somebody else's access to the FIB.
    ///
    /// # Errors
    /// There are too many.
    pub(crate) fn fib_reader(&self) -> Result<FibReader, FibError> {
        self.fib.reader()
    }

    /// Takes some of the prefixes that have changed lately.
    pub(crate) fn take_changed_prefixes(&mut self) -> Vec<(IpAddr, u8)> {
        self.mirror.take_changed_prefixes()
    }

    /// Leaves these prefixes to Linux, and no others that were left to it before.
    pub(crate) fn distrust(&mut self, prefixes: &[(IpAddr, u8)]) {
        self.mirror.distrust(prefixes.iter().copied());
    }

    pub(crate) fn express(&self) -> &Express {
        &self.express
    }

    pub(crate) fn engine(&self) -> Option<&Engine> {
        self.engine.as_ref()
    }

    /// What is needed to serve those who watch.
    ///
    /// # Errors
    /// No memory or descriptor is left.
    pub(crate) fn seen_packets(&mut self) -> Result<(SeenPackets, Allowances), ProgramError> {
        self.express.program.seen_packets()
    }

    /// Shows packets to those who watch, by their numbers.
    ///
    /// # Errors
    /// The kernel refuses the program for it.
    pub(crate) fn show_to(
        &mut self,
        subscriptions: &[(usize, Arc<Subscription>)],
    ) -> Result<(), ProgramError> {
        // the program first, which may take seconds: rates are reckoned from the end of this
        let shown = self.express.program.show_to(subscriptions);
        let shared = match shown {
            Ok(()) => subscriptions,
            Err(_) => &[], // it is returned below
        };
        if let Some(engine) = &mut self.engine {
            engine.set_subscriptions(shared.iter().map(|(_, one)| one.clone()).collect());
        }
        shown
    }

    pub(crate) fn multipath(&self) -> &Multipath {
        &self.multipath
    }

    pub(crate) fn runtime(&self) -> &RuntimeLock {
        &self.runtime
    }

    /// What wakes [`DataPlane::wait`].
    pub(crate) fn waker(&self) -> Waker {
        self.mirror.waker()
    }

    /// Everything that was ever counted under a port's number.
    pub(crate) fn totals(&self, id: PortId) -> Totals {
        let workers = self.engine.iter().flat_map(Engine::counters);
        let workers = workers.map(|worker| &worker.ports[usize::from(id.0)]);
        let engine = self.engine.as_ref();
        let queues = engine.map(|engine| engine.counted(id));
        let slow_path = engine.map(|engine| engine.slow_path.counted(id));
        let program = || self.express.counters(id);
        let queues = queues.unwrap_or_default();
        let slow_path = slow_path.unwrap_or_default();
        Totals::of(&queues, workers, slow_path, program)
    }

    /// What is counted since the port has its number.
    pub(crate) fn totals_of(&self, port: &Port) -> Totals {
        self.totals(port.id).since(&port.before)
    }

    /// Policy routing and VRFs.
    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The VLAN devices and bonds on the ports.
    pub(crate) fn devices(&self) -> &DeviceTable {
        &self.devices
    }

    /// Numbers and names of ports, VLAN devices and bonds.
    pub(crate) fn names(&self) -> Vec<(PortId, &str)> {
        names(&self.ports, &self.devices)
    }

    /// Names of ports, VLAN devices and bonds by number, to keep.
    pub(crate) fn names_by_number(&self) -> BTreeMap<u16, String> {
        let names = self.names().into_iter();
        names.map(|(id, name)| (id.0, name.to_owned())).collect()
    }

    /// What becomes of flows of Linux's flowtables.
    pub(crate) fn flows(&self) -> Flows {
        let ports: Vec<&str> = self.ports.iter().map(|port| port.name.as_str()).collect();
        let forwards = self.express.program.forwards_flows();
        let guard = self.mirror.guard();
        let held = self.express.hooks().held_by_chains(guard);
        Flows::new(guard, held, &ports, forwards, &self.own_flows)
    }

    /// What both tiers have sent and handed to Linux.
    pub(crate) fn transit(&self) -> Sample {
        let mut sample = Sample::default();
        for number in self.ports.numbers() {
            let counted = self.totals(number);
            sample.sent += counted.tx_packets;
            sample.passed += counted.passed;
        }
        sample
    }

    /// What is counted of a VLAN device or bond since it has its number.
    pub(crate) fn totals_of_device(&self, device: &Device) -> DeviceTotals {
        counted_of_device(self.engine.as_ref(), &self.express, device.id).since(device.before)
    }

    /// What the cards of ports forward by themselves.
    pub(crate) fn offload(&self) -> &Offload {
        &self.offload
    }

    /// What HERO cards forward by themselves, and what they do not.
    pub(crate) fn offload_report(&self, config: &File) -> Vec<OffloadReport> {
        self.offload.report(&self.surroundings(config))
    }

    fn surroundings<'a>(&'a self, config: &'a File) -> Surroundings<'a> {
        Surroundings {
            config,
            ports: &self.ports,
            fib: self.mirror.fib(),
        }
    }

    /// Takes from the cards' fast path what may no longer be there; `routes_changed` also asks anew
    /// which routes hide others.
    pub(crate) fn check_fast_path(&mut self, config: &File, routes_changed: bool) {
        let mut offload = std::mem::take(&mut self.offload);
        offload.check(&self.surroundings(config), routes_changed);
        self.offload = offload;
    }

    /// Gives the cards' fast path to the busiest destinations. To be called about once a second.
    pub(crate) fn choose_fast_path(&mut self, config: &File) {
        let mut offload = std::mem::take(&mut self.offload);
        offload.choose(&self.surroundings(config));
        self.offload = offload;
    }

    /// Has all workers measure for so long what each stage of their loop takes.
    ///
    /// # Errors
    /// There are no workers.
    pub(crate) fn profile(&self, time: Duration) -> Result<(), String> {
        let engine = self.engine.as_ref();
        let engine = engine.ok_or("no workers: every port takes the express path")?;
        engine.tell(|| Command::Profile(time));
        Ok(())
    }

    /// Sets when a worker looks at its queues, until the workers get another mode or others take their place; `None`: all do
    /// as the configuration says.
    ///
    /// # Errors
    /// There is no such worker.
    pub(crate) fn set_mode(&mut self, worker: Option<(usize, Mode)>) -> Result<(), String> {
        let engine = self.engine.as_mut();
        let engine = engine.ok_or("no workers: every port takes the express path")?;
        let count = engine.workers.len();
        match worker {
            Some((worker, _)) if worker >= count => {
                Err(format!("there is no worker {worker}; there are {count}"))
            }
            _ => {
                engine.set_mode(worker);
                Ok(())
            }
        }
    }
}

fn names<'a>(ports: &'a PortTable, devices: &'a DeviceTable) -> Vec<(PortId, &'a str)> {
    let ports = ports.iter().map(|port| (port.id, port.name.as_str()));
    let devices = devices.iter().map(|one| (one.id, one.name.as_str()));
    ports.chain(devices).collect()
}

/// Everything that was ever counted under the number of a VLAN device or bond.
fn counted_of_device(engine: Option<&Engine>, express: &Express, id: PortId) -> DeviceTotals {
    let workers = engine.into_iter().flat_map(Engine::counters);
    DeviceTotals::of(id, workers, express.program.device_counters(id.0))
}
