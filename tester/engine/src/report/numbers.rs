//! Numbers as people read them.

/// Four significant digits and an SI prefix: `1.488 M`, `950`, `12.5 k`.
pub(super) fn si(value: f64) -> String {
    const PREFIXES: [(f64, &str); 4] = [(1e9, " G"), (1e6, " M"), (1e3, " k"), (1.0, "")];
    if !value.is_finite() {
        return "–".into();
    }
    // 999.95 k would be rounded to 1000 k
    let found = PREFIXES
        .iter()
        .find(|(scale, _)| value.abs() * 1.00005 >= *scale);
    match found {
        Some((scale, prefix)) => digits(value / scale, 4) + prefix,
        None => digits(value, 3),
    }
}

/// At most this many significant digits, and no zeros at the end of a fraction.
pub(super) fn digits(value: f64, significant: i32) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0" } else { "–" }.into();
    }
    let before = value.abs().log10().floor() as i32 + 1;
    let places = (significant - before).clamp(0, 9) as usize;
    let text = format!("{value:.places$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').into(),
        false => text,
    }
}

/// All digits in groups of three, with narrow spaces that do not break: `1 488 095`.
pub(super) fn grouped(value: u64) -> String {
    let text = value.to_string();
    let mut out = String::new();
    for (index, digit) in text.chars().enumerate() {
        if index > 0 && (text.len() - index).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

/// A time in ns, with the unit that fits: `12.3 µs`.
pub(super) fn time(ns: f64) -> String {
    const UNITS: [(f64, &str); 4] = [(1e9, " s"), (1e6, " ms"), (1e3, " µs"), (1.0, " ns")];
    let (scale, unit) = UNITS
        .iter()
        .find(|(scale, _)| ns.abs() >= *scale)
        .unwrap_or(&UNITS[3]);
    digits(ns / scale, 3) + unit
}

/// A value of a finding in its unit: `1.488 M frames/s`, `12.3 ms`, `0.02 %`.
pub(super) fn quantity(value: f64, unit: &str) -> String {
    match unit {
        "us" => time(value * 1e3),
        "ms" => time(value * 1e6),
        "ns" => time(value),
        "s" => time(value * 1e9),
        "%" => digits(value, 4) + " %",
        _ => format!("{} {unit}", si(value)).trim_end().into(),
    }
}

/// A share as per cent: `0.9931` is `99.3 %`. Never rounded up to 100 %.
pub(super) fn per_cent(share: f64) -> String {
    let per_cent = share * 100.0;
    let shown = match per_cent < 100.0 {
        true => (per_cent * 10.0).floor() / 10.0,
        false => per_cent,
    };
    if shown == 0.0 && per_cent > 0.0 {
        return digits(per_cent, 2) + " %";
    }
    format!("{shown:.1} %")
}

/// A loss of frames: told as 0 only if none was lost.
pub(super) fn loss(lost: u64, sent: u64) -> String {
    digits(lost as f64 / sent.max(1) as f64 * 100.0, 3) + " %"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_meaning() {
        assert_eq!(si(1_488_095.0), "1.488 M");
        assert_eq!(si(14_880_952.0), "14.88 M");
        assert_eq!(si(999_999.0), "1 M");
        assert_eq!(si(81_274.0), "81.27 k");
        assert_eq!(si(0.0), "0");
        assert_eq!(si(0.25), "0.25");
        assert_eq!(si(f64::INFINITY), "–");
        assert_eq!(grouped(1_488_095), "1\u{202f}488\u{202f}095");
        assert_eq!(grouped(12), "12");
        assert_eq!(time(12_345.0), "12.3 µs");
        assert_eq!(quantity(1.5, "ms"), "1.5 ms");
        assert_eq!(quantity(2e6, "frames"), "2 M frames");
        assert_eq!(per_cent(0.999_99), "99.9 %");
        assert_eq!(per_cent(1.0), "100.0 %");
        assert_eq!(loss(1, 1_000_000), "0.0001 %");
    }
}
