//! What a wing may depend on. The router is all that is installed on a router, so it depends on none of the others.
//! Its tests may: they use the laboratory's tables and generators.

use std::collections::BTreeMap;

use bora_testing::{Crate, crates};

/// The wings that the crates of a wing may depend on.
const ALLOWED: [(&str, &[&str]); 4] = [
    ("router", &["router"]),
    ("tester", &["router", "tester", "lab"]),
    ("hero", &["router", "hero"]),
    ("lab", &["router", "tester", "lab"]),
];

#[test]
fn the_router_depends_on_no_other_wing() {
    let crates = crates();
    let wings: BTreeMap<String, String> = { crates.iter() }
        .map(|one| (name(&one.manifest), one.wing.clone()))
        .collect();
    assert_eq!(wings["bora-daemon"], "router");
    assert_eq!(wings["bora-hero"], "hero");
    let wrong = crates.iter().flat_map(|one| forbidden(one, &wings));
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_forbidden_arrow_is_found() {
    let wings = [("bora-port", "router"), ("bora-hero", "hero")];
    let wings = wings.map(|(name, wing)| (name.to_owned(), wing.to_owned()));
    let one = |manifest: &str| Crate {
        wing: "router".into(),
        folder: "router/daemon".into(),
        manifest: manifest.into(),
    };
    let found = |manifest: &str| forbidden(&one(manifest), &wings.clone().into()).len();
    let package = "[package]\nname = \"bora-daemon\"\n";
    let with = |section, line| found(&format!("{package}[{section}]\n{line}\n"));
    assert_eq!(with("dependencies", "bora-port.workspace = true"), 0);
    assert_eq!(with("dependencies", "bora-hero.workspace = true"), 1);
    let optional = "bora-hero = { workspace = true, optional = true }";
    assert_eq!(with("dependencies", optional), 1);
    assert_eq!(with("build-dependencies", optional), 1);
    assert_eq!(with("dev-dependencies", optional), 0);
}

/// Dependencies of a crate on wings that are not for it.
fn forbidden(one: &Crate, wings: &BTreeMap<String, String>) -> Vec<String> {
    let (_, allowed) = ALLOWED.iter().find(|(wing, _)| *wing == one.wing).unwrap();
    let used = dependencies(&one.manifest).into_iter();
    let wrong = used.filter_map(|used| {
        let wing = wings.get(&used)?;
        let is_wrong = !allowed.contains(&&**wing);
        is_wrong.then(|| format!("{} uses {used} of {wing}/", one.folder.display()))
    });
    wrong.collect()
}

fn name(manifest: &str) -> String {
    let line = manifest
        .lines()
        .find_map(|line| line.strip_prefix("name = "));
    line.unwrap().trim_matches('"').to_owned()
}

/// Names under `[dependencies]` and `[build-dependencies]`.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut counts = false;
    let mut found = Vec::new();
    for line in manifest.lines() {
        if let Some(section) = line.strip_prefix('[') {
            counts = ["dependencies]", "build-dependencies]"].contains(&section);
        } else if counts {
            found.extend(line.split(['.', ' ']).next().map(str::to_owned));
        }
    }
    found
}
