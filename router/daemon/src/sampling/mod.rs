//! Samples of what both tiers forward, leave to Linux and drop: for collectors of sFlow, and for whoever looks at the
//! flows with the most traffic. The control loop starts and ends the sampling and answers what samples ask; a thread of
//! its own does the rest.

mod collector;
mod export;
pub(crate) mod five_tuple;
mod survey;
mod top;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use bora_capture::Filter;
use bora_linux::lock;
use tokio::sync::mpsc::{Receiver, error::TryRecvError};

use crate::captures::{Wanted, Watches};
use crate::config::SflowSection;
use crate::data_plane::DataPlane;
use crate::process::calls::{self, Caller, Inbox};
use export::{Exporter, Shared};
use survey::Survey;

pub(crate) use collector::Collected;
pub(crate) use export::Exported;
pub(crate) use top::TopFlows;

/// How long samples wait to be sent; section 4.1.2 of sFlow version 5 allows a second.
const TURN: Duration = Duration::from_millis(100);
/// Most samples a second.
const MOST: u32 = 10_000;
/// Samples a second that top flows need.
const ENOUGH: u64 = 1000;
/// The coarsest sampling for top flows.
const COARSEST: u64 = 1 << 16;
/// Octets behind a sample's header that are also copied: tags that Bora puts on.
const TAGS: usize = 8;
/// How long top flows are sampled after somebody looked at them.
const INTEREST: Duration = Duration::from_secs(5);

/// The sampling of a running Bora.
#[derive(Default)]
pub(crate) struct Sampling {
    running: Option<Running>,
    /// When somebody last looked at the top flows.
    looked: Option<Instant>,
    /// Why there is none though there should be.
    trouble: Option<String>,
}

/// What is sampled for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Purpose {
    /// Collectors.
    Collectors(SflowSection),
    /// Top flows, with one packet in this many.
    TopFlows(u32),
}

struct Running {
    purpose: Purpose,
    /// Number of the watch.
    number: u64,
    questions: Inbox<DataPlane>,
    top: Arc<Mutex<TopFlows>>,
    exported: Shared,
}

impl Purpose {
    fn one_in(&self) -> u32 {
        match self {
            Self::Collectors(section) => section.sampling,
            Self::TopFlows(one_in) => *one_in,
        }
    }

    /// Octets of each packet that are copied when its way is known.
    fn snap(&self) -> usize {
        match self {
            Self::Collectors(section) => section.header + TAGS,
            Self::TopFlows(_) => 0,
        }
    }
}

impl Sampling {
    /// Somebody looks at the top flows.
    pub(crate) fn look(&mut self) {
        self.looked = Some(Instant::now());
    }

    /// Starts, changes and ends the sampling. `received`: packets in the last second.
    pub(crate) fn follow(
        &mut self,
        plane: &mut DataPlane,
        watches: &mut Watches,
        section: &SflowSection,
        received: u64,
    ) {
        let wanted = self.wanted(section, received);
        let running = self.running.as_ref().map(|running| &running.purpose);
        if running == wanted.as_ref() {
            return;
        }
        // a change goes on with the flows that are known
        let before = self.running.take();
        if let Some(running) = &before {
            watches.end(plane, running.number);
        }
        let top = before.map(|running| running.top);
        let started = wanted.map(|wanted| Running::start(wanted, top, plane, watches));
        let trouble = match started.transpose() {
            Ok(running) => {
                self.running = running;
                None
            }
            Err(why) => Some(why),
        };
        if let Some(why) = trouble.as_ref().filter(|_| self.trouble != trouble) {
            log::warn!("nothing is sampled: {why}");
        }
        self.trouble = trouble;
    }

    fn wanted(&self, section: &SflowSection, received: u64) -> Option<Purpose> {
        if !section.collector.is_empty() {
            return Some(Purpose::Collectors(section.clone()));
        }
        let is_looked_at = self.looked.is_some_and(|last| last.elapsed() < INTEREST);
        let now = match self.running.as_ref().map(|running| &running.purpose) {
            Some(Purpose::TopFlows(one_in)) => Some(*one_in),
            _ => None,
        };
        is_looked_at.then(|| Purpose::TopFlows(one_in(received, now)))
    }

    /// Answers what the thread asks, one thing at a time, without waiting. To be called again and again.
    pub(crate) fn answer(&mut self, plane: &mut DataPlane) {
        if let Some(running) = &mut self.running {
            running.questions.serve(plane);
        }
    }

    /// One packet in this many is sampled; `None`: none.
    pub(crate) fn one_in(&self) -> Option<u32> {
        let running = self.running.as_ref()?;
        Some(running.purpose.one_in())
    }

    /// The flows with the most traffic; `None` if nothing is sampled.
    pub(crate) fn top(&self) -> Option<MutexGuard<'_, TopFlows>> {
        let running = self.running.as_ref()?;
        Some(lock(&running.top))
    }

    /// What became of samples for collectors; `None` if there are no collectors.
    pub(crate) fn exported(&self) -> Option<Exported> {
        let running = self.running.as_ref()?;
        let is_exported = matches!(running.purpose, Purpose::Collectors(_));
        is_exported.then(|| lock(&running.exported).clone())
    }

    /// Why nothing is sampled though it should be.
    pub(crate) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }
}

/// Which sampling gives about [`ENOUGH`] samples: a power of two. It stays as it is while it gives up to four times as
/// many or as few.
fn one_in(received: u64, now: Option<u32>) -> u32 {
    let best = (received / ENOUGH).next_power_of_two().min(COARSEST) as u32;
    match now {
        Some(now) if now / 4 <= best && best / 4 <= now => now,
        _ => best,
    }
}

impl Running {
    fn start(
        purpose: Purpose,
        top: Option<Arc<Mutex<TopFlows>>>,
        plane: &mut DataPlane,
        watches: &mut Watches,
    ) -> Result<Self, String> {
        let wanted = Wanted {
            filter: Filter::everything(),
            one_in: purpose.one_in(),
            snap: purpose.snap(),
            rate: MOST,
            port: None,
        };
        let view = watches.start(plane, wanted)?;
        let (caller, questions) = calls::channel(plane.waker());
        let top = top.unwrap_or_else(|| Arc::new(Mutex::new(TopFlows::new(Instant::now()))));
        let section = match &purpose {
            Purpose::Collectors(section) => Some(section.clone()),
            Purpose::TopFlows(_) => None,
        };
        let exported = section.as_ref().map(Exported::new).unwrap_or_default();
        let exported = Shared::new(Mutex::new(exported));
        let exporter =
            section.map(|section| Exporter::new(section, view.lost.clone(), exported.clone()));
        let thread = Thread {
            seen: view.seen,
            one_in: purpose.one_in(),
            top: top.clone(),
            exporter,
            caller,
        };
        let spawned = std::thread::Builder::new()
            .name("bora-samples".into())
            .spawn(move || {
                bora_confine::thread(bora_confine::NONE);
                thread.run();
            });
        if let Err(error) = spawned {
            watches.end(plane, view.number);
            return Err(format!("no thread for it: {error}"));
        }
        Ok(Self {
            purpose,
            number: view.number,
            questions,
            top,
            exported,
        })
    }
}

/// What makes something of the samples, until the watch ends.
struct Thread {
    seen: Receiver<bora_capture::Seen>,
    one_in: u32,
    top: Arc<Mutex<TopFlows>>,
    exporter: Option<Exporter>,
    caller: Caller<DataPlane>,
}

impl Thread {
    fn run(mut self) {
        while self.turn().is_some() {
            std::thread::sleep(TURN);
        }
    }

    /// `None` when it is over.
    fn turn(&mut self) -> Option<()> {
        let mut seen = Vec::new();
        loop {
            match self.seen.try_recv() {
                Ok(one) => seen.push(one),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return None,
            }
        }
        let mut top = lock(&self.top);
        top.add(&seen, self.one_in, Instant::now());
        drop(top);
        let Some(exporter) = &mut self.exporter else {
            return Some(());
        };
        let caller = &self.caller;
        exporter.turn(&seen, |questions, counters| {
            let look = move |plane: &mut DataPlane| Survey::take(plane, &questions, counters);
            caller.ask("samples", look)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sampling_follows_the_traffic_slowly() {
        assert_eq!(one_in(0, None), 1);
        assert_eq!(one_in(1_000_000, None), 1024);
        assert_eq!(one_in(u64::MAX, None), 1 << 16);
        assert_eq!(one_in(3_000_000, Some(1024)), 1024);
        assert_eq!(one_in(9_000_000, Some(1024)), 16_384);
        assert_eq!(one_in(100_000, Some(1024)), 128);
        assert_eq!(one_in(0, Some(4)), 4);
    }
}
