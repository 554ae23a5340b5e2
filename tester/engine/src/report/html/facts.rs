//! What was measured, where and with what.

use std::fmt::Write;

use super::{Cell, escape, table};
use crate::report::{numbers, summary};
use crate::result::{Report, Test};

/// Title, subject, when and on which machine.
pub(super) fn header(report: &Report) -> String {
    let machine = &report.environment;
    let subject = match report.subject.is_empty() {
        true => vec![(
            "subject".to_string(),
            "not described in the plan".to_string(),
        )],
        false => report.subject.clone(),
    };
    let run = [
        ("measured", period(&report.started, &report.ended)),
        ("tester", format!("bora test, Bora {}", report.bora)),
        (
            "machine",
            format!("{}, {}", machine.host, machine.processor),
        ),
        ("kernel", machine.kernel.clone()),
        ("seed", report.seed.to_string()),
    ];
    format!(
        "<header>\n<p class=\"kind\">Benchmark report</p>\n<h1>{}</h1>\n\
         <div class=\"facts\">{}{}</div>\n</header>\n",
        escape(&report.title),
        list(&subject),
        list(&run)
    )
}

/// Both times, in the reader's form: the second without the date where it is the same.
fn period(started: &str, ended: &str) -> String {
    let readable = |time: &str| match time.parse::<jiff::Timestamp>() {
        Ok(time) => time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        Err(_) => time.to_string(),
    };
    let (started, ended) = (readable(started), readable(ended));
    match (started.get(..10), ended.get(..10)) {
        (Some(a), Some(b)) if a == b => {
            format!(
                "{} to {}",
                started.trim_end_matches(" UTC"),
                ended[10..].trim_start()
            )
        }
        _ => format!("{started} to {ended}"),
    }
}

fn list(facts: &[(impl AsRef<str>, String)]) -> String {
    let mut html = String::from("<dl>");
    for (name, value) in facts {
        let _ = write!(
            html,
            "<dt>{}</dt><dd>{}</dd>",
            escape(name.as_ref()),
            escape(value)
        );
    }
    html + "</dl>\n"
}

/// Method and traffic in one line.
pub(super) fn traffic(test: &Test) -> String {
    let family = summary::version(&test.family);
    let senders = format!("sending ports: {}", test.senders);
    // said above already
    let method = if test.method == test.name {
        ""
    } else {
        &test.method
    };
    let parts = [method, &test.reference, family, &test.pattern, &senders];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(" · ")
}

/// What the tester can do itself.
pub(super) fn calibration(report: &Report) -> String {
    if report.calibration.is_empty() {
        return "<p>The tester did not measure what it can send and count itself.</p>\n".into();
    }
    let rows: Vec<_> = report
        .calibration
        .iter()
        .map(|found| {
            let time = |ns: u64| Cell::number(numbers::time(ns as f64));
            let frames = summary::with_version(report, &found.frames, &found.family);
            let cells = vec![
                Cell::number(escape(&frames)),
                Cell::number(format!("{} frames/s", numbers::si(found.rate))),
                time(found.latency.0),
                time(found.latency.1),
                Cell::text(&found.how),
            ];
            ("", cells)
        })
        .collect();
    let head = [
        "frame size",
        "a port sends and counts",
        "median latency",
        "99 % within",
        "measured on",
    ];
    let table = table("calibration", &head, &rows);
    format!(
        "<p>Without a router between its ports, the tester sends and counts this much; no result \
         above it is reported.</p>\n{table}"
    )
}

/// The tester's ports.
pub(super) fn ports(report: &Report) -> String {
    let ports: Vec<(String, String)> = report
        .ports
        .iter()
        .map(|port| {
            let mut parts = vec![port.kind.clone()];
            parts.push(match port.is_virtual {
                true => "virtual link".into(),
                false => format!("{}bit/s", numbers::si(port.speed)),
            });
            let details = port.details.iter();
            parts.extend(details.map(|(name, value)| format!("{name}: {value}")));
            (port.name.clone(), parts.join(", "))
        })
        .collect();
    format!(
        "<details><summary>Ports</summary>{}</details>\n",
        list(&ports)
    )
}

/// The machine.
pub(super) fn environment(report: &Report) -> String {
    let machine = &report.environment;
    let facts = [
        ("host", machine.host.clone()),
        ("processor", machine.processor.clone()),
        ("CPUs", machine.cpus.to_string()),
        (
            "memory",
            format!(
                "{} GiB",
                numbers::digits(machine.memory as f64 / f64::from(1 << 30), 3)
            ),
        ),
        ("kernel", machine.kernel.clone()),
        ("clock source", machine.clock.clone()),
        (
            "hypervisor",
            machine.hypervisor.clone().unwrap_or_else(|| "none".into()),
        ),
    ];
    format!(
        "<details><summary>Machine</summary>{}</details>\n",
        list(&facts)
    )
}
