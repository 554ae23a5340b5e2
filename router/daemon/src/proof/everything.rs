//! `bora prove`: a thread of its own asks about everything, at the lowest priority.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use bora_linux::lock;
use bora_mirror::RoutePlace;
use bora_prove::{Difference, Input, Progress, Walk};
use serde::{Deserialize, Serialize};

use super::facts::{Facts, asker};
use crate::answers::Proved;
use crate::process::calls::Caller;
use crate::process::threads::in_background;
use crate::router::Router;

/// How long the tables of workers are good for; what differs is asked about again for longer.
const FRESH: Duration = Duration::from_millis(200);
/// How often a paused proof looks whether it is to go on.
const PAUSE: Duration = Duration::from_millis(100);

/// The proof of all answers: the one that runs, or the last one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Proofs(Arc<Mutex<Option<Job>>>);

/// What a proof shall be.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct ProofOptions {
    /// Only packets that come in by this port or device.
    input: Option<String>,
    /// Begin anew, and do not go on with the one that was paused.
    #[serde(default)]
    anew: bool,
    /// Pause the one that runs.
    #[serde(default)]
    pause: bool,
}

/// How a proof stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// It asks.
    #[default]
    Running,
    /// It waits until it is to go on.
    Paused,
    /// All is asked.
    Done,
    /// It could not go on.
    Failed,
    /// Another one takes its place.
    Replaced,
}

/// What a proof has found.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Proof {
    state: State,
    /// Why it has failed.
    why: Option<String>,
    /// Names of what packets come in by.
    inputs: Vec<String>,
    /// Seconds that it took, without pauses.
    seconds: f64,
    /// How far it is.
    progress: Progress,
    /// The first hundred differences.
    differences: Vec<Difference>,
}

#[derive(Clone, Debug, Default)]
struct Job(Arc<Mutex<Proof>>);

impl Proofs {
    /// Starts a proof, goes on with a paused one, or pauses one.
    ///
    /// # Errors
    /// What cannot be done, and why.
    pub(crate) fn order(
        &self,
        calls: &Caller<Router>,
        options: ProofOptions,
    ) -> Result<(), String> {
        let mut job = lock(&self.0);
        if let Some(Job(proof)) = &*job {
            let mut proof = lock(proof);
            let goes_on = match (proof.state, options.pause) {
                (State::Running, true) => Some(State::Paused),
                (State::Running | State::Paused, false) if !options.anew => Some(State::Running),
                _ => None,
            };
            if let Some(state) = goes_on {
                proof.state = state;
                return Ok(());
            }
            if matches!(proof.state, State::Running | State::Paused) && !options.pause {
                proof.state = State::Replaced;
            }
        }
        if options.pause {
            return Err("no proof runs".into());
        }
        let new = Job::default();
        let (calls, this) = (calls.clone(), new.clone());
        in_background("bora-prove", move || {
            this.run(&calls, options.input.as_deref());
        })?;
        *job = Some(new);
        Ok(())
    }

    /// What the last proof has found; `None` if there was none.
    pub(crate) fn last(&self) -> Option<Proof> {
        let job = lock(&self.0);
        job.as_ref().map(|Job(proof)| lock(proof).clone())
    }
}

impl Job {
    fn run(&self, calls: &Caller<Router>, input: Option<&str>) {
        let ended = self.walk(calls, input);
        let Some(answers) = calls.ask("who reports proofs", |router| router.linux.clone()) else {
            return;
        };
        let mut proof = lock(&self.0);
        match ended {
            Ok(()) if proof.state == State::Running => {
                proof.state = State::Done;
                let proved = Proved {
                    compared: proof.progress.compared,
                    differ: proof.progress.differ,
                    ended: Instant::now(),
                };
                answers.note(|watched| watched.proof = Some(proved));
            }
            Ok(()) => {}
            Err(why) => {
                proof.state = State::Failed;
                proof.why = Some(why);
            }
        }
    }

    fn walk(&self, calls: &Caller<Router>, input: Option<&str>) -> Result<(), String> {
        let stopping = || String::from("Bora is stopping");
        let facts = Facts::of(calls).ok_or_else(stopping)?.for_linux();
        let chosen = chosen(&facts.inputs, input)?;
        let names = chosen.iter().map(|&place| facts.inputs[place].name.clone());
        lock(&self.0).inputs = names.collect();
        let began = Instant::now();
        let prefixes = prefixes(calls).ok_or_else(stopping)?;
        let asker = asker(calls, facts).ok_or_else(stopping)?;
        let walk = asker.and_then(|asker| Walk::new(asker, &chosen, &prefixes));
        let mut walk = walk.map_err(|error| error.to_string())?;
        let (mut read, mut paused) = (Instant::now(), Duration::ZERO);
        loop {
            if read.elapsed() > FRESH {
                let tables = |router: &mut Router| {
                    let plane = &router.plane;
                    let caught_up = plane.mirror().caught_up();
                    (plane.tables(router.in_force.file()), caught_up)
                };
                let (tables, caught_up) = calls.ask("what decides", tables).ok_or_else(stopping)?;
                walk.adopt_tables(tables, caught_up);
                read = Instant::now();
            }
            let more = walk.step().map_err(|error| error.to_string())?;
            let seconds = (began.elapsed() - paused).as_secs_f64();
            let state = self.note(&walk, seconds);
            match state {
                State::Running if more => {}
                State::Paused => paused += self.pause(),
                _ => return Ok(()),
            }
        }
    }

    /// Notes what was found; returns what is to be done.
    fn note(&self, walk: &Walk, seconds: f64) -> State {
        let mut proof = lock(&self.0);
        proof.progress.clone_from(walk.asker().progress());
        if proof.differences.len() != walk.asker().differences().len() {
            proof.differences = walk.asker().differences().to_vec();
        }
        proof.seconds = seconds;
        proof.state
    }

    /// Waits until it is not paused any more; returns how long that was.
    fn pause(&self) -> Duration {
        let began = Instant::now();
        while lock(&self.0).state == State::Paused {
            thread::sleep(PAUSE);
        }
        began.elapsed()
    }
}

/// Places of the inputs to ask about.
fn chosen(all: &[Input], name: Option<&str>) -> Result<Vec<usize>, String> {
    let Some(name) = name else {
        return Ok((0..all.len()).collect());
    };
    let found: Vec<usize> = { 0..all.len() }
        .filter(|&place| all[place].name == name)
        .collect();
    match found.is_empty() {
        true => Err(format!(
            "{name} is neither a port nor a device on one: see `bora show ports`"
        )),
        false => Ok(found),
    }
}

/// All prefixes of the FIB; `None` if the control loop has ended.
fn prefixes(calls: &Caller<Router>) -> Option<Vec<(IpAddr, u8)>> {
    let (mut place, mut all) = (RoutePlace::default(), Vec::new());
    loop {
        let part = calls.ask("prefixes of the FIB", move |router| {
            let (mut place, mut found) = (place, Vec::new());
            let mirror = router.plane.mirror();
            let more = mirror.some_prefixes(&mut place, &mut |address, length| {
                found.push((address, length));
            });
            (place, found, more)
        });
        let (next, found, more) = part?;
        all.extend(found);
        if !more {
            return Some(all);
        }
        place = next;
    }
}
