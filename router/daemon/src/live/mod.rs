//! What an operator sees live: the control loop takes a sample of the counters once a second and keeps the
//! rates of ten minutes and the last events. It never waits for who looks at them: `page` asks for them.

pub(crate) mod class_counts;
mod events;
pub(crate) mod fib_rates;
mod history;
pub(crate) mod report;
mod sample;
mod watch;

use std::time::Instant;

use tokio::sync::watch::{Receiver, Sender};

use crate::config::File;
use crate::data_plane::DataPlane;

pub(crate) use events::{EventLog, milliseconds};
pub(crate) use history::{per_second, rates};
pub(crate) use sample::{PortSample, Sample, WorkerSample};

/// Samples, rates and events of a running Bora.
pub(crate) struct Live {
    pub(crate) started: Instant,
    pub(crate) events: EventLog,
    /// The last sample but one, and the last.
    pub(crate) samples: (Sample, Sample),
    history: history::History,
    watch: watch::Watch,
    /// Counts samples, for who waits for the next.
    beat: Sender<u64>,
}

impl Live {
    pub(crate) fn start(plane: &DataPlane, config: &File) -> Self {
        let sample = || Sample::take(plane, config);
        let mut live = Self {
            started: Instant::now(),
            events: EventLog::default(),
            samples: (sample(), sample()),
            history: history::History::default(),
            watch: watch::Watch::default(),
            beat: Sender::new(0),
        };
        let text = format!("Bora {} has started", env!("CARGO_PKG_VERSION"));
        live.events
            .tell(report::Severity::Info, report::EventKind::Start, text);
        live.look(plane);
        live
    }

    /// Tells what has changed; to be called when something may have.
    pub(crate) fn look(&mut self, plane: &DataPlane) {
        self.watch.look(plane, &mut self.events);
    }

    /// Takes a sample; to be called once a second.
    pub(crate) fn sample(&mut self, plane: &DataPlane, config: &File) {
        let now = Sample::take(plane, config);
        self.samples.0 = std::mem::replace(&mut self.samples.1, now);
        self.history.push(&self.samples.0, &self.samples.1);
        self.beat.send_modify(|count| *count += 1);
    }

    /// Packets that came in during the last second, by the ports and from Linux.
    pub(crate) fn received_per_second(&self) -> u64 {
        let (before, now) = (&self.samples.0, &self.samples.1);
        per_second(before.all.received(), now.all.received(), now.since(before))
    }

    /// Where every sample shows.
    pub(crate) fn beats(&self) -> Receiver<u64> {
        self.beat.subscribe()
    }

    /// The last ten minutes.
    pub(crate) fn history(&self) -> report::History {
        self.history.report(milliseconds(self.samples.1.time))
    }
}
