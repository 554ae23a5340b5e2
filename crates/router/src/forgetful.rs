//! Drivers that forget the XDP program while Linux goes on saying that it is there: their packets go
//! round Bora, to Linux.

use bora_port::interface;
use bora_port::xdp::{AttachMode, Program};

use crate::ports::{Port, Way};

/// vmxnet3_rq_destroy_all() of Linux 6.6 to 7.3 drops it: when the interface goes down, or its MTU or
/// rings change.
const FORGETFUL: [&str; 1] = ["vmxnet3"];

/// Packets that the program and then the card have counted, at the last three looks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Looks([Option<(u64, u64)>; 3]);

impl Looks {
    /// Whether the card had received packets by the second look that the program had not seen by the
    /// third.
    fn say_forgotten(&self) -> bool {
        match self.0 {
            [Some(first), Some(second), Some(third)] => second.1 > first.1 && third.0 == first.0,
            _ => false,
        }
    }

    fn add(&mut self, look: (u64, u64)) {
        self.0 = [self.0[1], self.0[2], Some(look)];
    }
}

impl Port {
    /// Gives the program back to a driver that has forgotten it. To be called once a second.
    pub(crate) fn remind(&mut self, program: &Program) {
        let Way::Xdp(attachment) = &self.way else {
            return;
        };
        if attachment.mode() != AttachMode::Driver || !FORGETFUL.contains(&self.driver.as_str()) {
            return;
        }
        let seen = program.counters(self.id.0).unwrap_or_default().rx_packets;
        let Some(received) = interface::received(&self.name) else {
            return;
        };
        self.looks.add((seen, received));
        if self.looks.say_forgotten() {
            log::info!(
                "{}: the driver has forgotten the XDP program; it is told again",
                self.name
            );
            self.looks = Looks::default();
            if let Err(error) = attachment.put_back(program.fd(), program.idle()) {
                log::warn!("{}: cannot put the XDP program back: {error}", self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(of: [(u64, u64); 3]) -> bool {
        let mut looks = Looks::default();
        of.into_iter().for_each(|look| looks.add(look));
        looks.say_forgotten()
    }

    #[test]
    fn a_card_that_counts_alone_is_found() {
        assert!(looks([(5, 10), (5, 12), (5, 12)]));
        assert!(looks([(5, 10), (5, 12), (5, 20)]));
    }

    #[test]
    fn packets_on_their_way_are_no_sign() {
        assert!(
            !looks([(5, 10), (5, 12), (7, 12)]),
            "the program came to them later"
        );
        assert!(
            !looks([(5, 10), (5, 10), (5, 12)]),
            "the program may come to them yet"
        );
        assert!(!looks([(5, 10), (5, 10), (5, 10)]), "nothing came");
        let mut two = Looks::default();
        two.add((5, 10));
        two.add((5, 12));
        assert!(!two.say_forgotten());
    }
}
