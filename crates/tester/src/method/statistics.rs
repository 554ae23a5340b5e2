//! Means of repetitions, and how sure they are.

use statrs::distribution::{ContinuousCDF, StudentsT};
use statrs::statistics::Statistics;

use crate::result::Finding;

/// Confidence of all intervals.
const CONFIDENCE: f64 = 0.95;

/// A finding that is the mean of repetitions, with its 95 % confidence interval if there are two
/// or more.
pub(super) fn mean(
    metric: &str,
    goal: &str,
    unit: &str,
    samples: Vec<f64>,
    more_is_better: Option<bool>,
) -> Finding {
    let interval = interval(&samples);
    Finding {
        metric: metric.into(),
        goal: goal.into(),
        unit: unit.into(),
        value: average(&samples),
        low: interval.map(|(low, _)| low),
        high: interval.map(|(_, high)| high),
        samples,
        more_is_better,
    }
}

/// `None` without samples.
pub(super) fn average(samples: &[f64]) -> Option<f64> {
    (!samples.is_empty()).then(|| samples.mean())
}

/// Standard deviation of the samples; 0 for fewer than two.
pub(super) fn deviation(samples: &[f64]) -> f64 {
    match samples.len() {
        0 | 1 => 0.0,
        _ => samples.std_dev(),
    }
}

/// Student's interval of the mean.
fn interval(samples: &[f64]) -> Option<(f64, f64)> {
    let mean = average(samples).filter(|_| samples.len() > 1)?;
    let student = StudentsT::new(0.0, 1.0, (samples.len() - 1) as f64).ok()?;
    let factor = student.inverse_cdf((1.0 + CONFIDENCE) / 2.0);
    let half = factor * deviation(samples) / (samples.len() as f64).sqrt();
    Some((mean - half, mean + half))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn students_interval() {
        // mean 3, deviation 1.5811, t(4) = 2.7764
        let found = mean("m", "", "", vec![1.0, 2.0, 3.0, 4.0, 5.0], None);
        assert_eq!(found.value, Some(3.0));
        assert!((found.low.unwrap() - 1.0368).abs() < 1e-3, "{found:?}");
        assert!((found.high.unwrap() - 4.9632).abs() < 1e-3);
        let one = mean("m", "", "", vec![7.0], None);
        assert_eq!((one.value, one.low), (Some(7.0), None));
        assert_eq!(mean("m", "", "", Vec::new(), None).value, None);
    }
}
