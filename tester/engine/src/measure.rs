//! From a test of a plan to its method.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;

use crate::method::{Context, Limit, Method, Options};
use crate::plan::{Share, Time, Variant};
use crate::rate::Load;
use crate::report::Step;
use crate::result::Test;
use crate::router::{Changes, Device};
use crate::run::Job;
use crate::trial::{Bench, Hook};

/// Length of a search's first trials, where the plan says nothing.
const INITIAL: Duration = Duration::from_secs(1);

/// Carries out one test. What is found is in `test`, also if it ends early.
///
/// # Errors
/// See [`Method::run`]; or the plan does not say how to act on the router.
pub fn measure(
    bench: &mut dyn Bench,
    device: &Device,
    job: &Job<'_>,
    test: &mut Test,
    progress: &mut dyn FnMut(&Step<'_>),
) -> anyhow::Result<()> {
    let changes = Arc::new(Changes::default());
    let time = time_of(&job.test.time, job).unwrap_or(Options::default().time);
    let options = options(job, time, hook(device, job, time, &changes)?);
    let mut context = Context {
        bench,
        traffic: job.case.traffic.clone(),
        ports: job.ports,
        limit: limit(job),
        options,
        progress,
        stop: job.stop,
        test: std::mem::take(test),
    };
    let done = job.test.method.run(&mut context);
    *test = context.test;
    test.notes.extend(changes.note());
    done
}

/// The tester's own limit, or that of the links.
fn limit(job: &Job<'_>) -> Limit {
    let nominal = crate::rate::line_rate(job.speed, job.case.traffic.frames.mean());
    let rate = job.limit.unwrap_or(nominal);
    Limit {
        rate,
        by_tester: job.line_rate.is_none_or(|line| rate < line),
    }
}

fn time_of(time: &Option<Variant<Time>>, job: &Job<'_>) -> Option<Duration> {
    time.as_ref().map(|time| time.pick(job.length).0)
}

/// What the method is told; `time` is that of a trial.
fn options(job: &Job<'_>, time: Duration, hook: Option<Hook>) -> Options {
    let (test, usual) = (job.test, Options::default());
    let shares = |shares: &Option<Vec<Share>>| {
        let shares = shares.iter().flatten();
        shares.map(|share| share.0).collect::<Vec<f64>>()
    };
    let frame = job.case.traffic.frames.mean();
    let frames = |load: &Load| load.frames(job.speed, frame);
    let width = test.width.as_ref().map(|width| width.pick(job.length).0);
    let trials = test.trials.as_ref().map(|trials| trials.pick(job.length));
    Options {
        search: test.search.unwrap_or_default(),
        losses: match shares(&test.loss) {
            losses if losses.is_empty() => usual.losses,
            losses => losses,
        },
        exceed: test.exceed.map_or(usual.exceed, |share| share.0),
        width: width.unwrap_or(usual.width),
        time,
        initial_time: time_of(&test.initial_time, job).unwrap_or(INITIAL.min(time)),
        sum_time: time_of(&test.sum_time, job).unwrap_or(time),
        trials: trials.unwrap_or(usual.trials),
        loads: shares(&test.loads),
        rates: test.rates.iter().flatten().map(frames).collect(),
        rate: test.rate.as_ref().map(frames),
        step: test.step.map_or(usual.step, |step| step.0),
        burst: test.burst.unwrap_or(usual.burst),
        settle: job.settle,
        hook,
    }
}

/// What the method does to the router meanwhile.
fn hook(
    device: &Device,
    job: &Job<'_>,
    time: Duration,
    changes: &Arc<Changes>,
) -> anyhow::Result<Option<Hook>> {
    let missing = |what: &str| format!("[router] has no `{what}` (or --{what})");
    Ok(Some(match job.test.method {
        Method::Reset => device.reset().with_context(|| missing("reset"))?,
        Method::Outage => device.restart().with_context(|| missing("restart"))?,
        Method::Churn => {
            let port = job.case.traffic.streams.first().map(|stream| stream.to);
            let via: Option<IpAddr> = port.and_then(|port| *job.via.get(port)?);
            let via = via.context("the port has no address for routes to lead to")?;
            device.churn(via, time, changes.clone())?
        }
        _ => return Ok(None),
    }))
}
