//! Formats the output of the commands: tables and lines, JSON, YAML, or names.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::{ErrorKind, Write as _},
};

use clap::ValueEnum;
use serde_json::{Value, value::RawValue};

pub use client::plain;
pub use domain::shell::quoted;

/// The least width of the names of fields.
const NAME_WIDTH: usize = 14;

/// The format of the output: tables and lines for people; JSON, YAML or names for programs.
// The variants have no documentation: with it, clap prints the long form of all helps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    #[default]
    Table,
    Json,
    Yaml,
    Name,
}

/// The fields that can name an item for other commands. The first field that the item has is its name.
const NAMES: [&str; 7] = ["sequence", "id", "pod", "name", "destination", "key", "version"];

impl Output {
    /// Converts JSON to this format. For tables, returns the JSON itself.
    pub fn render(self, json: &str) -> anyhow::Result<String> {
        match self {
            Output::Table | Output::Json => Ok(json.to_owned()),
            // Each answer is its own YAML document, because a command may print several.
            Output::Yaml => {
                let value: Value = serde_json::from_str(json)?;
                Ok(format!("---\n{}", serde_saphyr::to_string(&value)?))
            }
            Output::Name => {
                let value: Value = serde_json::from_str(json)?;
                let items = value["items"].as_array().cloned().unwrap_or_else(|| vec![value]);
                let name = |item: &Value| {
                    let field = NAMES.iter().find(|field| !item[**field].is_null())?;
                    Some(text_of(item, field))
                };
                Ok(items.iter().filter_map(name).collect::<Vec<_>>().join("\n"))
            }
        }
    }
}

/// The reader of the output has closed it.
#[derive(Debug, thiserror::Error)]
#[error("standard output is closed")]
pub struct OutputClosed;

/// Writes a text to standard output, with one line break at its end. Removes colours if standard output does not show
/// them.
pub fn write_out(text: &str) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    let written = writeln!(out, "{}", text.trim_end()).and_then(|()| out.flush());
    written.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => OutputClosed.into(),
        _ => anyhow::Error::from(error).context("writing to standard output"),
    })
}

/// A field as text; empty if it is null or missing.
pub fn text_of(value: &Value, field: &str) -> String {
    match &value[field] {
        Value::Null => String::new(),
        Value::String(text) => plain(text),
        other => plain(&other.to_string()),
    }
}

/// A count; 0 if it is missing.
pub fn count_of(value: &Value, field: &str) -> u64 {
    value[field].as_u64().unwrap_or_default()
}

/// A count with a noun: `1 message`, `2 messages`.
pub fn counted(count: u64, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

/// The last error of a message in short; empty if there is none.
pub fn error_of(value: &Value) -> String {
    let error = &value["last_error"];
    if error.is_null() {
        return String::new();
    }
    let status = match error["status"].as_u64() {
        Some(status) => format!(" {status}"),
        None => String::new(),
    };
    let detail = error["detail"].as_str().unwrap_or_default();
    let detail = plain(detail.lines().next().unwrap_or_default());
    let kind = format!("{}{status}", text_of(error, "kind"));
    // Do not repeat the kind if the detail begins with it.
    if detail.starts_with(&kind) { detail } else { format!("{kind}: {detail}") }
}

/// A list as a table, with the cursor of the next page.
pub fn list(answer: &Value, columns: &[&str], row: impl Fn(&Value) -> Vec<String>) -> String {
    let items = answer["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut rows = vec![columns.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()];
    rows.extend(items.iter().map(row));
    // Items of a destination with several shards: together with the sequence, the shard names the message.
    if items.iter().any(|item| item["shard"].is_string()) {
        let shards = items.iter().map(|item| text_of(item, "shard"));
        let column = std::iter::once("shard".to_owned()).chain(shards);
        rows.iter_mut().zip(column).for_each(|(row, cell)| row.insert(0, cell));
    }
    let cursor = answer["next_cursor"].as_str();
    let mut text = match (rows.len(), cursor) {
        (1, None) => "none\n".to_owned(),
        (1, Some(_)) => "none so far\n".to_owned(),
        _ => table(&rows),
    };
    if let Some(cursor) = cursor {
        let _ = writeln!(text, "more with --cursor {cursor}");
    }
    text
}

/// Aligns columns: numbers to the right, words to the left.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let is_number = |cell: &String| cell.is_empty() || cell.parse::<f64>().is_ok();
    let shape = |at| (width(at), rows.iter().skip(1).all(|row| is_number(&row[at])));
    let shapes: Vec<(usize, bool)> = (0..columns).map(shape).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, (width, is_right)) in row.iter().zip(&shapes) {
            // Writing to a string cannot fail.
            let _ = match is_right {
                true => write!(line, "{cell:>width$}  "),
                false => write!(line, "{cell:<width$}  "),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// An object with one field per line, and numbers as in the original. Omits empty fields.
pub fn in_lines(object: &str) -> String {
    let fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(object).unwrap_or_default();
    let width = fields.keys().map(String::len).max().unwrap_or_default().max(NAME_WIDTH);
    let mut text = String::new();
    for (name, value) in &fields {
        let value = value.get();
        let shown = match name.as_str() {
            _ if value == "null" || name == "errors" && value == "[]" => continue,
            "errors" => {
                let errors: Vec<&RawValue> = serde_json::from_str(value).unwrap_or_default();
                errors.iter().map(|error| format!("\n    {}", plain(error.get()))).collect()
            }
            // Strings without quotes; other values unchanged.
            _ => plain(&serde_json::from_str(value).unwrap_or_else(|_| value.to_owned())),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<width$} {shown}");
    }
    text
}

/// A duration for display.
pub fn human_age(age_ms: u64) -> String {
    let seconds = age_ms / 1000;
    match seconds {
        0 => format!("{age_ms} ms"),
        1..60 => format!("{}.{} s", seconds, age_ms % 1000 / 100),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_receiver_says_does_not_reach_the_terminal_raw() {
        let item = json!({"last_error": {"kind": "status", "detail": "no\u{1b}[2J\u{9b}\nmore"}});
        assert_eq!(error_of(&item), "status: no\\u{1b}[2J\\u{9b}");
        assert_eq!(text_of(&json!({"a": "ä\tb"}), "a"), "ä\\tb");
        assert_eq!(plain("a\u{202e}b"), "a\\u{202e}b");
    }

    #[test]
    fn names_and_yaml_are_printed_for_items_and_objects() {
        let list = json!({"items": [{"id": "x", "sequence": 7}, {"key": null}, {"name": "erp"}]});
        assert_eq!(Output::Name.render(&list.to_string()).unwrap(), "7\nerp");
        assert_eq!(Output::Name.render("{\"id\": \"ab\", \"name\": \"a\"}").unwrap(), "ab");
        let yaml = Output::Yaml.render("{\"a\": {\"b\": [1, \"no\", null]}}").unwrap();
        assert_eq!(yaml, "---\na:\n  b:\n  - 1\n  - \"no\"\n  - null\n");
    }

    #[test]
    fn ages_are_for_people() {
        let ages = [7, 999, 1_000, 59_999, 61_000, 3_600_000].map(human_age);
        assert_eq!(ages, ["7 ms", "999 ms", "1.0 s", "59.9 s", "1 min 1 s", "1 h 0 min"]);
        assert_eq!([1, 2].map(|count| counted(count, "message")), ["1 message", "2 messages"]);
    }

    #[test]
    fn numbers_stand_to_the_right_and_words_to_the_left() {
        let rows = [["a", "n"], ["x", "1000"], ["long", "7"]];
        let rows: Vec<Vec<String>> = rows.map(|row| row.map(str::to_owned).to_vec()).to_vec();
        assert_eq!(table(&rows), "a        n\nx     1000\nlong     7\n");
    }
}
