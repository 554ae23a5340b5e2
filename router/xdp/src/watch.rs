//! Shows packets before and after the program to captures and traces (`router/xdp/bpf/watch.h`).

use std::io;
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};

use bora_capture::{HEAD, Outcome, SNAP, Seen, Subscription, Surroundings, Tier};
use bora_contract::Reason;
use libbpf_rs::skel::OpenSkel;
use libbpf_rs::{RingBuffer, RingBufferBuilder};

use super::error::{ProgramError, explained};
use super::front;
use super::program::{Program, TailProgram, set_tail};
use super::skeleton::types::bss;

/// Most captures and traces at a time (`WATCHERS`).
pub const MAX_WATCHERS: usize = 4;
/// Octets of `struct watch_seen` before the packet's.
const HEADER: usize = 40;
/// `XDP_PASS` and `XDP_REDIRECT`.
const PASS: u32 = 2;
const REDIRECT: u32 = 4;

/// What the program has seen for captures and traces.
pub struct SeenPackets {
    ring: RingBuffer<'static>,
    seen: Receiver<(usize, Seen)>,
}

// SAFETY: the ring and its callback are used by one thread at a time, and libbpf binds them to none.
unsafe impl Send for SeenPackets {}

/// What captures and traces may still see.
#[derive(Clone, Copy, Debug)]
pub struct Allowances {
    allowed: [&'static AtomicI64; MAX_WATCHERS],
    lost: [&'static AtomicU64; MAX_WATCHERS],
}

impl Program {
    /// Shows packets to captures and traces, which have numbers. [`SeenPackets`] give what is seen.
    ///
    /// # Errors
    /// The kernel refuses. No packets are shown then.
    pub fn show_to(
        &mut self,
        subscriptions: &[(usize, Arc<Subscription>)],
    ) -> Result<(), ProgramError> {
        self.set_watched(false);
        if subscriptions.is_empty() {
            return Ok(());
        }
        if !self.shows {
            self.load_shown()?;
        }
        let maps = &self.skeleton.maps;
        let around = Surroundings {
            looks: maps.looks.as_fd().as_raw_fd(),
            variables: maps.bss.as_fd().as_raw_fd(),
            allowed: offset_of!(bss, watch_allowed) as i32,
            lost: offset_of!(bss, watch_lost) as i32,
            programs: maps.tail_programs.as_fd().as_raw_fd(),
            taken: TailProgram::Shown as u32,
            others: TailProgram::Others as u32,
        };
        let by_number = subscriptions
            .iter()
            .map(|(number, subscription)| (*number, &**subscription));
        let code = bora_capture::front(by_number, around).map_err(ProgramError::Filters)?;
        let front = front::load(&code, self.takes_fragments())
            .map_err(|error| ProgramError::Filters(error.to_string()))?;
        set_tail(self.skeleton, TailProgram::Filters, front.as_fd())?;
        if let Some(bss) = self.skeleton.maps.bss_data.as_deref_mut() {
            for (number, subscription) in subscriptions {
                bss.watch_snap[*number % MAX_WATCHERS] = subscription.snap as u32;
            }
        }
        self.set_watched(true);
        Ok(())
    }

    /// Loads the instance of the programs that shows packets. It stays until the process ends.
    pub(super) fn load_shown(&mut self) -> Result<(), ProgramError> {
        let has_flows = matches!(self.flows, Some(Ok(())));
        let mut object = MaybeUninit::uninit();
        let mut wanted = vec!["bora", "on_port"];
        wanted.extend(has_flows.then_some("flow"));
        let open = self.open_again(&mut object, &wanted, true)?;
        let shown = explained(|| open.load())?;
        let programs = &shown.progs;
        set_tail(
            self.skeleton,
            TailProgram::ShownDevices,
            programs.on_port.as_fd(),
        )?;
        if has_flows {
            set_tail(
                self.skeleton,
                TailProgram::ShownFlows,
                programs.flow.as_fd(),
            )?;
        }
        set_tail(self.skeleton, TailProgram::Shown, programs.bora.as_fd())?;
        set_tail(self.skeleton, TailProgram::Others, self.fd())?;
        self.shows = true;
        Ok(())
    }

    fn set_watched(&mut self, watched: bool) {
        if let Some(bss) = self.skeleton.maps.bss_data.as_deref_mut() {
            bss.watched = watched;
        }
    }

    /// What is needed to serve captures and traces.
    ///
    /// # Errors
    /// No memory or descriptor is left, or the kernel does not map BPF variables.
    pub fn seen_packets(&mut self) -> Result<(SeenPackets, Allowances), ProgramError> {
        let maps = &mut self.skeleton.maps;
        let (found, seen) = channel();
        let mut ring = RingBufferBuilder::new();
        ring.add(&maps.seen, move |octets| give(&found, octets))?;
        let seen_packets = SeenPackets {
            ring: ring.build()?,
            seen,
        };
        let variables = maps.bss_data.as_deref_mut();
        let variables = variables.ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
        let (allowed, lost) = (
            (&raw mut variables.watch_allowed).cast::<i64>(),
            (&raw mut variables.watch_lost).cast::<u64>(),
        );
        // SAFETY: aligned arrays of MAX_WATCHERS in memory that libbpf mapped for a skeleton that is never dropped; BPF
        // programs change them atomically only, and this side only through these atomics.
        let allowances = unsafe {
            Allowances {
                allowed: std::array::from_fn(|number| AtomicI64::from_ptr(allowed.add(number))),
                lost: std::array::from_fn(|number| AtomicU64::from_ptr(lost.add(number))),
            }
        };
        Ok((seen_packets, allowances))
    }
}

impl SeenPackets {
    /// What was seen since the last call, and for which watcher.
    pub fn take(&mut self) -> impl Iterator<Item = (usize, Seen)> {
        #[expect(
            clippy::let_underscore_must_use,
            reason = "an error leaves what there is for the next call"
        )]
        let _ = self.ring.consume();
        self.seen.try_iter()
    }
}

impl Allowances {
    /// Lets a new watcher see this many packets; nothing is lost yet.
    pub fn begin(&self, number: usize, packets: u32) {
        self.lost[number].store(0, Relaxed);
        self.allow(number, packets);
    }

    /// Lets a watcher see this many more packets from now on.
    pub fn allow(&self, number: usize, packets: u32) {
        self.allowed[number].store(packets.into(), Relaxed);
    }

    /// Packets that it was to see, and did not, so far.
    pub fn lost(&self, number: usize) -> u64 {
        self.lost[number].load(Relaxed)
    }
}

/// Reads what the program has written; returns 0, which means to go on.
fn give(to: &Sender<(usize, Seen)>, octets: &[u8]) -> i32 {
    if let Some(seen) = read(octets) {
        #[expect(clippy::let_underscore_must_use, reason = "nobody takes it any more")]
        let _ = to.send(seen);
    }
    0
}

/// `struct watch_seen`, field by field.
fn read(octets: &[u8]) -> Option<(usize, Seen)> {
    let time = u64::from_ne_bytes(*octets.first_chunk()?);
    let word = |number: usize| {
        let word = octets.get(8 + 4 * number..)?.first_chunk()?;
        Some(u32::from_ne_bytes(*word))
    };
    let (watcher, port, length, length_now) = (word(0)? as usize, word(1)?, word(2)?, word(3)?);
    let (verdict, reason, output) = (word(4)?, word(5)?, word(6)?);
    let reason = Reason::ALL.get(reason as usize).copied();
    let outcome = match (verdict, reason) {
        (REDIRECT, _) => Outcome::Sent(output as u16),
        (PASS, Some(reason)) => Outcome::ToLinux(reason),
        (PASS, None) => return None, // not counted: the interface was no port any more
        (_, reason) => Outcome::Dropped(reason?),
    };
    let (head, now) = octets.get(HEADER..)?.split_at_checked(HEAD)?;
    let first = |octets: &[u8], length: u32, most: usize| {
        octets[..octets.len().min(length as usize).min(most)].to_vec()
    };
    let seen = Seen {
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
    Some((watcher, seen))
}
