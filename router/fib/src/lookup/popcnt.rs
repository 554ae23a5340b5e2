//! The scalar look-ups, compiled for CPUs with POPCNT.

use super::scalar;
use crate::nexthop::NextHopId;
use crate::tree::Tree;

/// Proof that the CPU has what this file needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Available(());

impl Available {
    pub(super) fn detect() -> Option<Self> {
        let found = is_x86_feature_detected!("popcnt") && is_x86_feature_detected!("bmi2");
        found.then_some(Self(()))
    }
}

pub(super) fn lookup4(_: Available, tree: &Tree, keys: &[u32], out: &mut [NextHopId]) {
    #[target_feature(enable = "popcnt,bmi2")]
    fn inner(tree: &Tree, keys: &[u32], out: &mut [NextHopId]) {
        scalar::lookup4(tree, keys, out);
    }
    // SAFETY: `Available` says that the CPU has the features.
    unsafe { inner(tree, keys, out) }
}

pub(super) fn lookup6(_: Available, tree: &Tree, keys: &[[u8; 16]], out: &mut [NextHopId]) {
    #[target_feature(enable = "popcnt,bmi2")]
    fn inner(tree: &Tree, keys: &[[u8; 16]], out: &mut [NextHopId]) {
        scalar::lookup6(tree, keys, out);
    }
    // SAFETY: `Available` says that the CPU has the features.
    unsafe { inner(tree, keys, out) }
}
