//! VLAN tags that a card takes out of the frames it receives: the XDP program would take such frames
//! for untagged ones. So the cards of ports leave them in, until the program is taken off again.

use bora_port::offload::{hidden_tags, name_of, set_tags};
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
        let hidden = hidden_tags(&self.name).unwrap_or_default(); // no such offloads
        if hidden.is_empty() {
            self.hidden_tags = None;
        } else if self.hidden_tags.is_none() {
            self.hidden_tags = expose(&self.name, self.ifindex, &hidden, place);
        }
    }
}

/// Turns these offloads off; returns why not.
fn expose(name: &str, ifindex: u32, hidden: &[&str], place: &Place) -> Option<String> {
    log::info!(
        "{name}: turning off {}, so that XDP sees VLAN tags",
        hidden.join(", ")
    );
    place.note_offloads(ifindex, hidden);
    let error = set_tags(name, hidden, false).err();
    let left = hidden_tags(name).unwrap_or_default();
    if left.is_empty() {
        return None;
    }
    let why = error.map(|error| format!(": {error}")).unwrap_or_default();
    let why = format!(
        "the card takes VLAN tags out of frames and cannot be told not to ({}{why}); what comes in \
         there is left to Linux",
        left.join(", ")
    );
    log::warn!("{name}: {why}");
    Some(why)
}

/// Gives an interface back what [`Port::expose_tags`] took.
pub(crate) fn restore(ifindex: u32, place: &Place) {
    let noted = place.take_offloads(ifindex);
    let noted: Vec<&str> = noted.lines().collect();
    let Some(name) = name_of(ifindex).filter(|_| !noted.is_empty()) else {
        return;
    };
    if let Err(error) = set_tags(&name, &noted, true) {
        log::warn!("{name}: cannot turn {} on again: {error}", noted.join(", "));
    }
}
