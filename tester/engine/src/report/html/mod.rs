//! One self-contained HTML file: it loads nothing and can be mailed, archived and printed.

mod facts;
mod results;
mod trials;

use std::fmt::Write;

use super::svg::{self, Plot, escape};
use super::{plots, summary};
use crate::result::Report;

/// The report as a page. Every plot's points and the whole report are in it as JSON, in script
/// elements `data-PLOT` and `report`.
pub fn html(report: &Report) -> String {
    let mut page = facts::header(report);
    page += &notes("What to know first", &summary::notes(report));
    page += &results::rates(report);
    for (number, group) in summary::groups(report).iter().enumerate() {
        section(&mut page, group, number + 1);
    }
    if report.tests.is_empty() {
        page += "<p>No test was carried out.</p>\n";
    }
    page += "<h2>How it was measured</h2>\n";
    page += &facts::calibration(report);
    page += &facts::ports(report);
    page += &facts::environment(report);
    let plan = escape(&report.plan);
    let _ = writeln!(
        page,
        "<details><summary>Test plan</summary><pre>{plan}</pre></details>"
    );
    page += "<p><button id=\"save\" type=\"button\">Save the results as JSON</button></p>\n";
    let _ = writeln!(
        page,
        "<footer>Measured and written by bora test, Bora {}.</footer>\n{}<script>\n{}</script>",
        escape(&report.bora),
        embedded("report", report),
        include_str!("script.js")
    );
    self::page(&report.title, &page)
}

/// A whole page in the reports' style around a body: it loads nothing and can be mailed, archived
/// and printed.
pub fn page(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n\
         <title>{}</title>\n<style>\n{}{}</style>\n</head>\n<body>\n{body}</body>\n</html>\n",
        escape(title),
        include_str!("style.css"),
        svg::STYLE
    )
}

/// A value as JSON in a script element.
fn embedded(id: &str, value: &impl serde::Serialize) -> String {
    let json = serde_json::to_string(value).unwrap_or_else(|error| format!("\"{error}\""));
    // no end of a script element, no comment
    let json = json.replace('<', "\\u003c");
    format!("<script type=\"application/json\" id=\"{id}\">{json}</script>\n")
}

/// The report's JSON in a page.
pub(super) fn embedded_report(page: &str) -> Option<&str> {
    let (_, json) = page.split_once("<script type=\"application/json\" id=\"report\">")?;
    Some(json.split_once("</script>")?.0)
}

fn notes(title: &str, notes: &[String]) -> String {
    if notes.is_empty() {
        return String::new();
    }
    let items: String = notes
        .iter()
        .map(|note| format!("<li>{}</li>", escape(note)))
        .collect();
    format!("<div class=\"notes\" role=\"note\"><h3>{title}</h3><ul>{items}</ul></div>\n")
}

/// Attributes of a cell with words.
const TEXT: &str = " class=\"t\"";

/// A cell of a table; it is of a number unless its attributes say otherwise.
#[derive(Default)]
struct Cell {
    attributes: String,
    html: String,
}

impl Cell {
    fn number(html: String) -> Self {
        Self {
            html,
            ..Self::default()
        }
    }

    /// A cell of words, which are escaped.
    fn text(text: &str) -> Self {
        Self {
            attributes: TEXT.into(),
            html: escape(text),
        }
    }
}

/// A table with its head, whose cells are aligned as those of the first row; a row is its class and
/// its cells.
fn table(class: &str, head: &[&str], rows: &[(&str, Vec<Cell>)]) -> String {
    let mut html = format!("<div class=\"scroll\"><table class=\"{class}\"><thead><tr>");
    let first = rows.first().map_or(&[][..], |(_, cells)| cells);
    for (column, name) in head.iter().enumerate() {
        let is_text = first
            .get(column)
            .is_some_and(|cell| cell.attributes == TEXT);
        let _ = write!(html, "<th{}>{name}</th>", if is_text { TEXT } else { "" });
    }
    html += "</tr></thead><tbody>\n";
    for (class, cells) in rows {
        html += &match *class {
            "" => "<tr>".to_string(),
            class => format!("<tr class=\"{class}\">"),
        };
        for cell in cells {
            let _ = write!(html, "<td{}>{}</td>", cell.attributes, cell.html);
        }
        html += "</tr>\n";
    }
    html + "</tbody></table></div>\n"
}

/// Plots, notes and trials of a group.
fn section(page: &mut String, group: &summary::Group<'_>, number: usize) {
    let Some(first) = group.tests.first() else {
        return;
    };
    let _ = writeln!(
        page,
        "<h2 id=\"test-{number}\">{}</h2>\n<p class=\"under\">{}</p>",
        escape(&group.heading),
        escape(&facts::traffic(first))
    );
    for test in &group.tests {
        *page += &notes(&format!("Frames of {}", escape(&test.frames)), &test.notes);
    }
    *page += &results::others(group);
    *page += &figures(&plots::of_group(group, number));
    let searches: Vec<Plot> = group
        .tests
        .iter()
        .enumerate()
        .filter_map(|(n, test)| plots::trials(test, format!("trials-{number}-{}", n + 1)))
        .collect();
    if !searches.is_empty() {
        // how a search went on is of interest to all, repetitions are to few
        let open = if group.method == "throughput" {
            " open"
        } else {
            ""
        };
        let plots = figures(&searches);
        let _ = writeln!(
            page,
            "<details{open}><summary>All trials, plotted</summary>{plots}</details>"
        );
    }
    let count: usize = group.tests.iter().map(|test| test.trials.len()).sum();
    let _ = writeln!(
        page,
        "<details><summary>All trials, in a table ({count})</summary>"
    );
    for test in &group.tests {
        *page += &trials::table(test);
    }
    *page += "</details>\n";
}

fn figures(plots: &[Plot]) -> String {
    if plots.is_empty() {
        return String::new();
    }
    let mut html = String::from("<div class=\"plots\">\n");
    for plot in plots {
        let _ = writeln!(
            html,
            "<figure><figcaption>{}</figcaption>{}{}</figure>",
            escape(&plot.title),
            plot.svg(),
            embedded(&format!("data-{}", plot.id), plot)
        );
    }
    html + "</div>\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::example;

    #[test]
    fn the_page_loads_nothing_and_lets_nothing_out() {
        let mut report = example::report();
        let evil = "</script><script>alert(1)</script>\"'&";
        report.title = evil.into();
        report.plan = evil.into();
        report.notes = vec![evil.into()];
        report.subject = vec![(evil.into(), evil.into())];
        report.ports[0].details = vec![(evil.into(), evil.into())];
        report.ports[0].name = evil.into();
        for test in &mut report.tests {
            (test.name, test.frames, test.pattern) = (evil.into(), evil.into(), evil.into());
            test.notes = vec![evil.into()];
            for finding in &mut test.findings {
                (finding.metric, finding.goal, finding.unit) =
                    (evil.into(), evil.into(), evil.into());
            }
            for latency in &mut test.latencies {
                latency.load = evil.into();
            }
            for trial in &mut test.trials {
                trial.purpose = evil.into();
            }
        }
        let page = html(&report);
        assert!(!page.contains("<script>alert"));
        let scripts = page.matches("<script").count();
        assert_eq!(scripts, page.matches("</script>").count());
        assert_eq!(page.matches("<script>").count(), 1, "only our own");
        for outside in ["src=", "@import", "url(", "<link"] {
            assert!(!page.contains(outside), "{outside}");
        }
    }

    #[test]
    fn ip_versions_are_told_apart() {
        let page = html(&example::both_versions());
        for version in ["IPv4", "IPv6"] {
            let heading = format!(">throughput, {version}</h2>");
            assert_eq!(page.matches(&heading).count(), 1, "{heading}");
            let cell = format!("<td class=\"t\">throughput, {version}</td><td>1518</td>");
            assert_eq!(page.matches(&cell).count(), 2, "a row a goal");
            let calibrated = format!("<td>imix, {version}</td>");
            assert_eq!(page.matches(&calibrated).count(), 1, "{calibrated}");
        }
        assert!(!html(&example::report()).contains("<h2 id=\"test-1\">throughput, "));
    }

    #[test]
    fn an_empty_report_is_a_page() {
        let page = html(&Report::default());
        assert!(page.contains("No test was carried out") && page.ends_with("</html>\n"));
    }

    #[test]
    fn strange_numbers_do_no_harm() {
        let mut report = example::report();
        for test in &mut report.tests {
            test.line_rate = Some(0.0);
            test.frame_length = f64::NAN;
            for finding in &mut test.findings {
                finding.value = Some(f64::INFINITY);
                finding.low = Some(f64::NAN);
            }
            for trial in &mut test.trials {
                (trial.rate, trial.time, trial.sent) = (Some(f64::NAN), f64::INFINITY, 0);
            }
            test.latencies.clear();
        }
        let page = html(&report);
        let markup = page.split("<script").next().unwrap_or_default();
        assert!(!markup.contains("NaN") && !markup.contains("inf,"));
    }
}
