//! Values that plans write as text: times, rates, shares, frame mixes.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use bora_config::as_text;

use crate::rate::Load;

/// A length of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Time(pub Duration);

impl Time {
    /// A time in seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }
}

/// A number and what follows it, blanks taken off.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_')
        .unwrap_or(text.len());
    let number: f64 = text[..end].replace('_', "").parse().ok()?;
    (number.is_finite()).then(|| (number, text[end..].trim()))
}

impl FromStr for Time {
    type Err = String;

    /// `500 ms`, `60 s`, `5 min`, `24 h`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a time such as 500 ms, 60 s, 5 min or 24 h");
        let (number, unit) = split(text).ok_or_else(wrong)?;
        let unit = match unit {
            "us" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "min" => 60.0,
            "h" => 3600.0,
            _ => return Err(wrong()),
        };
        let seconds = number * unit;
        if seconds != 0.0 && !(1e-3..=30.0 * 86_400.0).contains(&seconds) {
            return Err(format!("`{text}`: a time is 0 s, or from 1 ms to 30 days"));
        }
        Ok(Self(Duration::from_secs_f64(seconds)))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs_f64();
        if seconds < 1.0 {
            write!(f, "{} ms", seconds * 1e3)
        } else {
            write!(f, "{seconds} s")
        }
    }
}

as_text!(Time, "a time such as 500 ms, 60 s, 5 min or 24 h");

impl FromStr for Load {
    type Err = String;

    /// `500k packets/s`, `2.5 Gbit/s` (on the wire), `50 %` (of the line rate).
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is not a rate such as 500k packets/s, 2.5 Gbit/s (on the wire) or 50 % \
                 (of the line rate)"
            )
        };
        let (number, unit) = split(text).ok_or_else(wrong)?;
        if number <= 0.0 {
            return Err(format!("`{text}`: a rate is above zero"));
        }
        if unit == "%" {
            return match number <= 100.0 {
                true => Ok(Self::Line(number / 100.0)),
                false => Err(format!("`{text}`: no port sends above its line rate")),
            };
        }
        let (scale, unit) = match unit.chars().next() {
            Some('k' | 'K') => (1e3, &unit[1..]),
            Some('M') => (1e6, &unit[1..]),
            Some('G') => (1e9, &unit[1..]),
            _ => (1.0, unit),
        };
        match unit.trim() {
            "packets/s" | "frames/s" | "pps" => Ok(Self::Frames(number * scale)),
            "bit/s" => Ok(Self::Bits(number * scale)),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frames(rate) => write!(f, "{rate} packets/s"),
            Self::Bits(bits) => write!(f, "{bits} bit/s"),
            Self::Line(share) => write!(f, "{} %", share * 100.0),
        }
    }
}

as_text!(
    Load,
    "a rate such as 500k packets/s, 2.5 Gbit/s (on the wire) or 50 % (of the line rate)"
);

/// A part of a whole, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(pub f64);

impl FromStr for Share {
    type Err = String;

    /// `0.1 %`.
    fn from_str(text: &str) -> Result<Self, String> {
        match split(text) {
            Some((number, "%")) if (0.0..=1000.0).contains(&number) => Ok(Self(number / 100.0)),
            _ => Err(format!("`{text}` is not a share such as 0.1 %")),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", self.0 * 100.0)
    }
}

as_text!(Share, "a share such as 0.1 %");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let time = |text: &str| text.parse::<Time>().map(|time| time.0.as_secs_f64());
        assert_eq!(time("500 ms"), Ok(0.5));
        assert_eq!(time("60s"), Ok(60.0));
        assert_eq!(time("1.5 min"), Ok(90.0));
        assert_eq!(time("24 h"), Ok(86_400.0));
        assert_eq!(time("0 s"), Ok(0.0));
        for wrong in ["", "5", "s", "-1 s", "1 us", "1 weeks", "1e9 s", "1.2.3 s"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rates() {
        let rate = |text: &str| text.parse::<Load>();
        assert_eq!(rate("500k packets/s"), Ok(Load::Frames(500e3)));
        assert_eq!(rate("1_000 frames/s"), Ok(Load::Frames(1e3)));
        assert_eq!(rate("1.5 Mpps"), Ok(Load::Frames(1.5e6)));
        assert_eq!(rate("2.5 Gbit/s"), Ok(Load::Bits(2.5e9)));
        assert_eq!(rate("50 %"), Ok(Load::Line(0.5)));
        for wrong in ["", "50", "0 %", "101 %", "1 Gbyte/s", "k packets/s", "−1 %"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn shares() {
        assert_eq!("0.1 %".parse(), Ok(Share(0.001)));
        assert_eq!("0%".parse(), Ok(Share(0.0)));
        assert!("0.1".parse::<Share>().is_err());
        assert!("-1 %".parse::<Share>().is_err());
    }
}
