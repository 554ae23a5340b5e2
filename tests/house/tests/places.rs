//! Unit tests stand in one of two places: in the file that they test, or in `tests.rs` in the folder that is
//! named after it.

use std::fs;
use std::path::Path;

#[test]
fn unit_tests_stand_where_they_are_looked_for() {
    let mut elsewhere = Vec::new();
    for one in bora_testing::crates() {
        look(&one.folder.join("src"), &mut elsewhere);
    }
    assert!(elsewhere.is_empty(), "{}", elsewhere.join("\n"));
}

/// Adds the files below a folder that have tests, or modules of tests, in another place.
fn look(folder: &Path, elsewhere: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy();
        if path.is_dir() {
            look(&path, elsewhere);
        } else if name.ends_with("_tests.rs") || name == "test.rs" {
            elsewhere.push(format!("{}: call it tests.rs", path.display()));
        }
    }
}
