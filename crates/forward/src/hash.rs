//! The flow hash that chooses one path of several.

use bora_wire::Protocol;

/// What tells flows apart; `net.ipv4.fib_multipath_hash_policy` and its IPv6 twin. Linux's
/// policies 2 and 3 (inner headers, chosen fields) are taken as [`HashPolicy::L4`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HashPolicy {
    /// Addresses, and the flow label of IPv6 (RFC 6438).
    #[default]
    L3,
    /// Addresses, protocol and ports; fragments without ports, so that all of a packet's
    /// fragments take one way.
    L4,
}

/// Hashes a flow's fields to 32 bits; equal fields give equal hashes on every worker.
#[inline]
pub fn flow_hash(
    source: u128,
    destination: u128,
    label: u32,
    protocol: Protocol,
    ports: u32,
) -> u32 {
    const K: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut state = K;
    for word in [
        source as u64,
        (source >> 64) as u64,
        destination as u64,
        (destination >> 64) as u64,
        u64::from(label) << 8 | u64::from(protocol.0),
        u64::from(ports),
    ] {
        // one round of "folded multiply": both halves of the 128-bit product matter
        let product = u128::from(state ^ word) * u128::from(K ^ state.rotate_left(32) | 1);
        state = (product as u64) ^ (product >> 64) as u64;
    }
    (state >> 32) as u32 ^ state as u32
}
