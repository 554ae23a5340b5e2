//! `[port.queues]`: the queues of a port's output, and who goes next.

use bora_forward::schedule::{
    ClassConfig, MAX_FRAME, MIN_QUANTUM, OutputConfig, QueueLimits, Shaping,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rate::Rate;

/// The output queues of a port. Without classes there are two strict priorities with queues of
/// 1000 packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct QueuesSection {
    /// The port's highest rate, such as `100Mbit`, counted from the destination MAC address to the
    /// end of the frame without FCS; none if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Octets that may leave at once after a pause, 4096 to 1 GiB; without, what the rate sends in
    /// 10 ms, at least 4096.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    /// The classes in order: the first is class 0 (best effort), up to 8.
    #[serde(rename = "class", skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassSection>,
}

/// One class of a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ClassSection {
    /// Most packets its queue holds, 1 to 65536.
    pub packets: u32,
    /// Most octets its queue holds; no limit if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub octets: Option<u64>,
    /// Its strict priority, 0 to 255: the higher level goes first, classes of one level share. The
    /// number of the class if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<u8>,
    /// Its share within the level, octets a round of the deficit round robin, at least 1514.
    pub quantum: u32,
    /// Its highest rate, such as `10Mbit`; none if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Octets of the class that may leave at once after a pause, as for the port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
}

impl Default for ClassSection {
    fn default() -> Self {
        Self {
            packets: QueueLimits::default().packets,
            octets: None,
            level: None,
            quantum: MIN_QUANTUM,
            rate: None,
            burst: None,
        }
    }
}

impl QueuesSection {
    /// As the scheduler wants it.
    pub fn output(&self) -> OutputConfig {
        let classes: Vec<ClassConfig> = self
            .classes
            .iter()
            .zip(0..=u8::MAX)
            .map(|(class, number)| ClassConfig {
                limits: QueueLimits {
                    packets: class.packets,
                    octets: class.octets.unwrap_or(u64::MAX),
                },
                level: class.level.unwrap_or(number),
                quantum: class.quantum,
                shaping: shaping(class.rate, class.burst),
            })
            .collect();
        let default = OutputConfig::default();
        OutputConfig {
            classes: if classes.is_empty() {
                default.classes
            } else {
                classes
            },
            shaping: shaping(self.rate, self.burst),
        }
    }

    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A burst without configuration is what the rate sends in a hundredth of a second.
const BURSTS_A_SECOND: u64 = 100;
/// Largest burst a bucket takes, octets.
pub(super) const MAX_BURST: u32 = 1 << 30;

fn shaping(rate: Option<Rate>, burst: Option<u32>) -> Option<Shaping> {
    let Rate(rate) = rate?;
    let usual = rate / 8 / BURSTS_A_SECOND;
    let usual = usual.clamp(MAX_FRAME.into(), MAX_BURST.into()) as u32;
    Some(Shaping {
        rate,
        burst: burst.unwrap_or(usual),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_two_priorities_and_so_are_two_empty_classes() {
        assert_eq!(QueuesSection::default().output(), OutputConfig::default());
        let two: QueuesSection = toml::from_str("[[class]]\n[[class]]\n").unwrap();
        assert_eq!(two.output(), OutputConfig::default());
    }

    #[test]
    fn all_fields() {
        let text = "rate = \"1Gbit\"\n[[class]]\npackets = 10\noctets = 20000\nlevel = 3\n\
                    quantum = 3000\nrate = \"100Kbit\"\nburst = 5000\n";
        let section: QueuesSection = toml::from_str(text).unwrap();
        let expected = OutputConfig {
            classes: vec![ClassConfig {
                limits: QueueLimits {
                    packets: 10,
                    octets: 20_000,
                },
                level: 3,
                quantum: 3000,
                shaping: Some(Shaping {
                    rate: 100_000,
                    burst: 5000,
                }),
            }],
            shaping: Some(Shaping {
                rate: 1_000_000_000,
                burst: 1_250_000,
            }),
        };
        assert_eq!(section.output(), expected);
        let text = toml::to_string(&section).unwrap();
        assert_eq!(toml::from_str::<QueuesSection>(&text).unwrap(), section);
    }
}
