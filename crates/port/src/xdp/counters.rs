//! What the program counts, in the order of `enum bora_reason` in `xdp/bora.h`.

use super::skeleton::types;

/// Why the program passed a packet to Linux or dropped it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason {
    /// Name in `bora show drops` and in the metrics.
    pub name: &'static str,
    /// Whether it has a punt budget (exceptions, which Linux answers or drops).
    pub budget: bool,
}

const fn free(name: &'static str) -> Reason {
    Reason {
        name,
        budget: false,
    }
}

const fn budgeted(name: &'static str) -> Reason {
    Reason { name, budget: true }
}

/// All reasons, by number.
pub const REASONS: [Reason; 26] = [
    free("no_lease"),
    free("guard"),
    free("forwarding_off"),
    free("not_ip"),
    free("vlan_tag"),
    free("foreign_mac"),
    free("local"),
    free("special_address"),
    free("partial_checksum"),
    free("not_a_port"),
    free("no_socket"),
    free("left_to_linux"),
    free("multipath"),
    free("fragmentation"),
    free("super_packet"),
    free("redirect"),
    free("source_check"),
    free("unsupported"),
    budgeted("malformed"),
    budgeted("options"),
    budgeted("ttl_exceeded"),
    budgeted("no_route"),
    budgeted("unreachable"),
    budgeted("no_neighbour"),
    budgeted("too_big"),
    free("blackhole"),
];

const _: () = assert!(
    size_of::<types::bora_counters>() == (7 + 2 * REASONS.len()) * size_of::<u64>(),
    "REASONS and enum bora_reason differ"
);

/// Counters of one port, summed over CPUs, in packets unless named otherwise.
///
/// `rx_packets = sum(passed) + sum(dropped) + to_engine + redirected`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets the program saw.
    pub rx_packets: u64,
    /// Octets of these.
    pub rx_bytes: u64,
    /// Given to the engine's sockets.
    pub to_engine: u64,
    /// Forwarded to another port by the program itself.
    pub redirected: u64,
    /// Frames the express tier gave to this port's driver.
    pub tx_packets: u64,
    /// Octets of these.
    pub tx_bytes: u64,
    /// Of these, frames the driver refused.
    pub tx_ring_full: u64,
    /// Passed to Linux, by reason.
    pub passed: [u64; REASONS.len()],
    /// Dropped, by reason: blackhole, or over the budget of the reason.
    pub dropped: [u64; REASONS.len()],
}

impl Counters {
    /// Packets passed to Linux for a reason, by its name.
    pub fn passed_by(&self, name: &str) -> u64 {
        let reasons = REASONS.iter().zip(&self.passed);
        reasons
            .filter(|(reason, _)| reason.name == name)
            .map(|(_, count)| count)
            .sum()
    }

    /// Sums the raw per-CPU values of the map; short values are ignored.
    pub(super) fn sum(per_cpu: &[Vec<u8>]) -> Self {
        let mut total = Self::default();
        for value in per_cpu {
            let (words, _) = value.as_chunks::<8>();
            let mut words = words.iter().map(|word| u64::from_ne_bytes(*word));
            let mut add = |sum: &mut u64| *sum += words.next().unwrap_or(0);
            add(&mut total.rx_packets);
            add(&mut total.rx_bytes);
            add(&mut total.to_engine);
            add(&mut total.redirected);
            add(&mut total.tx_packets);
            add(&mut total.tx_bytes);
            add(&mut total.tx_ring_full);
            total.passed.iter_mut().for_each(&mut add);
            total.dropped.iter_mut().for_each(&mut add);
        }
        total
    }
}
