//! The rates of the last ten minutes.

use std::collections::VecDeque;
use std::time::Duration;

use super::report::{self, PortHistory, PortRates};
use super::sample::Sample;
use crate::ports::totals::Totals;

/// Seconds that are kept: ten minutes.
const SECONDS: usize = 600;

/// Rates by port, one a second, the newest last: 32 octets each, 19 KB a port.
#[derive(Debug, Default)]
pub(super) struct History(Vec<OfPort>);

#[derive(Debug, Default)]
struct OfPort {
    name: String,
    rates: VecDeque<PortRates>,
}

impl History {
    /// Takes in what happened between two samples. If the loop was busy for some seconds, each of them
    /// gets the mean.
    pub(super) fn push(&mut self, before: &Sample, now: &Sample) {
        let time = now.since(before);
        let seconds = (time.as_secs_f64().round() as usize).clamp(1, SECONDS);
        let is_there = |name: &str| now.ports.iter().any(|port| port.name == name);
        self.0.retain(|known| is_there(&known.name));
        for port in &now.ports {
            let rates = rates(before.port(&port.name), &port.totals, time);
            let known = self.of(&port.name);
            known.rates.extend(std::iter::repeat_n(rates, seconds));
            let surplus = known.rates.len().saturating_sub(SECONDS);
            known.rates.drain(..surplus);
        }
    }

    fn of(&mut self, name: &str) -> &mut OfPort {
        let index = self.0.iter().position(|known| known.name == name);
        let index = index.unwrap_or_else(|| {
            self.0.push(OfPort {
                name: name.into(),
                ..OfPort::default()
            });
            self.0.len() - 1
        });
        &mut self.0[index]
    }

    /// For a reader; `time`: of the last sample, milliseconds since 1970.
    pub(super) fn report(&self, time: u64) -> report::History {
        report::History {
            time,
            ports: self.0.iter().map(OfPort::report).collect(),
        }
    }
}

impl OfPort {
    fn report(&self) -> PortHistory {
        let all = &self.rates;
        PortHistory {
            name: self.name.clone(),
            rx_pps: all.iter().map(|one| one.rx_pps).collect(),
            tx_pps: all.iter().map(|one| one.tx_pps).collect(),
            drop_pps: all.iter().map(|one| one.drop_pps).collect(),
            linux_pps: all.iter().map(|one| one.linux_pps).collect(),
            rx_bps: all.iter().map(|one| one.rx_bps).collect(),
            tx_bps: all.iter().map(|one| one.tx_bps).collect(),
        }
    }
}

/// Rates of a port whose counters went from `before` to `now`; zeros if it is new.
pub(crate) fn rates(before: Option<&Totals>, now: &Totals, time: Duration) -> PortRates {
    let Some(before) = before else {
        return PortRates::default();
    };
    let packets =
        |of: fn(&Totals) -> u64| per_second(of(before), of(now), time).min(u32::MAX.into()) as u32;
    let bits = |of: fn(&Totals) -> u64| 8 * per_second(of(before), of(now), time);
    PortRates {
        rx_pps: packets(|it| it.rx_packets),
        tx_pps: packets(|it| it.tx_packets),
        drop_pps: packets(|it| it.dropped.sum()),
        linux_pps: packets(|it| it.passed.sum()),
        rx_bps: bits(|it| it.rx_bytes),
        tx_bps: bits(|it| it.tx_bytes),
    }
}

/// How much a counter grew in a second. One that starts anew has not grown.
pub(crate) fn per_second(before: u64, now: u64, time: Duration) -> u64 {
    let grown = now.saturating_sub(before) as f64;
    (grown / time.as_secs_f64().max(1e-3)).round() as u64
}

#[cfg(test)]
mod tests {
    use std::time::{Instant, SystemTime};

    use super::*;
    use crate::live::sample::PortSample;

    fn sample(start: Instant, seconds: f64, ports: &[(&str, u64)]) -> Sample {
        let ports = ports.iter().map(|&(name, rx_packets)| PortSample {
            name: name.into(),
            totals: Totals {
                rx_packets,
                rx_bytes: 100 * rx_packets,
                ..Totals::default()
            },
        });
        Sample {
            at: start + Duration::from_secs_f64(seconds),
            time: SystemTime::UNIX_EPOCH,
            ports: ports.collect(),
            all: Totals::default(),
            held: 0,
            workers: Vec::new(),
            queues: Vec::new(),
        }
    }

    #[test]
    fn rates_are_of_the_time_that_has_passed() {
        let (mut history, start) = (History::default(), Instant::now());
        let at = |seconds, count| sample(start, seconds, &[("a", count)]);
        history.push(&at(0.0, 0), &at(1.25, 1000));
        history.push(&at(1.25, 1000), &at(4.25, 1300));
        let report = history.report(7);
        assert_eq!(report.ports[0].rx_pps, [800, 100, 100, 100]);
        assert_eq!(report.ports[0].rx_bps[0], 800 * 800);
    }

    #[test]
    fn ten_minutes_are_kept_of_ports_that_there_are() {
        let (mut history, start) = (History::default(), Instant::now());
        for second in 0..700u32 {
            let at = |second| sample(start, f64::from(second), &[("a", 1000)]);
            history.push(&at(second), &at(second + 1));
        }
        assert_eq!(history.report(0).ports[0].tx_bps.len(), SECONDS);
        let (before, now) = (sample(start, 0.0, &[]), sample(start, 1.0, &[("b", 5)]));
        history.push(&before, &now);
        let report = history.report(0);
        assert_eq!(report.ports.len(), 1);
        assert_eq!(
            report.ports[0].rx_pps,
            [0],
            "it is new: nothing is known of the second"
        );
    }

    #[test]
    fn a_counter_that_starts_anew_has_not_grown() {
        assert_eq!(per_second(10, 3, Duration::from_secs(1)), 0);
    }
}
