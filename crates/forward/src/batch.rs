//! Up to 256 packets that go through the stages together.

use bora_buffer::{MAX_BATCH, Packet};
use bora_fib::NextHopId;

use crate::{Class, Verdict};

/// IP version of a parsed packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    #[default]
    V4,
    /// IPv6.
    V6,
}

/// What the stages know of one packet; four of them fill a cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(16))]
pub struct Meta {
    /// What becomes of it.
    pub verdict: Verdict,
    /// Octets the IP header claims, header included.
    pub l3_length: u16,
    /// IP version.
    pub family: Family,
    /// IPv4 TOS or IPv6 traffic class.
    pub tos: u8,
    /// Priority, 0 to 7.
    pub class: Class,
    /// Next hop a rule chose instead of the route's; `NO_ROUTE` if none did.
    pub output: NextHopId,
}

const _: () = assert!(size_of::<Meta>() == 16);

/// Destinations of the packets of one IP version, side by side as the FIB wants them.
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

    /// Next hops in the order of the packets.
    #[inline]
    pub(crate) fn found(&self) -> &[NextHopId] {
        &self.found[..self.count]
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
    /// One entry a packet, written by [`crate::parse`].
    pub meta: Vec<Meta>,
    pub(crate) v4: Box<Lane<u32>>,
    pub(crate) v6: Box<Lane<[u8; 16]>>,
}

impl Batch {
    /// An empty batch with room for [`MAX_BATCH`] packets; it never allocates again.
    pub fn new() -> Self {
        Self {
            packets: Vec::with_capacity(MAX_BATCH),
            meta: Vec::with_capacity(MAX_BATCH),
            v4: Lane::new(0),
            v6: Lane::new([0; 16]),
        }
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}
