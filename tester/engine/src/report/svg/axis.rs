//! Axes: from values to places on the page, and ticks.

use serde::Serialize;

use crate::report::numbers;

/// An axis before it is known what is drawn along it.
#[derive(Clone, Debug, Serialize)]
pub struct Axis {
    /// What, and the unit.
    pub label: String,
    /// How values become places.
    pub scale: Scale,
}

/// How values become places.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// The axis begins at 0.
    Linear,
    /// The axis begins at 0, too, unless all values are far from it.
    Fitted,
    /// Whole numbers from 0.
    Counts,
    /// Logarithmic.
    Log,
    /// Logarithmic; values are ns and ticks have units of time.
    LogTime,
    /// Values are quantiles q, 0 to below 1, drawn at log 1/(1 − q): every nine takes as much room.
    Nines,
    /// Values are indices into these names, which may have several lines.
    Names(Vec<String>),
}

impl Axis {
    /// An axis.
    pub fn new(label: &str, scale: Scale) -> Self {
        Self {
            label: label.into(),
            scale,
        }
    }

    /// The axis between two places, wide enough for all values.
    pub(super) fn place(&self, values: impl Iterator<Item = f64>, range: (f64, f64)) -> Placed {
        let log = matches!(self.scale, Scale::Log | Scale::LogTime);
        let usable = values.filter(|value| value.is_finite() && (!log || *value > 0.0));
        let (low, high) = usable.fold((f64::MAX, f64::MIN), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        let (low, high) = if low > high { (1.0, 1.0) } else { (low, high) };
        let (values, from, to) = match &self.scale {
            Scale::Linear => linear(0.0, high),
            Scale::Fitted => linear(
                if low > 0.6 * high && low < high {
                    low
                } else {
                    0.0
                },
                high,
            ),
            Scale::Counts => linear(0.0, high.max(5.0)),
            Scale::Log => decades(low, high, numbers::si),
            Scale::LogTime => decades(low, high, numbers::time),
            Scale::Nines => nines(high),
            Scale::Names(names) => {
                let ticks = names.iter().cloned().enumerate();
                let last = names.len().max(1) as f64 - 0.5;
                (
                    ticks.map(|(n, name)| (n as f64, name)).collect(),
                    -0.5,
                    last,
                )
            }
        };
        let mut placed = Placed {
            scale: self.scale.clone(),
            from,
            to,
            range,
            ticks: Vec::new(),
        };
        placed.ticks = values
            .into_iter()
            .map(|(value, label)| (placed.at(value), label))
            .collect();
        placed
    }
}

/// Ticks with their labels, and the first and last value of the axis, transformed.
type Ticks = (Vec<(f64, String)>, f64, f64);

/// An axis on the page.
#[derive(Clone)]
pub(super) struct Placed {
    scale: Scale,
    from: f64,
    to: f64,
    range: (f64, f64),
    /// Places and labels.
    pub(super) ticks: Vec<(f64, String)>,
}

impl Placed {
    /// Where a value is; those beyond the axis are at its end.
    pub(super) fn at(&self, value: f64) -> f64 {
        let value = transform(&self.scale, value);
        let share = (value - self.from) / (self.to - self.from);
        let share = if share.is_nan() {
            0.0
        } else {
            share.clamp(0.0, 1.0)
        };
        self.range.0 + share * (self.range.1 - self.range.0)
    }
}

impl Placed {
    /// The axis, this many units of the page further to the right.
    pub(super) fn shifted(&self, by: f64) -> Self {
        Self {
            range: (self.range.0 + by, self.range.1 + by),
            ..self.clone()
        }
    }

    /// Whether no name is between two of them; true on other scales.
    pub(super) fn are_neighbours(&self, a: f64, b: f64) -> bool {
        !matches!(self.scale, Scale::Names(_)) || b - a < 1.5
    }
}

fn transform(scale: &Scale, value: f64) -> f64 {
    match scale {
        Scale::Log | Scale::LogTime => value.max(f64::MIN_POSITIVE).log10(),
        Scale::Nines => -(1.0 - value).max(f64::EPSILON).log10(),
        _ => value,
    }
}

/// Ticks at 1, 2 or 5 times a power of ten, about five of them.
fn linear(low: f64, high: f64) -> Ticks {
    let high = if high > low {
        high
    } else {
        low.abs().max(1.0) * 1.05
    };
    let rough = (high - low) / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0];
    let factor = factor
        .into_iter()
        .find(|factor| factor * power >= rough * 0.999);
    let step = factor.unwrap_or(10.0) * power;
    let first = (low / step).floor() as i64;
    let last = (high / step - 1e-9).ceil() as i64;
    let ticks = (first..=last).map(|n| n as f64 * step);
    let ticks = ticks.map(|value| (value, numbers::si(value))).collect();
    (ticks, first as f64 * step, last as f64 * step)
}

/// Ticks at the powers of ten, and where there are few of them at 2 and 5 times these too.
fn decades(low: f64, high: f64, label: fn(f64) -> String) -> Ticks {
    let round = |value: f64, down: bool| {
        let power = 10f64.powf((value * 1.000_001).log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
        let found = match down {
            true => steps.iter().rev().find(|step| **step <= value * 1.000_001),
            false => steps.iter().find(|step| **step >= value * 0.999_999),
        };
        *found.unwrap_or(&power)
    };
    let from = round(low, true);
    let to = match round(high, false) {
        to if to > from => to,
        _ => from * 10.0,
    };
    let fine = (to / from).log10() <= 3.01;
    let first = from.log10().floor() as i32;
    let last = to.log10().ceil() as i32;
    let steps: &[f64] = if fine { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let ticks = (first..=last)
        .flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)))
        .filter(|value| *value >= from * 0.999 && *value <= to * 1.001)
        .map(|value| (value, label(value)))
        .collect();
    (ticks, from.log10(), to.log10())
}

/// Ticks at 0 %, 90 %, 99 %, … up to the highest quantile, and the median.
fn nines(high: f64) -> Ticks {
    let to = transform(&Scale::Nines, high).clamp(1.0, 9.0);
    let mut ticks = vec![(0.0, "0 %".to_string()), (0.5, "50 %".to_string())];
    for nines in 1..=to.floor() as i32 {
        let quantile = 1.0 - 10f64.powi(-nines);
        let places = (nines - 2).max(0) as usize;
        ticks.push((quantile, format!("{:.places$} %", quantile * 100.0)));
    }
    (ticks, 0.0, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: Scale, values: &[f64]) -> Vec<String> {
        let axis = Axis::new("", scale).place(values.iter().copied(), (0.0, 100.0));
        axis.ticks.into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(
            labels(Scale::Linear, &[1.4e6]),
            ["0", "500 k", "1 M", "1.5 M"]
        );
        assert_eq!(labels(Scale::Linear, &[0.0]), ["0", "0.5", "1", "1.5"]);
        assert_eq!(
            labels(Scale::Fitted, &[95.0, 100.0]),
            ["95", "96", "97", "98", "99", "100"]
        );
        assert_eq!(
            labels(Scale::LogTime, &[900.0, 4e3]),
            ["500 ns", "1 µs", "2 µs", "5 µs"]
        );
        assert_eq!(labels(Scale::LogTime, &[1.0, 1e5]).len(), 6);
        assert_eq!(
            labels(Scale::Nines, &[0.9995]),
            ["0 %", "50 %", "90 %", "99 %", "99.9 %"]
        );
        assert_eq!(labels(Scale::Names(vec!["64".into()]), &[0.0]), ["64"]);
        for scale in [Scale::Linear, Scale::Fitted, Scale::LogTime] {
            for value in [1e-3, 0.7, 1.0, 99.0, 1_488_095.0, 1e10] {
                let count = labels(scale.clone(), &[value / 3.0, value]).len();
                assert!(
                    (2..=12).contains(&count),
                    "{scale:?} {value}: {count} ticks"
                );
            }
        }
    }

    #[test]
    fn every_nine_takes_as_much_room() {
        let axis = Axis::new("", Scale::Nines).place([0.99].into_iter(), (0.0, 100.0));
        assert!((axis.at(0.9) - 50.0).abs() < 1e-6);
        assert!((axis.at(0.99) - 100.0).abs() < 1e-6);
        assert_eq!(axis.at(1.0), 100.0);
    }
}
