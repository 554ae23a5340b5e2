//! The flows with the most traffic in the last seconds, estimated from samples.

use std::time::{Duration, Instant};

use bora_capture::{Heaviest, Outcome, Seen};

use crate::config::protocol_name;
use crate::live::report::FlowNow;
use crate::sampling::five_tuple::{Flow, flow_of};

/// Flows that are shown.
const SHOWN: usize = 10;
/// After this time a packet counts 1/e of what it did.
const MEMORY: Duration = Duration::from_secs(4);

/// The flows. A packet's weight is its octets.
#[derive(Debug)]
pub(crate) struct TopFlows {
    heaviest: Heaviest<Group>,
    since: Instant,
    faded: Instant,
}

/// Packets that belong together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Group {
    flow: Flow,
    /// Number of the port or device that they come in by.
    input: u16,
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Output {
    /// By the port or device with this number.
    Port(u16),
    Linux,
    Nowhere,
}

impl TopFlows {
    /// Nothing seen yet.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            heaviest: Heaviest::default(),
            since: now,
            faded: now,
        }
    }

    /// Adds samples of one packet in `one_in`.
    pub(super) fn add(&mut self, samples: &[Seen], one_in: u32, now: Instant) {
        let passed = now.saturating_duration_since(self.faded);
        self.faded = now;
        let factor = (-passed.as_secs_f64() / MEMORY.as_secs_f64()).exp();
        self.heaviest.fade(factor);
        for one in samples {
            if let Some(flow) = flow_of(&one.head) {
                let group = Group {
                    flow,
                    input: one.input,
                    output: output(one.outcome),
                };
                let packets = f64::from(one_in);
                self.heaviest
                    .add(&group, packets * f64::from(one.length), packets);
            }
        }
    }

    /// The heaviest first; `name` tells the names of ports and devices.
    pub(crate) fn report(&self, name: impl Fn(u16) -> String, now: Instant) -> Vec<FlowNow> {
        // what is remembered of an even stream since the start, in seconds of it
        let age = now.saturating_duration_since(self.since).as_secs_f64();
        let memory = MEMORY.as_secs_f64();
        let seconds = (memory * (1.0 - (-age / memory).exp())).max(0.001);
        let top = self.heaviest.top(SHOWN).into_iter();
        let rates = top.map(|(seen, octets, packets)| FlowNow {
            input: name(seen.input),
            output: match seen.output {
                Output::Port(number) => name(number),
                Output::Linux => "Linux".into(),
                Output::Nowhere => "dropped".into(),
            },
            source: seen.flow.source.to_string(),
            destination: seen.flow.destination.to_string(),
            what: what(&seen.flow),
            pps: (packets / seconds).round() as u64,
            bps: (8.0 * octets / seconds).round() as u64,
        });
        rates.filter(|flow| flow.bps > 0).collect()
    }
}

fn output(outcome: Outcome) -> Output {
    match outcome {
        Outcome::Sent(number) => Output::Port(number),
        Outcome::ToLinux(_) => Output::Linux,
        Outcome::Dropped(_) => Output::Nowhere,
    }
}

/// Such as `udp 5000 → 53`.
fn what(flow: &Flow) -> String {
    let number = flow.protocol;
    let name = protocol_name(number).map_or_else(|| format!("protocol {number}"), str::to_owned);
    match flow.ports {
        Some((source, destination)) => format!("{name} {source} → {destination}"),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use bora_capture::Tier;

    use super::*;

    fn packet(number: u8, length: u32) -> Seen {
        let ethernet = [&[2; 12][..], &[8, 0]].concat();
        let mut ip = vec![
            0x45, 0, 0, 40, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, number,
        ];
        ip.extend([0x13, 0x88, 0, 53]);
        Seen {
            time: 0,
            input: 1,
            length,
            head: [ethernet, ip].concat(),
            now: Vec::new(),
            length_now: length,
            tier: Tier::Express,
            outcome: Outcome::Sent(2),
            class: None,
        }
    }

    #[test]
    fn rates_of_an_even_stream() {
        let start = Instant::now();
        let mut top = TopFlows::new(start);
        let name = |number| format!("r{number}");
        for tenth in 1..=100 {
            let now = start + Duration::from_millis(100 * tenth);
            // one in 100 of 1000 packets/s of 1000 octets, and of 2000 packets/s of 100 octets
            let few = packet(7, 1000);
            let many = [packet(8, 100), packet(8, 100)];
            top.add(&[&[few][..], &many].concat(), 100, now);
            if tenth % 10 == 0 {
                let flows = top.report(name, now);
                assert_eq!(flows.len(), 2);
                let [heavy, light] = [&flows[0], &flows[1]];
                assert_eq!(
                    (heavy.destination.as_str(), heavy.what.as_str()),
                    ("10.0.0.7", "udp 5000 → 53")
                );
                assert_eq!((heavy.input.as_str(), heavy.output.as_str()), ("r1", "r2"));
                let close = |is: u64, should: f64| (is as f64 / should - 1.0).abs() < 0.1;
                assert!(close(heavy.bps, 8e6) && close(heavy.pps, 1e3), "{heavy:?}");
                assert!(
                    close(light.bps, 1.6e6) && close(light.pps, 2e3),
                    "{light:?}"
                );
            }
        }
        let later = start + Duration::from_secs(120);
        top.add(&[], 100, later);
        assert!(top.report(name, later).is_empty());
    }
}
