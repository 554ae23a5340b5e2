//! What the tester can send and count itself, without a router between.

mod own_links;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};

pub use own_links::OwnLinks;

use crate::ports::PortSpec;
use crate::result::Calibration;
use crate::traffic::{Stream, Traffic, Values};
use crate::trial::{Bench, Trial, TrialSpec};

/// Of each trial: long enough that start and end do not matter.
const TIME: Duration = Duration::from_millis(300);
/// From one trial to the next: a rate is found to a twentieth.
const STEP: f64 = 0.95;
/// Down to a fifth of what went out at full speed.
const MAX_TRIALS: usize = 32;
/// Share of the offered frames that must have left in time.
const SENT: f64 = 0.99;
/// Load at which the tester's own latency is measured, of the rate found.
const LATENCY_LOAD: f64 = 0.5;

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
    let mut streams = Vec::new();
    for from in (0..ports.len()).filter(|port| both || port % 2 == 0) {
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
/// of each sending port, and the latency at half of it.
///
/// # Errors
/// If trials cannot be carried out, or even a slow one loses frames.
pub fn calibrate(
    bench: &mut dyn Bench,
    traffic: Traffic,
    limit: f64,
    how: &str,
) -> anyhow::Result<Calibration> {
    let traffic = Arc::new(traffic);
    let senders = traffic.senders().len().max(1) as f64;
    let mut trial = |rate: f64| {
        let mut spec = TrialSpec::steady(traffic.clone(), rate, TIME);
        spec.purpose = "calibration";
        bench.trial(&spec)
    };
    let fastest = trial(f64::INFINITY)?;
    let mut rate = (fastest.received_rate() / senders).min(limit);
    for _ in 0..MAX_TRIALS {
        if rate < 1.0 {
            break;
        }
        let found = trial(rate)?;
        if found.interrupted {
            bail!("interrupted");
        }
        if is_clean(&found, rate * senders) {
            let latency = trial(rate * LATENCY_LOAD)?.latency();
            return Ok(Calibration {
                frames: traffic.frames.name.clone(),
                rate,
                latency: (
                    latency.value_at_quantile(0.5),
                    latency.value_at_quantile(0.99),
                ),
                how: how.into(),
            });
        }
        rate *= STEP;
    }
    bail!("the tester loses frames of its own at any rate; are other programs using the processor?")
}

/// Whether all was sent in time and counted.
fn is_clean(trial: &Trial, rate: f64) -> bool {
    let counts = trial.counts();
    let expected = rate * TIME.as_secs_f64();
    counts.lost() == 0 && trial.missed == 0 && counts.sent as f64 >= SENT * expected - 1.0
}

#[cfg(test)]
mod tests {
    use super::own_links::end_of;
    use super::*;
    use crate::ports::Kind;
    use crate::trial::{Counts, StreamOutcome, new_histogram};

    /// Carries so many frames a second.
    struct Model(f64);

    impl Bench for Model {
        fn trial(&mut self, spec: &TrialSpec) -> anyhow::Result<Trial> {
            let time = spec.time().as_secs_f64();
            let rate = spec.steps[0].rate.min(5e6);
            let mut latency = new_histogram();
            latency.record(7_000)?;
            let outcome = StreamOutcome {
                counts: Counts {
                    sent: (rate * time) as u64,
                    received: (rate.min(self.0) * time) as u64,
                    ..Counts::default()
                },
                latency,
                longest_gap: 0,
                last_loss: None,
            };
            Ok(Trial {
                streams: vec![outcome; spec.traffic.streams.len()],
                elapsed: spec.time(),
                lateness: new_histogram(),
                unknown_damaged: 0,
                foreign: 0,
                missed: 0,
                interrupted: false,
            })
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
            found.map(|found| found.rate)
        };
        let found = rate(1e6, f64::INFINITY).unwrap();
        assert!((0.95e6..=1e6).contains(&found), "{found}");
        assert_eq!(rate(1e6, 2e5).unwrap(), 2e5);
        assert!(rate(0.0, f64::INFINITY).is_err());
    }
}
