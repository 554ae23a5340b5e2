//! A comment is a sentence, or a noun phrase that names a thing. It never begins with a genitive that hangs
//! in the air, and never counts without a number.

use std::fs;
use std::path::Path;

/// Folders whose sources are checked.
const FOLDERS: [&str; 6] = ["router", "tester", "hero", "lab", "tests", "fuzz"];
/// Words that no comment begins with.
const BEGINNINGS: [&str; 8] = [
    "of", "that of", "those of", "the same", "as of", "as above", "as there", "whoever",
];
/// Words that no comment has.
const ANYWHERE: [&str; 2] = ["so many", "nobody sees"];

#[test]
fn comments_name_what_they_speak_of() {
    let mut wrong = Vec::new();
    for folder in FOLDERS {
        let count = check(&bora_testing::root().join(folder), &mut wrong);
        assert!(count > 0, "{folder} has no sources");
    }
    assert!(
        wrong.is_empty(),
        "say it in a sentence, or name the thing:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn what_is_wrong_is_told_from_what_is_right() {
    let wrong = |name: &str, text: &str| -> Vec<usize> {
        let comments = comments(name, text).into_iter();
        let found = comments.filter(|(_, comment)| is_wrong(comment));
        found.map(|(line, _)| line).collect()
    };
    let none: [usize; 0] = [];
    assert_eq!(wrong("a.rs", "x\n/// Of the port.\ny // of a port"), [2, 3]);
    assert_eq!(
        wrong("a.rs", "// It is that\n// of the port: so\n// many."),
        [1]
    );
    assert_eq!(
        wrong("a.rs", "/// It is.\n///\n/// # Errors\n/// Those of it."),
        [4]
    );
    assert_eq!(wrong("a.rs", "//! Often.\nlet a = \" // of it\";"), none);
    assert_eq!(
        wrong("a.c", "int a; /* of it */\n/*\n * The same. */\n// Those."),
        [1, 2]
    );
    assert_eq!(
        wrong("a.h", "/* Its\n * offset */ char *a = \"// of it\";"),
        none
    );
    assert_eq!(
        wrong("a.py", "a = 1  # of it\n\"\"\"Whoever\nit is.\"\"\""),
        [1, 2]
    );
    assert_eq!(
        wrong("a.py", "\"\"\"Its\n\n# of it\n\"\"\"\na = '# of it'"),
        none
    );
}

/// Adds the wrong comments below a folder; returns the number of its source files.
fn check(folder: &Path, wrong: &mut Vec<String>) -> usize {
    let mut count = 0;
    for path in bora_testing::files(folder) {
        let name = path.file_name().unwrap().to_string_lossy();
        let is_source = [".rs", ".c", ".h", ".py"]
            .iter()
            .any(|end| name.ends_with(end));
        if !is_source {
            continue;
        }
        count += 1;
        let text = fs::read_to_string(&path).unwrap();
        let found = comments(&name, &text).into_iter();
        let found = found.filter(|(_, comment)| is_wrong(comment));
        wrong.extend(found.map(|(line, comment)| format!("{}:{line}: {comment}", path.display())));
    }
    count
}

/// Whether a comment breaks the rule.
fn is_wrong(comment: &str) -> bool {
    let text = comment.to_lowercase();
    let begins = |words: &&str| {
        let rest = text.strip_prefix(*words);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    };
    BEGINNINGS.iter().any(begins) || ANYWHERE.iter().any(|words| text.contains(words))
}

/// All comments of a source file, each with the line, from 1, that it begins at.
fn comments(name: &str, text: &str) -> Vec<(usize, String)> {
    if name.ends_with(".py") {
        python(text)
    } else if name.ends_with(".rs") {
        rust(text)
    } else {
        c(text)
    }
}

/// Comments of Rust; lines with one mark below each other are one comment, up to a heading (`# Errors`).
fn rust(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut open = "";
    for (line, code) in (1..).zip(text.lines()) {
        let whole = code.trim_start();
        let mark = ["///", "//!", "//"]
            .into_iter()
            .find(|mark| whole.starts_with(mark));
        match mark {
            Some(mark) if whole[mark.len()..].starts_with(" # ") => {
                open = ""; // what follows begins anew
                continue;
            }
            Some(mark) if mark == open => {
                let (_, comment) = found.last_mut().expect("it is open");
                *comment = format!("{comment} {}", whole[mark.len()..].trim());
            }
            Some(mark) => found.push((line, whole[mark.len()..].trim().into())),
            None => found.extend(behind(code, " // ").map(|comment| (line, comment))),
        }
        open = mark.unwrap_or_default();
    }
    found
}

/// Comments of C.
fn c(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut line = 1;
    let mut rest = text;
    while let Some(start) = rest.find("/*") {
        let comment = &rest[start + 2..];
        let length = comment.find("*/").unwrap_or(comment.len());
        line += rest[..start].matches('\n').count();
        let words = comment[..length]
            .split_whitespace()
            .filter(|word| *word != "*");
        found.push((line, words.collect::<Vec<_>>().join(" ")));
        line += comment[..length].matches('\n').count();
        rest = &comment[length..];
    }
    let lines = (1..).zip(text.lines());
    let lines =
        lines.filter_map(|(line, code)| Some((line, code.strip_prefix("//")?.trim().into())));
    found.extend(lines);
    found
}

/// Comments of Python, and texts that stand alone: those that document.
fn python(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let (mut inside, mut documents) = (false, false);
    for (line, code) in (1..).zip(text.lines()) {
        let code = code.trim();
        if inside && documents {
            let (_, comment) = found.last_mut().expect("it is open");
            *comment = format!("{comment} {code}");
        } else if !inside && let Some(words) = code.strip_prefix("\"\"\"") {
            documents = true;
            found.push((line, words.trim().into()));
        } else if !inside && let Some(comment) = code.strip_prefix('#') {
            found.push((line, comment.trim().into()));
        } else if !inside {
            documents = false;
            found.extend(behind(code, " # ").map(|comment| (line, comment)));
        }
        inside ^= code.matches("\"\"\"").count() % 2 == 1;
    }
    found
}

/// What stands behind a mark in a line of code, unless the mark is in a text.
fn behind(code: &str, mark: &str) -> Option<String> {
    let (before, comment) = code.split_once(mark)?;
    let before = before.replace("\\\"", "");
    let is_open = |quote| before.matches(quote).count() % 2 == 1;
    (!is_open('"') && !is_open('\'')).then(|| comment.trim().into())
}
