//! A few questions a second to Linux, as long as Bora runs: about what has just changed, and about a little of everything.

use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use bora_mirror::RoutePlace;
use bora_prove::{Asker, Difference, ProveError, Question};

use super::distrust::Distrust;
use super::facts::{Facts, asker};
use crate::answers::Answers;
use crate::live::report::{EventKind, Severity};
use crate::process::calls::Caller;
use crate::router::Router;

/// Time between two rounds of questions.
const PERIOD: Duration = Duration::from_millis(250);
/// Prefixes of a round, each asked about three times: some that have changed, some of all.
const CHANGED: usize = 6;
const ANY: usize = 2;
/// Has Linux asked from now on, a few times a second, whether it does what Bora does, in a thread that ends with the control loop.
///
/// # Errors
/// There can be no more threads.
pub fn watch_linux(router: &Router, calls: Caller<Router>) -> anyhow::Result<()> {
    let answers = router.linux.clone();
    let run = move || {
        bora_confine::thread(bora_confine::KERNEL);
        let asking = Asking {
            calls,
            answers: answers.clone(),
            place: RoutePlace::default(),
            distrust: Distrust::default(),
            left: Vec::new(),
        };
        if let Err(why) = asking.run() {
            log::error!("Linux cannot be asked any more whether it does what Bora does: {why}");
            answers.note(|watched| watched.why = Some(why.to_string()));
        }
    };
    let thread = thread::Builder::new().name("bora-judge".into());
    thread.spawn(run).context("cannot start a thread")?;
    Ok(())
}

struct Asking {
    calls: Caller<Router>,
    answers: Answers,
    /// Where the next of all prefixes are.
    place: RoutePlace,
    distrust: Distrust,
    /// What was left to Linux after the last round.
    left: Vec<(IpAddr, u8)>,
}

/// What a round is about.
struct Round {
    facts: Facts,
    place: RoutePlace,
    prefixes: Vec<(IpAddr, u8)>,
}

impl Asking {
    /// Asks until the control loop has ended.
    fn run(mut self) -> Result<(), ProveError> {
        let Some(facts) = Facts::of(&self.calls) else {
            return Ok(());
        };
        let Some(asker) = asker(&self.calls, facts) else {
            return Ok(());
        };
        let mut asker = asker?;
        loop {
            thread::sleep(PERIOD);
            let place = self.place;
            let round = self
                .calls
                .ask("questions for Linux", move |router| round(router, place));
            let Some(round) = round else {
                return Ok(());
            };
            self.place = round.place;
            let facts = round.facts;
            asker.adopt(facts.inputs, facts.tables, facts.caught_up);
            let questions = questions(&asker, &round.prefixes);
            asker.ask(&questions)?;
            let found = asker.take_differences();
            if !self.judge(found) {
                return Ok(());
            }
            let progress = asker.progress();
            self.answers.note(|watched| {
                watched.compared = progress.compared;
                watched.differ = progress.differ;
                watched.unsettled = progress.unsettled;
            });
        }
    }

    /// Leaves to Linux what differs, and tries again what differed before. False if the control loop has ended.
    fn judge(&mut self, found: Vec<Difference>) -> bool {
        let now = Instant::now();
        for difference in found {
            let (text, destination) = (difference.to_string(), difference.destination);
            let told = self.calls.ask("a difference", move |router| {
                let text =
                    format!("Bora does not do what Linux does, and leaves it to Linux: {text}");
                router.tell(Severity::Error, EventKind::Sync, &text);
                router.plane.mirror().longest_prefix(destination)
            });
            let Some(ours) = told else {
                return false;
            };
            let longest = [ours, difference.prefix].into_iter().flatten();
            let host = (destination, if destination.is_ipv6() { 128 } else { 32 });
            let prefix = longest.max_by_key(|(_, length)| *length).unwrap_or(host);
            self.distrust.add(prefix, now);
        }
        let left = self.distrust.now(now);
        if left == self.left {
            return true;
        }
        self.left.clone_from(&left);
        let names = left.iter();
        let names = names.map(|(address, length)| format!("{address}/{length}"));
        let names = names.collect();
        self.answers.note(|watched| watched.distrusted = names);
        let distrust = move |router: &mut Router| router.plane.distrust(&left);
        self.calls.ask("what is left to Linux", distrust).is_some()
    }
}

/// Takes some prefixes for a round.
fn round(router: &mut Router, mut place: RoutePlace) -> Round {
    let mut prefixes = router.plane.take_changed_prefixes();
    fastrand::shuffle(&mut prefixes);
    prefixes.truncate(CHANGED);
    let mut some = Vec::new();
    let mirror = router.plane.mirror();
    let more = mirror.some_prefixes(&mut place, &mut |address, length| {
        some.push((address, length));
    });
    if !more {
        place = RoutePlace::default();
    }
    prefixes.extend(fastrand::choose_multiple(some, ANY));
    Round {
        facts: Facts::now(router).for_linux(),
        place,
        prefixes,
    }
}

/// Questions about prefixes: their first and last address, and the one behind them. What they come in by is chosen at random.
fn questions(asker: &Asker, prefixes: &[(IpAddr, u8)]) -> Vec<Question> {
    let inputs = asker.inputs().len();
    if inputs == 0 {
        return Vec::new();
    }
    let ask = |&(address, length): &(IpAddr, u8)| {
        let template = asker.template(fastrand::usize(..inputs), address.is_ipv6());
        let ends = bora_prove::ends(address, length);
        ends.into_iter().map(move |destination| Question {
            destination,
            ..template
        })
    };
    prefixes.iter().flat_map(ask).collect()
}
