//! What is counted of a device.

use bora_fib::PortId;
use bora_worker::WorkerCounters;

/// What workers and program have counted of a device: frames, and octets with tags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeviceTotals {
    pub(crate) rx_packets: u64,
    pub(crate) rx_bytes: u64,
    pub(crate) tx_packets: u64,
    pub(crate) tx_bytes: u64,
}

impl DeviceTotals {
    pub(crate) fn of<'a>(
        id: PortId,
        workers: impl Iterator<Item = &'a WorkerCounters>,
        program: [u64; 4],
    ) -> Self {
        let [rx_packets, rx_bytes, tx_packets, tx_bytes] = program;
        let mut total = Self {
            rx_packets,
            rx_bytes,
            tx_packets,
            tx_bytes,
        };
        for counted in workers.filter_map(|worker| worker.device(id)) {
            total.rx_packets += counted.rx_packets.get();
            total.rx_bytes += counted.rx_bytes.get();
            total.tx_packets += counted.tx_packets.get();
            total.tx_bytes += counted.tx_bytes.get();
        }
        total
    }

    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            rx_packets: self.rx_packets - before.rx_packets,
            rx_bytes: self.rx_bytes - before.rx_bytes,
            tx_packets: self.tx_packets - before.tx_packets,
            tx_bytes: self.tx_bytes - before.tx_bytes,
        }
    }
}
