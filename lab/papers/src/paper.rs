//! The papers, as `papers/*.toml` tell them.

use anyhow::{Context, ensure};
use serde::Deserialize;

use crate::check::Hold;
use crate::row::Pattern;
use crate::work::{Work, works};

/// One paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// Short name: `bianco05`.
    pub name: String,
    /// Authors, title, where it was published.
    pub reference: String,
    /// What it was measured on.
    pub machine: String,
    /// Its experiments, in the paper's order.
    #[serde(rename = "experiment")]
    pub experiments: Vec<Experiment>,
}

/// One of its experiments.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// `PAPER/NAME`, once it is read.
    pub name: String,
    /// What is asked.
    pub title: String,
    /// What the paper's text says: what was measured, and the result.
    pub theirs: Vec<(String, String)>,
    /// What ours differs in, or why there is nothing to run.
    pub note: String,
    /// Names of the works that carry it out.
    #[serde(default)]
    pub(crate) works: Vec<String>,
    /// Rows that its page shows; all that the plots and checks name are shown anyway.
    #[serde(default)]
    pub(crate) rows: Vec<String>,
    /// Its plots.
    #[serde(default, rename = "plot")]
    pub(crate) plots: Vec<Axes>,
    /// What must hold.
    #[serde(default)]
    pub(crate) holds: Vec<Hold>,
}

/// One plot: a line for each subject.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Axes {
    /// Above it.
    pub(crate) title: String,
    /// The axes' names.
    pub(crate) x: String,
    pub(crate) y: String,
    /// The rows; `*` is the place on the x axis.
    pub(crate) rows: String,
    /// Whether the x axis is logarithmic.
    #[serde(default)]
    pub(crate) log: bool,
    /// Points that the paper's text gives.
    #[serde(default)]
    pub(crate) theirs: Vec<(f64, f64)>,
}

impl Experiment {
    /// Rows that the page shows.
    pub(crate) fn patterns(&self) -> anyhow::Result<Vec<Pattern>> {
        let plots = self.plots.iter().map(|plot| &plot.rows);
        let all = self.rows.iter().chain(plots);
        all.map(|text| Pattern::new(text)).collect()
    }

    /// Its works, by name.
    pub(crate) fn works(&self) -> anyhow::Result<Vec<(&str, &'static Work)>> {
        let all = works()?;
        let named = self.works.iter().map(|name| {
            let work = all.get(name);
            let work = work.with_context(|| format!("{}: no work `{name}`", self.name))?;
            Ok((name.as_str(), work))
        });
        named.collect()
    }

    /// Whether a work of it tests a router from outside.
    pub(crate) fn takes_ports(&self) -> bool {
        let works = self.works().unwrap_or_default();
        works.iter().any(|(_, work)| work.takes_ports())
    }

    fn validate(&self) -> anyhow::Result<()> {
        self.patterns()?;
        self.holds.iter().try_for_each(Hold::validate)?;
        ensure!(!self.theirs.is_empty(), "it says nothing of the paper");
        ensure!(
            self.works()?.is_empty() == self.holds.is_empty(),
            "an experiment needs works and checks, or neither"
        );
        Ok(())
    }
}

/// All papers, by year.
///
/// # Errors
/// A file is wrong.
pub fn papers() -> anyhow::Result<Vec<Paper>> {
    let files = [
        include_str!("../papers/bianco05.toml"),
        include_str!("../papers/kth08.toml"),
        include_str!("../papers/bolla08.toml"),
        include_str!("../papers/hero09.toml"),
        include_str!("../papers/pels07.toml"),
    ];
    files.into_iter().map(read).collect()
}

fn read(text: &str) -> anyhow::Result<Paper> {
    let mut paper: Paper = toml::from_str(text)?;
    for experiment in &mut paper.experiments {
        experiment.name = format!("{}/{}", paper.name, experiment.name);
        let checked = experiment.validate();
        checked.with_context(|| experiment.name.clone())?;
    }
    Ok(paper)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn all_papers_can_be_read_and_names_are_unique() {
        let papers = papers().unwrap();
        let names = papers.iter().flat_map(|paper| &paper.experiments);
        let names: Vec<&str> = names.map(|one| one.name.as_str()).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    }

    #[test]
    fn every_work_has_a_user() {
        let papers = papers().unwrap();
        let experiments = papers.iter().flat_map(|paper| &paper.experiments);
        let used: BTreeSet<String> = experiments.flat_map(|one| one.works.clone()).collect();
        assert_eq!(
            works().unwrap().keys().cloned().collect::<BTreeSet<_>>(),
            used
        );
    }

    #[test]
    fn an_experiment_without_checks_is_refused() {
        let text = "name = 'x'\nreference = ''\nmachine = ''\n[[experiment]]\nname = 'y'\n\
            title = ''\ntheirs = [['a', 'b']]\nnote = ''\nworks = ['overload']";
        let error = read(text).unwrap_err();
        assert_eq!(
            format!("{error:#}"),
            "x/y: an experiment needs works and checks, or neither"
        );
    }
}
