//! What became of the frames against what was offered.

use crate::report::numbers::{self, si};
use crate::report::summary::{self, Group, offered};
use crate::report::svg::{Axis, Plot, Point, Scale, Series, Style};
use crate::result::{Test, TrialRecord};

/// Loss against offered load, a series a frame size; in per cent of the line rate where there is
/// one, as RFC 2544, 26.3 has it.
pub(super) fn loss(group: &Group<'_>) -> Plot {
    let relative = group
        .tests
        .iter()
        .all(|test| summary::line_rate(test).is_some());
    let unit = match relative {
        true => "% of line rate",
        false => "frames/s, all ports",
    };
    let series = group.tests.iter().map(|test| {
        let line = summary::line_rate(test).filter(|_| relative);
        curve(test, |trials| {
            let offered = mean(trials, |trial| offered(test, trial));
            let loss = mean(trials, |trial| {
                trial.lost as f64 / trial.sent.max(1) as f64 * 100.0
            });
            (line.map_or(offered, |line| offered / line * 100.0), loss)
        })
    });
    Plot {
        id: String::new(),
        title: "Frame loss against offered load".into(),
        x: Axis::new(&format!("offered load ({unit})"), Scale::Linear),
        y: Axis::new("frame loss (%)", Scale::Linear),
        series: series.collect(),
    }
}

/// Forwarded against offered frames, a series a frame size.
pub(super) fn forwarded(group: &Group<'_>) -> Plot {
    let series: Vec<Series> = group
        .tests
        .iter()
        .map(|test| {
            curve(test, |trials| {
                let received = mean(trials, |trial| trial.received_rate);
                (mean(trials, |trial| offered(test, trial)), received)
            })
        })
        .collect();
    let points = series.iter().flat_map(|series| &series.points);
    let most = points.map(|point| point.y).fold(0.0, f64::max);
    let ideal = [0.0, most].map(|rate| Point::new(rate, rate, "everything forwarded".into()));
    let reference = Series {
        name: "everything forwarded".into(),
        style: Style::Reference,
        points: ideal.to_vec(),
    };
    Plot {
        id: String::new(),
        title: "Forwarded against offered load".into(),
        x: Axis::new("offered (frames/s, all ports)", Scale::Linear),
        y: Axis::new("forwarded (frames/s, all ports)", Scale::Linear),
        series: series.into_iter().chain([reference]).collect(),
    }
}

/// One point for all trials of a load.
fn curve(test: &Test, point: impl Fn(&[&TrialRecord]) -> (f64, f64)) -> Series {
    let mut trials: Vec<&TrialRecord> = test
        .trials
        .iter()
        .filter(|trial| trial.rate.is_some())
        .collect();
    trials.sort_by(|a, b| a.rate.unwrap_or(0.0).total_cmp(&b.rate.unwrap_or(0.0)));
    let points = trials.chunk_by(|a, b| a.rate == b.rate).map(|trials| {
        let (x, y) = point(trials);
        let lost = trials.iter().map(|trial| trial.lost).sum();
        let sent = trials.iter().map(|trial| trial.sent).sum();
        let tip = format!(
            "{} octets, {} frames/s offered, {} forwarded\nloss {}, {} trials",
            test.frames,
            si(mean(trials, |trial| offered(test, trial))),
            si(mean(trials, |trial| trial.received_rate)),
            numbers::loss(lost, sent),
            trials.len()
        );
        Point::new(x, y, tip)
    });
    Series {
        name: test.frames.clone(),
        style: Style::Joined,
        points: points.collect(),
    }
}

fn mean(trials: &[&TrialRecord], value: impl Fn(&TrialRecord) -> f64) -> f64 {
    trials.iter().map(|trial| value(trial)).sum::<f64>() / trials.len().max(1) as f64
}
