//! Drivers that lose the XDP program although Linux still shows it: their packets pass Bora by, to
//! Linux.

use bora_linux::interface;
use bora_xdp::{AttachMode, Attachment, Program};

/// vmxnet3_rq_destroy_all() of Linux 6.6 to 7.3 drops it: when the interface goes down, or its MTU or
/// rings change.
const DRIVERS: [&str; 1] = ["vmxnet3"];

/// Finds out whether a driver has lost the program: packets that the program and then the card have
/// counted, in the last three samples.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProgramWatch([Option<(u64, u64)>; 3]);

impl ProgramWatch {
    /// Whether the card had received packets by the second sample that the program had not seen by the
    /// third.
    fn shows_loss(&self) -> bool {
        match self.0 {
            [Some(first), Some(second), Some(third)] => second.1 > first.1 && third.0 == first.0,
            _ => false,
        }
    }

    fn add(&mut self, sample: (u64, u64)) {
        self.0 = [self.0[1], self.0[2], Some(sample)];
    }

    /// Attaches the program again if the driver has lost it. Call it once a second, with the names of
    /// the interface and its driver, and the port's number.
    pub(crate) fn reattach_if_lost(
        &mut self,
        (name, driver): (&str, &str),
        attachment: &Attachment,
        program: &Program,
        port: u16,
    ) {
        if attachment.mode() != AttachMode::Driver || !DRIVERS.contains(&driver) {
            return;
        }
        let seen = match program.counters(port) {
            Ok(counters) => counters.rx_packets,
            Err(error) => {
                log::warn!(
                    "{name}: whether the driver still has the XDP program is not known: {error}"
                );
                return;
            }
        };
        let Some(received) = interface::received(name) else {
            return;
        };
        self.add((seen, received));
        if self.shows_loss() {
            log::info!("{name}: the driver has forgotten the XDP program; Bora attaches it again");
            *self = Self::default();
            if let Err(error) = attachment.put_back(program.fd(), program.idle()) {
                log::warn!("{name}: cannot put the XDP program back: {error}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shows_loss(samples: [(u64, u64); 3]) -> bool {
        let mut watch = ProgramWatch::default();
        samples.into_iter().for_each(|sample| watch.add(sample));
        watch.shows_loss()
    }

    #[test]
    fn a_card_that_counts_alone_is_found() {
        assert!(shows_loss([(5, 10), (5, 12), (5, 12)]));
        assert!(shows_loss([(5, 10), (5, 12), (5, 20)]));
    }

    #[test]
    fn packets_on_their_way_are_no_sign() {
        assert!(
            !shows_loss([(5, 10), (5, 12), (7, 12)]),
            "the program came to them later"
        );
        assert!(
            !shows_loss([(5, 10), (5, 10), (5, 12)]),
            "the program may come to them yet"
        );
        assert!(!shows_loss([(5, 10), (5, 10), (5, 10)]), "nothing came");
        let mut two = ProgramWatch::default();
        two.add((5, 10));
        two.add((5, 12));
        assert!(!two.shows_loss());
    }
}
