//! Routes as Bora holds them.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use bora_mirror::message::{Hop, RouteType};
use bora_mirror::{Mirror, RoutePlace, RouteView};
use serde::Serialize;
use serde::ser::Serializer;

use super::{Report, answer_in_steps, table};

pub(super) const REPORT: Report = Report::new(
    "routes",
    "Routes, as Bora has them",
    |_, _| {
        let mut place = RoutePlace::default();
        answer_in_steps(move |mirror, rows| part(mirror, &mut place, rows), json)
    },
    |json, _| Ok(table::of_rows(COLUMNS, &json)),
);

/// A route as the control loop notes it; texts are made elsewhere.
struct Row {
    address: IpAddr,
    len: u8,
    tos: u8,
    metric: u32,
    table: u32,
    via: Arc<str>,
}

/// Adds some routes. Many lead to the same, and share its text.
fn part(mirror: &Mirror, place: &mut RoutePlace, rows: &mut Vec<Row>) -> bool {
    let mut targets = HashMap::new();
    mirror.some_routes(place, &mut |route| {
        let key = (std::ptr::from_ref(route.target), route.usable);
        let via = targets.entry(key);
        let via: &Arc<str> = via.or_insert_with(|| target(mirror, route).into());
        rows.push(Row {
            address: route.address,
            len: route.len,
            tos: route.tos,
            metric: route.metric,
            table: route.table,
            via: via.clone(),
        });
    })
}

fn json(mut rows: Vec<Row>) -> serde_json::Result<String> {
    rows.sort_unstable_by_key(|row| {
        (
            row.address,
            row.len,
            Reverse(row.table),
            row.metric,
            row.tos,
        )
    });
    serde_json::to_string(&Rows(rows))
}

struct Rows(Vec<Row>);

impl Serialize for Rows {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.0.iter().map(Row::report))
    }
}

pub(super) const COLUMNS: &[(&str, &str)] = &[
    ("PREFIX", "prefix"),
    ("NEXT HOP", "via"),
    ("METRIC", "metric"),
    ("TABLE", "table"),
];

/// A route as Bora holds it.
#[derive(Debug, Serialize)]
pub(super) struct RouteReport {
    /// Destination.
    prefix: String,
    /// What it leads to, as `ip route` words it.
    via: String,
    /// Metric.
    metric: u32,
    /// `main`, `local`, `default` or a number.
    table: String,
    /// Asked for one address: what the FIB does with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fib: Option<String>,
    /// Asked for one address: which packets may take another route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) note: Option<String>,
    /// Asked for one address: the routes of further tables.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) further: Vec<RouteReport>,
}

impl RouteReport {
    /// There is no route in tables local and main.
    pub(super) fn none() -> Self {
        Self {
            prefix: "-".into(),
            via: "no route".into(),
            metric: 0,
            table: "main".into(),
            fib: None,
            note: None,
            further: Vec::new(),
        }
    }
}

pub(super) fn report(mirror: &Mirror, route: &RouteView<'_>) -> RouteReport {
    let row = Row {
        address: route.address,
        len: route.len,
        tos: route.tos,
        metric: route.metric,
        table: route.table,
        via: target(mirror, route).into(),
    };
    row.report()
}

impl Row {
    fn report(&self) -> RouteReport {
        let tos = match self.tos {
            0 => String::new(),
            tos => format!(" tos {tos:#04x}"),
        };
        RouteReport {
            prefix: format!("{}/{}{tos}", self.address, self.len),
            via: self.via.to_string(),
            metric: self.metric,
            table: match self.table {
                255 => "local".into(),
                254 => "main".into(),
                253 => "default".into(),
                number => number.to_string(),
            },
            fib: None,
            note: None,
            further: Vec::new(),
        }
    }
}

/// Where a route leads, as `ip route` words it.
fn target(mirror: &Mirror, route: &RouteView<'_>) -> String {
    match route.target.kind {
        RouteType::Unicast => {}
        RouteType::Local => return "local".into(),
        RouteType::Blackhole => return "blackhole".into(),
        RouteType::Unreachable => return "unreachable".into(),
        RouteType::Prohibit => return "prohibit".into(),
        RouteType::Throw => return "throw".into(),
        RouteType::Other => return "left to Linux".into(),
    }
    let ways = mirror.ways(route.target);
    let one = |way: &Hop| {
        let gateway = way.gateway.map(|g| format!("via {g} ")).unwrap_or_default();
        let weight = match ways.len() {
            1 => String::new(),
            _ => format!(" weight {}", way.weight),
        };
        format!("{gateway}dev {}{weight}", device(mirror, way.device))
    };
    let mut text = ways.iter().map(one).collect::<Vec<_>>().join(", ");
    if let Some(object) = route.target.object {
        text = format!("nhid {object} {text}");
    }
    if !route.usable {
        text += " (down)";
    }
    text
}

/// The name of an interface.
pub(super) fn device(mirror: &Mirror, ifindex: u32) -> String {
    let link = mirror.links().get(&ifindex);
    link.map_or_else(|| format!("if{ifindex}"), |link| link.name.clone())
}
