//! Answers in words.

use std::io;

use bora_fib::PortId;

use crate::answer::{BoraAnswer, LinuxAnswer, Route};
use crate::question::Tags;

/// What Linux does with a packet; `name`: of a link.
pub(crate) fn of_linux(answer: &LinuxAnswer, name: &dyn Fn(u32) -> String) -> String {
    match answer {
        LinuxAnswer::Own => "for this machine itself".into(),
        LinuxAnswer::Refuse(error) => of_refusal(*error),
        LinuxAnswer::Forward(route) => of_route(route, name),
    }
}

/// What the kernel's error means (ip_route_input_slow(), ip6_pol_route()).
fn of_refusal(error: i32) -> String {
    match error {
        libc::ENETUNREACH => "no route: ICMP says that the network is unreachable".into(),
        libc::EHOSTUNREACH => {
            "no route back to the source, no forwarding here, or an unreachable route: ICMP says so"
                .into()
        }
        libc::EACCES => "a prohibit route: ICMP says that it is prohibited".into(),
        libc::EXDEV => "dropped: the source is not expected here (rp_filter)".into(),
        libc::EINVAL => "dropped: a blackhole route, or an address that is none".into(),
        _ => format!("refused: {}", io::Error::from_raw_os_error(error)),
    }
}

fn of_route(route: &Route, name: &dyn Fn(u32) -> String) -> String {
    let paths = route.paths.iter().map(|path| {
        let via = path.gateway.map(|gateway| format!(" via {gateway}"));
        let weight = match route.paths.len() {
            1 => String::new(),
            _ => format!(" weight {}", path.weight),
        };
        let state = if path.alive { "" } else { " dead" };
        let device = name(path.device);
        format!("{} out of {device}{weight}{state}", via.unwrap_or_default())
    });
    let mut text = format!("forwarded{}", paths.collect::<Vec<_>>().join(","));
    if let Some(mtu) = route.mtu {
        text += &format!(" mtu {mtu}");
    }
    if route.encapsulates {
        text += " encapsulated";
    }
    let prefix = { route.prefix }.map(|(address, length)| format!("route {address}/{length}"));
    let is_main = route.table == u32::from(libc::RT_TABLE_MAIN);
    let table = (!is_main).then(|| format!("table {}", route.table));
    let found: Vec<String> = prefix.into_iter().chain(table).collect();
    if !found.is_empty() {
        text += &format!(" ({})", found.join(" "));
    }
    text
}

/// What Bora does with a packet; `name`: of a port or device.
pub(crate) fn of_bora(answer: &BoraAnswer, name: &dyn Fn(PortId) -> String) -> String {
    match answer {
        BoraAnswer::Forward {
            chosen: (port, mac),
            tags,
            ways,
            mtu,
        } => {
            let tags = of_tags(*tags);
            let text = format!("sent by {} to {mac}{tags} mtu {mtu}", name(*port));
            let ways = ways.iter();
            let ways = ways.map(|(port, mac, share)| format!("{} {mac} {share}", name(*port)));
            let ways: Vec<String> = ways.collect();
            match ways.len() {
                0 | 1 => text,
                _ => format!("{text} (one of {})", ways.join(", ")),
            }
        }
        BoraAnswer::Express {
            to,
            from,
            tags,
            sends_longer,
        } => {
            let longer = match sends_longer {
                true => ", longer ones than Linux, too",
                false => "",
            };
            let tags = of_tags(*tags);
            format!("sent by the port with {from} to {to}{tags}{longer}")
        }
        BoraAnswer::Tunnel { device, mtu } => format!("into tunnel {} mtu {mtu}", name(*device)),
        BoraAnswer::Linux(reason) => format!("left to Linux ({})", reason.name()),
        BoraAnswer::Drop(reason) => format!("dropped ({})", reason.name()),
    }
}

fn of_tags(tags: Tags) -> String {
    let tags = tags.chunks_exact(4).filter(|tag| tag[0] != 0);
    let tags = tags.map(|tag| format!(" vlan {}", u16::from_be_bytes([tag[2], tag[3]])));
    tags.collect()
}
