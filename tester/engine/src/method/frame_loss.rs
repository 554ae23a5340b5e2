//! Loss at loads from the highest one downwards, until two in turn lose nothing (RFC 2544, 26.3).

use super::statistics::Named;
use super::{Context, percent};

pub(super) fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let step = context.options.step.clamp(0.01, 1.0);
    // the whole load first, and then down as long as any is left
    let steps = ((1.0 / step - 1e-6).ceil() as u32).max(1);
    let mut without_loss = 0;
    for left in (1..=steps).rev() {
        let share = 1.0 - f64::from(steps - left) * step;
        let rate = context.limit.rate * share;
        let spec = context.steady("loss curve", rate, context.options.time);
        let done = context.trial(&spec, context.options.time * left)?;
        let goal = format!("load {} % of {}", percent(share), context.whole());
        let loss = done.trial.counts().loss_ratio() * 100.0;
        let named = Named::new("frame loss", &goal, "%", Some(false));
        let finding = context.measured(&named, &[done], |_| Some(loss));
        context.find(finding);
        without_loss = if loss == 0.0 { without_loss + 1 } else { 0 };
        if without_loss == 2 {
            break;
        }
    }
    Ok(())
}
