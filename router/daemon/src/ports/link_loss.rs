//! Attaching the XDP program takes the link of some cards down for a while. This warns before it
//! happens, and reports how long it took.

use std::path::Path;
use std::time::Instant;

use bora_linux::interface;
use bora_mirror::message::Link;
use bora_xdp::Attachment;

/// Drivers that take the link down when the first XDP program is attached and when the last one is
/// detached: they close and open the device, or reset it (read in Linux 7.3).
const INTERRUPTING: [&str; 9] = [
    "bnxt_en",
    "i40e",
    "ice",
    "igb",
    "ixgbe",
    "ixgbevf",
    "mlx5_core",
    "mvneta",
    "stmmac",
];

/// Whether attaching a program takes the link of this driver's cards down for a while.
pub(crate) fn interrupts(driver: &str) -> bool {
    INTERRUPTING.contains(&driver)
}

/// What attaching the program did to one interface's link.
#[derive(Debug, Default)]
pub(crate) struct Interruption {
    /// While the link may be down: when the program was attached, and
    /// [`interface::carrier_changes`] before that.
    watched: Option<(Instant, u64)>,
    /// What an operator should know of it.
    pub(crate) notice: Option<String>,
}

impl Interruption {
    /// Logs that attaching may interrupt the link, if so. To be called before it is done; `pin` is
    /// where the link of a program that is attached already would be.
    pub(crate) fn announce(link: &Link, driver: &str, pin: &Path) -> Self {
        let name = &link.name;
        // what is there and cannot be opened is in the way of attaching, too, which says so
        if !link.up || !matches!(Attachment::open(pin, link.index), Ok(None)) {
            return Self::default();
        }
        let Some(changes) = interface::carrier_changes(name) else {
            return Self::default();
        };
        if interrupts(driver) {
            log::warn!(
                "attaching to {name} may interrupt its link, some cards' for seconds (driver \
                 {driver}); later starts and stops will not"
            );
        }
        Self {
            watched: Some((Instant::now(), changes)),
            notice: None,
        }
    }

    /// Notes and logs how long the link was down, once it is up. To be called again and again.
    pub(crate) fn watch(&mut self, link: &Link) {
        let name = &link.name;
        let Some((since, before)) = self.watched else {
            return;
        };
        let changes = interface::carrier_changes(name).unwrap_or(before);
        if changes == before {
            // drivers take the carrier away before they return
            self.watched = None;
        } else if link.carrier {
            self.watched = None;
            let text = format!(
                "attaching the XDP program interrupted its link, which was back within {:.1} s; \
                 restarts and stops leave the program, and the link, alone",
                since.elapsed().as_secs_f64()
            );
            log::info!("{name}: {text}");
            self.notice = Some(text);
        }
    }
}
