//! Offloads of cards that Bora turns off, until the program is detached from the interface.
//!
//! A card may take VLAN tags out of the frames it receives: the XDP program would take such frames for
//! untagged ones. And it may hash flows for Linux, by which Linux chooses among several paths if
//! fib_multipath_hash_policy is 1, where Bora hashes the packet itself.

use std::io;

use anyhow::Context;
use bora_linux::features::{HASH, TAGS, active, name_of, set};
use rustix::io::Errno;

use crate::process::runtime_dir::RuntimeDir;

/// Offloads that an interface's driver would not turn off, and what follows from it.
#[derive(Debug, Default)]
pub(crate) struct Offloads {
    /// Why VLAN tags do not show in the frames it receives.
    pub(crate) hidden_tags: Option<String>,
    /// Why Linux goes on taking the card's hash of flows.
    pub(crate) foreign_hash: Option<String>,
}

impl Offloads {
    /// Makes the interface `name`, whose number is `ifindex`, leave VLAN tags in the frames, or notes
    /// why it does not. To be called again and again: others may turn it back.
    pub(crate) fn expose_tags(&mut self, name: &str, ifindex: u32, dir: &RuntimeDir) {
        self.hidden_tags = TAGS_OFF.of(name, ifindex, dir, self.hidden_tags.take());
    }

    /// Notes whether another Bora could not make the interface leave VLAN tags in the frames.
    pub(crate) fn look_for_tags(&mut self, name: &str) {
        self.hidden_tags = match TAGS_OFF.on(name) {
            Ok(on) if on.is_empty() => None,
            Ok(on) => Some((TAGS_OFF.follows)(&on.join(", "))),
            Err(error) => Some((TAGS_OFF.follows)(&error.to_string())),
        };
    }

    /// Makes Linux hash flows as Bora does, or notes why it does not. To be called again and again.
    pub(crate) fn refuse_hash(&mut self, name: &str, ifindex: u32, dir: &RuntimeDir) {
        let off = TurnOff {
            offloads: &[HASH],
            reason: "so that Linux and Bora take the same of several paths",
            follows: |why| {
                format!(
                    "with fib_multipath_hash_policy 1 Linux takes the card's hash of flows, which \
                     Bora does not see, and the card cannot be told not to make it ({why}): flows \
                     may take another path when Bora comes or goes"
                )
            },
        };
        self.foreign_hash = off.of(name, ifindex, dir, self.foreign_hash.take());
    }
}

const TAGS_OFF: TurnOff = TurnOff {
    offloads: &TAGS,
    reason: "so that XDP sees VLAN tags",
    follows: |why| {
        format!(
            "the card takes VLAN tags out of frames and cannot be told not to ({why}); what comes in there is left \
             to Linux"
        )
    },
};

/// Offloads that are to be off.
struct TurnOff {
    offloads: &'static [&'static str],
    /// Why, for the log.
    reason: &'static str,
    /// The consequence if the driver will not; its argument is why.
    follows: fn(&str) -> String,
}

impl TurnOff {
    /// Turns them off. Returns what follows from it if the driver will not: `known` if that is known
    /// already, and the driver is not asked again.
    fn of(
        &self,
        name: &str,
        ifindex: u32,
        dir: &RuntimeDir,
        known: Option<String>,
    ) -> Option<String> {
        let on = self.on(name);
        if matches!(&on, Ok(on) if on.is_empty()) {
            return None;
        }
        if known.is_some() {
            return known;
        }
        let why = match on {
            Ok(on) => self.turn_off(name, ifindex, dir, &on)?,
            Err(error) => format!("which are on cannot be read: {error}"),
        };
        let text = (self.follows)(&why);
        log::warn!("{name}: {text}");
        Some(text)
    }

    /// Turns off those that are on. Returns why some stay on.
    fn turn_off(&self, name: &str, ifindex: u32, dir: &RuntimeDir, on: &[&str]) -> Option<String> {
        log::info!("{name}: turning off {}, {}", on.join(", "), self.reason);
        dir.note_offloads(ifindex, on);
        let error = set(name, on, false).err();
        let error = error.map(|error| format!(": {error}")).unwrap_or_default();
        match self.on(name) {
            Ok(left) if left.is_empty() => None,
            Ok(left) => Some(format!("{}{error}", left.join(", "))),
            Err(unknown) => Some(format!("{}{error}: {unknown}", on.join(", "))),
        }
    }

    /// Which of them are on. A driver without ethtool has none, and neither has an interface that is gone.
    fn on(&self, name: &str) -> io::Result<Vec<&'static str>> {
        match active(name, self.offloads) {
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::OPNOTSUPP | Errno::NODEV) => Ok(Vec::new()),
                _ => Err(error),
            },
            found => found,
        }
    }
}

/// Turns on again what was turned off at an interface. What stays off is still noted for the next attempt.
pub(crate) fn restore(ifindex: u32, dir: &RuntimeDir) {
    if let Err(error) = turn_on_again(ifindex, dir) {
        log::warn!("interface {ifindex}: what Bora turned off stays off: {error:#}");
    }
}

fn turn_on_again(ifindex: u32, dir: &RuntimeDir) -> anyhow::Result<()> {
    let noted = dir.noted_offloads(ifindex)?;
    let noted: Vec<&str> = noted.lines().collect();
    if let (false, Some(name)) = (noted.is_empty(), name_of(ifindex)?) {
        let set = set(&name, &noted, true);
        set.with_context(|| format!("{name}: cannot turn {} on", noted.join(", ")))?;
    }
    dir.forget_offloads(ifindex)
}
