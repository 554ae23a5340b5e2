//! What the tester can send and count itself, without a router between.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use crate::ports::{Attached, Kind, PortSpec};
use crate::result::Calibration;
use crate::traffic::{Stream, Traffic, Values};
use crate::trial::{Bench, TrialSpec};

/// Of each trial: long enough that start and end do not matter.
const TIME: Duration = Duration::from_millis(300);
/// From one trial to the next: a rate is found to a tenth.
const STEP: f64 = 0.9;
/// … and at most so far down where the sender did not keep up.
const FURTHEST: f64 = 0.7;
/// Down to a third of what went out at full speed.
const MAX_TRIALS: usize = 10;
/// Share of the offered frames that must have left.
const SENT: f64 = 0.99;
/// Load at which the tester's own latency is measured, of the rate found.
const LATENCY_LOAD: f64 = 0.5;

/// What the names of the links' network namespaces begin with; then comes the process's number.
pub const NAMESPACES: &str = "bora-lab-";

/// Links of the tester's own, of the same kinds as its ports: they are gone when this is dropped.
#[derive(Debug)]
pub struct OwnLinks {
    /// Ports at the ends of the links: the first two are joined, the next two …
    pub ports: Vec<PortSpec>,
    spaces: Vec<String>,
    folder: Option<PathBuf>,
}

impl OwnLinks {
    /// A link for each pair of ports. Frames are received on `receive_cpu`; `None`: on the CPU of
    /// who sends them.
    ///
    /// # Errors
    /// If Linux refuses namespaces or links.
    pub fn new(ports: &[PortSpec], receive_cpu: Option<u32>) -> anyhow::Result<Self> {
        let mut links = Self {
            ports: Vec::new(),
            spaces: Vec::new(),
            folder: None,
        };
        remove_leftovers();
        for (pair, ends) in ports.chunks_exact(2).enumerate() {
            let kinds = match (&ends[0].kind, &ends[1].kind) {
                (Kind::Memif { .. }, Kind::Memif { .. }) => links.memif(pair)?,
                (Kind::Memif { .. } | Kind::Memory(_), _)
                | (_, Kind::Memif { .. } | Kind::Memory(_)) => {
                    bail!(
                        "ports {} and {} cannot be joined for a calibration; use calibration = \"off\"",
                        ends[0].name,
                        ends[1].name
                    )
                }
                (a, b) => links.veth([a, b], receive_cpu)?,
            };
            for (side, (kind, end)) in kinds.into_iter().zip(ends).enumerate() {
                let netns = links.spaces.get(2 * pair + side).cloned();
                links.ports.push(end_of(end, kind, netns, pair, side));
            }
        }
        Ok(links)
    }

    fn veth(&mut self, kinds: [&Kind; 2], receive_cpu: Option<u32>) -> anyhow::Result<[Kind; 2]> {
        // a process may have several, one after the other or at once
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let pid = std::process::id();
        let names = [0, 1].map(|side| format!("{NAMESPACES}{pid}-own{number}-{side}"));
        for name in &names {
            execute(&format!("ip netns add {name}"))?;
            self.spaces.push(name.clone());
        }
        // the names of NAPI threads are of the whole machine
        let device = format!("c{}-{}", pid % 1_000_000, number % 1000);
        let [a, b] = &names;
        execute(&format!(
            "ip -n {a} link add {device} type veth peer name {device} netns {b}"
        ))?;
        for name in &names {
            // NAPI on both ends, so that XDP frames can be sent to them
            execute(&format!(
                "ip netns exec {name} ethtool -K {device} gro on && ip -n {name} link set lo up"
            ))?;
        }
        // a veth looks at its peer's GRO when it comes up
        for name in &names {
            execute(&format!("ip -n {name} link set {device} up"))?;
            if let Some(cpu) = receive_cpu {
                // with the priority that a lab's router has, too
                execute(&format!(
                    "ip netns exec {name} sh -c 'echo 1 > /sys/class/net/{device}/threaded'"
                ))?;
                execute(&format!(
                    "for p in $(pgrep '^napi/{device}-'); do \
                     taskset -pc {cpu} $p; renice -n -20 -p $p; done > /dev/null"
                ))?;
            }
        }
        Ok(kinds.map(|kind| match kind {
            Kind::AfXdp(_) => Kind::AfXdp(device.clone()),
            Kind::AfPacket(_) => Kind::AfPacket(device.clone()),
            _ => Kind::Xdp(device.clone()),
        }))
    }

    fn memif(&mut self, pair: usize) -> anyhow::Result<[Kind; 2]> {
        let folder = std::env::temp_dir().join(format!("bora-test-{}", std::process::id()));
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let socket = folder.join(format!("{pair}.sock"));
        self.folder = Some(folder);
        // the server first: it listens when the client comes
        Ok([true, false].map(|server| Kind::Memif {
            socket: socket.clone(),
            server,
        }))
    }
}

impl Drop for OwnLinks {
    fn drop(&mut self) {
        for space in &self.spaces {
            let _ = execute(&format!("ip netns del {space}"));
        }
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// One end of a link: the port's own kind, CPU and speed, other addresses.
fn end_of(
    port: &PortSpec,
    kind: Kind,
    netns: Option<String>,
    pair: usize,
    side: usize,
) -> PortSpec {
    let last = 2 * pair + side + 1;
    PortSpec {
        name: port.name.clone(),
        kind,
        netns,
        v4: Some(Attached {
            address: [198, 18, 0, last as u8].into(),
            prefix_length: 16,
            gateway: None,
        }),
        v6: Some(Attached {
            address: [0x2001, 2, 0, 0, 0, 0, 0, last as u16].into(),
            prefix_length: 64,
            gateway: None,
        }),
        speed: port.speed,
        cpu: port.cpu,
    }
}

/// Removes namespaces of runs that were killed: those of processes that are no more.
fn remove_leftovers() {
    let entries = std::fs::read_dir("/run/netns");
    for entry in entries.into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let rest = name.strip_prefix(NAMESPACES);
        let pid = rest.and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = execute(&format!("ip netns del {name}"));
        }
    }
}

fn execute(command: &str) -> anyhow::Result<()> {
    let output = Command::new("sh").args(["-c", command]).output();
    let output = output.context("cannot run sh")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{command}`: {}", said.trim());
    }
    Ok(())
}

/// The traffic of a test between ports joined in pairs: the same flows and frames, from one end to
/// the other, both ways if ports of the test both send and receive.
///
/// # Errors
/// If the test sends nothing.
pub fn joined(traffic: &Traffic, ports: &[PortSpec]) -> anyhow::Result<Traffic> {
    let model = traffic.streams.first().context("no streams")?;
    let sends = |port: usize| traffic.streams.iter().any(|stream| stream.from == port);
    let both = traffic.streams.iter().any(|stream| sends(stream.to));
    let v6 = matches!(&model.sources, Values::List(list) if list.iter().any(|one| one.is_ipv6()))
        || matches!(&model.sources, Values::Range(first, _) | Values::Random { first, .. } if first.is_ipv6());
    let address = |port: usize| {
        let spec = &ports[port];
        let own = match v6 {
            true => spec.v6.map(|v6| v6.address.into()),
            false => spec.v4.map(|v4| v4.address.into()),
        };
        own.map(|own| Values::List(vec![own])).context("no address")
    };
    // pairs of which the test uses a port; one that is left over has nobody to be joined to
    let used = |port: usize| {
        traffic
            .streams
            .iter()
            .any(|stream| stream.from == port || stream.to == port)
    };
    let pairs = (0..ports.len() / 2).filter(|pair| used(2 * pair) || used(2 * pair + 1));
    let ends = pairs.flat_map(|pair| [2 * pair, 2 * pair + 1]);
    let mut streams = Vec::new();
    for from in ends.filter(|port| both || port % 2 == 0) {
        streams.push(Stream {
            from,
            to: from ^ 1,
            weight: 1,
            sources: address(from)?,
            destinations: address(from ^ 1)?,
            ..model.clone()
        });
    }
    let frames = traffic.frames.clone();
    Ok(Traffic { streams, frames })
}

/// Finds the rate that goes from one end to the other without a loss, at most `limit` frames a second
/// of each sending port, and the latency at half of it. If the tester loses frames of its own at any
/// rate, as it does where other programs take the processor away, it is the rate with the least
/// loss, and a note that says so.
///
/// # Errors
/// If trials cannot be carried out, or nothing comes back.
pub fn calibrate(
    bench: &mut dyn Bench,
    traffic: Traffic,
    limit: f64,
    how: &str,
) -> anyhow::Result<(Calibration, Option<String>)> {
    let traffic = Arc::new(traffic);
    let senders = traffic.senders().len().max(1) as f64;
    let mut trial = |rate: f64| {
        let mut spec = TrialSpec::steady(traffic.clone(), rate, TIME);
        spec.purpose = "calibration";
        let trial = bench.trial(&spec)?;
        ensure!(!trial.interrupted, "interrupted");
        anyhow::Ok(trial)
    };
    let fastest = trial(f64::INFINITY)?.received_rate() / senders;
    // the link itself may be what limits it
    let mut rate = if fastest > limit * SENT {
        limit
    } else {
        fastest
    };
    let mut best = (f64::INFINITY, rate);
    for _ in 0..MAX_TRIALS {
        if rate < 1.0 {
            break;
        }
        let found = trial(rate)?;
        let counts = found.counts();
        // it may have been late, or have given up
        let reached = rate.min(found.sent_rate() / senders);
        let is_sent = counts.sent as f64 >= SENT * rate * senders * TIME.as_secs_f64() - 1.0;
        if is_sent && counts.lost() == 0 && found.missed == 0 {
            // what is missing of the rate is the trial's end
            let whole = reached >= rate * SENT;
            best = (0.0, if whole { rate } else { reached });
            break;
        }
        if counts.loss_ratio() < best.0 {
            best = (counts.loss_ratio(), reached);
        }
        // one stall must not make it crawl
        rate = reached.max(rate * FURTHEST) * STEP;
    }
    let (loss, rate) = best;
    ensure!(
        loss < 1.0,
        "no frame comes from one of the tester's ports to the other"
    );
    let latency = trial(rate * LATENCY_LOAD)?.latency();
    let frames = &traffic.frames.name;
    let note = (loss > 0.0).then(|| {
        format!(
            "The tester itself lost {:.2} % of the frames of {frames} octets at {rate:.0} frames/s, and \
             no load was without loss: other programs took the processor away. Smaller losses are \
             not certain to be the router's.",
            loss * 100.0
        )
    });
    let found = Calibration {
        frames: frames.clone(),
        family: String::new(),
        senders: senders as u32,
        rate,
        latency: (
            latency.value_at_quantile(0.5),
            latency.value_at_quantile(0.99),
        ),
        how: how.into(),
    };
    Ok((found, note))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{StreamOutcome, Trial};

    /// Carries so many frames a second.
    struct Model(f64);

    impl Bench for Model {
        fn trial(&mut self, spec: &TrialSpec) -> anyhow::Result<Trial> {
            let time = spec.time().as_secs_f64();
            let rate = spec.steps[0].rate.min(5e6);
            let [sent, received] = [rate, rate.min(self.0)].map(|rate| (rate * time) as u64);
            let mut outcome = StreamOutcome::of(sent, received);
            outcome.latency.record(7_000)?;
            let streams = vec![outcome; spec.traffic.streams.len()];
            Ok(Trial::of(streams, spec.time()))
        }
    }

    #[test]
    fn what_a_killed_run_leaves_goes() {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let name = format!("{NAMESPACES}{}-own0-0", child.id());
        execute(&format!("ip netns add {name}")).unwrap();
        remove_leftovers();
        assert!(!Path::new(&format!("/run/netns/{name}")).exists());
    }

    fn two_ports() -> (Traffic, Vec<PortSpec>) {
        let text = "title = \"t\"\nsizes = [64]\n[[test]]\nmethod = \"throughput\"\n";
        let plan = crate::plan::Plan::parse(text).unwrap();
        let port = |side: usize| {
            let port = PortSpec {
                name: side.to_string(),
                kind: Kind::Memory(side),
                netns: None,
                v4: None,
                v6: None,
                speed: None,
                cpu: None,
            };
            end_of(&port, Kind::Memory(side), None, 0, side)
        };
        let ports = vec![port(0), port(1)];
        let (cases, _) = plan.cases(&ports, crate::plan::Length::Short).unwrap();
        (Traffic::clone(&cases[0].traffic), ports)
    }

    #[test]
    fn the_tester_knows_its_limit() {
        let (traffic, ports) = two_ports();
        let traffic = joined(&traffic, &ports).unwrap();
        assert_eq!(traffic.streams.len(), 1);
        let rate = |capacity: f64, limit: f64| {
            let found = calibrate(&mut Model(capacity), traffic.clone(), limit, "memory");
            found.map(|(found, note)| (found.rate, note.is_some()))
        };
        let (found, noted) = rate(1e6, f64::INFINITY).unwrap();
        assert!((0.9e6..=1e6).contains(&found) && !noted, "{found}");
        assert_eq!(rate(1e6, 2e5).unwrap(), (2e5, false));
        assert!(rate(0.0, f64::INFINITY).is_err());
    }

    #[test]
    fn own_links_come_and_go() {
        let (_, mut ports) = two_ports();
        for (port, name) in ports.iter_mut().zip(["a", "b"]) {
            port.kind = Kind::Xdp(name.into());
        }
        let links = OwnLinks::new(&ports, None).unwrap();
        assert!(matches!(links.ports[1].kind, Kind::Xdp(_)));
        let space = links.ports[1].netns.clone().unwrap();
        let there = || std::fs::exists(format!("/run/netns/{space}")).unwrap();
        assert!(there());
        drop(links);
        assert!(!there());
    }
}
