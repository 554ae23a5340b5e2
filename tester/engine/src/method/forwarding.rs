//! Forwarding rates of meshes (RFC 2889, 5.1, 5.2 and 5.4): at the maximum offered load, and the highest
//! at any load.

use super::context::Done;
use super::statistics::average;
use super::{Context, percent};

/// Loads that are tried for the highest forwarding rate, of the maximum offered load.
const LOADS: u32 = 10;

pub(super) fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let time = context.options.time;
    let count = context.options.trials.max(1);
    let mut best: Option<(f64, f64, Vec<Done>)> = None;
    for tenth in (1..=LOADS).rev() {
        let share = f64::from(tenth) / f64::from(LOADS);
        let rate = context.limit.rate * share;
        if best
            .as_ref()
            .is_some_and(|(most, ..)| *most > rate * context.senders())
        {
            // less cannot forward more
            break;
        }
        let mut trials = Vec::new();
        for left in (1..=count).rev() {
            let spec = context.steady("forwarding", rate, time);
            trials.push(context.trial(&spec, time * (left + count * (tenth - 1)))?);
        }
        let valid = trials.iter().filter(|done| done.valid());
        let rates: Vec<f64> = valid.map(|done| done.trial.received_rate()).collect();
        let forwarded = average(&rates).unwrap_or(0.0);
        if tenth == LOADS {
            let metric = "forwarding rate at maximum offered load";
            context.forwarded(metric, context.whole(), rate, &trials);
        }
        if best.as_ref().is_none_or(|(most, ..)| forwarded > *most) {
            best = Some((forwarded, share, trials));
        }
    }
    if let Some((_, share, trials)) = best {
        let rate = context.limit.rate * share;
        context.forwarded("maximum forwarding rate", "", rate, &trials);
        let whole = context.whole();
        context.note(format!(
            "the maximum forwarding rate is that at {} % of {whole}",
            percent(share)
        ));
    }
    Ok(())
}
