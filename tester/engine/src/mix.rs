//! Names of frame mixes: `512`, `imix`, `imix:aab`, `imix:AB{A=100,B=9000}`, `kth08`.

use std::fmt;
use std::str::FromStr;

use bora_config::as_text;

use crate::check::{LONGEST, SHORTEST};
use crate::traffic::FrameMix;

/// The simple IMIX of the vendors: 7 of 64 octets, 4 of 594 and 1 of 1518.
const SIMPLE_IMIX: [(u16, usize); 3] = [(64, 7), (594, 4), (1518, 1)];

/// Letters of RFC 6985; `z` is the MTU, here Ethernet's of 1500 octets.
const LETTERS: [(char, u16); 10] = [
    ('a', 64),
    ('b', 128),
    ('c', 256),
    ('d', 512),
    ('e', 1024),
    ('f', 1280),
    ('g', 1518),
    ('h', 2112),
    ('i', 9000),
    ('z', 1518),
];

/// KTH08 shows its mix in figure 10, without numbers: very many frames of 64 octets. Its 31 000 new
/// flows/s of 30 packets each are 5 Gbit/s, so the mean is 670 octets, which these hundred have.
const KTH08: [(u16, usize); 7] = [
    (64, 41),
    (128, 6),
    (256, 4),
    (512, 4),
    (576, 6),
    (1024, 4),
    (1518, 35),
];

/// Most frames of a genome.
const LONGEST_GENOME: usize = 10_000;

impl FromStr for FrameMix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let lengths = match text.split_once(':') {
            Some(("imix", _)) => Genome { text }.lengths()?,
            None if text == "imix" => repeat(&SIMPLE_IMIX),
            None if text == "kth08" => kth08(),
            None if !text.is_empty() && text.bytes().all(|octet| octet.is_ascii_digit()) => {
                vec![length(text, 1, text)?]
            }
            _ => {
                return Err(format!(
                    "\"{text}\" is no frame mix; give a length like 64, or imix, imix:LETTERS \
                     (RFC 6985) or kth08"
                ));
            }
        };
        let name = text.to_owned();
        Ok(Self { name, lengths })
    }
}

impl fmt::Display for FrameMix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

as_text!(
    FrameMix,
    "a frame size in octets with FCS, or a mix: imix, imix:aab (RFC 6985), kth08"
);

impl FrameMix {
    /// The mix with shorter frames made `least` octets long, for streams whose headers need more
    /// ([`crate::frame::least_length`]).
    #[must_use]
    pub fn at_least(mut self, least: u16) -> Self {
        for length in &mut self.lengths {
            *length = least.max(*length);
        }
        self
    }
}

fn repeat(parts: &[(u16, usize)]) -> Vec<u16> {
    let parts = parts
        .iter()
        .flat_map(|&(length, count)| std::iter::repeat_n(length, count));
    parts.collect()
}

/// Shuffled, always in the same way.
fn kth08() -> Vec<u16> {
    let mut lengths = repeat(&KTH08);
    fastrand::Rng::with_seed(2008).shuffle(&mut lengths);
    lengths
}

fn length(text: &str, at: usize, digits: &str) -> Result<u16, String> {
    let length = digits.parse().ok();
    length
        .filter(|length| (SHORTEST..=LONGEST).contains(length))
        .ok_or_else(|| {
            let octets = format!("{digits} octets; frames have {SHORTEST} to {LONGEST}");
            problem_at(text, at, &octets)
        })
}

/// `imix:LETTERS` or `imix:LETTERS{LETTER=LENGTH,…}`.
struct Genome<'a> {
    text: &'a str,
}

impl Genome<'_> {
    const BEGIN: usize = "imix:".len();

    fn lengths(&self) -> Result<Vec<u16>, String> {
        let rest = &self.text[Self::BEGIN..];
        let (letters, own) = match rest.split_once('{') {
            Some((letters, own)) => (letters, self.own(Self::BEGIN + letters.len() + 1, own)?),
            None => (rest, Vec::new()),
        };
        if letters.is_empty() {
            return Err(self.error(Self::BEGIN + 1, "a genome has at least one letter"));
        }
        if letters.len() > LONGEST_GENOME {
            return Err(self.error(LONGEST_GENOME, "a genome has at most 10000 letters"));
        }
        let letters = letters.chars().enumerate();
        let find = |(place, letter)| {
            // own lengths come first, so that they may replace the RFC's
            let mut known = own.iter().chain(&LETTERS);
            let found = known.find(|(other, _)| *other == letter);
            found.map(|(_, length)| *length).ok_or_else(|| {
                let problem = format!(
                    "'{letter}' stands for no length; the letters are a to i and z, others are given \
                     behind like imix:{letter}{{{letter}=100}}"
                );
                self.error(Self::BEGIN + place + 1, &problem)
            })
        };
        letters.map(find).collect()
    }

    /// What stands between the braces, which begins behind `begin` octets.
    fn own(&self, begin: usize, text: &str) -> Result<Vec<(char, u16)>, String> {
        let begin = self.text[..begin].chars().count();
        let Some(inner) = text.strip_suffix('}') else {
            let end = self.text.chars().count();
            return Err(self.error(end, "the lengths end with a '}'"));
        };
        let mut own = Vec::new();
        let mut at = begin + 1;
        for entry in inner.split(',') {
            let mut chars = entry.chars();
            let (Some(letter), Some('=')) = (chars.next(), chars.next()) else {
                return Err(self.error(at, "lengths are given like a=100,b=9000"));
            };
            if !letter.is_ascii_alphabetic() {
                return Err(self.error(at, "lengths are given for letters"));
            }
            if own.iter().any(|(other, _)| *other == letter) {
                return Err(self.error(at, "this letter has a length already"));
            }
            own.push((letter, length(self.text, at + 2, chars.as_str())?));
            at += entry.chars().count() + 1;
        }
        Ok(own)
    }

    fn error(&self, at: usize, problem: &str) -> String {
        problem_at(self.text, at, problem)
    }
}

/// Characters are counted from 1.
fn problem_at(text: &str, at: usize, problem: &str) -> String {
    format!("\"{text}\", character {at}: {problem}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lengths(text: &str) -> Vec<u16> {
        let mix: FrameMix = text.parse().unwrap();
        assert_eq!(mix.name, text);
        mix.lengths
    }

    fn error(text: &str) -> String {
        text.parse::<FrameMix>().unwrap_err().to_string()
    }

    #[test]
    fn mixes_by_name() {
        assert_eq!(lengths("64"), [64]);
        assert_eq!(lengths("9216"), [9216]);
        assert_eq!(lengths("imix").len(), 12);
        assert!(
            (lengths("imix")
                .iter()
                .map(|&length| u32::from(length))
                .sum::<u32>())
                == 4342
        );
        assert_eq!(lengths("imix:aabz"), [64, 64, 128, 1518]);
        assert_eq!(
            lengths("imix:abcdefghi"),
            [64, 128, 256, 512, 1024, 1280, 1518, 2112, 9000]
        );
        assert_eq!(lengths("imix:aXa{X=100,a=70}"), [70, 100, 70]);
    }

    #[test]
    fn kth08_has_its_mean_and_does_not_begin_in_order() {
        let mix: FrameMix = "kth08".parse().unwrap();
        assert!((665.0..675.0).contains(&mix.mean()), "{}", mix.mean());
        assert_eq!(mix, "kth08".parse().unwrap());
        assert!(!mix.lengths.is_sorted());
        assert!(mix.at_least(84).lengths.iter().all(|&length| length >= 84));
    }

    #[test]
    fn errors_say_where() {
        assert!(error("64b").starts_with("\"64b\" is no frame mix; give"));
        assert!(error("").starts_with("\"\" is no"));
        assert!(error("63").contains("character 1: 63 octets; frames have 64 to 9216"));
        assert!(error("70000").contains("70000 octets"));
        assert!(error("imix:aaq").contains("character 8: 'q' stands for no length"));
        assert!(error("imix:").contains("character 6: a genome has at least one"));
        assert!(error("imix:a{a=64").contains("character 11: the lengths end"));
        assert!(error("imix:a{a=64,b}").contains("character 13: lengths are given like"));
        assert!(error("imix:a{a=64,b=12}").contains("character 15: 12 octets"));
        assert!(error("imix:a{a=64,a=65}").contains("character 13: this letter"));
        assert!(error("imix:é").contains("character 6: 'é'"));
        assert!(error("imix:éa{é=64}").contains("character 9: lengths are given for letters"));
        assert!(error("imix:a{}").contains("character 8: lengths are given like"));
    }

    proptest! {
        #[test]
        fn any_text_is_a_mix_or_an_error(text in "(imix:)?[a-zA-Zé0-9{}=,:]{0,12}") {
            if let Ok(mix) = text.parse::<FrameMix>() {
                prop_assert!(mix.lengths.iter().all(|length| (64..=9216).contains(length)));
                prop_assert!(!mix.lengths.is_empty());
            }
        }
    }
}
