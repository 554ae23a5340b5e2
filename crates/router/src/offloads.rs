//! Offloads of cards that stand in Bora's way; they are off until the program is taken off the
//! interface again.
//!
//! A card may take VLAN tags out of the frames it receives: the XDP program would take such frames for
//! untagged ones. And it may hash flows for Linux, by which Linux chooses among several paths if
//! fib_multipath_hash_policy is 1, where Bora hashes the packet itself.

use bora_port::offload::{HASH, TAGS, active, name_of, set};
use bora_port::xdp::AttachMode;

use crate::place::Place;
use crate::ports::Port;

impl Port {
    /// Makes the interface leave VLAN tags in the frames, or takes note why it does not. To be
    /// called again and again: others may turn it back.
    ///
    /// Linux shows generic XDP the tags, and a veth its driver XDP.
    pub(crate) fn expose_tags(&mut self, place: &Place) {
        if self.mode() != Some(AttachMode::Driver) || self.link.kind == "veth" {
            return;
        }
        let known = self.hidden_tags.take();
        self.hidden_tags = self.turn_off(&TAGS, "so that XDP sees VLAN tags", place, known, |why| {
            format!(
                "the card takes VLAN tags out of frames and cannot be told not to ({why}); what \
                 comes in there is left to Linux"
            )
        });
    }

    /// Makes Linux hash flows as Bora does, or takes note why it does not. To be called again and again.
    pub(crate) fn refuse_hash(&mut self, place: &Place) {
        let reason = "so that Linux and Bora take the same of several paths";
        let known = self.foreign_hash.take();
        self.foreign_hash = self.turn_off(&[HASH], reason, place, known, |why| {
            format!(
                "with fib_multipath_hash_policy 1 Linux takes the card's hash of flows, which Bora \
                 does not see, and the card cannot be told not to make it ({why}): flows may take \
                 another path when Bora comes or goes"
            )
        });
    }

    /// Turns offloads off. Returns what follows from it if the driver will not: `known` if that is known
    /// already, and it is not asked again; otherwise what `follows` says, which is logged.
    fn turn_off(
        &self,
        offloads: &[&'static str],
        reason: &str,
        place: &Place,
        known: Option<String>,
        follows: impl Fn(&str) -> String,
    ) -> Option<String> {
        let name = &self.name;
        let on = active(name, offloads).unwrap_or_default(); // no such offloads
        if on.is_empty() {
            return None;
        }
        if known.is_some() {
            return known;
        }
        log::info!("{name}: turning off {}, {reason}", on.join(", "));
        place.note_offloads(self.ifindex, &on);
        let error = set(name, &on, false).err();
        let left = active(name, offloads).unwrap_or_default();
        if left.is_empty() {
            return None;
        }
        let error = error.map(|error| format!(": {error}")).unwrap_or_default();
        let text = follows(&format!("{}{error}", left.join(", ")));
        log::warn!("{name}: {text}");
        Some(text)
    }
}

/// Gives an interface back what was turned off.
pub(crate) fn restore(ifindex: u32, place: &Place) {
    let noted = place.take_offloads(ifindex);
    let noted: Vec<&str> = noted.lines().collect();
    let Some(name) = name_of(ifindex).filter(|_| !noted.is_empty()) else {
        return;
    };
    if let Err(error) = set(&name, &noted, true) {
        log::warn!("{name}: cannot turn {} on again: {error}", noted.join(", "));
    }
}
