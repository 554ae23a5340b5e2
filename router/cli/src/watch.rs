//! `bora capture` and `bora trace`.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write;
use std::net::IpAddr;
use std::path::Path;

use anyhow::{Context, bail};
use bora_daemon::{Explanation, Flow, Traced};
use pcap::{Capture, Linktype};
use serde::Serialize;

use crate::arguments::{CaptureOptions, Selection, TraceOptions};
use crate::client;
use bora_terminal::{Output, say};

/// Writes packets to a file until it has enough, or is ended by Ctrl-C.
pub(crate) fn capture(options: &CaptureOptions) -> anyhow::Result<()> {
    let path = &options.write;
    let mut file: Box<dyn Write> = match path == Path::new("-") {
        true => Box::new(Output),
        false => Box::new(File::create(path).with_context(|| path.display().to_string())?),
    };
    let url = format!(
        "/v1/capture?snap={}&rate={}&out={}&{}",
        options.snap,
        options.rate,
        options.out,
        query(&options.selection)?
    );
    let mut packets = client::stream(&url, compiled(&options.selection)?)?;
    while let Some(octets) = packets.next()? {
        let written = file.write_all(&octets).and_then(|()| file.flush());
        written.with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// Prints what becomes of packets until it has enough, or is ended by Ctrl-C.
pub(crate) fn trace(options: &TraceOptions) -> anyhow::Result<()> {
    let mut url = format!("/v1/trace?rate=1000&{}", query(&options.selection)?);
    let body = match &options.packet {
        Some(packet) => {
            url += "&limit=1&inject=true";
            packet.clone()
        }
        None => compiled(&options.selection)?,
    };
    let mut seen = 0;
    let mut waiting = Vec::new();
    let mut explained = BTreeMap::new();
    let mut packets = client::stream(&url, body)?;
    while let Some(octets) = packets.next()? {
        waiting.extend_from_slice(&octets);
        while let Some(end) = waiting.iter().position(|&octet| octet == b'\n') {
            let line: Vec<u8> = waiting.drain(..=end).collect();
            seen += 1;
            let text = match options.json {
                true => String::from_utf8_lossy(&line).trim_end().to_owned(),
                false => {
                    let traced: Traced = serde_json::from_slice(&line)?;
                    told(&traced, explanation(&traced, &mut explained)?)
                }
            };
            say!("{text}")?;
        }
    }
    match (&options.packet, &options.selection.port) {
        (Some(_), Some(port)) if seen == 0 => {
            bail!("{port} has not seen the packet: is it up, and a port of its own, not of a bond?")
        }
        _ => Ok(()),
    }
}

/// Packets to take, as the daemon reads them.
#[derive(Serialize)]
struct Query<'a> {
    one_in: u32,
    limit: Option<u64>,
    port: Option<&'a str>,
}

fn query(selection: &Selection) -> anyhow::Result<String> {
    Ok(serde_urlencoded::to_string(Query {
        one_in: selection.one_in,
        limit: selection.count,
        port: selection.port.as_deref(),
    })?)
}

/// The filter as libpcap compiles it, in the form of `tcpdump -ddd`; nothing for none.
fn compiled(selection: &Selection) -> anyhow::Result<String> {
    let filter = selection.filter.join(" ");
    if filter.is_empty() {
        return Ok(String::new());
    }
    let program = Capture::dead(Linktype::ETHERNET)?.compile(&filter, true);
    let program = program.with_context(|| format!("the filter `{filter}`"))?;
    let instructions = program.get_instructions();
    let mut text = format!("{}\n", instructions.len());
    for one in instructions {
        writeln!(text, "{one}")?;
    }
    Ok(text)
}

/// A packet, as the daemon reads it.
#[derive(Serialize)]
struct Origin<'a> {
    source: IpAddr,
    input: &'a str,
    protocol: u8,
    source_port: Option<u16>,
    destination_port: Option<u16>,
}

/// What Bora knows of a packet's destination, and Linux of the whole way if it goes there; it is asked once for each.
fn explanation<'a>(
    traced: &Traced,
    known: &'a mut BTreeMap<String, Explanation>,
) -> anyhow::Result<Option<&'a Explanation>> {
    let Some(flow) = &traced.flow else {
        return Ok(None);
    };
    let mut url = format!("/v1/explain/{}", flow.destination);
    // a tagged packet is one of another interface for Linux
    if traced.outcome == "to Linux" && !is_tagged(&traced.before) {
        let (from, to) = flow.ports.unzip();
        let origin = Origin {
            source: flow.source,
            input: &traced.input,
            protocol: flow.protocol,
            source_port: from,
            destination_port: to,
        };
        url += &format!("?{}", serde_urlencoded::to_string(origin)?);
    }
    Ok(Some(match known.entry(url) {
        Entry::Occupied(there) => there.into_mut(),
        Entry::Vacant(place) => {
            let text = client::get(place.key())?;
            place.insert(serde_json::from_str(&text)?)
        }
    }))
}

fn is_tagged(frame: &str) -> bool {
    matches!(frame.get(24..28), Some("8100" | "88a8"))
}

/// A packet in words, a line for each step.
fn told(traced: &Traced, explanation: Option<&Explanation>) -> String {
    let flow = traced
        .flow
        .as_ref()
        .map_or("no IP packet".into(), flow_text);
    let mut text = format!(
        "{:.6}  {}  {flow}, {} octets",
        traced.time, traced.input, traced.length
    );
    let mut line = |name: &str, what: &str| text += &format!("\n  {name:<8} {what}");
    let reason = traced.reason.as_deref().unwrap_or_default();
    let by_gate = traced.outcome == "to Linux" && traced.tier == "express";
    match (by_gate, &*traced.tier) {
        (true, _) => line("gate", "in the driver; what follows is Linux's"),
        (false, tier) => line("gate", &format!("plain transit: {tier}")),
    }
    if let Some(explanation) = explanation {
        line("fib", &explanation.fib);
        explanation.note.iter().for_each(|note| line("rules", note));
        if reason == "guard" {
            explanation.guard.iter().for_each(|why| line("guard", why));
        }
    }
    if let Some(class) = traced.class {
        line("class", &class.to_string());
    }
    if let Some(output) = &traced.output {
        line("rewrite", &changes(&traced.before, &traced.now));
        line("verdict", &format!("sent by {output}"));
    } else {
        line("verdict", &format!("{} ({reason})", traced.outcome));
    }
    if let Some(linux) = explanation.and_then(|explanation| explanation.linux.as_ref()) {
        line("linux", linux);
    }
    text
}

pub(crate) fn flow_text(flow: &Flow) -> String {
    let protocol = match flow.protocol {
        1 => "ICMP".into(),
        6 => "TCP".into(),
        17 => "UDP".into(),
        58 => "ICMPv6".into(),
        132 => "SCTP".into(),
        other => format!("protocol {other}"),
    };
    let with_port = |address: IpAddr, port: Option<u16>| match (address, port) {
        (address, None) => address.to_string(),
        (IpAddr::V6(address), Some(port)) => format!("[{address}]:{port}"),
        (IpAddr::V4(address), Some(port)) => format!("{address}:{port}"),
    };
    let [from, to] = [
        flow.ports.map(|ports| ports.0),
        flow.ports.map(|ports| ports.1),
    ];
    format!(
        "{} > {} {protocol}",
        with_port(flow.source, from),
        with_port(flow.destination, to)
    )
}

/// The Ethernet addresses before and now.
fn changes(before: &str, now: &str) -> String {
    let address = |header: &str, from: usize| {
        let octets = (0..6).filter_map(|octet| header.get(from + 2 * octet..from + 2 * octet + 2));
        octets.collect::<Vec<_>>().join(":")
    };
    format!(
        "{} > {} becomes {} > {}",
        address(before, 12),
        address(before, 0),
        address(now, 12),
        address(now, 0)
    )
}
