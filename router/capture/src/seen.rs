//! What is known of a packet that a filter takes.

use bora_contract::Reason;

/// Octets of a packet as it came in that are kept: all headers, which is what changes.
pub const HEAD: usize = 128;
/// Most octets of a packet that are kept.
pub const SNAP: usize = 1536;

/// Which part of Bora decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// The XDP program.
    Express,
    /// A worker.
    Engine,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It left, or waits in a queue to leave, by the port or device with this number.
    Sent(u16),
    /// Linux has it, for this reason.
    ToLinux(Reason),
    /// It went no further.
    Dropped(Reason),
}

/// A packet, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// When, ns of CLOCK_MONOTONIC.
    pub time: u64,
    /// Number of the port it came in by.
    pub input: u16,
    /// Octets it had then.
    pub length: u32,
    /// The first of them, at most [`HEAD`].
    pub head: Vec<u8>,
    /// The packet as it is now, at most [`SNAP`] octets.
    pub now: Vec<u8>,
    /// Octets it has now.
    pub length_now: u32,
    /// The tier that decided.
    pub tier: Tier,
    /// What became of it.
    pub outcome: Outcome,
    /// Class that the engine gave it.
    pub class: Option<u8>,
}

impl Seen {
    /// The packet as it came in: behind its headers it has not changed. Only the first octets are known if it
    /// went into a tunnel or out of one.
    pub fn received(&self) -> Vec<u8> {
        let mut octets = self.head.clone();
        let (Some(before), Some(now)) = (ip_offset(&self.head), ip_offset(&self.now)) else {
            return octets;
        };
        let is_same = |range: std::ops::Range<usize>| {
            let at = |octets: &[u8], from: usize| {
                octets
                    .get(from + range.start..from + range.end)
                    .map(<[u8]>::to_vec)
            };
            at(&self.head, before) == at(&self.now, now)
        };
        // version and length of the IP packet
        if octets.len() < HEAD || !is_same(0..1) || !is_same(2..4) {
            return octets;
        }
        let rest = self.now.get(HEAD - before + now..).unwrap_or_default();
        let missing = (self.length as usize).saturating_sub(HEAD);
        octets.extend_from_slice(&rest[..rest.len().min(missing)]);
        octets
    }
}

/// Where the IP packet of a frame begins, behind all VLAN tags; `None` if it has none.
pub fn ip_offset(frame: &[u8]) -> Option<usize> {
    let mut at = 12;
    loop {
        match frame.get(at..at + 2)? {
            [0x81, 0x00] | [0x88, 0xa8] => at += 4,
            [0x08, 0x00] | [0x86, 0xdd] => return Some(at + 2),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(head: &[u8], now: &[u8]) -> Seen {
        Seen {
            time: 0,
            input: 0,
            length: head.len() as u32,
            head: head[..head.len().min(HEAD)].to_vec(),
            now: now.to_vec(),
            length_now: now.len() as u32,
            tier: Tier::Express,
            outcome: Outcome::Sent(1),
            class: None,
        }
    }

    #[test]
    fn what_came_in() {
        let ip: Vec<u8> = (0..200u8).collect();
        let frame = |tags: &[u8], ip: &[u8]| [&[9; 12][..], tags, &[8, 0], ip].concat();
        let (plain, tagged) = (frame(&[], &ip), frame(&[0x81, 0, 0, 5], &ip));
        for (came, left) in [(&plain, &tagged), (&tagged, &plain), (&plain, &plain)] {
            let mut changed = left.clone();
            changed[0] = 1;
            assert_eq!(seen(came, &changed).received(), *came);
        }
        let other = [0x45; 60];
        assert_eq!(seen(&plain, &frame(&[], &other)).received(), plain[..HEAD]);
        assert_eq!(seen(&plain[..60], &plain).received(), plain[..60]);
        assert_eq!(seen(&[1, 2], &[]).received(), [1, 2]);
    }
}
