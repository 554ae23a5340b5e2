//! Hooks that the program trusts to leave transit alone, because the control side has read the rules behind them. The trust ends
//! with the next change of the ruleset, before it takes effect (`is_trusted()` in `router/xdp/bpf/guard.h`).

use std::sync::atomic::{AtomicU32, Ordering};

use super::program::Program;
use super::skeleton::types::bora_trust;
use super::survey::HookIdentity;

/// Which hooks to trust. The default: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// The generation of nftables' ruleset that was read (`NFTA_GEN_ID`).
    pub generation: u32,
    /// Prerouting, forward and postrouting, of IPv4 and of IPv6; the default where it is not trusted.
    pub hooks: [[HookIdentity; 3]; 2],
    /// Whether they put fragments together, IPv4 and IPv6.
    pub defragment: [bool; 2],
}

impl Program {
    /// Trusts these hooks in the ruleset of this generation, and no others.
    pub fn trust(&mut self, trust: &Trust) {
        let Some(bss) = self.skeleton.maps.bss_data.as_deref_mut() else {
            return;
        };
        let generation = &raw mut bss.trusted_generation;
        // SAFETY: an aligned u32 in memory that libbpf mapped for a skeleton that is never
        // dropped; the BPF program only reads it, and this side only through the atomic.
        let generation = unsafe { AtomicU32::from_ptr(generation) };
        // another generation than both, so that nothing is trusted while it changes
        generation.store(trust.generation.wrapping_sub(1), Ordering::SeqCst);
        bss.trusted = trust.hooks.map(|hooks| {
            hooks.map(|hook| bora_trust {
                address: hook.address,
                sum: hook.sum,
            })
        });
        bss.trusted_defragment = trust.defragment.map(u8::from);
        generation.store(trust.generation, Ordering::SeqCst);
    }
}
