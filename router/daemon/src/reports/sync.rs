//! Whether kernel and FIB agree, and what is left to Linux.

use bora_mirror::{Difference, SyncStatus};
use serde::Serialize;
use serde_json::Value;

use super::{Answer, Report, answer, json};
use crate::answers::Watched;
use crate::data_plane::DataPlane;
use crate::guard::flowtables::Flows;
use crate::guard::minute::Shares;
use crate::guard::rates::GuardWatch;
use crate::process::clock::age;
use crate::router::Router;

pub(super) const REPORT: Report = Report {
    flags: &[
        (VERIFY, "Dump the kernel's tables and compare every prefix"),
        (
            PROVE,
            "Ask Linux itself about all addresses first, as `bora prove` does",
        ),
    ],
    admin_flags: &[VERIFY, PROVE],
    ..Report::new(
        "sync",
        "Whether Bora agrees with Linux, and what keeps traffic with Linux",
        |router, request| {
            if !request.flags.iter().any(|flag| flag == VERIFY) {
                return answer(report(router, Ok(Vec::new())));
            }
            let mut verification = match router.begin_verification() {
                Ok(begun) => begun,
                Err(error) => return answer(report(router, Err(format!("{error:#}")))),
            };
            Ok(Answer::Begun(Box::new(move |router| {
                let compared = router.plane.verify_some(&mut verification)?;
                let compared = compared.map_err(|error| error.to_string());
                Some(json(report(router, compared)))
            })))
        },
        |json, _| Ok(text(&json)),
    )
};

const VERIFY: &str = "verify";
/// The CLI orders the proof and waits; the report has the last one in any case.
const PROVE: &str = "prove";

/// Whether kernel and FIB agree.
#[derive(Debug, Serialize)]
struct SyncReport {
    /// Nothing waits to be reconciled, nothing is missing, no difference was found, and a verification that was
    /// asked for could be made.
    in_sync: bool,
    /// Seconds since that last changed.
    since_seconds: u64,
    /// Octets of the tables that workers read.
    fib_bytes: usize,
    /// What an operator should know of the configuration in force.
    notices: Vec<String>,
    /// Packets in transit of the last minute.
    last_minute: Shares,
    /// Why traffic is left to Linux.
    guard: Vec<String>,
    /// What becomes of nftables' rules that need no connection.
    rules: Vec<String>,
    /// Functions at Linux's hooks that let forwarded packets be.
    harmless: Vec<String>,
    /// Where express looks up routes.
    express: Vec<String>,
    /// Flows of Linux's flowtables.
    flows: Flows,
    /// What this kernel does not have or hides, and what is lost by that.
    lacks: Vec<&'static str>,
    /// The mirror's own account.
    mirror: SyncStatus,
    /// What Linux itself says, packet by packet.
    linux: Watched,
    /// With `--verify`: prefixes on which a fresh dump and the FIB differ.
    differences: Vec<Difference>,
    /// With `--verify`: why they could not be compared.
    unverified: Option<String>,
}

fn report(router: &Router, compared: Result<Vec<Difference>, String>) -> SyncReport {
    let plane = &router.plane;
    let mirror = plane.mirror();
    let status = mirror.status();
    let (differences, unverified) = match compared {
        Ok(differences) => (differences, None),
        Err(why) => (Vec::new(), Some(why)),
    };
    let linux = router.linux.watched();
    let same = differences.is_empty() && unverified.is_none() && linux.distrusted.is_empty();
    SyncReport {
        in_sync: status.in_sync && same,
        since_seconds: age(status.since).as_secs(),
        fib_bytes: mirror.fib().stats().table_bytes,
        notices: router.in_force.notices(),
        last_minute: router.minute.shares(),
        guard: guard(plane, &router.guard_watch),
        rules: plane.express().rules_told(mirror.guard()),
        harmless: plane.express().harmless(),
        express: plane.express().look_up_report(mirror),
        flows: plane.flows(),
        lacks: plane.express().program.lacks(),
        mirror: status,
        linux,
        differences,
        unverified,
    }
}

/// Why traffic is left to Linux, in words: what the mirror found, and what the XDP program met
/// although the mirror did not find it.
pub(crate) fn guard(plane: &DataPlane, watch: &GuardWatch) -> Vec<String> {
    let mirror = plane.mirror();
    let mut lines = plane.express().holding(mirror.guard(), &plane.names());
    lines.extend(without_room(plane));
    lines.extend(plane.express().lacks().cloned());
    for (family, why) in ["IPv4", "IPv6"].iter().zip(plane.multipath().why_unknown()) {
        lines.extend(why.map(|why| {
            format!(
                "{family}: the engine leaves it to Linux while a route has several paths: {why}"
            )
        }));
    }
    lines.extend(mirror.settings().unread.iter().map(|why| {
        format!("{why}: the last values of sysctls count, and interfaces never read do not forward")
    }));
    for port in plane.ports().iter() {
        let hidden = port.offloads.hidden_tags.iter();
        lines.extend(hidden.map(|hidden| format!("{}: {hidden}", port.name)));
        lines.extend(port.deaf_peer().map(|why| format!("{}: {why}", port.name)));
        let recently = watch.last_second(port.id);
        if recently > 0 {
            lines.push(format!(
                "{}: {recently} packets left to Linux in the last second",
                port.name
            ));
        }
    }
    lines.extend(shapers(plane));
    lines
}

/// Queueing disciplines on ports and on devices on them: they shape what leaves there, or Bora sends past them.
fn shapers(plane: &DataPlane) -> impl Iterator<Item = String> {
    let ports = plane.ports().iter();
    let ports = ports.map(|port| (port.ifindex, &port.name, &port.settings));
    let devices = plane.devices().iter();
    let devices = devices.map(|device| (device.ifindex, &device.name, &device.settings));
    let known = &plane.mirror().guard().shapers;
    ports.chain(devices).filter_map(|(ifindex, name, settings)| {
        let kind = known.get(&ifindex)?;
        Some(match settings.shaped {
            true => shaper(name, kind),
            false => format!(
                "warning: {kind} on {name} does not see the packets that Bora sends there (`bypass_qdisc`)"
            ),
        })
    })
}

/// What becomes of packets that leave by an interface with a queueing discipline that shapes.
pub(crate) fn shaper(name: &str, kind: &str) -> String {
    format!(
        "what leaves by {name} goes to Linux, whose {kind} shapes it (free: `tc qdisc del dev {name} root`, or \
         `bypass_qdisc = true` for the port)"
    )
}

/// What found no room in the FIB.
fn without_room(plane: &DataPlane) -> Vec<String> {
    let mirror = plane.mirror();
    let mut lines = Vec::new();
    for (family, refused) in ["IPv4", "IPv6"].iter().zip(mirror.refused()) {
        if refused > 0 {
            lines.push(format!(
                "{family}: {refused} prefixes found no room in the FIB; the engine leaves {family} \
                 to Linux"
            ));
        }
    }
    let without = mirror.without_next_hop();
    if without > 0 {
        let most = mirror.fib().stats().next_hops;
        lines.push(format!(
            "{without} hosts and ways of routes found no next hop in the FIB, which has {most}; the \
             engine leaves them to Linux"
        ));
    }
    lines
}

fn text(report: &Value) -> String {
    let state = match report["in_sync"].as_bool() {
        Some(true) => "in sync",
        _ => "not in sync",
    };
    let mut text = format!("{state} for {} s\n", report["since_seconds"]);
    text += &counts(report);
    text += &shares(&report["last_minute"]);
    text += &answers(&report["linux"]);
    let mirror = &report["mirror"];
    text += &last_reconciliation(mirror);
    for left in list(&mirror["unsupported"]) {
        let reason = word(&left["reason"]);
        text += &format!("left to Linux: {} routes: {reason}\n", left["routes"]);
    }
    for (title, key) in [
        ("warning", "notices"),
        ("guard", "guard"),
        ("rules", "rules"),
        ("harmless", "harmless"),
        ("express", "express"),
        ("this kernel", "lacks"),
    ] {
        for line in list(&report[key]) {
            text += &format!("{title}: {}\n", word(line));
        }
    }
    for line in list(&report["flows"]["lines"]) {
        text += &format!("flows: {}\n", word(line));
    }
    if let Some(why) = report["unverified"].as_str() {
        text += &format!("not verified: {why}\n");
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

/// Which share Bora forwards.
#[expect(
    clippy::disallowed_methods,
    reason = "a Bora of another version may say nothing of it"
)]
fn shares(minute: &Value) -> String {
    let shares: Shares = serde_json::from_value(minute.clone()).unwrap_or_default();
    shares.told().map_or(String::new(), |line| line + "\n")
}

/// What Linux itself says.
fn answers(linux: &Value) -> String {
    let mut text = format!(
        "answers of Linux compared since the start: {}; different: {}\n",
        linux["compared"], linux["differ"]
    );
    if let proof @ Value::Object(_) = &linux["proof"] {
        text += &format!(
            "proof for all addresses, {} s ago: {} answers of Linux compared; different: {}\n",
            proof["ended"], proof["compared"], proof["differ"]
        );
    }
    for prefix in list(&linux["distrusted"]) {
        let prefix = word(prefix);
        text += &format!(
            "differs from Linux: {prefix}, which Linux forwards now (see the log, and `bora prove`)\n"
        );
    }
    if let Some(why) = linux["why"].as_str() {
        text += &format!("Linux cannot be asked any more: {why}\n");
    }
    text
}

fn counts(report: &Value) -> String {
    let mirror = &report["mirror"];
    let mut text = String::new();
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
    text
}

fn last_reconciliation(mirror: &Value) -> String {
    let last = &mirror["last_reconciliation"];
    if !last.is_object() {
        return String::new();
    }
    let took = last["took"]["secs"].as_f64().unwrap_or(0.0) * 1e3
        + last["took"]["nanos"].as_f64().unwrap_or(0.0) / 1e6;
    let outcome = match last["failure"].as_str() {
        Some(why) => format!("is to be repeated: {why}"),
        None => format!("found {} differences in {took:.1} ms", last["differences"]),
    };
    format!(
        "reconciliations: {}; the last ({}) {outcome}\n",
        mirror["reconciliations"],
        word(&last["reason"]),
    )
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or("nothing")
}
