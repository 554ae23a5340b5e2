//! What happens to a packet: pure functions over a batch.
//!
//! [`find_inputs`] tells what each packet of a batch came in by. Then the stages run one after the other over the whole batch,
//! each over the packets that are still undecided: [`parse`] reads the headers, [`source_check`] applies uRPF, [`classify()`]
//! gives a class and applies rules, [`lookup`] finds the next hop, [`rewrite`] makes the packet ready to leave. [`run`] calls
//! them in order. A packet that does not leave has a [`Reason`] by the end; nothing stays [`Verdict::Pending`]. [`enqueue()`]
//! moves packets that leave to the [`Egress`] of their port, and [`schedule`] says which is sent next.
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
mod find;
mod hash;
mod headers;
mod input;
mod lookup;
mod meta;
mod multipath;
mod parse;
mod partial;
mod places;
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
mod unwrap;
mod verdict;
mod wrap;

use bora_buffer::Region;
use bora_fib::FibReader;

pub use bora_contract::{PortSettings, Reason, RpFilter};

pub use batch::Batch;
pub use bond::{Ports, XmitHash};
pub use class::{Class, MAX_CLASSES};
pub use classify::{Classifier, RuleCounters, classify};
pub use control::Urgency;
pub use device::{Device, Devices, Priorities, Tags};
pub use egress::{BURST, Egress, octets};
pub use enqueue::{Outputs, enqueue};
pub use find::find_inputs;
pub use hash::flow_hash;
pub use input::{Gate, Ingress, Inputs};
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
pub use tunnel::Endpoint;
pub use unwrap::{Last, Outer, Unwrapped};
pub use verdict::Verdict;
pub use wrap::Tunnelling;

/// Everything the stages need besides the batch.
pub struct Context<'a> {
    /// The memory the packets are in.
    pub region: &'a Region,
    /// The tables.
    pub fib: &'a FibReader,
    /// What packets come in by.
    pub inputs: &'a Inputs,
    /// The devices that packets leave by.
    pub devices: &'a Devices,
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

/// Runs all stages over a batch whose packets have their inputs, except [`crate::enqueue()`]; `counters` as for [`classify()`].
/// `done` is told of each stage that is done.
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
