//! The papers' experiments.

use std::process::ExitCode;

use bora_papers::{Outcome, Verdict};

use crate::arguments::LabRunOptions;
use bora_terminal::{remark, say};

pub(crate) fn run(options: &LabRunOptions) -> anyhow::Result<ExitCode> {
    let what = bora_papers::Options {
        names: options.names.clone(),
        short: !options.full,
        ports: options.ports.clone(),
    };
    let outcomes = bora_papers::run(&what, show)?;
    if let Some(folder) = &options.output {
        let typed: Vec<String> = std::env::args().skip(1).collect();
        bora_papers::write(&outcomes, folder, &format!("bora-lab {}", typed.join(" ")))?;
        remark(format_args!("wrote {}", folder.join("papers.md").display()));
    }
    let is_bad = |outcome: &Outcome| outcome.verdict == Some(Verdict::Fails);
    Ok(match outcomes.iter().any(is_bad) {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

fn show(outcome: &Outcome) -> anyhow::Result<()> {
    let experiment = &outcome.experiment;
    say!("{}: {}", experiment.name, experiment.title)?;
    for (what, result) in &experiment.theirs {
        say!("  the paper   {what}: {result}")?;
    }
    for check in &outcome.checks {
        let name = bora_papers::verdict(Some(check.verdict));
        say!("  {name:<12}{}: {}", check.what, check.found)?;
    }
    match &outcome.problem {
        Some(problem) => say!("  {}: {problem}", bora_papers::verdict(outcome.verdict))?,
        None if outcome.checks.is_empty() => say!("  ours        {}", experiment.note)?,
        None => {}
    }
    Ok(())
}
