//! Carries experiments out, each work once.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Context, ensure};
use bora_fib_bench::results::Row;
use bora_tester::report::remark;

use crate::check::{Checked, Verdict};
use crate::paper::{Experiment, Paper, papers};
use crate::work::{Setup, Work};

/// What to run, and how.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Experiments, or papers; all if there are none.
    pub names: Vec<String>,
    /// Rounds of seconds, rather than as many and as long as the figures deserve.
    pub short: bool,
    /// Ports of the tester, as for `bora test run`: the router between them is tested instead of
    /// those of the lab.
    pub ports: Vec<String>,
}

/// What came out of an experiment.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its paper, without the other experiments.
    pub paper: Paper,
    /// What was to be shown.
    pub experiment: Experiment,
    /// Whether all of it holds; `None` if there is nothing to run.
    pub verdict: Option<Verdict>,
    /// What was checked.
    pub checks: Vec<Checked>,
    /// All results of its works.
    pub rows: Vec<Row>,
    /// What it ran on.
    pub on: Vec<String>,
    /// What was typed.
    pub commands: Vec<String>,
    /// Why it was not carried out, or what went wrong.
    pub problem: Option<String>,
}

/// What became of a work: its rows, an obstacle, or an error.
type Done = Result<Vec<Row>, (Verdict, String)>;

/// Carries experiments out and hands each to `each` when it is done.
///
/// # Errors
/// A name is no experiment's, or none of the experiments takes ports.
pub fn run(
    options: &Options,
    mut each: impl FnMut(&Outcome) -> anyhow::Result<()>,
) -> anyhow::Result<Vec<Outcome>> {
    let setup = Setup::new(options.ports.clone(), options.short)?;
    let mut done: BTreeMap<String, Done> = BTreeMap::new();
    let mut outcomes = Vec::new();
    let chosen = chosen(&options.names)?;
    ensure!(
        setup.ports.is_empty() || chosen.iter().any(|(_, it)| it.takes_ports()),
        "none of these experiments tests a router from outside, so none takes `--port`"
    );
    for (paper, experiment) in chosen {
        let works = experiment.works()?;
        for (name, work) in &works {
            if !done.contains_key(*name) {
                let rows = carry_out(name, work, &setup);
                done.insert((*name).to_string(), rows);
            }
        }
        let results = works.iter().map(|(name, _)| &done[*name]);
        let works: Vec<&Work> = works.iter().map(|(_, work)| *work).collect();
        let outcome = judge(paper, experiment.clone(), &works, results, &setup);
        each(&outcome)?;
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

/// Experiments of these names, in the papers' order.
fn chosen(names: &[String]) -> anyhow::Result<Vec<(Paper, Experiment)>> {
    let mut chosen = Vec::new();
    let mut known = vec![false; names.len()];
    for mut paper in papers()? {
        for experiment in std::mem::take(&mut paper.experiments) {
            let mut is_chosen = names.is_empty();
            for (name, known) in names.iter().zip(&mut known) {
                if *name == experiment.name || *name == paper.name {
                    (is_chosen, *known) = (true, true);
                }
            }
            if is_chosen {
                chosen.push((paper.clone(), experiment));
            }
        }
    }
    let unknown = names.iter().zip(known).find(|(_, known)| !known);
    let unknown = unknown.map(|(name, _)| name.as_str()).unwrap_or_default();
    ensure!(
        unknown.is_empty(),
        "`{unknown}` is no experiment and no paper; `bora lab list` names them"
    );
    Ok(chosen)
}

fn carry_out(name: &str, work: &Work, setup: &Setup) -> Done {
    if let Some(obstacle) = work.obstacle(setup) {
        return Err((Verdict::NotHere, obstacle));
    }
    remark(format_args!("bora: {name} on {} …", work.on(setup)));
    let start = Instant::now();
    let rows = work.carry_out(setup);
    remark(format_args!(
        "bora: {name}: {:.0} s",
        start.elapsed().as_secs_f64()
    ));
    rows.map_err(|error| (Verdict::Fails, format!("{error:#}")))
}

fn judge<'a>(
    paper: Paper,
    experiment: Experiment,
    works: &[&Work],
    results: impl Iterator<Item = &'a Done>,
    setup: &Setup,
) -> Outcome {
    let mut outcome = Outcome {
        paper,
        verdict: None,
        checks: Vec::new(),
        rows: Vec::new(),
        on: works.iter().map(|work| work.on(setup)).collect(),
        commands: works.iter().flat_map(|work| work.commands(setup)).collect(),
        problem: None,
        experiment,
    };
    outcome.on.dedup();
    for result in results {
        match result {
            Ok(rows) => outcome.rows.extend(rows.iter().cloned()),
            Err((verdict, problem)) => {
                (outcome.verdict, outcome.problem) = (Some(*verdict), Some(problem.clone()));
                return outcome;
            }
        }
    }
    let checks = outcome.experiment.holds.iter();
    let checks: anyhow::Result<Vec<Checked>> = checks
        .map(|hold| hold.check(&outcome.rows, setup.short))
        .collect();
    match checks.with_context(|| outcome.experiment.name.clone()) {
        Ok(checks) => {
            let worst = checks.iter().find(|check| check.verdict != Verdict::Holds);
            let verdict = worst.map_or(Verdict::Holds, |check| check.verdict);
            outcome.verdict = Some(verdict).filter(|_| !works.is_empty());
            outcome.checks = checks;
        }
        Err(error) => {
            (outcome.verdict, outcome.problem) = (Some(Verdict::Fails), Some(format!("{error:#}")));
        }
    }
    outcome
}
