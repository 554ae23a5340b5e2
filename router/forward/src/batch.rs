//! Up to 256 packets that go through the stages together.

use bora_buffer::{MAX_BATCH, Packet};
use bora_fib::{NextHopId, PortId};

use crate::headers::Headers;
use crate::meta::Meta;
use crate::simd::Simd;

/// Addresses of packets of one IP version, side by side as the FIB wants them.
#[derive(Debug)]
pub(crate) struct Lane<K> {
    count: usize,
    /// Where each packet is in the batch.
    places: [u8; MAX_BATCH],
    keys: [K; MAX_BATCH],
    found: [NextHopId; MAX_BATCH],
}

// a place must hold every index of a batch
const _: () = assert!(MAX_BATCH == 1 << u8::BITS);

impl<K: Copy> Lane<K> {
    fn new(empty: K) -> Box<Self> {
        Box::new(Self {
            count: 0,
            places: [0; MAX_BATCH],
            keys: [empty; MAX_BATCH],
            found: [NextHopId::NO_ROUTE; MAX_BATCH],
        })
    }

    pub(crate) fn clear(&mut self) {
        self.count = 0;
    }

    /// Adds the packet at `place`, below [`MAX_BATCH`]; at most that many.
    #[inline]
    pub(crate) fn push(&mut self, place: usize, key: K) {
        let at = self.count % MAX_BATCH;
        self.places[at] = place as u8;
        self.keys[at] = key;
        self.count = at + 1;
    }

    /// Adds packets that follow each other, the first at `place`; all places are below [`MAX_BATCH`].
    #[inline(always)]
    pub(crate) fn push_group(&mut self, place: usize, keys: &[K]) {
        let group = self.count..self.count + keys.len();
        self.keys[group.clone()].copy_from_slice(keys);
        for (offset, at) in self.places[group.clone()].iter_mut().enumerate() {
            *at = (place + offset) as u8;
        }
        self.count = group.end;
    }

    /// Keys, and where their next hops belong.
    #[inline]
    pub(crate) fn look_up(&mut self) -> (&[K], &mut [NextHopId]) {
        (&self.keys[..self.count], &mut self.found[..self.count])
    }

    /// Packets of this version.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Sets the next hop of the packet at `place`, if it is of this version.
    pub(crate) fn set(&mut self, place: usize, next_hop: NextHopId) {
        let places = &self.places[..self.count];
        if let Ok(at) = places.binary_search_by_key(&place, |&place| place.into()) {
            self.found[at] = next_hop;
        }
    }

    /// Next hops in the order of the packets.
    #[inline]
    pub(crate) fn found(&self) -> &[NextHopId] {
        &self.found[..self.count]
    }

    /// The next hop of all packets, if it is one.
    #[inline]
    pub(crate) fn next_hop_of_all(&self) -> Option<NextHopId> {
        let first = *self.found().first()?;
        let different = self.found().iter().map(|found| found.get() ^ first.get());
        (different.fold(0, |any, one| any | one) == 0).then_some(first)
    }

    /// The places of packets and their next hops, to be changed.
    #[inline]
    pub(crate) fn results_mut(&mut self) -> impl Iterator<Item = (usize, &mut NextHopId)> {
        let places = self.places[..self.count].iter();
        places
            .zip(&mut self.found[..self.count])
            .map(|(&place, found)| (usize::from(place), found))
    }

    /// Places in the batch, with the next hops found.
    #[inline]
    pub(crate) fn results(&self) -> impl Iterator<Item = (usize, NextHopId)> {
        let places = self.places[..self.count].iter();
        places
            .zip(&self.found[..self.count])
            .map(|(&place, &found)| (usize::from(place), found))
    }
}

/// Packets with what is known of them, side by side.
#[derive(Debug)]
pub struct Batch {
    /// The packets, up to [`MAX_BATCH`]; the caller fills this.
    pub packets: Vec<Packet>,
    /// One entry a packet: [`Batch::came_by`] or [`crate::find_inputs`] write the inputs, [`crate::parse()`] the rest.
    pub meta: Vec<Meta>,
    /// The input of all packets, if it is one.
    pub(crate) input: Option<PortId>,
    pub(crate) v4: Box<Lane<u32>>,
    pub(crate) v6: Box<Lane<[u8; 16]>>,
    /// Sources that are checked.
    pub(crate) sources: Box<Lane<u32>>,
    pub(crate) headers: Box<Headers>,
    pub(crate) simd: Simd,
    /// Places of packets with the next hop that a rule chose instead of the route's, by place and version.
    pub(crate) by_rule: Vec<(usize, NextHopId)>,
    /// The port by which all packets leave, if that is so.
    pub(crate) leaves: Option<PortId>,
}

impl Batch {
    /// An empty batch with room for [`MAX_BATCH`] packets; it never allocates again.
    pub fn new() -> Self {
        Self {
            packets: Vec::with_capacity(MAX_BATCH),
            meta: Vec::with_capacity(MAX_BATCH),
            input: None,
            v4: Lane::new(0),
            v6: Lane::new([0; 16]),
            sources: Lane::new(0),
            headers: Headers::new(),
            simd: Simd::detect(),
            by_rule: Vec::with_capacity(MAX_BATCH),
            leaves: None,
        }
    }

    /// All packets have come in by this port or device.
    #[inline]
    pub fn came_by(&mut self, input: PortId) {
        // what is left there of other packets of the input is written over by the first stage
        if self.input != Some(input) {
            self.meta.clear();
        }
        self.meta.resize(self.packets.len(), Meta::of(input));
        self.input = Some(input);
    }

    /// The next hops that [`crate::lookup`] found, with the places of their packets.
    pub fn next_hops(&self) -> impl Iterator<Item = (usize, NextHopId)> {
        self.v4.results().chain(self.v6.results())
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}
