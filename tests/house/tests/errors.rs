//! No error is thrown away without a word: in the crates below, a line that takes only success, or names
//! no error, has a comment beside it or above it. Clippy sees the methods of `Result` that do so
//! (`clippy.toml`); it does not see patterns.

use std::fs;
use std::path::{Path, PathBuf};

const CRATES: [&str; 5] = ["linux", "mirror", "xdp", "port", "daemon"];
const PATTERNS: [&str; 3] = ["let Ok(", "Err(_)", "Err(..)"];
/// Lines above one in which a comment may stand.
const NEAR: usize = 2;

#[test]
fn an_error_that_is_thrown_away_says_why() {
    let router = bora_testing::root().join("router");
    let mut silent = Vec::new();
    for name in CRATES {
        let sources = sources(&router.join(name).join("src"));
        assert!(!sources.is_empty(), "{name}");
        for source in sources {
            let text = fs::read_to_string(&source).unwrap();
            let lines = found(&text).into_iter();
            silent.extend(lines.map(|(line, code)| format!("{}:{line}: {code}", source.display())));
        }
    }
    assert!(
        silent.is_empty(),
        "say why the error does not matter, or report it:\n{}",
        silent.join("\n")
    );
}

#[test]
fn what_says_why_is_told_from_what_does_not() {
    let line = |text: &str| found(text).first().map(|(line, _)| *line);
    assert_eq!(line("if let Ok(a) = b {"), Some(1));
    assert_eq!(line("x\nlet Ok(a) = b else { return };"), Some(2));
    assert_eq!(line("// why\nlet Ok(a) = b else { return };"), None);
    assert_eq!(line("Err(_) => {} // why"), None);
    assert_eq!(line("// why\nmatch a {\n Err(_) => {}"), None);
    assert_eq!(line("// far\n\n\nErr(_) => {}"), Some(4));
    assert_eq!(line("Err(error) => return Err(error),"), None);
    assert_eq!(line("Ok(a)\n#[cfg(test)]\nmod tests {\nErr(_)"), None);
}

/// Lines, from 1, that throw an error away in silence.
fn found(text: &str) -> Vec<(usize, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let end = lines.iter().position(|line| *line == "mod tests {");
    let code = &lines[..end.unwrap_or(lines.len())];
    let silent = |&(index, line): &(usize, &&str)| {
        let near = &code[index.saturating_sub(NEAR)..=index];
        PATTERNS.iter().any(|pattern| line.contains(pattern))
            && !near.iter().any(|line| line.contains("//"))
    };
    let numbered = code.iter().enumerate().filter(silent);
    numbered
        .map(|(index, line)| (index + 1, line.trim().to_string()))
        .collect()
}

/// Rust files below a folder, without those of tests.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let is_of_tests = |path: &Path| {
        let inside = path.strip_prefix(folder).unwrap();
        inside.iter().any(|part| part == "tests")
    };
    bora_testing::files(folder)
        .into_iter()
        .filter(|path| !is_of_tests(path))
        .filter(|path| path.extension().is_some_and(|it| it == "rs"))
        .filter(|path| !path.to_string_lossy().ends_with("tests.rs"))
        .collect()
}
