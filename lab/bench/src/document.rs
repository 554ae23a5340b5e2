//! The generated part of a document.

use std::fs;
use std::path::Path;

use anyhow::Context;

/// Replaces the text between the marks of `name` in a file.
///
/// # Errors
/// It has no marks, or cannot be read or written.
pub fn update(path: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let file = || path.display().to_string();
    let document = fs::read_to_string(path).with_context(file)?;
    fs::write(path, replace(&document, name, text)?).with_context(file)
}

/// The document with the text between its marks replaced.
fn replace(document: &str, name: &str, text: &str) -> anyhow::Result<String> {
    let (begin, end) = (
        format!("<!-- begin: {name} -->"),
        format!("<!-- end: {name} -->"),
    );
    let parts = document.split_once(&begin).zip(document.split_once(&end));
    let Some(((head, _), (_, tail))) = parts else {
        anyhow::bail!("the document has no lines `{begin}` and `{end}`");
    };
    Ok(format!("{head}{begin}\n{text}\n{end}{tail}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_changes() {
        let page = |text| format!("a\n<!-- begin: b -->\n{text}\n<!-- end: b -->\nz\n");
        assert_eq!(replace(&page("old"), "b", "new").unwrap(), page("new"));
        assert!(replace("a", "b", "new").is_err());
    }
}
