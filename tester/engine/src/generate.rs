//! Writes the frames of one port, one after the other.

use anyhow::{Context, ensure};
use bora_wire::checksum::Sum;

use crate::arrived::Arrived;
use crate::flow::{Flow, Place};
use crate::frame::Template;
use crate::link::Link;
use crate::signature::{LENGTH, MASK, Signature};
use crate::traffic::{Stream, Traffic};

/// Longest order of a port's streams before it repeats.
const LONGEST_CYCLE: u64 = 1 << 16;

/// The frames that a port sends in one trial: its streams in turn by weight, each stream's frames
/// numbered from 0.
pub struct Generator {
    /// Streams of the traffic, other ports' too.
    streams: usize,
    sources: Vec<Source>,
    /// Indices into the sources, in order of sending.
    cycle: Vec<u16>,
    /// Next place of the cycle.
    turn: usize,
    /// Which of a source's templates a frame takes, by sequence number modulo length.
    lengths: Vec<u16>,
}

/// A stream as it is sent.
struct Source {
    id: u16,
    stream: Stream,
    templates: Vec<Template>,
    /// Number of the next frame.
    sequence: u64,
    /// Index into the generator's lengths.
    length: usize,
    /// Place of the next frame among the flows.
    place: Place,
    /// When the frame before was due, ns of [`crate::clock::now`].
    last_due: u64,
    /// Sum of addresses and ports, where all frames have the same, which then are in the templates.
    fixed: Option<Sum>,
}

impl Generator {
    /// The frames of `port`; `links` has an entry for each stream of the traffic.
    ///
    /// # Errors
    /// The traffic makes no sense, see [`Traffic::check`], or none of it is sent by the port.
    pub fn new(traffic: &Traffic, port: usize, links: &[Link]) -> anyhow::Result<Self> {
        traffic.check()?;
        let mut distinct = traffic.frames.lengths.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let mut sources = Vec::new();
        let mut weights = Vec::new();
        for (id, stream) in traffic.streams.iter().enumerate() {
            if stream.from == port && stream.weight > 0 {
                let link = links.get(id);
                let link = *link.with_context(|| format!("stream {id} has no link addresses"))?;
                sources.push(Source::new(id as u16, stream, link, &distinct));
                weights.push(stream.weight);
            }
        }
        ensure!(
            !sources.is_empty(),
            "port {port} has no stream with a weight above 0, so it would send nothing"
        );
        let lengths = traffic.frames.lengths.iter();
        let lengths = lengths.map(|length| distinct.partition_point(|other| other < length) as u16);
        Ok(Self {
            streams: traffic.streams.len(),
            sources,
            cycle: cycle(port, &weights)?,
            turn: 0,
            lengths: lengths.collect(),
        })
    }

    /// Octets of the next frame, without FCS.
    #[inline]
    pub fn next_length(&self) -> usize {
        let source = &self.sources[usize::from(self.cycle[self.turn])];
        source.template(&self.lengths).octets.len()
    }

    /// Stream of the next frame, and where its signature starts.
    #[inline]
    pub fn next_signature(&self) -> (u16, u16) {
        let source = &self.sources[usize::from(self.cycle[self.turn])];
        (source.id, source.template(&self.lengths).signature as u16)
    }

    /// Writes the next frame to the beginning of `frame`; returns its octets, without FCS, or 0 if
    /// there is not room enough. `stamp` is when the frame is due, ns of [`crate::clock::now`].
    #[inline]
    pub fn write(&mut self, frame: &mut [u8], stamp: u64) -> usize {
        let source = &mut self.sources[usize::from(self.cycle[self.turn])];
        let template = source.template(&self.lengths);
        let length = template.octets.len();
        let Some(frame) = frame.get_mut(..length) else {
            return 0;
        };
        frame.copy_from_slice(&template.octets);
        let sum = match source.fixed {
            Some(sum) => sum,
            None => template.address(frame, &source.stream.flow(source.place)),
        };
        let signature = Signature {
            stream: source.id,
            sequence: source.sequence,
            stamp,
        };
        if let Some(octets) = frame.get_mut(template.signature..template.signature + LENGTH) {
            octets.copy_from_slice(&signature.octets(sum));
        }
        source.last_due = stamp;
        source.advance(self.lengths.len());
        self.turn += 1;
        if self.turn == self.cycle.len() {
            self.turn = 0;
        }
        length
    }

    /// Frames written so far by stream of the traffic; 0 for those of other ports.
    pub fn sent(&self) -> Vec<u64> {
        let mut sent = vec![0; self.streams];
        for source in &self.sources {
            sent[usize::from(source.id)] = source.sequence;
        }
        sent
    }

    /// When the last frame written was due, by stream of the traffic, ns of [`crate::clock::now`]; 0
    /// if there is none. If frames were taken back, when the first of them was due.
    pub fn last_due(&self) -> Vec<u64> {
        let mut last = vec![0; self.streams];
        for source in self.sources.iter().filter(|source| source.sequence > 0) {
            last[usize::from(source.id)] = source.last_due;
        }
        last
    }

    /// Takes back a frame that was written, but that the port did not take: it counts no more, and
    /// its number is given out again. Those written last must come back, in any order; a frame that
    /// is not of this generator is ignored.
    pub fn take_back(&mut self, frame: &[u8]) {
        let Some(written) = Arrived::find(frame) else {
            return;
        };
        let (signature, _) = Signature::read(written.signature);
        let mut sources = self.sources.iter_mut();
        let found = sources.find(|source| source.id == signature.stream);
        if let Some(source) = found.filter(|source| source.sequence > 0) {
            source.seek(source.sequence - 1, self.lengths.len());
            let later = source.last_due.wrapping_sub(signature.stamp) & MASK;
            source.last_due = source.last_due.saturating_sub(later);
            self.turn = self.turn.checked_sub(1).unwrap_or(self.cycle.len() - 1);
        }
    }
}

impl Source {
    fn new(id: u16, stream: &Stream, link: Link, lengths: &[u16]) -> Self {
        let make = |&length| Template::new(stream, id, link, length);
        let mut templates: Vec<Template> = lengths.iter().map(make).collect();
        let mut fixed = None;
        if stream.flows == 1 && stream.flow_length.is_none() {
            let flow: Flow = stream.flow(Place::default());
            for template in &mut templates {
                let mut octets = template.octets.clone();
                fixed = Some(template.address(&mut octets, &flow));
                template.octets = octets;
            }
        }
        let mut source = Self {
            id,
            stream: stream.clone(),
            templates,
            sequence: 0,
            length: 0,
            place: Place::default(),
            last_due: 0,
            fixed,
        };
        source.seek(0, 1);
        source
    }

    #[inline]
    fn template(&self, lengths: &[u16]) -> &Template {
        &self.templates[usize::from(lengths[self.length])]
    }

    /// Makes `sequence` the next frame.
    fn seek(&mut self, sequence: u64, lengths: usize) {
        self.sequence = sequence;
        self.length = (sequence % lengths as u64) as usize;
        self.place = self.stream.place(sequence);
    }

    /// Goes on to the next frame as [`Self::seek`] does, but without divisions.
    #[inline]
    fn advance(&mut self, lengths: usize) {
        self.sequence += 1;
        self.length += 1;
        if self.length == lengths {
            self.length = 0;
        }
        if self.fixed.is_some() {
            return;
        }
        if self.stream.flow_length.is_some() {
            self.place = self.stream.place(self.sequence);
            return;
        }
        self.place.flow += 1;
        if self.place.flow == self.stream.flows {
            self.place.flow = 0;
        }
    }
}

/// The order in which streams of these weights take turns: each spread evenly over the cycle, as in
/// stride scheduling (Waldspurger 1995).
fn cycle(port: usize, weights: &[u32]) -> anyhow::Result<Vec<u16>> {
    let common = weights
        .iter()
        .fold(0, |a, &b| greatest_common_divisor(a, b));
    let parts: Vec<u64> = weights
        .iter()
        .map(|weight| u64::from(weight / common))
        .collect();
    let sum: u64 = parts.iter().sum();
    ensure!(
        sum <= LONGEST_CYCLE,
        "the weights of port {port}'s streams, without common factors, sum to {sum}; at most \
         {LONGEST_CYCLE} keep the order of sending short"
    );
    let mut turns = Vec::with_capacity(sum as usize);
    for (source, part) in parts.iter().enumerate() {
        // the middles of equal parts of the cycle
        turns.extend((0..*part).map(|turn| {
            (
                (2 * turn + 1) * LONGEST_CYCLE * LONGEST_CYCLE / part,
                source as u16,
            )
        }));
    }
    turns.sort_unstable();
    Ok(turns.into_iter().map(|(_, source)| source).collect())
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 {
        a
    } else {
        greatest_common_divisor(b, a % b)
    }
}

#[cfg(test)]
mod tests;
