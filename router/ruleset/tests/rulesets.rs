//! Rulesets as people have them: loaded into the kernel, read back, and analysed.

mod common;

use std::fs;
use std::path::Path;

use bora_linux::netns;

#[test]
fn each_has_the_answer_that_its_file_says() {
    if !common::is_root() {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rulesets");
    let mut paths: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    let mut wrong = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).unwrap();
        let said = netns::in_new(|| check(&name, &text)).unwrap();
        wrong.extend(said.map(|said| format!("{name}: {said}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Loads a ruleset and compares; says what differs.
fn check(name: &str, text: &str) -> Option<String> {
    for part in text
        .split("### ip6tables\n")
        .enumerate()
        .map(|(number, part)| (number == 1, part))
    {
        let done = match (name.ends_with(".nft"), part) {
            (true, (_, rules)) => common::nft(rules),
            (false, (false, rules)) => common::feed("iptables-restore", &[], rules),
            (false, (true, rules)) => common::feed("ip6tables-restore", &[], rules),
        };
        if let Err(said) = done {
            return Some(said);
        }
    }
    let differs = |(v6, version)| {
        let transit = common::analysis(v6);
        let expected: Vec<&str> = expectations(text, version).collect();
        let found = common::text(&transit);
        let missing = expected
            .iter()
            .filter(|line| !found.lines().any(|it| it.ends_with(*line)));
        let missing: Vec<_> = missing.collect();
        let wrong = expected.is_empty() || !missing.is_empty();
        wrong.then(|| format!("{version}: there is no {missing:?} in\n{found}"))
    };
    [(false, "v4"), (true, "v6")].into_iter().find_map(differs)
}

/// The lines behind `# v4: ` or `# v6: `.
fn expectations<'a>(text: &'a str, version: &'a str) -> impl Iterator<Item = &'a str> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("# "));
    lines.filter_map(move |line| line.strip_prefix(version)?.strip_prefix(": "))
}
