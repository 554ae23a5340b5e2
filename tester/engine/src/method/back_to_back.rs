//! The longest burst of frames at the highest load that comes through whole (RFC 2544, 26.4), and
//! the time that the router's buffers hold (RFC 9004).

use std::time::Duration;

use super::context::Done;
use super::statistics::{Named, deviation, mean};
use super::{Context, throughput};
use crate::result::Finding;
use crate::trial::{Step, TrialSpec};

/// How close a burst length is searched, of the length.
const WIDTH: f64 = 0.01;
/// Shortest burst that is tried, frames.
const SHORTEST: u64 = 2;
/// A burst may take this much longer than it should, and is tried `ATTEMPTS` times, before it counts as not
/// sent.
const LATE: f64 = 1.05;
const PAUSE: Duration = Duration::from_millis(2);
const ATTEMPTS: u32 = 10;

/// What is found.
const BURST: Named<'_> = Named {
    metric: "longest burst",
    goal: "of each port",
    unit: "frames",
    more_is_better: Some(true),
};

pub(super) fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let bursts_of = context.options.time;
    context.options.time = context.options.sum_time;
    let reference = throughput::reference(context)?;
    context.options.time = bursts_of;
    let Some(throughput) = reference else {
        return Ok(());
    };
    let rate = context.limit.rate;
    let most = (rate * context.options.time.as_secs_f64()) as u64;
    let (mut bursts, mut records) = (Vec::new(), Vec::new());
    for left in (1..=context.options.trials.max(1)).rev() {
        let about = bursts.last().copied();
        match longest(context, rate, most.max(SHORTEST), about, left)? {
            Some((burst, record)) => {
                bursts.push(burst);
                records.push(record);
            }
            None => return Ok(()),
        }
    }
    if bursts.iter().all(|&burst| burst >= most) {
        context.note(format!(
            "back to back: bursts of {most} frames, the longest that were tried, come through: \
             the router keeps up with the load, and its buffers do not show"
        ));
        return Ok(());
    }
    let frames: Vec<f64> = bursts.iter().map(|&burst| burst as f64).collect();
    context.note(format!(
        "back to back: bursts of {} to {} frames, standard deviation {:.1}, in {} repetitions",
        bursts.iter().min().unwrap_or(&0),
        bursts.iter().max().unwrap_or(&0),
        deviation(&frames),
        bursts.len()
    ));
    // RFC 9004, 6.4: while the burst comes, the router forwards at its throughput
    let times: Vec<f64> = frames
        .iter()
        .map(|burst| burst / rate * (1.0 - throughput.rate / rate).max(0.0) * 1e3)
        .collect();
    let mut find = |named, samples| {
        context.find(Finding {
            trials: records.clone(),
            ..mean(&named, samples)
        });
    };
    find(BURST, frames);
    if throughput.name == "throughput" {
        find(Named::new("buffer time", "corrected", "ms", None), times);
    }
    Ok(())
}

/// The longest burst without loss, by halving, and the record of its trial; `None`, and a note, if there
/// is none.
fn longest(
    context: &mut Context<'_>,
    rate: f64,
    most: u64,
    about: Option<u64>,
    left: u32,
) -> anyhow::Result<Option<(u64, usize)>> {
    let (mut good, mut bad, mut record) = (0, most + 1, 0);
    // it only bounds the result until the router loses frames of a shorter one
    let mut unsent = None;
    let mut next = about.unwrap_or(most);
    while bad - good > ((good as f64 * WIDTH) as u64).max(1) {
        let done = burst(context, rate, next, left)?;
        match (done.valid(), done.trial.counts().lost()) {
            (false, _) => (bad, unsent) = (next, Some(next)),
            (true, 0) => (good, record) = (next, done.record),
            (true, _) => (bad, unsent) = (next, None),
        }
        if good >= most || bad <= SHORTEST {
            break;
        }
        let near = ((next as f64 * 4.0 * WIDTH) as u64).max(1);
        next = match about {
            // beside the last result first
            Some(about) if next == about && good == about => (about + near).min(bad - 1),
            Some(about) if next == about => about.saturating_sub(near).max(good + 1),
            _ => good + (bad - good) / 2,
        }
        .max(SHORTEST);
    }
    if let Some(frames) = unsent {
        not_sent(context, frames);
        return Ok(None);
    }
    if good == 0 {
        context.note("back to back: not even two frames in a row came through");
    }
    Ok((good > 0).then_some((good, record)))
}

fn not_sent(context: &mut Context<'_>, frames: u64) {
    let reason = format!("the tester could not send {frames} frames without a pause");
    context.note(format!("back to back: {reason}"));
    context.find(Finding {
        valid: false,
        reason,
        ..mean(&BURST, Vec::new())
    });
}

/// A burst; not valid if it could not be sent as one.
fn burst(context: &mut Context<'_>, rate: f64, length: u64, left: u32) -> anyhow::Result<Done> {
    let time = Duration::from_secs_f64(length as f64 / rate);
    let most = time.mul_f64(LATE) + PAUSE;
    let spec = TrialSpec {
        // room for frames that leave late
        steps: vec![Step {
            rate,
            time: most * 2,
        }],
        limit: Some(length),
        ..context.steady("burst", rate, time)
    };
    let remaining = context.options.time * left;
    context.trial_within(&spec, most, ATTEMPTS, remaining)
}
