//! Routes as Bora holds them.

use std::cmp::Reverse;

use bora_kernel::message::{Hop, RouteType};
use bora_kernel::{Mirror, RouteView};
use serde::Serialize;

use super::{Report, answer, table};

pub(super) const REPORT: Report = Report::new(
    "routes",
    "Routes, as Bora has them",
    |router, _| {
        let mirror = router.plane.mirror();
        let mut routes: Vec<_> = mirror.routes().collect();
        routes.sort_by_key(|r| (r.address, r.len, Reverse(r.table), r.metric, r.tos));
        let reports = routes.iter().map(|route| report(mirror, route));
        answer(reports.collect::<Vec<_>>())
    },
    |json, _| Ok(table::of_rows(COLUMNS, &json)),
);

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
    /// The same: whose packets may take another route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) note: Option<String>,
    /// The same: the routes of further tables.
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
    let tos = match route.tos {
        0 => String::new(),
        tos => format!(" tos {tos:#04x}"),
    };
    RouteReport {
        prefix: format!("{}/{}{tos}", route.address, route.len),
        via: target(mirror, route),
        metric: route.metric,
        table: match route.table {
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
