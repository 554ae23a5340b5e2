//! The packets a source presents.

use bora_buffer::{Frame, Packet, Region};

/// Octets of each packet that are written anew each time it is presented: the shortest frame.
const HEADERS: usize = 60;

/// Packets to present for ever. Only their first 60 octets are kept and written (so that TTL and
/// addresses are fresh); what follows is whatever the frame held before.
#[derive(Debug)]
pub(crate) struct Templates {
    all: Vec<Template>,
    next: usize,
}

/// A packet's octets, in one cache line, so that a loop's cost is not its source's.
#[derive(Debug)]
#[repr(align(64))]
struct Template {
    headers: [u8; HEADERS],
    length: u16,
}

impl Templates {
    /// `None` if there is none, or one that does not fit a frame of `region`.
    pub(crate) fn new(region: &Region, packets: &[&[u8]]) -> Option<Self> {
        let fit = |packet: &&[u8]| packet.len() <= region.capacity();
        if packets.is_empty() || !packets.iter().all(fit) {
            return None;
        }
        let template = |packet: &&[u8]| {
            let mut headers = [0; HEADERS];
            let length = packet.len().min(HEADERS);
            headers[..length].copy_from_slice(&packet[..length]);
            Template {
                headers,
                length: packet.len() as u16,
            }
        };
        Some(Self {
            all: packets.iter().map(template).collect(),
            next: 0,
        })
    }

    /// Makes the packet with this number the next one; numbers go round.
    pub(crate) fn seek(&mut self, number: u64) {
        self.next = (number % self.all.len() as u64) as usize;
    }

    /// The shortest packet in octets.
    pub(crate) fn shortest(&self) -> usize {
        self.all
            .iter()
            .map(|template| template.length.into())
            .min()
            .unwrap_or(0)
    }

    /// The next packet, in this frame.
    #[inline]
    pub(crate) fn present(&mut self, region: &Region, frame: Frame) -> Packet {
        let Template { headers, length } = &self.all[self.next];
        let length = usize::from(*length);
        self.next += 1;
        if self.next == self.all.len() {
            self.next = 0;
        }
        let packet = frame.into_packet_spread(region, length);
        let mut packet = packet.expect("checked in `new`");
        let octets = region.octets_mut(&mut packet);
        match octets.first_chunk_mut() {
            Some(chunk) => *chunk = *headers,
            None => octets.copy_from_slice(&headers[..length]),
        }
        packet
    }
}
