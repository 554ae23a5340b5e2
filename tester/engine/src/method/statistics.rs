//! Means of repetitions, and how sure they are.

use statrs::distribution::{ContinuousCDF, StudentsT};
use statrs::statistics::Statistics;

use crate::result::Finding;

/// Confidence of all intervals.
const CONFIDENCE: f64 = 0.95;

/// What a finding is called and means.
#[derive(Clone, Copy)]
pub(super) struct Named<'a> {
    pub(super) metric: &'a str,
    pub(super) goal: &'a str,
    pub(super) unit: &'a str,
    pub(super) more_is_better: Option<bool>,
}

impl<'a> Named<'a> {
    /// The fields are those of [`Finding`].
    pub(super) fn new(
        metric: &'a str,
        goal: &'a str,
        unit: &'a str,
        more_is_better: Option<bool>,
    ) -> Self {
        Self {
            metric,
            goal,
            unit,
            more_is_better,
        }
    }

    /// What notes begin with: one for all findings of a goal.
    pub(super) fn goal_or_metric(&self) -> &'a str {
        match self.goal {
            "" => self.metric,
            goal => goal,
        }
    }
}

/// A finding that is the mean of repetitions, with its 95 % confidence interval if there are two
/// or more.
pub(super) fn mean(named: &Named<'_>, samples: Vec<f64>) -> Finding {
    let interval = interval(&samples);
    Finding {
        metric: named.metric.into(),
        goal: named.goal.into(),
        unit: named.unit.into(),
        value: average(&samples),
        low: interval.map(|(low, _)| low),
        high: interval.map(|(_, high)| high),
        samples,
        more_is_better: named.more_is_better,
        ..Finding::default()
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
        let named = Named::new("m", "", "", None);
        let found = mean(&named, vec![1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(found.value, Some(3.0));
        assert!((found.low.unwrap() - 1.0368).abs() < 1e-3, "{found:?}");
        assert!((found.high.unwrap() - 4.9632).abs() < 1e-3);
        let one = mean(&named, vec![7.0]);
        assert_eq!((one.value, one.low), (Some(7.0), None));
        assert_eq!(mean(&named, Vec::new()).value, None);
    }
}
