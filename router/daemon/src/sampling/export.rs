//! The sFlow agent: makes samples of what was seen, and sends them to the collectors. A datagram that cannot be sent at
//! once is lost and counted.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bora_capture::sflow::{FlowSample, Output, Vlans, Writer, vlan};
use bora_capture::{HEAD, Outcome, Seen};
use bora_linux::interface;
use bora_linux::lock;
use serde::{Deserialize, Serialize};

use super::collector::{Collected, Collector};
use super::survey::{Place, Question, Survey};
use crate::config::SflowSection;
use crate::sampling::five_tuple::flow_of;

/// Interface indices that samples have room for (section 5, "Compact Format").
const MAX_INDEX: u32 = 1 << 24;
/// What became of samples: `bora show sflow`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Exported {
    /// The agent's address, once it is known.
    pub(crate) agent: Option<IpAddr>,
    /// Samples of packets.
    pub(crate) samples: u64,
    /// Packets that were to be sampled and were not.
    pub(crate) lost_samples: u64,
    /// Samples of counters.
    pub(crate) counter_samples: u64,
    pub(crate) collectors: Vec<Collected>,
}

/// What others read of it.
pub(crate) type Shared = Arc<Mutex<Exported>>;

/// The agent.
pub(super) struct Exporter {
    section: SflowSection,
    started: Instant,
    writer: Option<Writer>,
    collectors: Vec<Collector>,
    /// Samples of packets and of counters so far, by their source.
    flow_sequences: BTreeMap<u32, Sequence>,
    counter_sequences: BTreeMap<u32, Sequence>,
    polled: Option<Instant>,
    /// Packets that were to be sampled and were not.
    lost: Arc<AtomicU64>,
    /// Packets that no sample was made of: nothing is known of the agent, or of where they came in.
    unmade: u64,
    exported: Exported,
    /// A copy of it, for others.
    shared: Shared,
}

/// Counts the samples of a source. It begins anew when the source's counters do, as section 5 demands.
#[derive(Debug, Default)]
struct Sequence {
    samples: u32,
    /// The source's counter at the last one.
    packets: u64,
}

impl Sequence {
    fn next(&mut self, packets: u64) -> u32 {
        if packets < self.packets {
            self.samples = 0;
        }
        self.packets = packets;
        self.samples = self.samples.wrapping_add(1);
        self.samples
    }
}

impl Exporter {
    pub(super) fn new(section: SflowSection, lost: Arc<AtomicU64>, shared: Shared) -> Self {
        let addresses = section.collector.all().iter();
        Self {
            collectors: addresses.map(|&one| Collector::new(one)).collect(),
            exported: Exported::new(&section),
            section,
            started: Instant::now(),
            writer: None,
            flow_sequences: BTreeMap::new(),
            counter_sequences: BTreeMap::new(),
            polled: None,
            lost,
            unmade: 0,
            shared,
        }
    }

    /// Makes and sends what there is; `ask` asks the control loop, and has no answer when it has ended.
    pub(super) fn turn(
        &mut self,
        seen: &[Seen],
        ask: impl FnOnce(Vec<Question>, bool) -> Option<Survey>,
    ) -> Option<()> {
        let poll = self.is_poll_due();
        if seen.is_empty() && !poll {
            return Some(());
        }
        let questions = seen.iter().filter_map(question).collect();
        let survey = ask(questions, poll)?;
        self.collectors.iter_mut().for_each(Collector::open);
        let Some(mut writer) = self.writer.take().or_else(|| self.first_writer()) else {
            self.unmade += seen.len() as u64;
            self.tell(0, 0, &[]);
            return Some(());
        };
        let mut datagrams = Vec::new();
        let samples = self.flows(seen, &survey, &mut writer, &mut datagrams);
        self.unmade += seen.len() as u64 - samples;
        let counters = self.counters(&survey, &mut writer, &mut datagrams);
        datagrams.extend(writer.finish(self.started.elapsed()));
        self.writer = Some(writer);
        self.tell(samples, counters, &datagrams);
        Some(())
    }

    fn is_poll_due(&mut self) -> bool {
        let interval = Duration::from_secs(self.section.polling.into());
        let is_due = self.polled.is_none_or(|last| last.elapsed() >= interval);
        let poll = is_due && !interval.is_zero();
        if poll {
            self.polled = Some(Instant::now());
        }
        poll
    }

    /// Once the agent's address is known.
    fn first_writer(&self) -> Option<Writer> {
        let own = || self.collectors.iter().find_map(Collector::own_address);
        self.section.agent.or_else(own).map(Writer::new)
    }

    /// Samples of packets; returns how many.
    fn flows(
        &mut self,
        seen: &[Seen],
        survey: &Survey,
        writer: &mut Writer,
        datagrams: &mut Vec<Vec<u8>>,
    ) -> u64 {
        let mut routes = survey.routes.iter();
        let drops = self.lost.load(Relaxed) as u32;
        let mut samples = 0;
        for one in seen {
            let route = question(one).and_then(|_| routes.next().copied().flatten());
            let Some(place) = survey.places.get(&one.input) else {
                continue; // it has gone
            };
            if place.ifindex.max(place.source) >= MAX_INDEX {
                continue;
            }
            let sequence = self.flow_sequences.entry(place.source).or_default();
            let received = match self.section.header > HEAD {
                true => one.received(),
                false => one.head.clone(),
            };
            let sample = FlowSample {
                sequence: sequence.next(place.pool),
                source: place.source,
                rate: self.section.sampling,
                pool: place.pool as u32,
                drops,
                input: place.ifindex,
                output: Output::of(one.outcome, |number| {
                    Some(survey.places.get(&number)?.ifindex)
                }),
                length: one.length,
                header: &received[..received.len().min(self.section.header)],
                vlans: vlans(one, place, survey),
                route,
            };
            datagrams.extend(writer.flow(&sample, self.started.elapsed()));
            samples += 1;
        }
        samples
    }

    /// Samples of counters; returns how many.
    fn counters(
        &mut self,
        survey: &Survey,
        writer: &mut Writer,
        datagrams: &mut Vec<Vec<u8>>,
    ) -> u64 {
        let mut samples = 0;
        for (name, port) in survey
            .ports
            .iter()
            .filter(|(_, port)| port.index < MAX_INDEX)
        {
            let mut port = port.clone();
            match interface::Interface::named(name) {
                Ok(known) => port.speed = known.and_then(|known| known.speed).unwrap_or(0),
                Err(error) => log::warn!("{name}: its speed is not known: {error}"),
            }
            let sequence = self.counter_sequences.entry(port.index).or_default();
            let number = sequence.next(port.received.packets);
            datagrams.extend(writer.counters(number, &port, self.started.elapsed()));
            samples += 1;
        }
        samples
    }

    /// Sends datagrams to all collectors, and tells what became of them.
    fn tell(&mut self, samples: u64, counters: u64, datagrams: &[Vec<u8>]) {
        let exported = &mut self.exported;
        exported.agent = self.writer.as_ref().map(Writer::agent);
        exported.samples += samples;
        exported.counter_samples += counters;
        exported.lost_samples = self.lost.load(Relaxed) + self.unmade;
        for (collector, told) in self.collectors.iter_mut().zip(&mut exported.collectors) {
            collector.send(datagrams, told);
        }
        let mut shared = lock(&self.shared);
        shared.clone_from(exported);
    }
}

impl Exported {
    /// Before anything was sent.
    pub(super) fn new(section: &SflowSection) -> Self {
        let addresses = section.collector.all().iter();
        Self {
            collectors: addresses.map(|&one| Collected::new(one)).collect(),
            ..Self::default()
        }
    }
}

/// Which route a packet took, if it was sent.
fn question(one: &Seen) -> Option<Question> {
    let Outcome::Sent(output) = one.outcome else {
        return None;
    };
    let flow = flow_of(&one.head)?;
    Some(Question {
        input: one.input,
        output,
        source: flow.source,
        destination: flow.destination,
    })
}

/// VLANs in the frames, or those of VLAN devices that take tags off and put them on.
fn vlans(one: &Seen, input: &Place, survey: &Survey) -> Option<Vlans> {
    let of = |frame: &[u8], place: Option<&Place>| match vlan(frame) {
        (0, 0) => (place.and_then(|place| place.vlan).unwrap_or(0), 0),
        known => known,
    };
    let output = match one.outcome {
        Outcome::Sent(number) => survey.places.get(&number),
        _ => None,
    };
    let vlans = Vlans {
        source: of(&one.head, Some(input)),
        destination: match one.outcome {
            Outcome::Sent(_) => of(&one.now, output),
            _ => (0, 0),
        },
    };
    (vlans != Vlans::default()).then_some(vlans)
}

#[cfg(test)]
mod tests {
    use bora_capture::Tier;
    use bora_contract::Reason;

    use super::*;

    fn place(ifindex: u32, vlan: Option<u16>) -> Place {
        Place {
            ifindex,
            source: 1,
            pool: 0,
            vlan,
        }
    }

    fn frame(tag: Option<u16>) -> Vec<u8> {
        let tag = tag.map(|tag| [[0x81, 0], tag.to_be_bytes()].concat());
        [vec![2; 12], tag.unwrap_or_default(), vec![8, 0, 0x45, 0]].concat()
    }

    /// VLAN and priority before and after: of the frames, or of the devices that take tags off and put them on.
    #[test]
    fn vlans_before_and_after() {
        let places = BTreeMap::from([(1, place(11, None)), (300, place(12, Some(7)))]);
        let survey = Survey {
            places,
            ports: Vec::new(),
            routes: Vec::new(),
        };
        let plain = (0, 0);
        for (input, before, outcome, after, expected) in [
            (1, None, Outcome::Sent(1), None, None),
            (
                1,
                Some(0x6064),
                Outcome::Sent(1),
                None,
                Some(((100, 3), plain)),
            ),
            (
                1,
                Some(0x6064),
                Outcome::Sent(1),
                Some(5),
                Some(((100, 3), (5, 0))),
            ),
            (300, None, Outcome::Sent(1), None, Some(((7, 0), plain))),
            (1, None, Outcome::Sent(300), None, Some((plain, (7, 0)))),
            (
                1,
                Some(5),
                Outcome::ToLinux(Reason::NotIp),
                Some(5),
                Some(((5, 0), plain)),
            ),
        ] {
            let one = Seen {
                time: 0,
                input,
                length: 64,
                head: frame(before),
                now: frame(after),
                length_now: 64,
                tier: Tier::Engine,
                outcome,
                class: None,
            };
            let found = vlans(&one, &survey.places[&input], &survey);
            let found = found.map(|both| (both.source, both.destination));
            assert_eq!(found, expected, "{input} {outcome:?}");
        }
    }

    #[test]
    fn counts_begin_anew_with_their_counters() {
        let mut sequence = Sequence::default();
        let numbers = [5, 5, 9, 1, 2].map(|packets| sequence.next(packets));
        assert_eq!(numbers, [1, 2, 3, 1, 2]);
    }

    #[test]
    fn nobody_waits_for_a_collector() {
        let section: SflowSection = toml::from_str("collector = \"127.0.0.1:9\"").unwrap();
        let shared = Shared::new(Mutex::new(Exported::new(&section)));
        let mut exporter = Exporter::new(section, Arc::default(), shared.clone());
        let datagrams = vec![vec![0; 1000]; 2000];
        exporter.collectors.iter_mut().for_each(Collector::open);
        exporter.tell(0, 0, &datagrams);
        let told = &shared.lock().unwrap().collectors[0];
        assert_eq!(told.sent + told.failed, 2000);
        // the first that was sent is refused when the second is
        assert!(told.refused > 0, "{told:?}");
    }
}
