//! The page of an experiment: what the paper says, what holds, plots, numbers, commands.

use std::fmt::Write;

use bora_fib_bench::results::Row;
use bora_tester::report;
use bora_tester::report::svg::{Axis, Plot, Point, Scale, Series, Style, escape};
use bora_tester::result::Environment;

use crate::check::{number, verdict};
use crate::paper::Axes;
use crate::row::Pattern;
use crate::run::Outcome;

/// The page, a whole HTML file.
///
/// # Errors
/// A name of rows cannot be read.
pub(crate) fn page(outcome: &Outcome, machine: &Environment) -> anyhow::Result<String> {
    let experiment = &outcome.experiment;
    let mut body = format!(
        "<header><p class=\"kind\">{}</p><h1>{}</h1>\n",
        escape(&experiment.name),
        escape(&experiment.title)
    );
    body += &facts(outcome, machine);
    body += "</header>\n";
    if !experiment.note.is_empty() {
        let _ = writeln!(body, "<p>{}</p>", prose(&experiment.note));
    }
    if let Some(problem) = &outcome.problem {
        let _ = writeln!(
            body,
            "<p class=\"notes\">Not shown: {}</p>",
            escape(problem)
        );
    }
    let theirs = experiment.theirs.iter();
    let theirs = theirs.map(|(what, result)| vec![escape(what), prose(result)]);
    body += &table("The paper says", &["measured", "result"], theirs);
    let checks = outcome.checks.iter().map(|check| {
        let verdict = verdict(Some(check.verdict)).into();
        vec![escape(&check.what), escape(&check.found), verdict]
    });
    body += &table("What must hold", &["", "found", ""], checks);
    body += &figures(outcome)?;
    body += &table(
        "Numbers",
        &[
            "measured", "case", "by", "median", "lowest", "highest", "unit",
        ],
        numbers(outcome)?.into_iter(),
    );
    body += &again(outcome);
    Ok(report::page(&experiment.title, &body))
}

/// The plots that have points.
fn figures(outcome: &Outcome) -> anyhow::Result<String> {
    let plots = outcome.experiment.plots.iter();
    let plots = plots.map(|axes| plot(axes, &outcome.rows));
    let mut figures = String::new();
    for plot in plots.collect::<anyhow::Result<Vec<Plot>>>()? {
        if plot.series.iter().any(|line| !line.points.is_empty()) {
            let (title, drawing) = (escape(&plot.title), plot.svg());
            let _ = writeln!(
                figures,
                "<figure><figcaption>{title}</figcaption>{drawing}</figure>"
            );
        }
    }
    Ok(match figures.is_empty() {
        true => figures,
        false => format!("<div class=\"plots\">\n{figures}</div>\n"),
    })
}

/// How to repeat it.
fn again(outcome: &Outcome) -> String {
    if outcome.commands.is_empty() {
        return String::new();
    }
    let commands = escape(&outcome.commands.join("\n"));
    let name = &outcome.experiment.name;
    format!(
        "<h2>Again</h2>\n<p>All of it: <code>bora lab run {name}</code>. What that runs:</p>\n\
         <pre>{commands}</pre>\n"
    )
}

fn facts(outcome: &Outcome, machine: &Environment) -> String {
    let ours = format!(
        "{}, {} CPUs{}, {}",
        machine.processor,
        machine.cpus,
        machine
            .hypervisor
            .as_ref()
            .map(|name| format!(" of a virtual machine ({name})"))
            .unwrap_or_default(),
        machine.kernel
    );
    let facts = [
        ("Paper", outcome.paper.reference.clone()),
        ("Their machine", outcome.paper.machine.clone()),
        ("Our machine", ours),
        ("On", outcome.on.join("; ")),
        ("Result", verdict(outcome.verdict).into()),
    ];
    let facts = facts.iter().filter(|(_, text)| !text.is_empty());
    let facts: String = facts
        .map(|(name, text)| format!("<dt>{name}</dt><dd>{}</dd>", escape(text)))
        .collect();
    format!("<dl>{facts}</dl>\n")
}

/// Text for people, in which `` `code` `` stands out.
fn prose(text: &str) -> String {
    let parts = escape(text);
    let parts = parts.split('`').enumerate().map(|(n, part)| match n % 2 {
        0 => part.to_string(),
        _ => format!("<code>{part}</code>"),
    });
    parts.collect()
}

fn table(title: &str, head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let rows: String = rows
        .map(|cells| {
            let cells = cells.iter().enumerate().map(|(column, cell)| {
                // the first may be a sentence
                let class = if column == 0 { "t w" } else { "t" };
                format!("<td class=\"{class}\">{cell}</td>")
            });
            format!("<tr>{}</tr>\n", cells.collect::<String>())
        })
        .collect();
    if rows.is_empty() {
        return rows;
    }
    let head: String = head
        .iter()
        .map(|name| format!("<th class=\"t\">{name}</th>"))
        .collect();
    format!(
        "<h2>{title}</h2>\n<div class=\"scroll\"><table><thead><tr>{head}</tr></thead><tbody>\n{rows}</tbody></table></div>\n"
    )
}

/// The rows that the experiment names, each once.
fn numbers(outcome: &Outcome) -> anyhow::Result<Vec<Vec<String>>> {
    let patterns = outcome.experiment.patterns()?;
    let shown = |row: &&Row| {
        patterns
            .iter()
            .any(|pattern| pattern.matches(row).is_some())
    };
    let cells = |row: &Row| {
        let values = [row.median, row.low, row.high].map(number);
        let mut cells = vec![escape(&row.metric), escape(&row.case), escape(&row.subject)];
        cells.extend(values);
        cells.push(escape(&row.unit));
        cells
    };
    Ok(outcome.rows.iter().filter(shown).map(cells).collect())
}

/// A line for each subject, and the paper's points.
fn plot(axes: &Axes, rows: &[Row]) -> anyhow::Result<Plot> {
    let pattern = Pattern::new(&axes.rows)?;
    let mut series: Vec<Series> = Vec::new();
    for row in rows {
        let Some(x) = pattern.matches(row) else {
            continue;
        };
        let tip = format!("{}: {} at {x}", row.subject, number(row.median));
        let point = Point {
            bounds: Some((row.low, row.high)),
            ..Point::new(x, row.median, tip)
        };
        let known = series.iter_mut().find(|line| line.name == row.subject);
        match known {
            Some(line) => line.points.push(point),
            None => series.push(Series {
                name: row.subject.clone(),
                style: Style::Joined,
                points: vec![point],
            }),
        }
    }
    for line in &mut series {
        line.points.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    if !axes.theirs.is_empty() {
        let point =
            |&(x, y): &(f64, f64)| Point::new(x, y, format!("the paper: {} at {x}", number(y)));
        series.push(Series {
            name: "the paper's text".into(),
            style: Style::Marks,
            points: axes.theirs.iter().map(point).collect(),
        });
    }
    let scale = if axes.log { Scale::Log } else { Scale::Linear };
    Ok(Plot {
        id: String::new(),
        title: axes.title.clone(),
        x: Axis::new(&axes.x, scale),
        y: Axis::new(&axes.y, Scale::Linear),
        series,
    })
}
