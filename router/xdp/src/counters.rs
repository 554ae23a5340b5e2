//! What the program counts (`struct bora_counters` in `router/xdp/bpf/bora.h`).

use bora_contract::{Counts, Reason};

use super::skeleton::types;

const _: () = assert!(
    size_of::<types::bora_counters>() == (8 + Reason::OF_PROGRAM) * size_of::<u64>(),
    "struct bora_counters is not as Counters::sum reads it"
);

/// Counters of one port, summed over CPUs, in packets unless named otherwise. Over all ports
/// `sum(rx_packets) = sum(to_engine) + sum(tx_packets) + sum(reasons)`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets the program saw.
    pub rx_packets: u64,
    /// Octets of these.
    pub rx_bytes: u64,
    /// Given to the engine's sockets.
    pub to_engine: u64,
    /// Frames of the express tier that this port's driver took.
    pub tx_packets: u64,
    /// Octets of these, and of those that it refused.
    pub tx_bytes: u64,
    /// Packets of the express tier for which Linux's FIB was asked, because Bora's did not say.
    pub asked: u64,
    /// Packets that came in here and that a flow of Linux's flowtable forwarded, at whatever output.
    pub flows: u64,
    /// Passed to Linux or dropped, see [`Reason::is_drop_of_program`]. [`Reason::TxRingFull`] is counted at the
    /// output, the others at the input.
    pub reasons: Counts,
}

impl Counters {
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
            add(&mut total.tx_packets);
            add(&mut total.tx_bytes);
            add(&mut total.asked);
            add(&mut total.flows);
            add(&mut 0); // the last output, for captures and traces
            for reason in &Reason::ALL[..Reason::OF_PROGRAM] {
                add(&mut total.reasons[*reason]);
            }
        }
        total
    }
}
