//! Unit tests stand in one of two places: in the file that they test, or in `tests.rs` in the folder that is
//! named after it.

#[test]
fn unit_tests_stand_where_they_are_looked_for() {
    let mut elsewhere = Vec::new();
    let sources = bora_testing::crates().into_iter();
    for path in sources.flat_map(|one| bora_testing::files(&one.folder.join("src"))) {
        let name = path.file_name().unwrap().to_string_lossy();
        if name.ends_with("_tests.rs") || name == "test.rs" {
            elsewhere.push(format!("{}: call it tests.rs", path.display()));
        }
    }
    assert!(elsewhere.is_empty(), "{}", elsewhere.join("\n"));
}
