//! Shared by the client commands: the service's URL, paths, and printing of answers.

use std::fmt::Write;

use clap::Args;
use reqwest::Method;
use serde_json::Value;

use super::client::{Answer, Refused, Service};

/// The service's URL, and the output format.
#[derive(Debug, Clone, Args)]
pub struct At {
    /// URL of the service
    #[arg(long, env = "RESEQ_URL", default_value = "http://127.0.0.1:8080")]
    pub url: String,
    /// Print the answer of the service as JSON
    #[arg(long)]
    pub json: bool,
}

impl At {
    /// GETs.
    pub async fn get(&self, path: &str) -> anyhow::Result<Answer> {
        self.ask(Method::GET, path, None).await
    }

    /// DELETEs.
    pub async fn delete(&self, path: &str) -> anyhow::Result<Answer> {
        self.ask(Method::DELETE, path, None).await
    }

    /// POSTs JSON.
    pub async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Answer> {
        self.ask(Method::POST, path, Some(body)).await
    }

    /// PUTs JSON.
    pub async fn put(&self, path: &str, body: &Value) -> anyhow::Result<Answer> {
        self.ask(Method::PUT, path, Some(body)).await
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Answer> {
        let answer = Service::at(&self.url)?.ask(method, path, body).await;
        // With `--json`, print a problem too.
        if let Err(error) = &answer
            && let Some(refused) = error.downcast_ref::<Refused>()
            && self.json
        {
            println!("{}", refused.object);
        }
        answer
    }

    /// Prints an answer: the original JSON, or as text.
    pub fn print(&self, answer: &Answer, words: impl FnOnce(&Value) -> String) {
        match self.json {
            true => println!("{}", answer.text.trim_end()),
            false => println!("{}", words(answer).trim_end()),
        }
    }
}

/// A path of a destination.
pub fn path_of(destination: &str, rest: &str) -> String {
    format!("/v1/destinations/{}/{rest}", percent_encoded(destination))
}

/// A query of the parameters that are given.
pub fn query(pairs: &[(&str, Option<String>)]) -> String {
    let given = pairs.iter().filter_map(|(name, value)| {
        value.as_ref().map(|value| format!("{name}={}", percent_encoded(value)))
    });
    match given.collect::<Vec<_>>().join("&") {
        none if none.is_empty() => none,
        some => format!("?{some}"),
    }
}

/// Encodes a text for use in a path or a query.
pub fn percent_encoded(text: &str) -> String {
    const KEPT: &percent_encoding::AsciiSet =
        &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    percent_encoding::utf8_percent_encode(text, KEPT).to_string()
}

/// A JSON object with the fields that are given.
pub fn object(fields: &[(&str, Option<Value>)]) -> Value {
    let given = fields
        .iter()
        .filter_map(|(name, value)| value.clone().map(|value| ((*name).to_owned(), value)));
    Value::Object(given.collect())
}

/// A field as text; empty if it is null or missing.
pub fn text_of(value: &Value, field: &str) -> String {
    match &value[field] {
        Value::Null => String::new(),
        Value::String(text) => plain(text),
        other => plain(&other.to_string()),
    }
}

/// Foreign text, such as a receiver's answer, without control characters for the terminal.
pub fn plain(text: &str) -> String {
    let escaped = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    text.chars().map(escaped).collect()
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
    // Do not repeat what the detail itself begins with.
    if detail.starts_with(&kind) { detail } else { format!("{kind}: {detail}") }
}

/// A list as a table, with the cursor of the next page.
pub fn list(answer: &Value, columns: &[&str], row: impl Fn(&Value) -> Vec<String>) -> String {
    let items = answer["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut rows = vec![columns.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()];
    rows.extend(items.iter().map(row));
    let mut text = if rows.len() == 1 { "none\n".to_owned() } else { table(&rows) };
    if let Some(cursor) = answer["next_cursor"].as_str() {
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
    }

    #[test]
    fn ages_are_for_people() {
        let ages = [7, 999, 1_000, 59_999, 61_000, 3_600_000].map(human_age);
        assert_eq!(ages, ["7 ms", "999 ms", "1.0 s", "59.9 s", "1 min 1 s", "1 h 0 min"]);
    }

    #[test]
    fn numbers_stand_to_the_right_and_words_to_the_left() {
        let rows = [["a", "n"], ["x", "1000"], ["long", "7"]];
        let rows: Vec<Vec<String>> = rows.map(|row| row.map(str::to_owned).to_vec()).to_vec();
        assert_eq!(table(&rows), "a        n\nx     1000\nlong     7\n");
    }

    #[test]
    fn what_is_not_given_is_not_asked_for() {
        assert_eq!(query(&[("a", None), ("b", None)]), "");
        assert_eq!(query(&[("a", Some("ä b".into())), ("c", Some("".into()))]), "?a=%C3%A4%20b&c=");
        assert_eq!(object(&[("a", None), ("b", Some(json!(1)))]), json!({"b": 1}));
        assert_eq!(path_of("a/b", "log"), "/v1/destinations/a%2Fb/log");
    }
}
