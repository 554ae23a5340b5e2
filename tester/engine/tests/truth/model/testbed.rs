//! The tester with its ports on the router's.

use std::time::Duration;

use bora_tester::port_bench::{Options, PortBench};
use bora_tester::ports::{self, Kind, PortSpec, Side};
use bora_tester::trial::{Bench, Trial, TrialSpec};

use super::{Model, Router};

/// Silence that ends a trial: longer than the router holds a packet back, or a busy machine lets it
/// wait.
const DRAIN: Duration = Duration::from_millis(80);

/// A tester and a router; declared in the order in which they must end.
pub(crate) struct Testbed {
    pub(crate) wire: PortBench,
    pub(crate) router: Router,
}

impl Testbed {
    /// A tester and a router with this many ports.
    pub(crate) fn new(ports: usize, model: &Model) -> Self {
        // before other work, for this thread and those it starts; only root may
        let _ = rustix::process::setpriority_process(None, -20);
        let (router, queues) = Router::start(ports, model);
        let (region, frames) = (&router.region, &router.frames);
        let side = |queue| Side::new(vec![queue], region.clone(), frames.clone()).unwrap();
        let sides = queues.into_iter().map(side).collect();
        let specs: Vec<PortSpec> = (0..ports).map(spec).collect();
        let ports = ports::open(&specs, sides, ports::Options::default()).unwrap();
        let options = Options {
            drain: Some(DRAIN),
            ..Options::default()
        };
        let wire = PortBench::new(ports, options);
        Self { wire, router }
    }
}

/// A port without addresses: nothing is to be learnt from a router that takes packets for any Ethernet
/// address, and no ARP mixes with the packets that its faults count.
fn spec(port: usize) -> PortSpec {
    PortSpec {
        name: format!("p{port}"),
        kind: Kind::Memory(port),
        netns: None,
        v4: None,
        v6: None,
        speed: None,
        cpu: None,
    }
}

impl Bench for Testbed {
    fn trial(&mut self, spec: &TrialSpec) -> anyhow::Result<Trial> {
        self.wire.trial(spec)
    }
}
