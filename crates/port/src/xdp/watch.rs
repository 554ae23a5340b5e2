//! Shows packets before and after the program to those who watch (`xdp/watch.h`).

use std::sync::mpsc::{Receiver, Sender, channel};

use bora_contract::Reason;
use bora_watch::{HEAD, Outcome, SNAP, Sighting, Tap, Tier};
use libbpf_rs::{MapCore, MapFlags, MapHandle, RingBuffer, RingBufferBuilder};

use super::error::ProgramError;
use super::program::Program;
use super::skeleton::types::watcher;

/// Most who can watch at a time (`WATCHERS`).
pub const MAX_WATCHERS: usize = 4;
/// Octets of `struct watch_sighting` before the packet's.
const HEADER: usize = 40;
/// `XDP_PASS` and `XDP_REDIRECT`.
const PASS: u32 = 2;
const REDIRECT: u32 = 4;

/// What the program has seen for those who watch.
pub struct Sightings {
    ring: RingBuffer<'static>,
    seen: Receiver<(usize, Sighting)>,
}

// SAFETY: the ring and its callback are used by one thread at a time, and libbpf binds them to none.
unsafe impl Send for Sightings {}

/// What those who watch may still see.
#[derive(Debug)]
pub struct Allowances {
    allowed: MapHandle,
    lost: MapHandle,
}

impl Program {
    /// Sets what a watcher wants to see.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_watcher(&self, number: usize, tap: &Tap) -> Result<(), ProgramError> {
        let mut wanted = [0u8; size_of::<watcher>()];
        let program = tap.filter().instructions();
        let words = [program.len() as u32, tap.snap as u32, tap.one_in, 0];
        let head = words.iter().flat_map(|word| word.to_ne_bytes());
        let body = program.iter().flat_map(|one| {
            let [code, k] = [&one.code.to_ne_bytes()[..], &one.k.to_ne_bytes()].map(<[u8]>::to_vec);
            [code, vec![one.jt, one.jf], k].concat()
        });
        for (to, octet) in wanted.iter_mut().zip(head.chain(body)) {
            *to = octet;
        }
        let key = (number as u32).to_ne_bytes();
        let maps = &self.skeleton.maps;
        for map in [&maps.watch_allowed, &maps.watch_lost] {
            map.update(&key, &[0; 8], MapFlags::ANY)?;
        }
        Ok(maps.watchers.update(&key, &wanted, MapFlags::ANY)?)
    }

    /// Says which watchers there are, a bit each.
    pub fn set_watching(&mut self, watching: u32) {
        if let Some(bss) = self.skeleton.maps.bss_data.as_deref_mut() {
            bss.watching = watching;
        }
    }

    /// What is needed to serve those who watch.
    ///
    /// # Errors
    /// No memory or descriptor is left.
    pub fn sightings(&self) -> Result<(Sightings, Allowances), ProgramError> {
        let maps = &self.skeleton.maps;
        let (found, seen) = channel();
        let mut ring = RingBufferBuilder::new();
        ring.add(&maps.seen, move |octets| give(&found, octets))?;
        let sightings = Sightings {
            ring: ring.build()?,
            seen,
        };
        let allowances = Allowances {
            allowed: MapHandle::try_from(&maps.watch_allowed)?,
            lost: MapHandle::try_from(&maps.watch_lost)?,
        };
        Ok((sightings, allowances))
    }
}

impl Sightings {
    /// What was seen since the last call, and for which watcher.
    pub fn take(&mut self) -> impl Iterator<Item = (usize, Sighting)> {
        // an error leaves what there is for the next call
        let _ = self.ring.consume();
        self.seen.try_iter()
    }
}

impl Allowances {
    /// Lets a watcher see so many more packets from now on.
    pub fn allow(&self, number: usize, packets: u32) {
        let (key, value) = (
            (number as u32).to_ne_bytes(),
            i64::from(packets).to_ne_bytes(),
        );
        // the map is there, and so is the key
        let _ = self.allowed.update(&key, &value, MapFlags::ANY);
    }

    /// Packets that it was to see, and did not, so far.
    pub fn lost(&self, number: usize) -> u64 {
        let value = self
            .lost
            .lookup(&(number as u32).to_ne_bytes(), MapFlags::ANY);
        let value = value.ok().flatten().unwrap_or_default();
        value.try_into().map_or(0, u64::from_ne_bytes)
    }
}

/// Reads what the program has written; returns 0, which means to go on.
fn give(to: &Sender<(usize, Sighting)>, octets: &[u8]) -> i32 {
    if let Some(sighting) = read(octets) {
        // nobody takes it any more
        let _ = to.send(sighting);
    }
    0
}

/// `struct watch_sighting`, field by field.
fn read(octets: &[u8]) -> Option<(usize, Sighting)> {
    let time = u64::from_ne_bytes(octets.get(..8)?.try_into().ok()?);
    let word = |number: usize| {
        let from = 8 + 4 * number;
        let word = octets.get(from..from + 4)?;
        Some(u32::from_ne_bytes(word.try_into().ok()?))
    };
    let (watcher, port, length, length_now) = (word(0)? as usize, word(1)?, word(2)?, word(3)?);
    let (verdict, reason, output, to_engine) = (word(4)?, word(5)?, word(6)?, word(7)?);
    let reason = Reason::ALL.get(reason as usize).copied();
    let outcome = match (verdict, reason) {
        (REDIRECT, _) if to_engine != 0 => Outcome::ToEngine,
        (REDIRECT, _) => Outcome::Sent(output as u16),
        (PASS, Some(reason)) => Outcome::ToLinux(reason),
        (PASS, None) => return None, // not counted: the interface was no port any more
        (_, reason) => Outcome::Dropped(reason?),
    };
    let (head, now) = octets.get(HEADER..)?.split_at_checked(HEAD)?;
    let first = |octets: &[u8], length: u32, most: usize| {
        octets[..octets.len().min(length as usize).min(most)].to_vec()
    };
    let sighting = Sighting {
        time,
        input: port as u16,
        length,
        head: first(head, length, HEAD),
        now: first(now, length_now, SNAP),
        length_now,
        tier: Tier::Express,
        outcome,
        class: None,
    };
    Some((watcher, sighting))
}
