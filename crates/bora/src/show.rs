//! `bora show`: asks the daemon and prints tables or JSON.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use bora_router::{
    ClassReport, DropsReport, FibFamilyReport, FibReport, FramesReport, NeighbourReport,
    OffloadReport, PortReport, RouteReport, RuleReport, WorkerReport,
};
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
        ShowWhat::Frames => "/v1/frames".into(),
        ShowWhat::Workers => "/v1/workers".into(),
        ShowWhat::Classes => "/v1/classes".into(),
        ShowWhat::Rules => "/v1/rules".into(),
        ShowWhat::Offload => "/v1/offload".into(),
        ShowWhat::Routes => "/v1/routes".into(),
        ShowWhat::Fib => "/v1/fib".into(),
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
        ShowWhat::Frames => match parse::<Option<FramesReport>>(&text)? {
            Some(report) => frames(&report),
            None => "no packet memory: every port takes the express path".into(),
        },
        ShowWhat::Workers => workers(&parse::<Vec<WorkerReport>>(&text)?),
        ShowWhat::Classes => classes(&parse::<Vec<ClassReport>>(&text)?),
        ShowWhat::Offload => offload(&parse::<Vec<OffloadReport>>(&text)?),
        ShowWhat::Rules => rules(&parse::<Vec<RuleReport>>(&text)?),
        ShowWhat::Routes => routes(&parse::<Vec<RouteReport>>(&text)?),
        ShowWhat::Route { address } => match parse::<Option<RouteReport>>(&text)? {
            Some(route) => {
                let fib = route.fib.clone().unwrap_or_default();
                format!("{}in the FIB: {fib}\n", routes(&[route]))
            }
            None => format!("no route to {address}"),
        },
        ShowWhat::Fib => fib(&parse(&text)?),
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
        text += &match port.kind.as_str() {
            "interface" => format!(
                "{}: {}: {}; redirect: {}\n",
                port.name, port.path, port.why, port.redirect
            ),
            _ => format!("{}: {}\n", port.name, port.wire),
        };
        for refused in &port.refused {
            let (name, step, reason) = (&port.name, &refused.step, &refused.reason);
            text += &format!("{name}: {step} refused: {reason}\n");
        }
        for notice in &port.notices {
            text += &format!("{}: {notice}\n", port.name);
        }
        if !port.card.is_empty() {
            let counters = port.card.iter();
            let counters: Vec<_> = counters
                .map(|(name, count)| format!("{name} {count}"))
                .collect();
            text += &format!("{}: the card counts {}\n", port.name, counters.join(", "));
        }
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
    if report.punts.contains_key("guard") {
        for reason in &report.guard {
            text += &format!("guard: {reason}\n");
        }
    }
    text
}

fn frames(report: &FramesReport) -> String {
    let row = |place: &str, frames: u64| vec![place.to_string(), frames.to_string()];
    let mut rows = vec![
        row("reserve", report.reserve),
        row("workers' pools", report.pools),
    ];
    let rings = report.rings.iter();
    rows.extend(rings.map(|(port, &frames)| row(&format!("rings of {port}"), frames)));
    rows.extend([
        row("held by workers", report.held),
        row("on the way to Linux", report.to_linux),
        row("of closed sockets", report.closing),
        row("all", report.total),
    ]);
    table(&["PLACE", "FRAMES"], &rows) + &format!("{} octets each\n", report.octets)
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
                worker
                    .node
                    .map_or_else(|| "-".into(), |node| node.to_string()),
                numbers(&worker.shares_with),
                worker.mode.clone(),
                worker.rx_packets.to_string(),
                worker.tx_packets.to_string(),
                worker.held.to_string(),
                worker.loops.to_string(),
                worker.sleeps.to_string(),
                worker.pool_size.to_string(),
                hit_rate(worker),
                worker.pool_exhausted.to_string(),
            ]
        })
        .collect();
    let head = [
        "WORKER",
        "CPU",
        "NODE",
        "SHARES WITH",
        "MODE",
        "RECEIVED",
        "SENT",
        "HELD",
        "LOOPS",
        "SLEEPS",
        "POOL",
        "POOL HITS",
        "EXHAUSTED",
    ];
    table(&head, &rows)
}

/// Frames that came from the worker's own list, of all it took.
fn hit_rate(worker: &WorkerReport) -> String {
    match worker.pool_hits + worker.pool_refilled {
        0 => "-".into(),
        all => format!("{:.1} %", 100.0 * worker.pool_hits as f64 / all as f64),
    }
}

/// `1,5`, or `-` for none.
fn numbers(numbers: &[usize]) -> String {
    if numbers.is_empty() {
        return "-".into();
    }
    let texts: Vec<String> = numbers.iter().map(usize::to_string).collect();
    texts.join(",")
}

fn classes(classes: &[ClassReport]) -> String {
    if classes.is_empty() {
        return "no classes: every port takes the express path".into();
    }
    let row = |class: &ClassReport| {
        vec![
            class.port.clone(),
            class.class.to_string(),
            class.enqueued.to_string(),
            class.sent.to_string(),
            class.dropped.to_string(),
            class.held.to_string(),
        ]
    };
    let rows: Vec<_> = classes.iter().map(row).collect();
    let head = ["PORT", "CLASS", "ENQUEUED", "SENT", "DROPPED", "HELD"];
    table(&head, &rows)
}

fn rules(rules: &[RuleReport]) -> String {
    if rules.is_empty() {
        return "no rules".into();
    }
    let row = |rule: &RuleReport| {
        vec![
            rule.index.to_string(),
            rule.name.clone(),
            rule.packets.to_string(),
            rule.octets.to_string(),
            rule.rule.clone(),
        ]
    };
    let rows: Vec<_> = rules.iter().map(row).collect();
    table(&["RULE", "NAME", "PACKETS", "OCTETS", "WHAT"], &rows)
}

fn offload(destinations: &[OffloadReport]) -> String {
    if destinations.is_empty() {
        return "nothing comes in by a HERO card".into();
    }
    let row = |one: &OffloadReport| {
        vec![
            one.port.clone(),
            one.destination.clone(),
            one.path.clone(),
            one.out.clone(),
            one.packets_per_second.to_string(),
            one.packets
                .map_or_else(|| "-".into(), |packets| packets.to_string()),
            one.why.clone(),
        ]
    };
    let rows: Vec<_> = destinations.iter().map(row).collect();
    table(
        &[
            "IN BY",
            "DESTINATION",
            "PATH",
            "OUT BY",
            "PACKETS/S",
            "PACKETS",
            "WHY NOT FAST",
        ],
        &rows,
    )
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
                ..
            } = route.clone();
            vec![prefix, via, metric.to_string(), table]
        })
        .collect();
    table(&["PREFIX", "NEXT HOP", "METRIC", "TABLE"], &rows)
}

fn fib(report: &FibReport) -> String {
    let kib = |octets: usize| format!("{} KiB", octets >> 10);
    type Line = (&'static str, fn(&FibFamilyReport) -> String);
    let lines: [Line; 8] = [
        ("prefixes", |f| f.prefixes.to_string()),
        ("without room", |f| f.missing.to_string()),
        ("nodes", |f| f.nodes.to_string()),
        ("deepest look-up", |f| f.depth.to_string()),
        ("memory of the table", |f| {
            format!("{} KiB", f.table_bytes >> 10)
        }),
        ("of the writer's lists", |f| {
            format!("{} KiB", f.control_bytes >> 10)
        }),
        ("updates", |f| f.updates.to_string()),
        ("in the last second", |f| f.updates_per_second.to_string()),
    ];
    let mut rows: Vec<_> = lines
        .iter()
        .map(|(name, of)| vec![name.to_string(), of(&report.ipv4), of(&report.ipv6)])
        .collect();
    let used = |f: &FibFamilyReport| format!("{} of {}", kib(f.node_bytes), kib(f.max_bytes));
    rows.push(vec![
        "limit of nodes".into(),
        used(&report.ipv4),
        used(&report.ipv6),
    ]);
    let reclaim = match report.last_reclaim_seconds {
        Some(seconds) => format!("{seconds} s ago"),
        None => "never needed".into(),
    };
    table(&["FIB", "IPV4", "IPV6"], &rows)
        + &format!(
            "next hops: {} of {}, {} KiB; waiting for workers to pass: {} objects, {} changes behind; \
             last reclaim: {reclaim}\n",
            report.next_hops,
            report.max_next_hops,
            report.next_hop_bytes >> 10,
            report.retired,
            report.behind
        )
}

fn neighbours(neighbours: &[NeighbourReport]) -> String {
    let rows: Vec<Vec<String>> = neighbours
        .iter()
        .map(|n| vec![n.address.clone(), n.device.clone(), n.mac.clone()])
        .collect();
    table(&["ADDRESS", "INTERFACE", "MAC"], &rows)
}

fn sync(report: &serde_json::Value) -> String {
    let mirror = &report["mirror"];
    let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let word = |value: &serde_json::Value| value.as_str().unwrap_or("nothing").to_string();
    let state = match report["in_sync"].as_bool() {
        Some(true) => "in sync",
        _ => "not in sync",
    };
    let mut text = format!("{state} for {} s\n", report["since_seconds"]);
    for (family, counts) in [("IPv4", &mirror["v4"]), ("IPv6", &mirror["v6"])] {
        text += &format!(
            "{family}: {} routes in Linux, {} prefixes in the FIB ({} of neighbours)\n",
            counts["kernel_routes"], counts["fib_prefixes"], counts["fib_neighbours"]
        );
    }
    text += &format!(
        "neighbours: {}; next hops: {}; tables: {} KiB\n",
        mirror["neighbours"],
        mirror["fib_next_hops"],
        report["fib_bytes"].as_u64().unwrap_or(0) >> 10,
    );
    text += &format!(
        "events: {} ({} in the last second), {} not understood; queue overflows: {}\n",
        mirror["events"], mirror["events_per_second"], mirror["decode_errors"], mirror["overflows"],
    );
    text += &format!(
        "background checks: {}; entries they mended: {}\n",
        mirror["checks"], mirror["mended"]
    );
    let last = &mirror["last_reconciliation"];
    if last.is_object() {
        let took = last["took"]["secs"].as_f64().unwrap_or(0.0) * 1e3
            + last["took"]["nanos"].as_f64().unwrap_or(0.0) / 1e6;
        let outcome = match last["failure"].as_str() {
            Some(why) => format!("is to be repeated: {why}"),
            None => format!("found {} differences in {took:.1} ms", last["differences"]),
        };
        text += &format!(
            "reconciliations: {}; the last ({}) {outcome}\n",
            mirror["reconciliations"],
            word(&last["reason"]),
        );
    }
    for left in list(&mirror["unsupported"]) {
        let reason = word(&left["reason"]);
        text += &format!("left to Linux: {} routes: {reason}\n", left["routes"]);
    }
    for reason in list(&report["guard"]) {
        text += &format!("guard: {}\n", word(&reason));
    }
    for function in list(&report["harmless"]) {
        text += &format!("harmless: {}\n", word(&function));
    }
    for lack in list(&report["lacks"]) {
        text += &format!("this kernel: {}\n", word(&lack));
    }
    for difference in list(&report["differences"]) {
        text += &format!(
            "differs: {}: the kernel says {}, the FIB {}\n",
            word(&difference["prefix"]),
            word(&difference["kernel"]),
            word(&difference["fib"])
        );
    }
    text
}
