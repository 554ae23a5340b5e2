//! When a worker looks at its queues.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// How a worker divides its time between waiting, receiving and forwarding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Never sleeps: the lowest latency, and a whole CPU.
    Poll,
    /// Polls under load and sleeps without load, as NAPI does.
    #[default]
    Adaptive,
    /// Sleeps, and wakes for this many packets or after this time, whichever comes first: fewer
    /// wake-ups at the price of latency (interrupt moderation).
    Moderated {
        /// Packets worth waking for, 1 or more.
        packets: u32,
        /// Longest that a packet waits for others.
        time: Duration,
    },
}

/// Longest time of [`Mode::Moderated`], microseconds: a worker that rests longer looks stuck.
const LONGEST_WAIT: u32 = 100_000;

/// `moderated` without numbers: common defaults of network cards.
const MODERATED: Mode = Mode::Moderated {
    packets: 64,
    time: Duration::from_micros(50),
};

impl FromStr for Mode {
    type Err = String;

    /// `poll`, `adaptive`, `moderated` or `moderated:PACKETS:MICROSECONDS`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "poll" => return Ok(Self::Poll),
            "adaptive" => return Ok(Self::Adaptive),
            "moderated" => return Ok(MODERATED),
            _ => {}
        }
        let numbers = text
            .strip_prefix("moderated:")
            .and_then(|rest| rest.split_once(':'));
        let (packets, time) = numbers.ok_or_else(|| {
            format!(
                "`{text}` is none of poll, adaptive, moderated and moderated:PACKETS:MICROSECONDS"
            )
        })?;
        let number = |text: &str, most: u32| match text.parse::<u32>() {
            Ok(number) if (1..=most).contains(&number) => Ok(number),
            _ => Err(format!("`{text}` is not a number from 1 to {most}")),
        };
        Ok(Self::Moderated {
            packets: number(packets, 1_000_000)?,
            time: Duration::from_micros(number(time, LONGEST_WAIT)?.into()),
        })
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Poll => f.write_str("poll"),
            Self::Adaptive => f.write_str("adaptive"),
            Self::Moderated { packets, time } => {
                write!(f, "moderated:{packets}:{}", time.as_micros())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        for text in ["poll", "adaptive", "moderated:8:100"] {
            assert_eq!(text.parse::<Mode>().unwrap().to_string(), text);
        }
        assert_eq!("moderated".parse(), Ok(MODERATED));
        for wrong in [
            "",
            "napi",
            "moderated:",
            "moderated:8",
            "moderated:0:1",
            "moderated:1:x",
        ] {
            assert!(wrong.parse::<Mode>().is_err(), "{wrong}");
        }
    }
}
