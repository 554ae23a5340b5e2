//! Line-rate arithmetic: what a link can carry at most.

/// Octets that each frame takes on the wire beside itself: preamble, start of frame, gap (IEEE 802.3).
pub const WIRE_OVERHEAD: f64 = 20.0;

/// Frames a second at line rate; `frame` is the mean frame length in octets, FCS included.
///
/// 1 Gbit/s carries 1 488 095 frames of 64 octets a second (RFC 2544, appendix B).
pub fn line_rate(bits_per_second: f64, frame: f64) -> f64 {
    bits_per_second / wire_bits(frame)
}

/// Bits that a frame occupies on the wire.
pub fn wire_bits(frame: f64) -> f64 {
    (frame + WIRE_OVERHEAD) * 8.0
}

/// A load as people write it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// Frames a second.
    Frames(f64),
    /// Bits a second on the wire, overhead included.
    Bits(f64),
    /// Share of the line rate; 1.0 is all of it.
    Line(f64),
}

impl Load {
    /// Frames a second of one port.
    pub fn frames(self, bits_per_second: f64, frame: f64) -> f64 {
        match self {
            Self::Frames(rate) => rate,
            Self::Bits(bits) => bits / wire_bits(frame),
            Self::Line(share) => share * line_rate(bits_per_second, frame),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_everybody_knows() {
        let rate = |gigabits: f64, frame| line_rate(gigabits * 1e9, frame) as u64;
        assert_eq!(rate(1.0, 64.0), 1_488_095);
        assert_eq!(rate(1.0, 1518.0), 81_274);
        assert_eq!(rate(10.0, 64.0), 14_880_952);
        assert_eq!(rate(10.0, 1518.0), 812_743);
        assert_eq!(rate(0.1, 64.0), 148_809);
        assert_eq!(Load::Line(0.5).frames(1e9, 64.0) as u64, 744_047);
        assert_eq!(Load::Bits(1e9).frames(1e10, 1518.0) as u64, 81_274);
    }
}
