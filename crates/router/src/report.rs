//! What `bora show` shows, and what the API returns as JSON. Packets unless named otherwise.

use std::collections::BTreeMap;

use bora_kernel::{Difference, SyncStatus};
use bora_port::Refusal;
use serde::{Deserialize, Serialize};

/// A port.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PortReport {
    /// Number.
    pub index: u16,
    /// Interface name.
    pub name: String,
    /// `up` or `down`.
    pub state: String,
    /// MTU in octets.
    pub mtu: u32,
    /// Ethernet address.
    pub mac: String,
    /// `express`, `engine` or `kernel`.
    pub path: String,
    /// Why this path.
    pub why: String,
    /// `interface`, `memif`, `tap`, `af_packet`, `hero` or `pcap`.
    pub kind: String,
    /// What is behind a port that is no interface, and how it is.
    pub wire: String,
    /// `driver`, `generic`, or `-` without an XDP program.
    pub xdp: String,
    /// `zero-copy`, `copy`, `zero-copy and copy` (by queue), or `-` without sockets.
    pub af_xdp: String,
    /// Whether other ports can send express frames to it, or why not.
    pub redirect: String,
    /// Receive queues.
    pub queues: u32,
    /// AF_XDP sockets.
    #[serde(default)]
    pub sockets: u32,
    /// What the interface or its driver would not do, in the order of trying.
    #[serde(default)]
    pub refused: Vec<RefusalReport>,
    /// What else an operator should know of it.
    #[serde(default)]
    pub notices: Vec<String>,
    /// Received.
    pub rx_packets: u64,
    /// Octets received.
    pub rx_bytes: u64,
    /// From Linux by the port's twin, to be sent.
    pub from_linux: u64,
    /// Sent.
    pub tx_packets: u64,
    /// Octets sent.
    pub tx_bytes: u64,
    /// Handed to Linux.
    pub passed: u64,
    /// Dropped.
    pub dropped: u64,
    /// Handed to Linux, by reason.
    pub passed_by_reason: BTreeMap<String, u64>,
    /// Dropped, by reason.
    pub dropped_by_reason: BTreeMap<String, u64>,
    /// What a HERO card counts by itself, since Bora started, zeros left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub card: BTreeMap<String, u64>,
}

/// A step that a port's interface or driver refused.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RefusalReport {
    /// Such as `zero-copy`, `copy on queue 3`, `driver XDP`, `XDP`, `engine`.
    pub step: String,
    /// What the kernel said.
    pub reason: String,
}

impl From<&Refusal> for RefusalReport {
    fn from(refusal: &Refusal) -> Self {
        Self {
            step: refusal.step.clone(),
            reason: refusal.reason.clone(),
        }
    }
}

/// A destination that comes in by a HERO card.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OffloadReport {
    /// The port it comes in by.
    pub port: String,
    /// Its prefix, or an address where that does not matter.
    pub destination: String,
    /// `fast`: from card to card; `slow`: through the engine.
    pub path: String,
    /// The port it leaves by, or `-`.
    pub out: String,
    /// Packets a second, at the last look.
    pub packets_per_second: u64,
    /// Packets since it is on the fast path.
    pub packets: Option<u64>,
    /// Why it is on the slow path.
    pub why: String,
}

/// Where all packets went: `received = sent + passed + sum(drops) + held`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DropsReport {
    /// Packets that came in by the ports, or from Linux by their twins.
    pub received: u64,
    /// Sent by either tier.
    pub sent: u64,
    /// Handed to Linux.
    pub passed: u64,
    /// In Bora's rings.
    pub held: u64,
    /// Dropped, by reason.
    pub drops: BTreeMap<String, u64>,
    /// Handed to Linux, by reason.
    pub punts: BTreeMap<String, u64>,
    /// What the reason `guard` stands for now.
    pub guard: Vec<String>,
}

/// One class of a port, summed over workers: `enqueued = sent + held`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClassReport {
    /// Interface name.
    pub port: String,
    /// Number.
    pub class: u8,
    /// Taken into its queues.
    pub enqueued: u64,
    /// Taken out of them.
    pub sent: u64,
    /// Refused because they were full.
    pub dropped: u64,
    /// In them now.
    pub held: u64,
}

/// What a rule has matched since the rules were last changed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RuleReport {
    /// Number, from 0.
    pub index: usize,
    /// Its name, if it has one.
    pub name: String,
    /// Conditions and action.
    pub rule: String,
    /// Packets.
    pub packets: u64,
    /// Octets from the destination MAC address to the end of the frame, without FCS.
    pub octets: u64,
}

/// What an apply changes or has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplyReport {
    /// One line an action.
    pub actions: Vec<String>,
    /// Seconds within which `bora confirm` must come, if it must.
    pub confirm_seconds: Option<u64>,
}

/// Where the frames of the packet memory are: `total = reserve + pools + rings + held + to_linux +
/// closing`, each counted at its own moment, so that it adds up when nothing moves.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FramesReport {
    /// All there are.
    pub total: u64,
    /// Octets of a frame.
    pub octets: u32,
    /// Free, for any worker.
    pub reserve: u64,
    /// Free, on the workers' own lists.
    pub pools: u64,
    /// With the queues of each port, and through them with Linux, a card or a peer.
    pub rings: BTreeMap<String, u64>,
    /// Packets that workers hold: waiting for a transmit ring, or on their way to another worker.
    pub held: u64,
    /// Packets on their way to Linux.
    pub to_linux: u64,
    /// Of closed sockets, while the kernel may still use them.
    pub closing: u64,
}

/// A worker; its counts begin when it starts, also with other `workers.cores`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkerReport {
    /// Number.
    pub index: usize,
    /// CPU, if pinned.
    pub core: Option<usize>,
    /// NUMA node of that CPU.
    pub node: Option<usize>,
    /// Other CPUs that share its physical core or its second-level cache.
    pub shares_with: Vec<usize>,
    /// When it looks at its queues: `poll`, `adaptive`, `moderated:PACKETS:MICROSECONDS` or
    /// `interrupt`.
    pub mode: String,
    /// Times round the loop.
    pub loops: u64,
    /// Times asleep.
    pub sleeps: u64,
    /// Received.
    pub rx_packets: u64,
    /// Sent.
    pub tx_packets: u64,
    /// In its transmit rings.
    pub held: u64,
    /// Frames from its own list.
    pub pool_hits: u64,
    /// Frames fetched from the reserve.
    pub pool_refilled: u64,
    /// Frames given back to the reserve.
    pub pool_spilled: u64,
    /// Requests that found no frame.
    pub pool_exhausted: u64,
    /// Frames on its own list now.
    pub pool_size: u64,
}

/// A route as Bora holds it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RouteReport {
    /// Destination.
    pub prefix: String,
    /// What it leads to, as `ip route` words it.
    pub via: String,
    /// Metric.
    pub metric: u32,
    /// `main` or `local`.
    pub table: String,
    /// Asked for one address: what the FIB does with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fib: Option<String>,
}

/// A neighbour.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NeighbourReport {
    /// Address.
    pub address: String,
    /// Interface name.
    pub device: String,
    /// Ethernet address.
    pub mac: String,
}

/// The FIB that workers look in. Octets and numbers of prefixes, nodes, objects.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FibReport {
    /// IPv4.
    pub ipv4: FibFamilyReport,
    /// IPv6.
    pub ipv6: FibFamilyReport,
    /// Next-hop objects.
    pub next_hops: usize,
    /// What they take.
    pub next_hop_bytes: usize,
    /// Most there can be.
    pub max_next_hops: usize,
    /// Objects that some worker may still look at, waiting to be freed.
    pub retired: usize,
    /// Changes that the slowest worker has yet to pass.
    pub behind: u64,
    /// Seconds since something was last freed.
    pub last_reclaim_seconds: Option<u64>,
}

/// One family's table.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FibFamilyReport {
    /// Prefixes.
    pub prefixes: usize,
    /// Of the kernel's, those that found no room.
    pub missing: usize,
    /// Nodes.
    pub nodes: usize,
    /// Most words a look-up reads from root to leaf.
    pub depth: u32,
    /// What workers may touch.
    pub table_bytes: usize,
    /// Of it, nodes.
    pub node_bytes: usize,
    /// The limit for nodes (`--fib-memory`).
    pub max_bytes: usize,
    /// The writer's lists.
    pub control_bytes: usize,
    /// Changes since the start.
    pub updates: u64,
    /// Changes in the last second.
    pub updates_per_second: u64,
}

/// Whether kernel and FIB agree.
#[derive(Clone, Debug, Serialize)]
pub struct SyncReport {
    /// Nothing waits to be reconciled, nothing is missing, no difference was found.
    pub in_sync: bool,
    /// Seconds since that last changed.
    pub since_seconds: u64,
    /// Octets of the tables that workers read.
    pub fib_bytes: usize,
    /// Why traffic is left to Linux.
    pub guard: Vec<String>,
    /// Functions at Linux's hooks that let forwarded packets be.
    pub harmless: Vec<String>,
    /// What this kernel does not have or hides, and what is lost by that.
    pub lacks: Vec<String>,
    /// The mirror's own account.
    pub mirror: SyncStatus,
    /// With `--verify`: prefixes on which a fresh dump and the FIB differ.
    pub differences: Vec<Difference>,
}
