//! Runs a loop with the vector instructions that the CPU has. The loop is ordinary code, compiled once for
//! each set of instructions.

/// A loop; [`Loop::run`] must be `#[inline(always)]`, so that it is compiled with its caller's
/// instructions.
pub(crate) trait Loop {
    /// Does it.
    fn run(self);
}

/// The widest instructions of this CPU. Only [`Simd::detect`] makes the wide ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Simd {
    /// AVX-512 F, BW, DQ and VL.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// AVX2.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// What every CPU of the architecture has.
    Baseline,
}

impl Simd {
    pub(crate) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            let has_avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            if has_avx512 {
                return Self::Avx512;
            }
            if is_x86_feature_detected!("avx2") {
                return Self::Avx2;
            }
        }
        Self::Baseline
    }

    #[inline(always)]
    pub(crate) fn run(self, work: impl Loop) {
        match self {
            // SAFETY: `detect` has found the instructions on this CPU.
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => unsafe { avx512(work) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => unsafe { avx2(work) },
            Self::Baseline => work.run(),
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
#[inline(never)] // so that a rare loop takes no registers from the one that starts it
fn avx512(work: impl Loop) {
    work.run();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline(never)]
fn avx2(work: impl Loop) {
    work.run();
}
