//! What happens to a packet: pure functions over a batch.
//!
//! The stages run one after the other over the whole batch, each over the packets that are still
//! undecided: [`parse`] reads the headers, [`source_check`] applies uRPF, [`classify()`] gives a
//! class and applies rules, [`lookup`] finds the next hop, [`rewrite`] makes the packet ready to
//! leave. [`run`] calls them in order, [`run_classified`] with classes. What does not leave has a
//! [`Punt`] or [`Drop`] reason by the end; nothing stays [`Verdict::Pending`]. [`enqueue()`] moves
//! what leaves to the queues of its output, and [`schedule`] says what is sent next.
//!
//! No thread, socket, clock or log here: everything a stage needs comes in as a [`Context`].

#![forbid(unsafe_code)]

mod batch;
mod class;
pub mod classify;
mod dissect;
mod enqueue;
mod hash;
mod lookup;
mod multipath;
mod parse;
mod partial;
mod poll_list;
mod reason;
mod rewrite;
pub mod schedule;
mod source;
mod spread;

use bora_buffer::Region;
use bora_fib::{FibReader, PortId};
use bora_wire::MacAddr;

pub use batch::{Batch, Family, Meta};
pub use class::{Class, MAX_CLASSES};
pub use classify::{Classifier, RuleHits, classify};
pub use enqueue::{BURST, Exit, enqueue, octets};
pub use hash::flow_hash;
pub use lookup::lookup;
pub use multipath::{FlowHash, HashPolicy};
pub use parse::parse;
pub use partial::complete_checksum;
pub use poll_list::{PollList, Turn};
pub use reason::{Drop, Punt, Verdict};
pub use rewrite::rewrite;
pub use source::source_check;
pub use spread::flow_of;

/// Reverse-path check of IPv4 sources (RFC 3704), as `net.ipv4.conf.*.rp_filter`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RpFilter {
    /// None.
    #[default]
    Off,
    /// The way back must leave through the port the packet came in by.
    Strict,
    /// There must be a way back.
    Loose,
}

/// What the XDP program sees to on interfaces, for ports that have none in front of the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gate {
    /// Administratively up; otherwise nothing comes in.
    pub up: bool,
    /// All IPv4 is Linux's business.
    pub kernel4: bool,
    /// All IPv6 is Linux's business.
    pub kernel6: bool,
}

/// The port a batch came in by (control plane: writes; workers: read).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ingress {
    /// Its number.
    pub port: PortId,
    /// Its Ethernet address: other destinations are not ours to forward.
    pub mac: MacAddr,
    /// Whether Linux forwards IPv4 that comes in here.
    pub forward4: bool,
    /// Whether Linux forwards IPv6 that comes in here.
    pub forward6: bool,
    /// Source check of IPv4.
    pub rp_filter: RpFilter,
    /// Peers may leave L4 checksums to the receiver.
    pub partial_checksum: bool,
    /// Whether Linux would send IPv4 redirects here.
    pub send_redirects4: bool,
    /// What is left to check; `None` behind the XDP program.
    pub gate: Option<Gate>,
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
    /// How IPv4 flows choose a path.
    pub hash4: FlowHash,
    /// How IPv6 flows choose a path.
    pub hash6: FlowHash,
}

/// Runs all stages over a batch.
pub fn run(batch: &mut Batch, context: &Context<'_>) {
    parse(batch, context);
    source_check(batch, context);
    lookup(batch, context);
    rewrite(batch, context);
}

/// Runs all stages over a batch, classes and rules among them; `hits` as for [`classify()`].
pub fn run_classified(
    batch: &mut Batch,
    context: &Context<'_>,
    classifier: &Classifier,
    hits: &mut [RuleHits],
) {
    parse(batch, context);
    source_check(batch, context);
    classify(batch, context, classifier, hits);
    lookup(batch, context);
    rewrite(batch, context);
}
