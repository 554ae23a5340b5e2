//! What happens to a packet: pure functions over a batch.
//!
//! The stages run one after the other over the whole batch, each over the packets that are still
//! undecided: [`parse`] reads the headers, [`source_check`] applies uRPF, [`classify()`] gives a
//! class and applies rules, [`lookup`] finds the next hop, [`rewrite`] makes the packet ready to
//! leave. [`run`] calls them in order. A packet that does not leave has a [`Reason`] by the end; nothing stays [`Verdict::Pending`].
//! [`enqueue()`] moves packets that leave to the [`Egress`] of their port, and [`schedule`] says which
//! is sent next.
//!
//! No thread, socket, clock or log here: everything a stage needs comes in as a [`Context`].

#![deny(unsafe_code)]

mod batch;
mod bond;
mod class;
pub mod classify;
mod control;
mod device;
mod dissect;
mod egress;
mod enqueue;
mod hash;
mod headers;
mod lookup;
mod meta;
mod multipath;
mod parse;
mod partial;
pub mod policy;
mod poll_list;
mod rewrite;
pub mod schedule;
#[allow(unsafe_code)]
mod simd;
mod source;
mod spread;
mod stage;
mod tunnel;
mod verdict;

use bora_buffer::Region;
use bora_contract::MAX_PORTS;
use bora_fib::{FibReader, PortId};
use bora_wire::MacAddr;

pub use bora_contract::{PortSettings, Reason, RpFilter};

pub use batch::Batch;
pub use bond::{Ports, XmitHash};
pub use class::{Class, MAX_CLASSES};
pub use classify::{Classifier, RuleCounters, classify};
pub use control::Urgency;
pub use device::{Device, Devices, Priorities, Tags};
pub use egress::{BURST, Egress, octets};
pub use enqueue::{Outputs, enqueue};
pub use hash::flow_hash;
pub use lookup::{is_for_router, lookup};
pub use meta::{Family, Meta};
pub use multipath::{FlowHash, HashPolicy};
pub use parse::parse;
pub use partial::complete_checksum;
pub use policy::Policies;
pub use poll_list::{PollList, Turn};
pub use rewrite::rewrite;
pub use source::source_check;
pub use spread::flow_of;
pub use stage::Stage;
pub use tunnel::{Endpoint, Tunnelling};
pub use verdict::Verdict;

/// The checks of the XDP program that need the state of the port. For ports without an XDP program the
/// engine makes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gate {
    /// The port is administratively up; otherwise everything is dropped.
    pub up: bool,
    /// Linux handles all IPv4.
    pub kernel4: bool,
    /// Linux handles all IPv6.
    pub kernel6: bool,
    /// Linux takes frames for other stations, too; otherwise they are dropped, as Linux would do.
    pub promiscuous: bool,
}

impl Gate {
    /// Lets everything pass, because the XDP program has made the checks.
    const OPEN: Self = Self {
        up: true,
        kernel4: false,
        kernel6: false,
        promiscuous: true,
    };
}

/// The port or device a batch came in by (control plane: writes; workers: read).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ingress {
    /// Its number.
    pub port: PortId,
    /// Number of what a macvlan is on; its own, of everything else. IPv6 packets that would leave there are Linux's.
    pub below: PortId,
    /// Its Ethernet address: other destinations are not ours to forward.
    pub mac: MacAddr,
    /// Whether Linux forwards IPv4 that comes in here.
    pub forward4: bool,
    /// Whether Linux forwards IPv6 that comes in here.
    pub forward6: bool,
    /// Source check of IPv4.
    pub rp_filter: RpFilter,
    /// Senders may leave L4 checksums to the receiver.
    pub partial_checksum: bool,
    /// Whether Linux would send IPv4 redirects here.
    pub send_redirects4: bool,
    /// What the engine has to check; `None` for a port with an XDP program.
    pub gate: Option<Gate>,
}

impl Ingress {
    /// A port behind an XDP program, for which Linux forwards both IP versions; everything else is off.
    pub fn new(port: PortId, mac: MacAddr) -> Self {
        Self {
            port,
            below: port,
            mac,
            forward4: true,
            forward6: true,
            rp_filter: RpFilter::Off,
            partial_checksum: false,
            send_redirects4: false,
            gate: None,
        }
    }

    /// Whether it is a device: a VLAN device, whose packets have lost their tags, a bond, a macvlan or a tunnel.
    pub fn is_device(&self) -> bool {
        usize::from(self.port.0) >= MAX_PORTS
    }

    /// Whether an XDP program stands in front of the port, and can keep packets away from it.
    pub fn has_xdp(&self) -> bool {
        self.gate.is_none()
    }
}

impl From<&PortSettings> for Ingress {
    fn from(settings: &PortSettings) -> Self {
        Self {
            port: PortId(settings.index),
            below: PortId(settings.below),
            mac: MacAddr(settings.mac),
            forward4: settings.forward4,
            forward6: settings.forward6,
            rp_filter: settings.rp_filter,
            partial_checksum: settings.partial_checksum,
            send_redirects4: settings.send_redirects4,
            gate: (!settings.gated).then_some(Gate {
                up: settings.enabled,
                kernel4: settings.kernel4,
                kernel6: settings.kernel6,
                promiscuous: settings.promiscuous,
            }),
        }
    }
}

/// Everything the stages need besides the batch.
pub struct Context<'a> {
    /// The memory the packets are in.
    pub region: &'a Region,
    /// The tables.
    pub fib: &'a FibReader,
    /// Where the batch came in.
    pub ingress: &'a Ingress,
    /// Shortest frame of each output port in octets without FCS, by port number.
    pub min_frames: &'a [u16],
    /// Classes and rules.
    pub classifier: &'a Classifier,
    /// Policy routing and VRFs.
    pub policies: &'a Policies,
    /// How IPv4 flows choose a path.
    pub hash4: FlowHash,
    /// How IPv6 flows choose a path.
    pub hash6: FlowHash,
    /// What packets need that go into tunnels.
    pub tunnelling: &'a Tunnelling,
}

/// Runs all stages over a batch, except [`enqueue()`]; `counters` as for [`classify()`]. `done` is told of
/// each stage that is done.
#[inline]
pub fn run(
    batch: &mut Batch,
    context: &Context<'_>,
    counters: &[RuleCounters],
    mut done: impl FnMut(Stage),
) {
    context.tunnelling.begin();
    parse(batch, context);
    done(Stage::Parse);
    source_check(batch, context);
    done(Stage::SourceCheck);
    classify(batch, context, counters);
    done(Stage::Classify);
    lookup(batch, context);
    done(Stage::Lookup);
    rewrite(batch, context);
    done(Stage::Rewrite);
}
