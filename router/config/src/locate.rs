//! Finds the place of a value in a file, for errors that only a check of several fields finds.

use std::fmt;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// One step from the file's root towards a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A field of a table.
    Key(String),
    /// An entry of an array.
    Index(usize),
}

impl From<&str> for Step {
    fn from(key: &str) -> Self {
        Self::Key(key.into())
    }
}

impl From<usize> for Step {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}

/// The [`Problem`] `what` with the value at `at`.
///
/// # Errors
/// Always; it is for a check's `return`.
pub fn wrong<T, const N: usize>(at: [Step; N], what: String) -> Result<T, Problem> {
    let at = at.into();
    Err(Problem { at, what })
}

/// Makes the path to a value: `at!["port", 0, "name"]`.
#[macro_export]
macro_rules! at {
    ($($step:expr),*) => { [$($crate::Step::from($step)),*] };
}

/// A wrong value in a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The path to the value.
    pub at: Vec<Step>,
    /// What is wrong with it, and what would be right.
    pub what: String,
}

impl Problem {
    /// The problem as a message with line and column in `text`, the content of the file.
    pub fn located(&self, text: &str) -> String {
        match find(text, &self.at) {
            Some(span) => located(text, span, &self.what),
            None => self.to_string(),
        }
    }
}

/// What is wrong with a place of a text, with its line and column.
pub fn located(text: &str, span: Range<usize>, what: &str) -> String {
    let (Some(before), Some(marked)) = (text.get(..span.start), text.get(span)) else {
        return what.to_owned();
    };
    let line = before.matches('\n').count();
    let column = before.chars().rev().take_while(|&c| c != '\n').count();
    let content = text.lines().nth(line).unwrap_or("");
    let number = (line + 1).to_string();
    let margin = " ".repeat(number.len() + 1);
    let marked = marked.lines().next().unwrap_or("").chars().count();
    format!(
        "error at line {number}, column {}\n{margin}|\n{number} | {content}\n{margin}| {}{}\n{what}",
        column + 1,
        " ".repeat(column),
        "^".repeat(marked.max(1)),
    )
}

impl std::error::Error for Problem {}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, step) in self.at.iter().enumerate() {
            match step {
                Step::Key(key) if number == 0 => f.write_str(key)?,
                Step::Key(key) => write!(f, ".{key}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        write!(
            f,
            "{}{}",
            if self.at.is_empty() { "" } else { ": " },
            self.what
        )
    }
}

/// The place of the value in the text. If the file does not have it (a default), the place of the
/// nearest enclosing table.
fn find(text: &str, path: &[Step]) -> Option<Range<usize>> {
    let document = DeTable::parse(text).ok()?;
    let mut table = Some(document.get_ref());
    let mut array: Option<&[Spanned<DeValue<'_>>]> = None;
    let mut span = None;
    for step in path {
        let next = match step {
            Step::Key(key) => {
                let mut entries = table.into_iter().flat_map(|table| table.iter());
                entries.find(|(name, _)| name.get_ref() == key.as_str())
            }
            .map(|(_, value)| value),
            Step::Index(index) => array.and_then(|array| array.get(*index)),
        };
        let Some(next) = next else { break };
        (table, array) = match next.get_ref() {
            DeValue::Table(table) => (Some(table), None),
            DeValue::Array(array) => (None, Some(&array[..])),
            _ => (None, None),
        };
        span = Some(next.span());
    }
    span.filter(|span| text.get(span.clone()).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(at: Vec<Step>) -> Problem {
        let what = "wrong".into();
        Problem { at, what }
    }

    #[test]
    fn values_tables_and_defaults_have_places() {
        let text = "path = \"engine\"\n[[rule]]\nclass = 1\n[[rule]]\n  class = 12\n";
        let at = problem(vec!["rule".into(), 1.into(), "class".into()]).located(text);
        assert!(at.contains("line 5, column 11\n"), "{at}");
        assert!(
            at.contains("5 |   class = 12\n  |           ^^\nwrong"),
            "{at}"
        );
        // not in the file: the table it would be in
        let at = problem(vec!["rule".into(), 0.into(), "output".into()]).located(text);
        assert!(at.contains("line 2, column 1"), "{at}");
        let at = problem(vec!["port".into()]).located(text);
        assert_eq!(at, "port: wrong");
    }
}
