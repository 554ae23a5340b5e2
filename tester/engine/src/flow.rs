//! The flows of a stream: which frame belongs to which flow, and what a flow's addresses and ports
//! are. All follows from numbers, so nothing is stored for a flow.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::traffic::{Stream, Values};

/// Addresses and ports of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// IP source address.
    pub source: IpAddr,
    /// IP destination address, of the same family unless the stream is wrong.
    pub destination: IpAddr,
    /// UDP source port.
    pub source_port: u16,
    /// UDP destination port.
    pub destination_port: u16,
}

/// Values that can be counted through.
pub trait Number: Copy {
    /// How many steps lie between the two; 0 if the last is not above the first or of another kind.
    fn span(first: Self, last: Self) -> u128;
    /// The value this many steps on, at most a span.
    fn plus(self, steps: u128) -> Self;
}

impl Number for u16 {
    #[inline]
    fn span(first: Self, last: Self) -> u128 {
        last.saturating_sub(first).into()
    }

    #[inline]
    fn plus(self, steps: u128) -> Self {
        self.wrapping_add(steps as u16)
    }
}

impl Number for IpAddr {
    #[inline]
    fn span(first: Self, last: Self) -> u128 {
        match (first, last) {
            (Self::V4(first), Self::V4(last)) => {
                last.to_bits().saturating_sub(first.to_bits()).into()
            }
            (Self::V6(first), Self::V6(last)) => last.to_bits().saturating_sub(first.to_bits()),
            _ => 0,
        }
    }

    #[inline]
    fn plus(self, steps: u128) -> Self {
        match self {
            Self::V4(first) => {
                Ipv4Addr::from_bits(first.to_bits().wrapping_add(steps as u32)).into()
            }
            Self::V6(first) => Ipv6Addr::from_bits(first.to_bits().wrapping_add(steps)).into(),
        }
    }
}

impl<T: Number> Values<T> {
    /// The nth value: lists and ranges begin anew after the last, random ones are a hash of seed
    /// and n.
    ///
    /// # Panics
    /// With an empty list, which [`crate::traffic::Traffic::check`] refuses.
    #[inline]
    pub fn nth(&self, n: u64) -> T {
        self.nth_salted(n, 0)
    }

    /// As [`Self::nth`]; fields with the same seed but another salt are independent of each other.
    #[inline]
    fn nth_salted(&self, n: u64, salt: u64) -> T {
        match self {
            // a division would take longer than all else
            Self::List(list) => match list[..] {
                [only] => only,
                _ if n < list.len() as u64 => list[n as usize],
                _ => list[(n % list.len() as u64) as usize],
            },
            Self::Range(first, last) => {
                let (n, span) = (u128::from(n), T::span(*first, *last));
                first.plus(if n <= span { n } else { n % (span + 1) })
            }
            Self::Random { first, last, seed } => {
                first.plus(draw(seed.wrapping_add(salt), n, T::span(*first, *last)))
            }
        }
    }

    /// How many different values there can be; `u128::MAX` if more.
    pub fn count(&self) -> u128 {
        match self {
            Self::List(list) => list.len() as u128,
            Self::Range(first, last) | Self::Random { first, last, .. } => {
                T::span(*first, *last).saturating_add(1)
            }
        }
    }
}

/// A number from 0 to the span, the same for the same seed and n.
#[inline]
fn draw(seed: u64, n: u64, span: u128) -> u128 {
    let hash = mix(seed ^ mix(n));
    match u64::try_from(span) {
        Ok(span) => (u128::from(hash) * (u128::from(span) + 1)) >> 64,
        Err(_) => {
            let wide = u128::from(hash) << 64 | u128::from(mix(hash));
            span.checked_add(1).map_or(wide, |count| wide % count)
        }
    }
}

/// The finaliser of splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
/// generators, 2014).
#[inline]
const fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

/// A frame's place among the flows of its stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Flow, from 0: the sequence number modulo [`Stream::flows`].
    pub flow: u32,
    /// How many flows held this one's place before it.
    pub generation: u64,
}

impl Stream {
    /// The place of a frame. With a flow length, the flows do not all end at once: flow n is as
    /// many frames old at the start as n modulo the flow length.
    pub fn place(&self, sequence: u64) -> Place {
        let flows = u64::from(self.flows.max(1));
        let (round, flow) = (sequence / flows, sequence % flows);
        let generation = self.flow_length.map_or(0, |length| {
            let length = u64::from(length.max(1));
            (round + flow % length) / length
        });
        Place {
            flow: flow as u32,
            generation,
        }
    }

    /// Addresses and ports of the flow at a place: flow n has the nth values; its later generations have its
    /// addresses, and the ports that follow after those of all flows.
    #[inline]
    pub fn flow(&self, place: Place) -> Flow {
        let n = u64::from(place.flow);
        let ports = place
            .generation
            .wrapping_mul(self.flows.into())
            .wrapping_add(n);
        Flow {
            source: self.sources.nth_salted(n, 1),
            destination: self.destinations.nth_salted(n, 2),
            source_port: self.source_ports.nth_salted(ports, 3),
            destination_port: self.destination_ports.nth_salted(ports, 4),
        }
    }
}

#[cfg(test)]
mod tests;
