//! All experiments as a list, and as `papers.md` with a page each.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::Context;
use bora_tester::environment::environment;

use crate::check::{Verdict, verdict};
use crate::page::page;
use crate::paper::papers;
use crate::run::Outcome;

/// The experiments, a line each, for people.
///
/// # Errors
/// A file of a paper is wrong.
pub fn list() -> anyhow::Result<String> {
    let mut text = String::new();
    for paper in papers()? {
        let _ = writeln!(text, "{}", paper.reference);
        for experiment in &paper.experiments {
            let works = experiment.works()?;
            let on = works.first().map_or("-", |(_, work)| work.on.as_str());
            let _ = writeln!(
                text,
                "  {:<26}{:<34}{}",
                experiment.name, on, experiment.title
            );
        }
    }
    Ok(text)
}

/// Writes `papers.md` into the folder, and a page each into `papers/` below it.
///
/// # Errors
/// A file cannot be written.
pub fn write(outcomes: &[Outcome], folder: &Path, command: &str) -> anyhow::Result<()> {
    let pages = folder.join("papers");
    fs::create_dir_all(&pages).with_context(|| pages.display().to_string())?;
    let machine = environment();
    for outcome in outcomes {
        let path = pages.join(file(&outcome.experiment.name));
        fs::write(&path, page(outcome, &machine)?).with_context(|| path.display().to_string())?;
    }
    let path = folder.join("papers.md");
    fs::write(&path, summary(outcomes, command)).with_context(|| path.display().to_string())
}

fn file(name: &str) -> String {
    format!("{}.html", name.replace('/', "-"))
}

fn summary(outcomes: &[Outcome], command: &str) -> String {
    let count = |wanted| outcomes.iter().filter(|one| one.verdict == wanted).count();
    let mut text = format!(
        "# The papers, repeated\n\nBora comes from five papers. Each line that their texts give is here: what they found, \
         and what the same experiment shows\ntoday. Their figures are drawings and were not at hand; \
         all their numbers are from the text. Absolute rates cannot be compared\nover twenty years; what \
         must hold is what the paper found in kind.\n\nWritten by `{command}`. {} experiments: {} hold, {} do not, \
         {} cannot be repeated here, {} have nothing to run.\n\
         Each has a page with its figures, `papers/PAPER-EXPERIMENT.html` beside this file, wherever the command was typed.\n",
        outcomes.len(),
        count(Some(Verdict::Holds)),
        count(Some(Verdict::Fails)),
        count(Some(Verdict::NotHere)),
        count(None),
    );
    let mut paper = "";
    for outcome in outcomes {
        if outcome.paper.name != paper {
            paper = &outcome.paper.name;
            let _ = write!(
                text,
                "\n## {}\nMeasured on: {}.\n\n| experiment | the paper says | ours | |\n| --- | --- | --- | --- |\n",
                outcome.paper.reference, outcome.paper.machine
            );
        }
        let _ = writeln!(text, "{}", line(outcome));
    }
    text
}

fn line(outcome: &Outcome) -> String {
    let experiment = &outcome.experiment;
    let theirs = experiment.theirs.iter();
    let theirs: Vec<String> = theirs
        .map(|(what, result)| format!("{what}: {result}"))
        .collect();
    let checks = outcome.checks.iter();
    let mut ours: Vec<String> = checks
        .map(|check| match check.verdict {
            Verdict::Holds => format!("{}: {}", check.what, check.found),
            _ => format!("**{}: {}**", check.what, check.found),
        })
        .collect();
    ours.extend(outcome.problem.clone());
    if ours.is_empty() {
        ours.push(experiment.note.clone());
    }
    let cell = |parts: &[String]| parts.join("<br>").replace('|', "\\|").replace('\n', " ");
    let name = &experiment.name;
    format!(
        "| {}<br>{} | {} | {} | {} |",
        name.split('/').next_back().unwrap_or(name),
        experiment.title,
        cell(&theirs),
        cell(&ours),
        verdict(outcome.verdict)
    )
}
