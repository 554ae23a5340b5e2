//! What this machine can do, found out by trying.

use std::fs::File;

use anyhow::bail;
use bora_fib::PortId;
use bora_linux::interface::Interface;
use bora_mirror::{Mirror, MirrorConfig, Reason, ReasonKind};
use bora_xdp::{Attachment, Program, XdpQuery, query};

use crate::config::{FibSection, File as Config, FlowChoice, PortSection};
use crate::engine;
use crate::express::Express;
use crate::guard::flowtables::Flows;
use crate::guard::hooks::Hooks;
use crate::guard::own_flows::Decision;
use crate::ports::link_loss::interrupts;
use crate::ports::{self, LongFrames, Port};
use crate::process::runtime_dir::{Pins, RuntimeDir};
use crate::reports::shaper;

/// Loads the XDP program, without putting it on any interface; says what this kernel lacks and what is lost
/// by that. The program goes with the process.
pub fn try_program() -> anyhow::Result<Vec<&'static str>> {
    Ok(Program::load(
        RuntimeDir::here()?.netns,
        FibSection::default().express_pages(),
        false,
    )?
    .lacks())
}

/// What holds traffic back, what becomes of flows of Linux's flowtables if these interfaces are ports, and how
/// more of them would go by Bora.
pub fn try_flows(ports: &[&str]) -> anyhow::Result<Vec<String>> {
    let (writer, _) = bora_fib::new(Config::default().fib.config())?;
    let mirror = Mirror::open(MirrorConfig::default(), writer)?;
    let guard = mirror.guard();
    let mut express = None;
    if guard.has_chains(false) || guard.has_chains(true) {
        let loaded = express.insert(Express::load(
            RuntimeDir::here()?.netns,
            0,
            0,
            Err("not asked"),
        )?);
        loaded.look_at_hooks(guard, interfaces(&mirror, ports));
    }
    let none = Hooks::default();
    let hooks = express.as_ref().map_or(&none, Express::hooks);
    let program = express.as_ref().map(|express| &express.program);
    let forwards = program.and_then(Program::forwards_flows);
    let devices = ports.iter().map(|&port| port.to_owned()).collect();
    let own = Decision::new(
        guard,
        hooks,
        FlowChoice::default(),
        devices,
        Default::default(),
    );
    let by_chains = hooks.held_by_chains(guard);
    let families = [
        ("IPv4", &guard.v4, by_chains[0]),
        ("IPv6", &guard.v6, by_chains[1]),
    ];
    let held = |(family, reasons, by_chains): (&str, &Vec<Reason>, bool)| -> Vec<String> {
        let lines = reasons.iter();
        let lines = lines.filter(|reason| by_chains || reason.kind != ReasonKind::Netfilter);
        lines
            .map(|reason| format!("{family} goes to Linux: {}", reason.text))
            .collect()
    };
    let mut lines: Vec<String> = families.into_iter().flat_map(held).collect();
    for link in mirror.links().values() {
        if ports.contains(&link.name.as_str())
            && let Some(kind) = guard.shapers.get(&link.index)
        {
            lines.push(shaper(&link.name, kind));
        }
    }
    lines.extend(express.iter().flat_map(|express| express.rules_told(guard)));
    lines.extend(Flows::new(guard, by_chains, ports, forwards, &own).lines);
    Ok(lines)
}

/// These interfaces as rules may name them; their numbers are those of ports.
fn interfaces(mirror: &Mirror, ports: &[&str]) -> Vec<bora_ruleset::Interface> {
    let links = mirror.links().values();
    let wanted = links.filter(|link| ports.contains(&link.name.as_str()));
    let numbered = (0..).zip(wanted);
    let interface = numbered.map(|(number, link)| bora_ruleset::Interface {
        number,
        index: link.index,
        name: link.name.clone(),
    });
    interface.collect()
}

/// What an interface would be as a port.
pub enum Probed {
    /// Bora has tried: the path it would take, and what the driver refused.
    Tried(Vec<String>),
    /// It can be a port, but nothing can be sent by it, for this reason.
    Deaf(&'static str),
    /// Trying would interrupt the link; what the driver says of itself.
    NotTried(String),
}

/// Tries interfaces as ports, where no Bora runs.
pub struct Probe {
    dir: RuntimeDir,
    program: Program,
    long_frames: LongFrames,
    pins: Pins,
    mirror: Mirror,
    _lock: File,
}

impl Probe {
    /// In this network namespace. Fails if a Bora runs there.
    pub fn open() -> anyhow::Result<Self> {
        let dir = RuntimeDir::here()?;
        let lock = dir.lock()?;
        let (writer, _) = bora_fib::new(Config::default().fib.config())?;
        let mirror = Mirror::open(MirrorConfig::default(), writer)?;
        let names = mirror.links().values().map(|link| link.name.clone());
        let long_frames = ports::long_frames(&Config {
            ports: names.map(PortSection::new).collect(),
            ..Config::default()
        })?;
        Ok(Self {
            program: Program::load(dir.netns, 0, long_frames == Ok(()))?,
            long_frames,
            pins: dir.pins()?,
            mirror,
            dir,
            _lock: lock,
        })
    }

    /// Puts the program on an interface and opens its sockets, as `bora run` does, and takes all away again.
    /// Nothing is forwarded meanwhile but by Linux. `interrupt`: also where the driver takes the link
    /// away for that.
    pub fn port(&self, name: &str, interrupt: bool) -> anyhow::Result<Probed> {
        let link = ports::find(&self.mirror, name)?;
        let driver = Interface::named(name)?.map_or(String::new(), |found| found.driver);
        let there = Attachment::open(&self.pins.link(link.index), link.index)?.is_some();
        if link.up && !there && !interrupt && interrupts(&driver) {
            return Ok(Probed::NotTried(features(&driver, &query(link.index)?)));
        }
        if let Some(why) = ports::too_long(&link, self.long_frames) {
            bail!(why);
        }
        let config = config_for(name);
        let port = Port::attach(PortId(0), link, &self.program, &self.pins, &config)?;
        if !port.has_program() {
            bail!("{}", port.summary().join("; "));
        }
        let mut ports = [port];
        ports[0].expose_tags(&self.dir);
        let opened = engine::open_all(&mut ports, &config).map(drop);
        let [port] = ports;
        let summary = port.summary();
        let (hidden, deaf) = (port.offloads.hidden_tags.clone(), port.deaf_peer());
        if !there {
            port.detach(&self.dir);
        }
        opened?;
        if let Some(why) = deaf {
            return Ok(Probed::Deaf(why));
        }
        Ok(Probed::Tried(summary.into_iter().chain(hidden).collect()))
    }
}

/// One port, and all else as it is without a configuration.
fn config_for(name: &str) -> Config {
    Config {
        ports: vec![PortSection::new(name.to_owned())],
        ..Config::default()
    }
}

/// What a driver says of itself.
fn features(driver: &str, found: &XdpQuery) -> String {
    let says = match (found.tells, found.redirects, found.zero_copy) {
        (false, ..) => "this kernel cannot tell what it does",
        (true, false, _) => "no XDP in the driver",
        (true, true, false) => "XDP in the driver, no zero-copy",
        (true, true, true) => "XDP in the driver, zero-copy",
    };
    let jumbo = match found.shows_fragments && found.takes_fragments {
        true => ", jumbo frames",
        false => "",
    };
    format!("driver {driver}: {says}{jumbo}")
}
