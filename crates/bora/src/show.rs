//! `bora show`: asks the daemon and prints tables or JSON.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use bora_router::{DropsReport, NeighbourReport, PortReport, RouteReport, WorkerReport};
use serde::de::DeserializeOwned;

use crate::arguments::{ShowOptions, ShowWhat};
use crate::client;

pub(crate) fn show(options: ShowOptions) -> anyhow::Result<()> {
    loop {
        let text = render(&options.what, options.json)?;
        let mut out = std::io::stdout().lock();
        if options.watch && out.is_terminal() {
            write!(out, "\x1b[H\x1b[2J")?;
        }
        // a closed pipe (`| head`) ends the command, it is no error
        if writeln!(out, "{}", text.trim_end()).is_err() || !options.watch {
            return Ok(());
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn render(what: &ShowWhat, json: bool) -> anyhow::Result<String> {
    let path = match what {
        ShowWhat::Ports => "/v1/ports".to_string(),
        ShowWhat::Drops => "/v1/drops".into(),
        ShowWhat::Workers => "/v1/workers".into(),
        ShowWhat::Routes => "/v1/routes".into(),
        ShowWhat::Route { address } => format!("/v1/routes/{address}"),
        ShowWhat::Neighbours => "/v1/neighbours".into(),
        ShowWhat::Sync { verify } => format!("/v1/sync?verify={verify}"),
    };
    let text = client::get(&path)?;
    if json {
        let value: serde_json::Value = serde_json::from_str(&text)?;
        return Ok(serde_json::to_string_pretty(&value)?);
    }
    Ok(match what {
        ShowWhat::Ports => ports(&parse::<Vec<PortReport>>(&text)?),
        ShowWhat::Drops => drops(&parse(&text)?),
        ShowWhat::Workers => workers(&parse::<Vec<WorkerReport>>(&text)?),
        ShowWhat::Routes => routes(&parse::<Vec<RouteReport>>(&text)?),
        ShowWhat::Route { address } => match parse::<Option<RouteReport>>(&text)? {
            Some(route) => routes(&[route]),
            None => format!("no route to {address}"),
        },
        ShowWhat::Neighbours => neighbours(&parse::<Vec<NeighbourReport>>(&text)?),
        ShowWhat::Sync { .. } => sync(&parse(&text)?),
    })
}

fn parse<T: DeserializeOwned>(text: &str) -> anyhow::Result<T> {
    Ok(serde_json::from_str(text)?)
}

/// Columns as wide as their widest cell; numbers to the right.
fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: Vec<&str>| {
        let mut text = String::new();
        for (cell, &width) in cells.iter().zip(&widths) {
            let number = cell.bytes().next().is_some_and(|b| b.is_ascii_digit())
                && cell.bytes().all(|b| b.is_ascii_digit());
            text += &if number {
                format!("{cell:>width$}  ")
            } else {
                format!("{cell:<width$}  ")
            };
        }
        text.trim_end().to_string() + "\n"
    };
    let mut text = line(head.to_vec());
    for row in rows {
        text += &line(row.iter().map(String::as_str).collect());
    }
    text
}

fn ports(ports: &[PortReport]) -> String {
    let rows: Vec<Vec<String>> = ports
        .iter()
        .map(|port| {
            vec![
                port.name.clone(),
                port.state.clone(),
                port.path.clone(),
                port.xdp.clone(),
                port.af_xdp.clone(),
                port.mtu.to_string(),
                port.rx_packets.to_string(),
                port.tx_packets.to_string(),
                port.passed.to_string(),
                port.dropped.to_string(),
            ]
        })
        .collect();
    let head = [
        "PORT", "STATE", "PATH", "XDP", "AF_XDP", "MTU", "RECEIVED", "SENT", "TO LINUX", "DROPPED",
    ];
    let mut text = table(&head, &rows);
    for port in ports {
        text += &format!(
            "{}: {}: {}; redirect: {}\n",
            port.name, port.path, port.why, port.redirect
        );
    }
    text
}

fn drops(report: &DropsReport) -> String {
    let mut text = format!(
        "received {} = sent {} + to Linux {} + dropped {} + held {}\n",
        report.received,
        report.sent,
        report.passed,
        report.drops.values().sum::<u64>(),
        report.held
    );
    for (title, reasons) in [("TO LINUX", &report.punts), ("DROPPED", &report.drops)] {
        if !reasons.is_empty() {
            let rows: Vec<_> = reasons
                .iter()
                .map(|(name, count)| vec![name.clone(), count.to_string()])
                .collect();
            text += &format!("\n{}", table(&[title, "PACKETS"], &rows));
        }
    }
    text
}

fn workers(workers: &[WorkerReport]) -> String {
    if workers.is_empty() {
        return "no workers: every port takes the express path".into();
    }
    let rows: Vec<Vec<String>> = workers
        .iter()
        .map(|worker| {
            vec![
                worker.index.to_string(),
                worker
                    .core
                    .map_or_else(|| "any".into(), |core| core.to_string()),
                worker.rx_packets.to_string(),
                worker.tx_packets.to_string(),
                worker.held.to_string(),
                worker.loops.to_string(),
                worker.sleeps.to_string(),
                worker.pool_hits.to_string(),
                worker.pool_refilled.to_string(),
                worker.pool_exhausted.to_string(),
            ]
        })
        .collect();
    let head = [
        "WORKER",
        "CPU",
        "RECEIVED",
        "SENT",
        "HELD",
        "LOOPS",
        "SLEEPS",
        "POOL HITS",
        "REFILLED",
        "EXHAUSTED",
    ];
    table(&head, &rows)
}

fn routes(routes: &[RouteReport]) -> String {
    let rows: Vec<Vec<String>> = routes
        .iter()
        .map(|route| {
            let RouteReport {
                prefix,
                via,
                metric,
                table,
            } = route.clone();
            vec![prefix, via, metric.to_string(), table]
        })
        .collect();
    table(&["PREFIX", "NEXT HOP", "METRIC", "TABLE"], &rows)
}

fn neighbours(neighbours: &[NeighbourReport]) -> String {
    let rows: Vec<Vec<String>> = neighbours
        .iter()
        .map(|n| vec![n.address.clone(), n.device.clone(), n.mac.clone()])
        .collect();
    table(&["ADDRESS", "INTERFACE", "MAC"], &rows)
}

fn sync(report: &serde_json::Value) -> String {
    let number = |key: &str| report[key].as_u64().unwrap_or(0);
    let list = |key: &str| report[key].as_array().cloned().unwrap_or_default();
    let mut text = format!(
        "{}\nprefixes: {} IPv4, {} IPv6; neighbours: {}; next hops: {}; tables: {} KiB\n\
         events: {} heard, {} not understood; queue overflows: {}; reconciliations: {}\n",
        if report["in_sync"].as_bool() == Some(true) {
            format!("in sync for {} s", number("since_seconds"))
        } else {
            "not in sync".into()
        },
        number("prefixes4"),
        number("prefixes6"),
        number("neighbours"),
        number("next_hops"),
        number("fib_bytes") >> 10,
        number("events"),
        number("malformed"),
        number("overflows"),
        number("reconciliations"),
    );
    if let Some(reason) = report["last"]["reason"].as_str() {
        let (milliseconds, changed) = (&report["last"]["milliseconds"], &report["last"]["changed"]);
        text += &format!("last: {reason}: {changed} prefixes changed in {milliseconds} ms\n");
    }
    if number("missing") > 0 {
        text += &format!("{} prefixes found no room in the FIB\n", number("missing"));
    }
    for reason in list("guard") {
        text += &format!("guard: {}\n", reason.as_str().unwrap_or_default());
    }
    for difference in list("differences") {
        text += &format!(
            "differs: {}: {}\n",
            difference["prefix"].as_str().unwrap_or_default(),
            difference["problem"].as_str().unwrap_or_default()
        );
    }
    text
}
