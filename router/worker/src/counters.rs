//! What a worker counts. One writer (the worker), any number of readers.

use std::sync::atomic::AtomicU64;

use bora_contract::{Counter, Counters, MAX_INTERFACES, MAX_PORTS};
use bora_fib::PortId;
use bora_forward::MAX_CLASSES;
use bora_forward::RuleCounters;
use bora_forward::classify::MAX_RULES;

use crate::profile::ProfileCounters;

// Aligned to two cache lines: counters of two workers must not share one, and CPUs fetch lines in pairs.

/// One worker's counters of one port, in packets unless named otherwise. Drops are
/// counted at the port the packet came in by; what waited for an output, at the output.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct PortCounters {
    /// Received from the port's queues.
    pub rx_packets: Counter,
    /// Octets of these.
    pub rx_bytes: Counter,
    /// Packets of [`Self::rx_packets`] that no XDP program has seen.
    pub ungated_packets: Counter,
    /// Octets of these.
    pub ungated_bytes: Counter,
    /// Received from Linux, to be sent by the port as they are.
    pub from_linux: Counter,
    /// Handed to the port's transmit ring.
    pub tx_packets: Counter,
    /// Octets of these.
    pub tx_bytes: Counter,
    /// Dropped; those that a full queue refused are counted at the output.
    pub dropped: Counters,
    /// Frames that its queues have now, those of its twin too.
    pub frames: Counter,
    /// On the way out, by class.
    pub classes: [ClassCounters; MAX_CLASSES],
}

/// One class of an output, in packets: `enqueued = sent + held`.
#[derive(Debug, Default)]
pub struct ClassCounters {
    /// Taken in.
    pub enqueued: Counter,
    /// Taken out.
    pub sent: Counter,
    /// Waiting.
    pub held: Counter,
    /// Refused because the queue was full.
    pub dropped: Counter,
}

/// One worker's counters of one VLAN device or bond: frames, and their octets with tags. They count at the port, too.
#[derive(Debug, Default)]
pub struct DeviceCounters {
    /// Received.
    pub rx_packets: Counter,
    /// Octets of these.
    pub rx_bytes: Counter,
    /// Staged for the port.
    pub tx_packets: Counter,
    /// Octets of these.
    pub tx_bytes: Counter,
}

impl DeviceCounters {
    #[inline]
    pub(crate) fn received(&self, packets: u64, octets: u64) {
        self.rx_packets.add(packets);
        self.rx_bytes.add(octets);
    }

    #[inline]
    pub(crate) fn sent(&self, packets: u64, octets: u64) {
        self.tx_packets.add(packets);
        self.tx_bytes.add(octets);
    }

    fn absorb(&self, other: &Self) {
        self.rx_packets.add(other.rx_packets.get());
        self.rx_bytes.add(other.rx_bytes.get());
        self.tx_packets.add(other.tx_packets.get());
        self.tx_bytes.add(other.tx_bytes.get());
    }
}

impl PortCounters {
    fn absorb(&self, other: &Self) {
        let pairs = [
            (&self.rx_packets, &other.rx_packets),
            (&self.rx_bytes, &other.rx_bytes),
            (&self.ungated_packets, &other.ungated_packets),
            (&self.ungated_bytes, &other.ungated_bytes),
            (&self.from_linux, &other.from_linux),
            (&self.tx_packets, &other.tx_packets),
            (&self.tx_bytes, &other.tx_bytes),
        ];
        for (own, other) in pairs {
            own.add(other.get());
        }
        self.dropped.absorb(&other.dropped);
        for (own, other) in self.classes.iter().zip(&other.classes) {
            own.enqueued.add(other.enqueued.get());
            own.sent.add(other.sent.get());
            own.dropped.add(other.dropped.get());
        }
    }
}

/// One worker's counters.
#[derive(Debug)]
#[repr(align(128))]
pub struct WorkerCounters {
    /// By port number.
    pub ports: Vec<PortCounters>,
    /// By the number of the VLAN device or bond, from [`MAX_PORTS`] on.
    pub devices: Vec<DeviceCounters>,
    /// By rule number.
    pub rules: Vec<RuleCounters>,
    /// Times round the loop; moves at least every [`crate::worker::LONGEST_SLEEP`].
    pub loops: Counter,
    /// Rounds of these in which it found nothing to do.
    pub idle_loops: Counter,
    /// Times it went to sleep for want of packets.
    pub sleeps: Counter,
    /// Packets it holds: in its transmit rings or with drivers.
    pub held: Counter,
    /// Packets received and not yet decided, or waiting for a transmit ring.
    pub queued: Counter,
    /// Frames taken from its own list.
    pub pool_hits: Counter,
    /// Frames fetched from the shared reserve.
    pub pool_refilled: Counter,
    /// Frames given back to the shared reserve.
    pub pool_spilled: Counter,
    /// Requests for a frame that found none.
    pub pool_exhausted: Counter,
    /// Frames on its own list.
    pub pool_size: Counter,
    /// The generation of the tables that it goes by; see [`crate::Published`].
    pub generation: AtomicU64,
    /// What [`crate::Command::Profile`] has measured.
    pub profile: ProfileCounters,
}

impl WorkerCounters {
    /// Zeros for this many ports at most.
    pub fn new(ports: usize) -> Self {
        Self {
            ports: (0..ports).map(|_| PortCounters::default()).collect(),
            devices: std::iter::repeat_with(DeviceCounters::default)
                .take(MAX_INTERFACES - MAX_PORTS)
                .collect(),
            rules: std::iter::repeat_with(RuleCounters::default)
                .take(MAX_RULES)
                .collect(),
            loops: Counter::default(),
            idle_loops: Counter::default(),
            sleeps: Counter::default(),
            held: Counter::default(),
            queued: Counter::default(),
            pool_hits: Counter::default(),
            pool_refilled: Counter::default(),
            pool_spilled: Counter::default(),
            pool_exhausted: Counter::default(),
            pool_size: Counter::default(),
            generation: AtomicU64::new(0),
            profile: ProfileCounters::default(),
        }
    }

    /// Adds what a worker has counted that has ended, of the same number of ports: for who keeps the
    /// sums. What it held is not among it.
    pub fn absorb(&self, other: &Self) {
        for (own, other) in self.ports.iter().zip(&other.ports) {
            own.absorb(other);
        }
        for (own, other) in self.devices.iter().zip(&other.devices) {
            own.absorb(other);
        }
        for (own, other) in self.rules.iter().zip(&other.rules) {
            own.packets.add(other.packets.get());
            own.octets.add(other.octets.get());
        }
    }

    /// The counters of a VLAN device or bond.
    #[inline]
    pub fn device(&self, number: PortId) -> Option<&DeviceCounters> {
        self.devices
            .get(usize::from(number.0).checked_sub(MAX_PORTS)?)
    }

    /// For other queues of a port's output the counts of classes start anew.
    pub fn forget_classes(&self, port: usize) {
        for class in self
            .ports
            .iter()
            .skip(port)
            .take(1)
            .flat_map(|port| &port.classes)
        {
            class.enqueued.set(0);
            class.sent.set(0);
            class.held.set(0);
            class.dropped.set(0);
        }
    }

    /// For other rules the counts start anew. Only the thread that owns the counters may call it.
    pub fn forget_rules(&self) {
        for rule in &self.rules {
            rule.packets.set(0);
            rule.octets.set(0);
        }
    }
}
