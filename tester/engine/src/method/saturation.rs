//! What is forwarded at certain loads, the highest one if none is given: the mean of several runs
//! (Bianco05: five of 30 s).

use super::{Context, percent};

pub(super) fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let loads = loads(context);
    let count = context.options.trials.max(1);
    let mut left = loads.len() as u32 * count;
    for (goal, rate) in loads {
        if !context.can_send(rate) {
            left -= count;
            continue;
        }
        let mut trials = Vec::new();
        for _ in 0..count {
            let spec = context.steady("saturation", rate, context.options.time);
            trials.push(context.trial(&spec, context.options.time * left)?);
            left -= 1;
        }
        context.forwarded("saturation throughput", &goal, rate, &trials);
    }
    Ok(())
}

/// Names of loads, and frames a second of each port.
fn loads(context: &Context<'_>) -> Vec<(String, f64)> {
    let (options, most) = (&context.options, context.limit.rate);
    let rates = options.rates.iter();
    let rates = rates.map(|&rate| (format!("{rate:.0} frames/s a port"), rate));
    let share = |&share: &f64| {
        let name = format!("load {} % of {}", percent(share), context.whole());
        (name, share * most)
    };
    let all: Vec<_> = rates.chain(options.loads.iter().map(share)).collect();
    match all.is_empty() {
        true => vec![share(&1.0)],
        false => all,
    }
}
