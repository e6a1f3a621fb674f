//! Converts rows and texts of `pg_logical_emit_message` to messages.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::{pgoutput::Relation, settings::Columns};
use crate::source::{Content, Unfit};

/// The type numbers of `bytea`, `json` and `jsonb`.
const BYTEA: u32 = 17;
const JSON: [u32; 2] = [114, 3802];

/// Converts a text of `pg_logical_emit_message` to a message.
pub fn of_emitted(content: &[u8]) -> Result<Content, Unfit> {
    let mut read: Content = serde_json::from_slice(content)
        .map_err(|error| format!("the text is not the object that it must be: {error}"))?;
    if read.body.is_some() == read.body_base64.is_some() {
        return Err("the text has not one of body and body_base64".to_owned().into());
    }
    read.body = read.body.map(on_one_line);
    Ok(read)
}

/// Converts a row of the table to a message.
pub fn of_row(
    columns: &Columns,
    content_type: Option<&str>,
    relation: &Relation,
    row: &[Option<Bytes>],
) -> Result<Content, Unfit> {
    let find = |name: &str| {
        let index = relation.columns.iter().position(|(column, _)| column == name);
        let none = || Unfit::Settings(format!("there was no column {name:?} when it was written"));
        let index = index.ok_or_else(none)?;
        let value = row.get(index).and_then(Option::as_ref);
        Ok::<_, Unfit>(value.map(|value| (relation.columns[index].1, value)))
    };
    let text = |name: Option<&String>| {
        let Some((name, Some((_, value)))) =
            name.map(|name| find(name).map(|found| (name, found))).transpose()?
        else {
            return Ok(None);
        };
        let text = std::str::from_utf8(value).map_err(|_| format!("column {name}: is not text"))?;
        Ok::<_, Unfit>(Some(text.to_owned()))
    };
    let mut content = Content {
        destination: text(columns.destination.as_ref())?,
        key: text(columns.key.as_ref())?,
        id: text(columns.id.as_ref())?,
        ..Content::default()
    };
    if let Some(text) = text(columns.headers.as_ref())? {
        content.headers = serde_json::from_str(&text)
            .map_err(|error| format!("column of headers: must be an object of texts: {error}"))?;
    }
    let body = &columns.body;
    match find(body)? {
        None => return Err(format!("column {body}: is null").into()),
        Some((kind, value)) if JSON.contains(&kind) => {
            let json = serde_json::from_slice(value);
            let json = json.map_err(|error| format!("column {body}: is not JSON: {error}"))?;
            content.body = Some(on_one_line(json));
        }
        Some((BYTEA, value)) => {
            // Postgres writes `bytea` as `\x` and hexadecimal digits.
            let bytes = value.strip_prefix(b"\\x").and_then(|digits| hex::decode(digits).ok());
            let bytes = bytes.ok_or_else(|| format!("column {body}: is not hexadecimal"))?;
            content.set_bytes(content_type.unwrap_or("application/octet-stream"), &bytes);
        }
        Some((_, value)) => {
            content.set_bytes(content_type.unwrap_or("text/plain; charset=utf-8"), value);
        }
    }
    Ok(content)
}

/// The same JSON on one line. Strings in JSON contain no line breaks, so all line breaks are between tokens.
fn on_one_line(json: Box<RawValue>) -> Box<RawValue> {
    if !json.get().contains(['\n', '\r']) {
        return json;
    }
    let text = json.get().replace(['\n', '\r'], " ");
    RawValue::from_string(text).unwrap_or(json)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Columns {
        let name = |name: &str| Some(name.to_owned());
        let (key, headers, body) = (name("k"), name("h"), "b".to_owned());
        Columns { key, headers, body, destination: None, id: None }
    }

    fn read(kind: u32, body: &'static str, headers: &'static str) -> Result<Content, Unfit> {
        let columns_of = |kind| [("b", kind), ("h", 25), ("k", 25)];
        let relation = Relation {
            id: 1,
            schema: "public".to_owned(),
            name: "outbox".to_owned(),
            columns: columns_of(kind).map(|(name, kind)| (name.to_owned(), kind)).into(),
        };
        let row = [body, headers, "acct-7"].map(|text| Some(Bytes::from(text)));
        of_row(&columns(), None, &relation, &row)
    }

    #[test]
    fn body_has_the_type_of_its_column() {
        let json = read(114, "{\"a\":\n \"x\\ny\"}", "{}").unwrap().body.unwrap();
        assert_eq!(json.get(), r#"{"a":  "x\ny"}"#);
        let of = |kind, text| {
            let content = read(kind, text, "{}").unwrap();
            assert!(content.body.is_none());
            (content.content_type.unwrap(), content.body_base64.unwrap())
        };
        assert_eq!(of(17, "\\x00ff"), ("application/octet-stream".to_owned(), "AP8=".to_owned()));
        assert_eq!(of(25, "{}"), ("text/plain; charset=utf-8".to_owned(), "e30=".to_owned()));
    }

    #[test]
    fn row_that_is_no_message_says_why() {
        let row = read(25, "x", r#"{"x-tenant": "7"}"#).unwrap();
        assert_eq!((row.key.as_deref(), &*row.headers["x-tenant"]), (Some("acct-7"), "7"));
        for (kind, body, headers, problem) in [
            (17, "00", "{}", "column b: is not hexadecimal"),
            (3802, "{", "{}", "column b: is not JSON"),
            (25, "x", r#"{"x-tenant": 7}"#, "column of headers: must be an object of texts"),
        ] {
            match read(kind, body, headers).unwrap_err() {
                Unfit::Message(told) => assert!(told.starts_with(problem), "{told}"),
                told => panic!("{told:?}"),
            }
        }
        let relation =
            Relation { id: 1, schema: String::new(), name: String::new(), columns: Vec::new() };
        let told = of_row(&columns(), None, &relation, &[]).unwrap_err();
        assert!(matches!(told, Unfit::Settings(_)), "{told:?}");
    }

    #[test]
    fn emitted_text_is_an_object_with_one_body() {
        let read = |text: &str| of_emitted(text.as_bytes());
        let content = read(r#"{"key": "a", "destination": "erp", "body": {"n": 1}}"#).unwrap();
        assert_eq!(
            (content.key.as_deref(), content.destination.as_deref()),
            (Some("a"), Some("erp"))
        );
        assert_eq!(content.body.unwrap().get(), r#"{"n": 1}"#);
        for wrong in ["x", "{}", r#"{"body": 1, "body_base64": ""}"#, r#"{"body": 1, "lane": 2}"#] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
