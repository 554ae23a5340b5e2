//! What the tester is doing, while it does it.

use std::fmt::Arguments;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::numbers;

/// What is being tried.
#[derive(Clone, Copy, Debug, Default)]
pub struct Step<'a> {
    /// The test's name in the plan.
    pub test: &'a str,
    /// The frame mix.
    pub frames: &'a str,
    /// What the trial is for.
    pub purpose: &'a str,
    /// Frames a second of each sending port; infinite is as fast as it goes.
    pub rate: f64,
    /// Number of the trial in its test, from 1.
    pub trial: u32,
    /// How long the test goes on, about, if that can be told.
    pub remaining: Option<Duration>,
}

/// Tells the user something beside the results. A test goes on if standard error is closed or full, as nobody
/// is left to tell.
pub fn remark(text: Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// A line on the terminal that changes with every trial; elsewhere a line a test.
///
/// It is written to standard error, so that standard output has results only.
pub struct Display {
    /// `None`: standard error is no terminal.
    bar: Option<ProgressBar>,
    /// Test and frames of the last step.
    shown: (String, String),
}

impl Display {
    /// A display for a run of this many tests, each frame mix counted.
    pub fn new(tests: usize) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| bar(tests));
        Self {
            bar,
            shown: Default::default(),
        }
    }

    /// Shows the trial that begins.
    pub fn step(&mut self, step: &Step<'_>) {
        let next = (step.test.to_string(), step.frames.to_string());
        let begins = next != self.shown;
        let first = self.shown.0.is_empty();
        match &self.bar {
            Some(bar) => {
                if begins && !first {
                    bar.inc(1);
                }
                bar.set_message(line(step));
            }
            None if begins => remark(format_args!("{}", start(step))),
            None => {}
        }
        self.shown = next;
    }

    /// Prints a line above the bar: the result of a test, a warning.
    pub fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            None => remark(format_args!("{text}")),
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        self.finish();
    }
}

fn bar(tests: usize) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(tests as u64), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{bar:20} {pos}/{len} {elapsed} {wide_msg}");
    bar.set_style(style.expect("a template that is right"));
    // the time goes on while a trial of a minute runs
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}

/// `throughput 64: search at 1.2 M frames/s a port, trial 7, about 2 min left`.
fn line(step: &Step<'_>) -> String {
    let rate = match step.rate.is_finite() {
        true => format!("at {} frames/s a port", numbers::si(step.rate)),
        false => "as fast as it goes".into(),
    };
    let mut text = format!(
        "{} {}: {} {rate}, trial {}",
        step.test, step.frames, step.purpose, step.trial
    );
    if let Some(remaining) = step.remaining {
        text += &format!(", about {} left", left(remaining));
    }
    text
}

fn start(step: &Step<'_>) -> String {
    let time = match step.remaining {
        Some(remaining) => format!(", about {}", left(remaining)),
        None => String::new(),
    };
    format!("{}, frames of {}{time}", step.test, step.frames)
}

fn left(time: Duration) -> String {
    let seconds = time.as_secs_f64().ceil() as u64;
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_tells_what_is_tried() {
        let mut step = Step {
            test: "throughput",
            frames: "64",
            purpose: "search",
            rate: 1.2e6,
            trial: 7,
            remaining: Some(Duration::from_secs(121)),
        };
        assert_eq!(
            line(&step),
            "throughput 64: search at 1.2 M frames/s a port, trial 7, about 3 min left"
        );
        assert_eq!(start(&step), "throughput, frames of 64, about 3 min");
        (step.rate, step.remaining) = (f64::INFINITY, None);
        assert_eq!(
            line(&step),
            "throughput 64: search as fast as it goes, trial 7"
        );
    }

    #[test]
    fn times_are_short() {
        assert_eq!(left(Duration::from_millis(1)), "1 s");
        assert_eq!(left(Duration::from_secs(7300)), "2 h 1 min");
    }

    #[test]
    fn a_template_that_indicatif_takes() {
        let bar = bar(3);
        bar.finish_and_clear();
    }
}
