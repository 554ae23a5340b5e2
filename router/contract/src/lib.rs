//! What the XDP program, the engine and the control side agree on, from `contract.toml`: the reasons why a packet does
//! not simply leave, the settings of a port, and limits; and the counters by reason.

#![forbid(unsafe_code)]

mod counts;
#[rustfmt::skip]
mod generated;

pub use counts::{Counter, Counters, Counts};
pub use generated::*;

/// Converts a punt budget from packets per second to packets per window ([`BUDGET_WINDOW_NS`]).
pub const fn budget_of_window(packets_per_second: u64) -> u64 {
    packets_per_second.div_ceil(1_000_000_000 / BUDGET_WINDOW_NS)
}

impl PortSettings {
    /// Number and other end of the PPPoE session that it is, if it is one.
    pub fn pppoe(&self) -> Option<(u16, [u8; 6])> {
        (self.session != 0).then_some((self.session, self.peer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_unique() {
        for (number, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, number);
            let same = Reason::ALL
                .iter()
                .filter(|other| other.name() == reason.name());
            assert_eq!(same.count(), 1, "{}", reason.name());
        }
    }

    #[test]
    fn port_settings_have_the_layout_of_the_program() {
        let settings = PortSettings {
            index: 0x0201,
            path: Path::Express,
            rp_filter: RpFilter::Strict,
            min_frame: 60,
            mac: [1, 2, 3, 4, 5, 6],
            trunk: 0x0403,
            tags: [0x81, 0, 0, 100, 0, 0, 0, 0],
            priorities: 0x0807_0605,
            ageing_ms: 9,
            forward4: true,
            up: true,
            promiscuous: true,
            ..PortSettings::default()
        };
        let bytes = settings.to_bytes();
        assert_eq!(bytes[..2], 0x0201u16.to_ne_bytes());
        assert_eq!(bytes[2..4], [2, 1]);
        assert_eq!(bytes[4..8], (1u32 | 1 << 9 | 1 << 17).to_ne_bytes());
        assert_eq!(bytes[8..14], [1, 2, 3, 4, 5, 6]);
        assert_eq!(bytes[14..16], 0x0403u16.to_ne_bytes());
        assert_eq!(bytes[16..24], [0x81, 0, 0, 100, 0, 0, 0, 0]);
        assert_eq!(bytes[24..28], 0x0807_0605u32.to_ne_bytes());
        assert_eq!(bytes[28..32], 9u32.to_ne_bytes());
        assert_eq!(bytes[32..34], 60u16.to_ne_bytes());
    }

    #[test]
    fn budgets_are_rounded_up() {
        assert_eq!([0, 1, 100, 101].map(budget_of_window), [0, 1, 1, 2]);
    }
}
