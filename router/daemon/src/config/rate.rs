//! Rates as text, in the units of `tc`.

use std::fmt;
use std::str::FromStr;

use bora_config::as_text;

/// Bits a second, above zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate(pub u64);

/// Largest first; powers of ten, as everywhere where bits a second are counted.
const UNITS: [(&str, u64); 4] = [
    ("Gbit", 1_000_000_000),
    ("Mbit", 1_000_000),
    ("Kbit", 1_000),
    ("bit", 1),
];

impl FromStr for Rate {
    type Err = String;

    /// `100Mbit`, `2.5Gbit`, `64Kbit`, `9600bit`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a rate such as 100Mbit, 2.5Gbit or 64Kbit");
        let lower = text.to_ascii_lowercase();
        let (digits, unit) = UNITS
            .iter()
            .find_map(|(name, unit)| Some((lower.strip_suffix(&name.to_ascii_lowercase())?, *unit)))
            .ok_or_else(wrong)?;
        let (whole, part) = digits
            .trim_end()
            .split_once('.')
            .unwrap_or((digits.trim_end(), ""));
        let all_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || !all_digits(whole) || !all_digits(part) || part.len() > 9 {
            return Err(wrong());
        }
        let scale = 10u128.pow(part.len() as u32);
        let too_high = |error| format!("a rate of {text} is more than Bora can count: {error}");
        let number: u128 = format!("{whole}{part}").parse().map_err(too_high)?;
        let rate = number.saturating_mul(u128::from(unit)) / scale;
        match u64::try_from(rate) {
            Ok(0) => Err(format!("a rate of {text} lets nothing through")),
            Ok(rate) => Ok(Self(rate)),
            Err(_) => Err(format!("a rate of {text} is more than Bora can count")), // above 2^64 bit/s
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = UNITS.iter().find(|(_, unit)| self.0.is_multiple_of(*unit));
        let (name, unit) = whole.unwrap_or(&("bit", 1));
        write!(f, "{}{name}", self.0 / unit)
    }
}

as_text!(
    Rate,
    "a rate such as 100Mbit, 2.5Gbit or 64Kbit; powers of ten, above zero"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        for (text, rate, back) in [
            ("100Mbit", 100_000_000, "100Mbit"),
            ("2.5Gbit", 2_500_000_000, "2500Mbit"),
            ("64 kbit", 64_000, "64Kbit"),
            ("1bit", 1, "1bit"),
            ("0.5Kbit", 500, "500bit"),
        ] {
            assert_eq!(text.parse(), Ok(Rate(rate)), "{text}");
            assert_eq!(Rate(rate).to_string(), back);
        }
        for wrong in [
            "",
            "100",
            "0Mbit",
            "0.0001bit",
            "-1bit",
            "1e3bit",
            ".5bit",
            "99999999999999Gbit",
        ] {
            assert!(wrong.parse::<Rate>().is_err(), "{wrong}");
        }
    }
}
