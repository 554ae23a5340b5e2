//! Rules as an operator would give them to nftables: sources to drop are a set of intervals; rules that
//! overlap and whose order counts cannot be a set, so they are a chain. Linux looks at packets that a raw
//! socket sends: the difference between a chain with the rules and one without is what they cost.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rustix::net::{AddressFamily, Protocol, RawProtocol, SendFlags, SocketType, sendto, socket};

use super::{Header, Kind, Rule};

const TABLE: &str = "bora_bench";
/// Packets that are sent to measure a chain once.
const SENT: usize = 30_000;

/// Longer chains take too long to measure, and no operator would use them.
pub const MAX_CHAIN: usize = 1000;

/// A network namespace's table; the namespace must be one of our own.
pub struct Nft {
    socket: OwnedFd,
    packets: Vec<([u8; 60], SocketAddrV4)>,
}

fn nft(commands: &str) -> anyhow::Result<()> {
    let mut child = Command::new("nft")
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .context("nft")?;
    child
        .stdin
        .take()
        .context("nft's input")?
        .write_all(commands.as_bytes())?;
    ensure!(child.wait()?.success(), "nft refuses the set");
    Ok(())
}

fn prefix((address, length): (u32, u8)) -> String {
    format!("{}/{length}", Ipv4Addr::from(address))
}

fn set(rules: &[Rule]) -> String {
    let elements: Vec<String> = rules.iter().map(|rule| prefix(rule.source)).collect();
    format!(
        "set sources {{\ntype ipv4_addr\nflags interval\nauto-merge\nelements = {{ {} }}\n}}\n",
        elements.join(", ")
    )
}

fn chain(rules: &[Rule]) -> String {
    let mut text = String::new();
    for rule in rules {
        for (field, (address, length)) in [("saddr", rule.source), ("daddr", rule.destination)] {
            if length > 0 {
                let _ = write!(text, "ip {field} {} ", prefix((address, length)));
            }
        }
        if let Some(protocol) = rule.protocol {
            let _ = write!(text, "meta l4proto {protocol} ");
        }
        for (field, (first, last)) in [
            ("sport", rule.source_ports),
            ("dport", rule.destination_ports),
        ] {
            if (first, last) != (0, u16::MAX) {
                let _ = write!(text, "th {field} {first}-{last} ");
            }
        }
        text += "counter drop\n";
    }
    text
}

impl Nft {
    /// Prepares the namespace: a device that all packets would leave by; a chain drops them before.
    ///
    /// # Errors
    /// Linux refuses something.
    pub fn new(headers: &[Header]) -> anyhow::Result<Self> {
        for command in [
            "link add out type veth peer name other",
            "link set other up",
            "link set out up",
            "address add 192.0.2.1/24 dev out",
            "route add default dev out",
        ] {
            let done = Command::new("ip").args(command.split(' ')).status()?;
            ensure!(done.success(), "ip {command}");
        }
        let raw = RawProtocol::new(255).map(Protocol::from_raw); // IPPROTO_RAW
        let socket = socket(AddressFamily::INET, SocketType::RAW, raw)?;
        let packet = |header: &Header| {
            let mut packet = [0; 60];
            packet[..header.len()].copy_from_slice(header);
            packet[33] = 0x50; // a TCP header without options
            let to = Ipv4Addr::new(header[16], header[17], header[18], header[19]);
            (packet, SocketAddrV4::new(to, 0))
        };
        Ok(Self {
            socket,
            packets: headers.iter().map(packet).collect(),
        })
    }

    /// Loads a chain with the rules, or without any; returns how long nft took.
    ///
    /// # Errors
    /// nft refuses it.
    pub fn load(&self, kind: Kind, rules: &[Rule]) -> anyhow::Result<Duration> {
        let (set, rules) = match kind {
            _ if rules.is_empty() => (String::new(), String::new()),
            Kind::Blocklist => (set(rules), "ip saddr @sources drop\n".into()),
            Kind::Filter => (String::new(), chain(rules)),
        };
        let commands = format!(
            "table ip {TABLE}\ndelete table ip {TABLE}\ntable ip {TABLE} {{\n{set}chain out {{\n\
             type filter hook output priority 0\n{rules}drop\n}}\n}}\n"
        );
        let start = Instant::now();
        nft(&commands)?;
        Ok(start.elapsed())
    }

    /// Nanoseconds a packet to send through the chain, which drops it.
    pub fn cost(&self) -> f64 {
        let start = Instant::now();
        for (packet, to) in self.packets.iter().cycle().take(SENT) {
            let _ = sendto(&self.socket, packet, SendFlags::empty(), to); // refused by the chain
        }
        start.elapsed().as_secs_f64() * 1e9 / SENT as f64
    }
}
