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

/// What the stages know of one packet: one cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
pub struct Meta {
    /// What becomes of it.
    pub verdict: Verdict,
    /// IP version.
    pub family: Family,
    /// Octets the IP header claims, header included.
    pub l3_length: u16,
    /// Where the look-up led.
    pub next_hop: NextHopId,
    /// IPv4 source, host order.
    pub source4: u32,
    /// IPv4 destination, host order.
    pub destination4: u32,
    /// IPv6 destination.
    pub destination6: [u8; 16],
    /// Next hop a rule chose instead of the route's; `NO_ROUTE` if none did.
    pub output: NextHopId,
    /// Priority, 0 to 7.
    pub class: Class,
}

const _: () = assert!(size_of::<Meta>() == 64);

/// Packets with what is known of them, side by side.
#[derive(Debug)]
pub struct Batch {
    /// The packets; the caller fills this.
    pub packets: Vec<Packet>,
    /// One entry a packet, written by [`crate::parse`].
    pub meta: Vec<Meta>,
}

impl Batch {
    /// An empty batch with room for [`MAX_BATCH`] packets; it never allocates again.
    pub fn new() -> Self {
        Self {
            packets: Vec::with_capacity(MAX_BATCH),
            meta: Vec::with_capacity(MAX_BATCH),
        }
    }

    /// Indices and metadata of the packets that are still undecided.
    pub(crate) fn pending(&mut self) -> impl Iterator<Item = (usize, &mut Meta)> {
        self.meta
            .iter_mut()
            .enumerate()
            .filter(|(_, meta)| meta.verdict == Verdict::Pending)
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}
