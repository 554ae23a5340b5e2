//! The route that one address takes.

use std::net::{IpAddr, Ipv4Addr};

use bora_fib::{NextHop, NextHopId, PortId};
use bora_wire::MacAddr;
use serde_json::json;

use super::routes::RouteReport;
use super::{Argument, Report, answer, routes, table};
use crate::data_plane::DataPlane;

pub(super) const REPORT: Report = Report {
    path: "routes",
    argument: Some(Argument {
        name: "address",
        help: "IPv4 or IPv6 address",
        check: |text| address(text).map(|address| address.to_string()),
    }),
    ..Report::new(
        "route",
        "The route an address takes",
        |router, request| {
            let address = address(&request.argument)?;
            let mirror = router.plane.mirror();
            let main = mirror.route_to(address);
            let further = mirror.further_routes_to(address);
            if main.is_none() && further.is_empty() {
                return answer(None::<RouteReport>);
            }
            let report = main.map(|route| routes::report(mirror, &route));
            let mut report = report.unwrap_or_else(RouteReport::none);
            report.fib = Some(in_fib(&router.plane, address));
            report.note = elsewhere(&router.plane, address);
            let further = further.iter();
            report.further = further.map(|route| routes::report(mirror, route)).collect();
            answer(report)
        },
        |route, request| {
            if route.is_null() {
                return Ok(format!("no route to {}", request.argument));
            }
            let fib = route["fib"].as_str().unwrap_or_default().to_string();
            let further = route["further"].as_array().cloned().unwrap_or_default();
            let rows = [vec![route.clone()], further].concat();
            let table = table::of_rows(routes::COLUMNS, &json!(rows));
            let note = route["note"].as_str().map(|note| format!("{note}\n"));
            Ok(format!(
                "{table}in the FIB: {fib}\n{}",
                note.unwrap_or_default()
            ))
        },
    )
};

fn address(text: &str) -> Result<IpAddr, String> {
    let address = text.parse();
    address.map_err(|error| format!("`{text}` is not an address: {error}"))
}

/// Whose packets other tables decide about, by rules or a VRF.
pub(crate) fn elsewhere(plane: &DataPlane, address: IpAddr) -> Option<String> {
    let v6 = usize::from(address.is_ipv6());
    let devices = plane.names().into_iter();
    let others = devices.filter(|(id, _)| plane.policy().has_list(*id)[v6]);
    let names: Vec<_> = others.map(|(_, name)| name).collect();
    (!names.is_empty()).then(|| {
        format!(
            "for what comes in by {}, `ip rule` or a VRF chooses the table \
             (`bora show tables`, `ip route get {address} from SOURCE iif INTERFACE`)",
            names.join(", ")
        )
    })
}

/// What the FIB does with packets to an address.
pub(crate) fn in_fib(plane: &DataPlane, address: IpAddr) -> String {
    let fib = plane.mirror().fib();
    let found = match address {
        IpAddr::V4(address) => fib
            .longest_match4(address.to_bits())
            .map(|(prefix, id)| (prefix.to_string(), id)),
        IpAddr::V6(address) => fib
            .longest_match6(address.to_bits())
            .map(|(prefix, id)| (prefix.to_string(), id)),
    };
    match found {
        None => "no prefix: to Linux".into(),
        Some((prefix, id)) => format!("{prefix} {}", action(plane, id)),
    }
}

/// The name of a port or device.
pub(crate) fn name(plane: &DataPlane, number: PortId) -> &str {
    let mut devices = plane.names().into_iter();
    let device = devices.find(|(id, _)| *id == number);
    device.map_or("a port that is gone", |(_, name)| name)
}

fn action(plane: &DataPlane, id: NextHopId) -> String {
    match plane.mirror().fib().next_hop(id) {
        None => format!("next hop {id}, which is gone"),
        Some(NextHop::Blackhole) => "dropped (blackhole)".into(),
        Some(NextHop::Punt { reason, .. }) => format!("to Linux ({reason:?})"),
        Some(NextHop::Group(group)) => {
            let members: Vec<_> = group.members().map(|id| action(plane, id)).collect();
            format!("by flow: {}", members.join("; "))
        }
        Some(NextHop::Tunnel(tunnel)) => {
            let far = Ipv4Addr::from(tunnel.destination());
            format!(
                "into tunnel {} to {far}, MTU {}",
                name(plane, tunnel.port),
                tunnel.mtu
            )
        }
        Some(NextHop::Forward(way)) => {
            let name = name(plane, way.port);
            let mac = MacAddr(std::array::from_fn(|octet| way.l2[octet]));
            format!("out of {name} to {mac}, MTU {}", way.mtu)
        }
    }
}
