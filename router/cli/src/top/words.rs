//! Numbers in few characters.

use bora_daemon::ByReason;

/// `1.23 M`.
pub(super) fn si(number: u64) -> String {
    let steps = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let number = number as f64;
    let Some((size, sign)) = steps.into_iter().find(|(size, _)| number >= size * 0.9995) else {
        return number.to_string();
    };
    let value = number / size;
    let digits = match value {
        _ if value < 9.995 => 2,
        _ if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {sign}")
}

/// `3 d 4 h`, `5 min 6 s`.
pub(super) fn duration(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{minutes} min {} s", seconds % 60),
        3600..86_400 => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

/// The time of the day, in the machine's time zone if it is known.
pub(super) fn clock(milliseconds: u64) -> String {
    let time = jiff::Timestamp::from_millisecond(milliseconds as i64).unwrap_or_default();
    let zone = jiff::tz::TimeZone::try_system().unwrap_or(jiff::tz::TimeZone::UTC);
    time.to_zoned(zone).strftime("%H:%M:%S").to_string()
}

/// The newest numbers as a line of bars, one a character, the highest of them as high as the line.
pub(super) fn bars(values: &[u32], width: usize) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let newest = &values[values.len().saturating_sub(width)..];
    let most = newest.iter().copied().max().unwrap_or(0).max(1);
    let bar = |value: u32| match value {
        0 => ' ',
        _ => BARS[(u64::from(value) * 7).div_ceil(u64::from(most)).min(7) as usize],
    };
    newest.iter().map(|&value| bar(value)).collect()
}

/// The sum over all reasons.
pub(super) fn sum(counts: &ByReason) -> u64 {
    counts.values().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let all = [0, 999, 1000, 12_345, 999_960, 1_234_567, 45_600_000_000];
        let told = ["0", "999", "1.00 k", "12.3 k", "1.00 M", "1.23 M", "45.6 G"];
        assert_eq!(all.map(si), told);
        let all = [59, 61, 7260, 90_000];
        assert_eq!(
            all.map(duration),
            ["59 s", "1 min 1 s", "2 h 1 min", "1 d 1 h"]
        );
    }

    #[test]
    fn bars_are_of_the_newest() {
        assert_eq!(bars(&[9, 0, 1, 8], 3), " ▂█");
        assert_eq!(bars(&[], 3), "");
    }
}
