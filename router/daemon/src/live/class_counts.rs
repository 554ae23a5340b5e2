//! What the classes of the outputs have counted, summed over the workers.

use bora_fib::PortId;
use bora_worker::ClassCounters;

use crate::config::File;
use crate::data_plane::DataPlane;
use crate::engine::Engine;
use crate::ports::Port;

/// The counters of one class of an output, packets.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueueSample {
    pub(crate) port: String,
    pub(crate) class: usize,
    /// Taken into its queues, over all workers: `enqueued = sent + held`.
    pub(crate) enqueued: u64,
    pub(crate) held: u64,
    pub(crate) sent: u64,
    pub(crate) dropped: u64,
}

/// The classes of all outputs.
pub(crate) fn queues(engine: &Engine, plane: &DataPlane, config: &File) -> Vec<QueueSample> {
    let of_port = |port: &Port| {
        let section = config.port(&port.name);
        let count = section.map_or(0, |section| section.queues.output().classes.len());
        let classes = (0..count).map(|class| queue(engine, &port.name, port.id, class));
        classes.collect::<Vec<_>>()
    };
    plane.ports().iter().flat_map(of_port).collect()
}

fn queue(engine: &Engine, name: &str, id: PortId, class: usize) -> QueueSample {
    let sum = |of: fn(&ClassCounters) -> u64| -> u64 {
        let workers = engine.counters();
        let classes = workers.map(|worker| &worker.ports[usize::from(id.0)].classes[class]);
        classes.map(of).sum()
    };
    QueueSample {
        port: name.into(),
        class,
        enqueued: sum(|it| it.enqueued.get()),
        held: sum(|it| it.held.get()),
        sent: sum(|it| it.sent.get()),
        dropped: sum(|it| it.dropped.get()),
    }
}
