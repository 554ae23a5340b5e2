//! What the stream of live data has in it: the JSON of `GET /v1/live`, for those who write it and those
//! who read it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Counts by the name of the reason, in packets; zeros are left out.
pub type ByReason = BTreeMap<String, u64>;

/// Rates of one port in one second. A packet counts as dropped or left to Linux at the port that it came
/// in by; what was lost behind an output, at the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortRates {
    /// Packets a second received.
    pub rx_pps: u32,
    /// Packets a second sent.
    pub tx_pps: u32,
    /// Packets a second dropped.
    pub drop_pps: u32,
    /// Packets a second left to Linux.
    pub linux_pps: u32,
    /// Bits a second received, from the Ethernet header to before the FCS.
    pub rx_bps: u64,
    /// Bits a second sent, counted likewise.
    pub tx_bps: u64,
}

/// The event `history`: the last ten minutes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// When the last sample was taken, milliseconds since 1970.
    pub time: u64,
    /// By port. Samples are one second apart, the newest last; all ports end at the same time.
    pub ports: Vec<PortHistory>,
}

/// The last ten minutes of one port, one number a second, as in [`PortRates`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortHistory {
    /// The port's name.
    pub name: String,
    /// Packets received.
    pub rx_pps: Vec<u32>,
    /// Packets sent.
    pub tx_pps: Vec<u32>,
    /// Packets dropped.
    pub drop_pps: Vec<u32>,
    /// Packets left to Linux.
    pub linux_pps: Vec<u32>,
    /// Bits received.
    pub rx_bps: Vec<u64>,
    /// Bits sent.
    pub tx_bps: Vec<u64>,
}

/// The event `now`, once a second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Now {
    /// When the sample was taken, milliseconds since 1970.
    pub time: u64,
    /// Seconds since Bora started.
    pub uptime: u64,
    /// Bora's version.
    pub version: String,
    /// The machine's name.
    pub host: String,
    /// Seconds after which an apply is taken back unless it is confirmed; nothing if none waits.
    #[serde(default)]
    pub confirm_seconds: Option<u64>,
    /// The ports.
    pub ports: Vec<PortNow>,
    /// VLAN devices, bonds, bridges, macvlans and tunnels on the ports.
    #[serde(default)]
    pub devices: Vec<DeviceNow>,
    /// The rules, in order.
    #[serde(default)]
    pub rules: Vec<RuleNow>,
    /// Where every packet went since the start.
    pub total: Packets,
    /// Where the packets of the last second went.
    pub rate: Packets,
    /// The workers of the engine; none if every port takes the express path.
    pub workers: Vec<WorkerNow>,
    /// Queues of the outputs, one a class.
    pub queues: Vec<QueueNow>,
    /// Whether Bora agrees with Linux.
    pub sync: SyncNow,
    /// What holds traffic back.
    pub guard: GuardNow,
    /// The forwarding table.
    pub fib: FibNow,
    /// The flows with the most traffic.
    pub flows: Vec<FlowNow>,
    /// One packet in this many is looked at for `flows`; 0: none is.
    pub flows_one_in: u32,
    /// The last events, the oldest first.
    pub events: Vec<Event>,
}

/// A port now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PortNow {
    /// Its name.
    pub name: String,
    /// `up` or `down`.
    pub state: String,
    /// `express`, `engine` or `kernel`.
    pub path: String,
    /// Why this path.
    pub why: String,
    /// Its addresses, with the lengths of their prefixes.
    #[serde(default)]
    pub addresses: Vec<String>,
    /// The kind, as `kind` of a `[[port]]`.
    pub kind: String,
    /// How the XDP program is attached: `driver`, `generic` or `-`.
    pub xdp: String,
    /// What an operator should know of it.
    pub notices: Vec<String>,
    /// Rates of the last second.
    pub rates: PortRates,
    /// Packets received since the start.
    pub rx_packets: u64,
    /// Packets sent since the start.
    pub tx_packets: u64,
    /// Packets dropped since the start.
    pub dropped: ByReason,
    /// Packets left to Linux since the start.
    pub passed: ByReason,
}

/// A device on the ports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceNow {
    /// Its name.
    pub name: String,
    /// `vlan`, `bond`, `bridge`, `macvlan` or `tunnel`.
    pub kind: String,
    /// Its addresses, with the lengths of their prefixes.
    pub addresses: Vec<String>,
    /// Why it is left to Linux, if so.
    pub left: Option<String>,
}

/// A rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleNow {
    /// Number, from 1.
    pub number: usize,
    /// Its name, if it has one.
    pub name: String,
    /// Conditions and action.
    pub rule: String,
    /// Packets that it has matched since the rules were changed.
    pub packets: u64,
}

/// Where packets went: `received = sent + passed + dropped + held`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packets {
    /// Packets that came in by the ports, or from Linux by their twins.
    pub received: u64,
    /// Sent by either tier.
    pub sent: u64,
    /// Packets of these that flows of Linux's flowtables forwarded.
    pub flows: u64,
    /// In Bora's rings now.
    pub held: i64,
    /// Left to Linux.
    pub passed: ByReason,
    /// Dropped.
    pub dropped: ByReason,
}

/// A worker in the last second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerNow {
    /// Number.
    pub index: usize,
    /// CPU, if pinned.
    pub core: Option<usize>,
    /// When it looks at its queues.
    pub mode: String,
    /// The share of its loops that found something to do, 0 to 1.
    pub busy: f64,
    /// Packets a second received.
    pub pps: u64,
    /// Times a second that it went to sleep.
    pub sleeps: u64,
    /// Packets in its transmit rings.
    pub held: u64,
    /// Requests for a frame that found none, since it started.
    pub pool_exhausted: u64,
}

/// One class of an output.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueNow {
    /// The port's name.
    pub port: String,
    /// Number of the class.
    pub class: usize,
    /// Packets waiting.
    pub held: u64,
    /// Packets a second taken out.
    pub sent_pps: u64,
    /// Packets a second refused because it was full.
    pub drop_pps: u64,
}

/// Whether Bora agrees with Linux.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncNow {
    /// Nothing waits to be read or written, and everything fitted.
    pub in_sync: bool,
    /// Seconds since that last changed.
    pub since: u64,
    /// Routes in Linux's tables, IPv4 and IPv6.
    pub routes: [usize; 2],
    /// Neighbours with an Ethernet address.
    pub neighbours: usize,
    /// Events of Linux in the last second.
    pub events_per_second: u64,
    /// Comparisons with the whole of Linux's tables.
    pub reconciliations: u64,
    /// Entries that background checks have corrected.
    pub mended: u64,
    /// Times that Linux had more events than room for them.
    pub overflows: u64,
    /// Routes that are left to Linux, by reason.
    pub left: BTreeMap<String, usize>,
    /// Threads without progress, because of which Linux forwards.
    pub stuck: Vec<String>,
    /// Times since the start that threads were stuck, so that Linux forwarded.
    #[serde(default)]
    pub stuck_times: u64,
}

/// What holds traffic back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardNow {
    /// Why traffic is left to Linux, and what would free it.
    pub lines: Vec<String>,
    /// What becomes of flows of Linux's flowtables, and what to change about it.
    pub flows: Vec<String>,
}

/// The forwarding table. The pairs are IPv4 and IPv6.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FibNow {
    /// Prefixes.
    pub prefixes: [usize; 2],
    /// Prefixes that found no room.
    pub missing: [usize; 2],
    /// Octets of nodes.
    pub node_bytes: [usize; 2],
    /// Octets of nodes that there may be.
    pub max_bytes: [usize; 2],
    /// Octets that packets' look-ups may touch, of both tables.
    pub table_bytes: usize,
    /// Next hops.
    pub next_hops: usize,
    /// Changes in the last second.
    pub updates_per_second: [u64; 2],
}

/// A flow with much traffic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlowNow {
    /// The port that it comes in by.
    pub input: String,
    /// The port that it leaves by.
    pub output: String,
    /// The address that it comes from.
    pub source: String,
    /// The address that it goes to.
    pub destination: String,
    /// Such as `udp 5000 → 53`.
    pub what: String,
    /// Packets a second, estimated.
    pub pps: u64,
    /// Bits a second, estimated.
    pub bps: u64,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When, milliseconds since 1970.
    pub time: u64,
    /// How bad it is.
    pub severity: Severity,
    /// What it is about.
    pub kind: EventKind,
    /// In words.
    pub text: String,
}

/// How bad an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// As intended.
    Info,
    /// An operator should know.
    Warning,
    /// An operator should act.
    Error,
}

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EventKind {
    /// Bora has started.
    Start,
    /// A port came, went, or its link changed.
    Port,
    /// A port takes another tier.
    Tier,
    /// Something holds traffic back, or no longer does.
    Guard,
    /// Linux does something else than Bora.
    Sync,
    /// The configuration was changed.
    Apply,
    /// A change of the configuration was taken back.
    Rollback,
}
