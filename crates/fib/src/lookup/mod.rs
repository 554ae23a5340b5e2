//! Batch look-ups with the instructions the CPU has.

mod scalar;

use crate::FibError;
use crate::nexthop::NextHopId;
use crate::publish::Tree;

/// Instructions for batch look-ups. The results are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Simd {
    /// The widest the CPU has.
    #[default]
    Auto,
    /// AVX-512 F, BW, DQ, VL and VPOPCNTDQ.
    Avx512,
    /// AVX2.
    Avx2,
    /// None.
    Scalar,
}

/// The choice, made once.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kernel {
    Scalar,
}

impl Kernel {
    pub(crate) fn new(_simd: Simd) -> Result<Self, FibError> {
        Ok(Self::Scalar)
    }

    /// Longest match of as many keys as `out` has places.
    #[inline]
    pub(crate) fn lookup4(self, tree: &Tree, keys: &[u32], out: &mut [NextHopId]) {
        match self {
            Self::Scalar => scalar::lookup4(tree, keys, out),
        }
    }

    #[inline]
    pub(crate) fn lookup6(self, tree: &Tree, keys: &[[u8; 16]], out: &mut [NextHopId]) {
        match self {
            Self::Scalar => scalar::lookup6(tree, keys, out),
        }
    }
}
