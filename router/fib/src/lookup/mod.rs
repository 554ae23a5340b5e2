//! Batch look-ups, with the vector instructions that the CPU has.

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod avx2;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod avx512;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod popcnt;
pub(crate) mod scalar;

use std::sync::atomic::Ordering;

use crate::FibError;
use crate::dir24::Dir24;
use crate::nexthop::NextHopId;
use crate::node::FAR;
use crate::tree::Tree;

/// Bits that nodes decide for all IPv6 keys of a step together: 24 to 59, which are in the first halves of addresses.
const FIRST6: u32 = 36;

/// Instructions for batch look-ups. All give the same results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Simd {
    /// The widest the CPU has.
    #[default]
    Auto,
    /// AVX-512 F, BW, DQ, VL and VPOPCNTDQ.
    Avx512,
    /// AVX2.
    Avx2,
    /// No vector instructions.
    Scalar,
}

/// The look-up functions that were chosen at the start.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kernel {
    #[cfg(target_arch = "x86_64")]
    Avx512(avx512::Available),
    #[cfg(target_arch = "x86_64")]
    Avx2(avx2::Available),
    #[cfg(target_arch = "x86_64")]
    Popcnt(popcnt::Available),
    Scalar,
}

impl Kernel {
    /// Chooses the functions.
    ///
    /// # Errors
    /// [`FibError::NoSimd`] if the CPU cannot do what was asked for.
    pub(crate) fn new(simd: Simd) -> Result<Self, FibError> {
        let found = match simd {
            Simd::Auto => Self::avx512().or_else(Self::avx2).or_else(Self::scalar),
            Simd::Avx512 => Self::avx512(),
            Simd::Avx2 => Self::avx2(),
            Simd::Scalar => Self::scalar(),
        };
        found.ok_or(FibError::NoSimd(simd))
    }

    #[cfg(target_arch = "x86_64")]
    fn avx512() -> Option<Self> {
        avx512::Available::detect().map(Self::Avx512)
    }

    #[cfg(target_arch = "x86_64")]
    fn avx2() -> Option<Self> {
        avx2::Available::detect().map(Self::Avx2)
    }

    #[cfg(target_arch = "x86_64")]
    fn scalar() -> Option<Self> {
        popcnt::Available::detect().map_or(Some(Self::Scalar), |cpu| Some(Self::Popcnt(cpu)))
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn scalar() -> Option<Self> {
        Some(Self::Scalar)
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn avx512() -> Option<Self> {
        None
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn avx2() -> Option<Self> {
        None
    }

    /// Longest match of IPv4 keys; `out` is as long as `keys`.
    #[inline]
    pub(crate) fn lookup4(self, tree: &Tree, keys: &[u32], out: &mut [NextHopId]) {
        if let Some(dir24) = &tree.dir24 {
            return self.dir24(tree, dir24, keys, out);
        }
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(cpu) => avx512::lookup4(cpu, tree, keys, out),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(cpu) => avx2::lookup4(cpu, tree, keys, out),
            #[cfg(target_arch = "x86_64")]
            Self::Popcnt(cpu) => popcnt::lookup4(cpu, tree, keys, out),
            Self::Scalar => scalar::lookup4(tree, keys, out),
        }
    }

    fn dir24(self, tree: &Tree, dir24: &Dir24, keys: &[u32], out: &mut [NextHopId]) {
        let inherit = tree.inherit().load(Ordering::Acquire);
        let deeper = match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(cpu) if keys.len() > 1 => {
                avx512::dir24(cpu, dir24.entries(), (inherit, FAR), keys, out)
            }
            _ => scalar::dir24(dir24.entries(), inherit, keys, out),
        };
        if deeper {
            let far = scalar::id(FAR.into(), inherit);
            for (key, out) in keys.iter().zip(out).filter(|(_, out)| **out == far) {
                scalar::lookup4(tree, std::slice::from_ref(key), std::slice::from_mut(out));
            }
        }
    }

    /// Longest match of IPv6 keys; `out` is as long as `keys`.
    #[inline]
    pub(crate) fn lookup6(self, tree: &Tree, keys: &[[u8; 16]], out: &mut [NextHopId]) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(cpu) => avx512::lookup6(cpu, tree, keys, out),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(cpu) => avx2::lookup6(cpu, tree, keys, out),
            #[cfg(target_arch = "x86_64")]
            Self::Popcnt(cpu) => popcnt::lookup6(cpu, tree, keys, out),
            Self::Scalar => scalar::lookup6(tree, keys, out),
        }
    }
}

/// Raw pointers to a tree, for gathers.
///
/// Gathers read with ordinary loads what the writer stores with atomic ones. That is sound where
/// this is compiled: on x86 an aligned load of 32 or 64 bits sees all or nothing of a store, loads
/// are not reordered with loads, and each lane's next address comes from its last load, so a lane
/// that sees a word sees all that was stored before it. The compiler cannot move the gathers out
/// of a batch: each batch ends at or before a quiescent point, an acquire load and a release
/// store. A 32-bit gather of a 16-bit entry may bring two octets of the next block, which are
/// masked off; at the end of the nodes there is a page to spare.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
struct View {
    root: *const i32,
    nodes: *const u8,
    inherit: i32,
    /// The next hop, and the first word, of IPv6 addresses outside 2000::/3.
    default: i32,
    outside: i32,
}

#[cfg(target_arch = "x86_64")]
impl View {
    #[inline]
    fn new(tree: &Tree) -> Self {
        Self {
            root: tree.root.words32().as_ptr().cast(),
            nodes: tree.nodes.words64().as_ptr().cast(),
            inherit: tree.inherit().load(Ordering::Acquire) as i32,
            default: tree.default().load(Ordering::Acquire) as i32,
            outside: tree.outside().load(Ordering::Acquire) as i32,
        }
    }
}
