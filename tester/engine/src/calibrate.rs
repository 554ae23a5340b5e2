//! What the tester can send and count itself, without a router between.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use bora_linux::netns::{Namespace, remove_leftovers};
use bora_port::kinds::AnyKind;
use bora_port::memif::Role;

use crate::frame::is_v4;
use crate::ports::{Attached, Kind, PortSpec};
use crate::result::Calibration;
use crate::traffic::{Stream, Traffic, Values};
use crate::trial::{Bench, Trial, TrialSpec};

/// Length of each trial: start and end do not matter in it.
const TIME: Duration = Duration::from_millis(300);
/// Each rate is this part of the one before, so the result is right to a tenth.
const STEP: f64 = 0.9;
/// Where the sender did not keep up, the next rate starts from no less than this part.
const FURTHEST: f64 = 0.7;
/// Enough to come down to a third of the rate at full speed.
const MAX_TRIALS: usize = 10;
/// Share of the offered frames that must have left.
const SENT: f64 = 0.99;
/// Load at which the tester's own latency is measured, of the rate found.
const LATENCY_LOAD: f64 = 0.5;

/// Links of the tester's own, of the same kinds as its ports: they are gone when this is dropped.
#[derive(Debug)]
pub struct OwnLinks {
    /// Ports at the ends of the links: the first two are joined, the next two …
    pub ports: Vec<PortSpec>,
    spaces: Vec<Namespace>,
    folder: Option<PathBuf>,
}

impl OwnLinks {
    /// A link for each pair of ports. Frames are received on `receive_cpu`; `None`: on the sender's CPU.
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
                (Kind::Port(AnyKind::Memif(_)), Kind::Port(AnyKind::Memif(_))) => {
                    links.memif(pair)?
                }
                (a, b) if is_on_interface(a) && is_on_interface(b) => {
                    links.veth([a, b], receive_cpu)?
                }
                _ => {
                    bail!(
                        "ports {} and {} cannot be joined for a calibration; use calibration = \"off\"",
                        ends[0].name,
                        ends[1].name
                    )
                }
            };
            for (side, (kind, end)) in kinds.into_iter().zip(ends).enumerate() {
                let space = links.spaces.get(2 * pair + side);
                let netns = space.map(Namespace::to_string);
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
        let space = |side: u32| Namespace::new(&format!("own{number}-{side}"));
        let ends = [space(0)?, space(1)?];
        // the names of NAPI threads are of the whole machine
        let device = format!("c{}-{}", pid % 1_000_000, number % 1000);
        let [a, b] = &ends;
        a.run(&format!(
            "ip link add {device} type veth peer name {device} netns {b}"
        ))?;
        for end in &ends {
            // NAPI on both ends, so that XDP frames can be sent to them
            end.run(&format!("ethtool -K {device} gro on"))?;
        }
        // a veth looks at its peer's GRO when it comes up
        for end in &ends {
            end.run(&format!("ip link set {device} up"))?;
            if let Some(cpu) = receive_cpu {
                // with the priority that a lab's router has, too
                end.run(&format!(
                    "echo 1 > /sys/class/net/{device}/threaded
                     for p in $(pgrep '^napi/{device}-'); do \
                     taskset -pc {cpu} $p; renice -n -20 -p $p; done > /dev/null"
                ))?;
            }
        }
        self.spaces.extend(ends);
        Ok(kinds.map(|kind| match kind {
            Kind::AfXdp(_) => Kind::AfXdp(device.clone()),
            Kind::Port(_) => Kind::af_packet(device.clone()),
            _ => Kind::Xdp(device.clone()),
        }))
    }

    fn memif(&mut self, pair: usize) -> anyhow::Result<[Kind; 2]> {
        let folder = std::env::temp_dir().join(format!("bora-test-{}", std::process::id()));
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let socket = folder.join(format!("{pair}.sock"));
        self.folder = Some(folder);
        // the server first: it listens when the client comes
        Ok([Role::Server, Role::Client].map(|role| Kind::memif(socket.clone(), role)))
    }
}

/// Whether two ports of such kinds can be joined by a veth.
fn is_on_interface(kind: &Kind) -> bool {
    use AnyKind::AfPacket;
    matches!(
        kind,
        Kind::Xdp(_) | Kind::AfXdp(_) | Kind::Port(AfPacket(_))
    )
}

impl Drop for OwnLinks {
    fn drop(&mut self) {
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

/// The traffic of a test between ports joined in pairs: the same flows and frames, from one end to
/// the other, both ways if ports of the test both send and receive.
///
/// # Errors
/// If the test sends nothing.
pub fn joined(traffic: &Traffic, ports: &[PortSpec]) -> anyhow::Result<Traffic> {
    let model = traffic.streams.first().context("no streams")?;
    let sends = |port: usize| traffic.streams.iter().any(|stream| stream.from == port);
    let both = traffic.streams.iter().any(|stream| sends(stream.to));
    let v6 = !is_v4(model);
    let address = |port: usize| {
        let own = ports[port].address(v6);
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

/// Finds the highest rate that goes from one end to the other without loss, at most `limit` frames a
/// second of each sending port, and the latency at half of it. If frames are lost at every rate, as
/// where other programs take the processor away, it is the rate with the least loss, and a note says
/// so.
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
    let (loss, rate) = fastest(&mut trial, limit, senders)?;
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

/// The highest rate without loss, or the one with the least, and that loss, 0 to 1.
fn fastest(
    trial: &mut dyn FnMut(f64) -> anyhow::Result<Trial>,
    limit: f64,
    senders: f64,
) -> anyhow::Result<(f64, f64)> {
    let unpaced = trial(f64::INFINITY)?.received_rate() / senders;
    // the link itself may be the limit
    let mut rate = if unpaced > limit * SENT {
        limit
    } else {
        unpaced
    };
    let mut best = (f64::INFINITY, rate);
    for _ in 0..MAX_TRIALS {
        if rate < 1.0 {
            break;
        }
        let found = trial(rate)?;
        let counts = found.counts();
        // the sender may have been late, or have given up
        let reached = rate.min(found.sent_rate() / senders);
        let is_sent = counts.sent as f64 >= SENT * rate * senders * TIME.as_secs_f64() - 1.0;
        if is_sent && counts.lost() == 0 && found.missed == 0 {
            // what is missing of the rate is the trial's end
            let whole = reached >= rate * SENT;
            return Ok((0.0, if whole { rate } else { reached }));
        }
        if counts.loss_ratio() < best.0 {
            best = (counts.loss_ratio(), reached);
        }
        // after one stall the next rate must not be far too low
        rate = reached.max(rate * FURTHEST) * STEP;
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{StreamOutcome, Trial};

    /// Carries this many frames a second.
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
