//! What the parser says of a file, in the words of its author.

/// What serde says, and what is meant by it.
const WORDS: [(&str, &str); 6] = [
    ("a sequence", "a list, such as `[1, 2]`"),
    ("sequence", "a list"),
    ("a map", "a table"),
    ("map", "a table"),
    ("floating point", "the number"),
    ("integer", "the number"),
];

/// A message of the parser in plain words. A key or value that is wrong comes first, in backquotes.
pub fn plain(message: &str) -> String {
    let found = type_error(message).or_else(|| unknown(message));
    let missing = |name: &str| format!("the key {name} is missing");
    found
        .or_else(|| message.strip_prefix("missing field ").map(missing))
        .unwrap_or_else(|| message.to_owned())
}

/// `invalid type: integer `7`, expected a sequence` is: expected a list, not the number `7`.
fn type_error(message: &str) -> Option<String> {
    let (found, expected) = message
        .strip_prefix("invalid type: ")
        .or_else(|| message.strip_prefix("invalid value: "))?
        .rsplit_once(", expected ")?;
    let struct_or = |text: &str| match text.starts_with("struct ") {
        true => "a table".to_owned(),
        false => in_words(text),
    };
    Some(format!(
        "expected {}, not {}",
        struct_or(expected),
        in_words(found)
    ))
}

fn in_words(text: &str) -> String {
    let known = WORDS.iter().find(|(word, _)| text.starts_with(word));
    match known {
        Some((word, plain)) => format!("{plain}{}", &text[word.len()..]),
        None => text.to_owned(),
    }
}

/// Names the key or word that is most likely meant by one that is not known.
fn unknown(message: &str) -> Option<String> {
    let (what, rest) = match message.strip_prefix("unknown field ") {
        Some(rest) => ("is no key here", rest),
        None => ("is not known", message.strip_prefix("unknown variant ")?),
    };
    let (name, expected) = rest.split_once(", ")?;
    let names = expected.split('`').skip(1).step_by(2);
    let names: Vec<&str> = names.collect();
    let hint = suggestion(name.trim_matches('`'), &names);
    Some(format!("{name} {what}: {hint}"))
}

/// What is most likely meant by a name that is none of these, or all of them.
pub fn suggestion(name: &str, names: &[&str]) -> String {
    let far = |known: &&&str| strsim::osa_distance(name, known);
    let near = names.iter().min_by_key(far);
    match near.filter(|known| far(known) <= 1 + name.len() / 4) {
        Some(known) => format!("did you mean `{known}`?"),
        None if names.is_empty() => "there are none".into(),
        None => format!("known are {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serdes_words_become_plain_ones() {
        for (said, meant) in [
            (
                "invalid type: integer `7`, expected a sequence",
                "expected a list, such as `[1, 2]`, not the number `7`",
            ),
            (
                "invalid type: string \"x\", expected struct FibSection",
                "expected a table, not string \"x\"",
            ),
            (
                "invalid type: map, expected a sequence",
                "expected a list, such as `[1, 2]`, not a table",
            ),
            (
                "unknown field `buget`, expected one of `cores`, `mode`, `budget`",
                "`buget` is no key here: did you mean `budget`?",
            ),
            (
                "unknown field `zzz`, expected `cores` or `mode`",
                "`zzz` is no key here: known are cores, mode",
            ),
            (
                "unknown variant `expres`, expected one of `auto`, `express`, `engine`",
                "`expres` is not known: did you mean `express`?",
            ),
            ("missing field `name`", "the key `name` is missing"),
            ("a budget is too large", "a budget is too large"),
        ] {
            assert_eq!(plain(said), meant);
        }
    }
}
