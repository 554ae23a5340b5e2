//! The program shows packets to captures and traces, on this kernel.

use std::sync::Arc;

use bora_capture::{Filter, SNAP, Subscription};
use bora_xdp::Program;

#[test]
fn watchers_are_set_and_nothing_is_seen_without_packets() {
    if !rustix::process::geteuid().is_root() {
        bora_testing::skip("loading BPF programs needs root");
        return;
    }
    let mut program = Program::load(0, 0, false).unwrap();
    let subscription = Subscription::new(Filter::everything(), 1, SNAP);
    let (mut seen_packets, allowances) = program.seen_packets().unwrap();
    program.show_to(&[(3, Arc::new(subscription))]).unwrap();
    allowances.begin(3, 1);
    assert_eq!(allowances.lost(3), 0);
    assert_eq!(seen_packets.take().count(), 0);
}
