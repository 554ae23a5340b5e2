//! Token bucket: a rate, and a burst that may exceed it.

/// Longest frame a bucket must be able to pass, in octets; no frame of a region is longer.
pub const MAX_FRAME: u32 = 4096;

/// The largest burst the arithmetic has room for, in octets.
const MAX_BURST: u32 = 1 << 30;

/// Tokens are counted in bit-nanoseconds a second, so that `nanoseconds * bit/s` is exact.
const SECOND: u64 = 1_000_000_000;

/// A shaping contract. Frames count with their octets from the destination MAC address to the
/// end, without FCS, preamble and gap (24 octets more on the wire).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shaping {
    /// Bits a second, above zero.
    pub rate: u64,
    /// Octets that may leave at once after a pause; [`MAX_FRAME`] to 1 GiB.
    pub burst: u32,
}

/// Why a [`Shaping`] was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShapingError {
    /// The rate is 0: nothing would ever leave.
    NoRate,
    /// The burst is below [`MAX_FRAME`], so that a long frame would wait for ever, or above 1 GiB.
    Burst(u32),
}

impl std::fmt::Display for ShapingError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoRate => write!(f, "a rate of 0 bit/s lets nothing through"),
            Self::Burst(burst) => write!(
                f,
                "a burst of {burst} octets is not between {MAX_FRAME} and {MAX_BURST}"
            ),
        }
    }
}

impl std::error::Error for ShapingError {}

/// The bucket: full at first. In any interval of `t` seconds at most `burst * 8 + rate * t` bits
/// pass. All arithmetic is exact, so the rate does not drift.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    rate: u64,
    depth: u64,
    tokens: u64,
    at_ns: u64,
}

fn cost(octets: u32) -> u64 {
    u64::from(octets) * 8 * SECOND
}

impl TokenBucket {
    /// A full bucket.
    ///
    /// # Errors
    /// What [`ShapingError`] says.
    pub fn new(shaping: Shaping) -> Result<Self, ShapingError> {
        if shaping.rate == 0 {
            return Err(ShapingError::NoRate);
        }
        if !(MAX_FRAME..=MAX_BURST).contains(&shaping.burst) {
            return Err(ShapingError::Burst(shaping.burst));
        }
        let depth = cost(shaping.burst);
        Ok(Self {
            rate: shaping.rate,
            depth,
            tokens: depth,
            at_ns: 0,
        })
    }

    /// Adds the tokens since the last call; an earlier time counts as that of the last call.
    #[inline]
    pub fn advance(&mut self, now_ns: u64) {
        let elapsed = now_ns.saturating_sub(self.at_ns);
        // saturated or not, more than `depth` is `depth`
        let earned = elapsed.saturating_mul(self.rate);
        self.tokens = self.tokens.saturating_add(earned).min(self.depth);
        self.at_ns = self.at_ns.max(now_ns);
    }

    /// Whether a frame of this many octets may leave at the time of the last [`Self::advance`].
    #[inline]
    pub fn allows(&self, octets: u32) -> bool {
        self.tokens >= cost(octets)
    }

    /// Pays for a frame that [`Self::allows`] let through.
    #[inline]
    pub fn charge(&mut self, octets: u32) {
        self.tokens = self.tokens.saturating_sub(cost(octets));
    }

    /// The first nanosecond at which a frame of this many octets may leave.
    pub fn ready_ns(&self, octets: u32) -> u64 {
        let missing = cost(octets).saturating_sub(self.tokens);
        self.at_ns.saturating_add(missing.div_ceil(self.rate))
    }
}
