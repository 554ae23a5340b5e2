//! Tables for terminals.

use serde_json::Value;

/// A table of a report's rows: `columns` are heads, and the keys of what is below them.
pub(super) fn of_rows(columns: &[(&str, &str)], rows: &Value) -> String {
    let heads: Vec<&str> = columns.iter().map(|(head, _)| *head).collect();
    let row = |row: &Value| columns.iter().map(|(_, key)| cell(&row[key])).collect();
    let rows: Vec<Vec<String>> = rows.as_array().into_iter().flatten().map(row).collect();
    table(&heads, &rows)
}

/// A table as [`of_rows`] makes it, or what `none` says if there are no rows.
pub(super) fn of_rows_or(none: &str, columns: &[(&str, &str)], rows: &Value) -> String {
    match rows.as_array().is_none_or(Vec::is_empty) {
        true => none.into(),
        false => of_rows(columns, rows),
    }
}

/// `-` for nothing, `1,5` for several.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::String(text) => text.clone(),
        Value::Array(values) if values.is_empty() => "-".into(),
        Value::Array(values) => values.iter().map(cell).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

/// Columns as wide as their widest cell; numbers to the right.
pub(super) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: Vec<&str>| {
        let mut text = String::new();
        for (cell, &width) in cells.iter().zip(&widths) {
            let number = !cell.is_empty() && cell.bytes().all(|b| b.is_ascii_digit());
            text += &if number {
                format!("{cell:>width$}  ")
            } else {
                format!("{cell:<width$}  ")
            };
        }
        text.trim_end().to_string() + "\n"
    };
    let mut text = line(head.to_vec());
    for row in rows {
        text += &line(row.iter().map(String::as_str).collect());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_to_the_right_and_nothing_is_a_dash() {
        let rows = serde_json::json!([
            {"name": "eth0", "count": 5, "cpus": [1, 5]},
            {"name": "a", "count": 12345, "cpus": []},
        ]);
        let columns = [
            ("NAME", "name"),
            ("N", "count"),
            ("CPUS", "cpus"),
            ("X", "x"),
        ];
        let expected = "NAME  N      CPUS  X\neth0      5  1,5   -\na     12345  -     -\n";
        assert_eq!(of_rows(&columns, &rows), expected);
    }
}
