//! Forwarding rates of meshes (RFC 2889, 5.1, 5.2 and 5.4): at the maximum offered load, and the highest
//! at any load.

use super::statistics::{average, mean};
use super::{Context, percent};

/// Loads that are tried for the highest forwarding rate, of the maximum offered load.
const LOADS: u32 = 10;

pub(super) fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let time = context.options.time;
    let count = context.options.trials.max(1);
    let mut best: Option<(f64, Vec<f64>)> = None;
    for tenth in (1..=LOADS).rev() {
        let share = f64::from(tenth) / f64::from(LOADS);
        let rate = context.limit.rate * share;
        let mut samples = Vec::new();
        for left in (1..=count).rev() {
            let spec = context.steady("forwarding", rate, time);
            let done = context.trial(&spec, time * (left + count * (tenth - 1)))?;
            if !done.valid {
                context.note("forwarding: the tester could not keep all loads up");
            }
            samples.push(done.trial.received_rate());
        }
        if tenth == LOADS {
            let whole = context.whole();
            let metric = "forwarding rate at maximum offered load";
            let mut finding = mean(metric, whole, "frames/s", samples.clone());
            finding.more_is_better = Some(true);
            context.find(finding);
        }
        let rate_of = |samples: &[f64]| average(samples).unwrap_or(0.0);
        if best
            .as_ref()
            .is_none_or(|(_, best)| rate_of(&samples) > rate_of(best))
        {
            best = Some((share, samples));
        }
        if rate_of(&samples_of(&best)) > context.limit.rate * share * context.senders() {
            // less cannot forward more
            break;
        }
    }
    if let Some((share, samples)) = best {
        let mut finding = mean("maximum forwarding rate", "", "frames/s", samples);
        finding.more_is_better = Some(true);
        context.find(finding);
        let whole = context.whole();
        context.note(format!(
            "the maximum forwarding rate is that at {} % of {whole}",
            percent(share)
        ));
    }
    Ok(())
}

fn samples_of(best: &Option<(f64, Vec<f64>)>) -> Vec<f64> {
    best.as_ref()
        .map_or_else(Vec::new, |(_, samples)| samples.clone())
}
