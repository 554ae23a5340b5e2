//! The interval that holds the difference of two findings.

use statrs::distribution::{ContinuousCDF, StudentsT};
use statrs::statistics::Statistics;

use super::{Difference, Verdict};
use crate::result::Finding;

/// The second less the first.
pub(super) struct Interval {
    means: Option<(f64, f64)>,
    low: f64,
    high: f64,
    how: String,
}

impl Interval {
    pub(super) fn judge(self, more_is_better: Option<bool>, difference: &mut Difference) {
        if let Some((a, b)) = self.means {
            (difference.a, difference.b) = (Some(a), Some(b));
        }
        (difference.low, difference.high) = (Some(self.low), Some(self.high));
        difference.verdict = match (more_is_better, self.low > 0.0, self.high < 0.0) {
            (_, false, false) => Verdict::NoDifferenceShown,
            (None, _, _) => Verdict::Different,
            (Some(more), greater, _) if more == greater => Verdict::Better,
            _ => Verdict::Worse,
        };
        difference.how = self.how;
    }
}

/// The 95 % confidence interval of the difference of two means by Welch's t, with the degrees of
/// freedom of Welch and Satterthwaite.
pub(super) fn welch(a: &[f64], b: &[f64]) -> Option<Interval> {
    if a.len() < 2 || b.len() < 2 {
        return None;
    }
    let error = |samples: &[f64]| samples.variance() / samples.len() as f64;
    let (error_a, error_b) = (error(a), error(b));
    let spread = error_a + error_b;
    let difference = b.mean() - a.mean();
    let margin = if spread > 0.0 {
        let freedom = spread.powi(2)
            / (error_a.powi(2) / (a.len() - 1) as f64 + error_b.powi(2) / (b.len() - 1) as f64);
        StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(0.975) * spread.sqrt()
    } else {
        0.0
    };
    Some(Interval {
        means: Some((a.mean(), b.mean())),
        low: difference - margin,
        high: difference + margin,
        how: format!("Welch's t, {} and {} samples", a.len(), b.len()),
    })
}

pub(super) fn bounds(a: &Finding, b: &Finding) -> Option<Interval> {
    Some(Interval {
        means: None,
        low: b.low? - a.high?,
        high: b.high? - a.low?,
        how: "bounds of both".into(),
    })
}
