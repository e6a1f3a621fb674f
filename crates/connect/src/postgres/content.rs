//! Rows and texts of `pg_logical_emit_message` as messages.

use std::collections::BTreeMap;

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{pgoutput::Relation, settings::Columns};
use crate::source::{Content, Payload};

/// The numbers of the types `bytea`, `json` and `jsonb`.
const BYTEA: u32 = 17;
const JSON: [u32; 2] = [114, 3802];

/// The object in a text of `pg_logical_emit_message`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Emitted {
    destination: Option<String>,
    key: Option<String>,
    id: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Option<Box<RawValue>>,
    body_base64: Option<String>,
    content_type: Option<String>,
}

/// A text of `pg_logical_emit_message` as a message.
pub fn of_emitted(content: &[u8]) -> Result<Content, String> {
    let read: Emitted = serde_json::from_slice(content)
        .map_err(|error| format!("the text is not the object that it must be: {error}"))?;
    let Emitted { destination, key, id, headers, body, body_base64, content_type } = read;
    let payload = match (body, body_base64) {
        (Some(body), None) => Payload::Json(on_one_line(body)),
        (None, Some(text)) => {
            let bytes = BASE64_STANDARD.decode(text).map_err(|_| "body_base64: is not base64")?;
            Payload::Bytes {
                content_type: content_type.unwrap_or_else(|| OCTETS.to_owned()),
                bytes: bytes.into(),
            }
        }
        _ => return Err("the text has not one of body and body_base64".to_owned()),
    };
    Ok(Content { destination, key, id, headers, payload })
}

const OCTETS: &str = "application/octet-stream";

/// A row of the table as a message.
pub fn of_row(
    columns: &Columns,
    content_type: Option<&str>,
    relation: &Relation,
    row: &[Option<Bytes>],
) -> Result<Content, String> {
    let find = |name: &str| {
        let index = relation.columns.iter().position(|(column, _)| column == name);
        let index = index.ok_or_else(|| format!("there is no column {name:?}"))?;
        let value = row.get(index).and_then(Option::as_ref);
        Ok::<_, String>(value.map(|value| (relation.columns[index].1, value)))
    };
    let text = |name: Option<&String>| {
        let Some((name, Some((_, value)))) =
            name.map(|name| find(name).map(|found| (name, found))).transpose()?
        else {
            return Ok(None);
        };
        let text = std::str::from_utf8(value);
        text.map(|text| Some(text.to_owned())).map_err(|_| format!("column {name}: is not text"))
    };
    let headers = match text(columns.headers.as_ref())? {
        None => BTreeMap::new(),
        Some(text) => serde_json::from_str(&text)
            .map_err(|error| format!("column of headers: must be an object of texts: {error}"))?,
    };
    let body = &columns.body;
    let Some((kind, value)) = find(body)? else { return Err(format!("column {body}: is null")) };
    let payload = match kind {
        kind if JSON.contains(&kind) => {
            let json = serde_json::from_slice(value);
            let json = json.map_err(|error| format!("column {body}: is not JSON: {error}"))?;
            Payload::Json(on_one_line(json))
        }
        BYTEA => Payload::Bytes {
            content_type: content_type.unwrap_or(OCTETS).to_owned(),
            bytes: of_hex(value).ok_or_else(|| format!("column {body}: is not hexadecimal"))?,
        },
        _ => Payload::Bytes {
            content_type: content_type.unwrap_or("text/plain; charset=utf-8").to_owned(),
            bytes: value.clone(),
        },
    };
    Ok(Content {
        destination: text(columns.destination.as_ref())?,
        key: text(columns.key.as_ref())?,
        id: text(columns.id.as_ref())?,
        headers,
        payload,
    })
}

/// The same JSON on one line: inside its strings there are no line breaks.
fn on_one_line(json: Box<RawValue>) -> Box<RawValue> {
    if !json.get().contains(['\n', '\r']) {
        return json;
    }
    let text = json.get().replace(['\n', '\r'], " ");
    RawValue::from_string(text).unwrap_or(json)
}

/// The bytes of a `bytea`, which Postgres writes as `\x` and hexadecimal digits.
fn of_hex(text: &[u8]) -> Option<Bytes> {
    let digits = text.strip_prefix(b"\\x")?;
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    (digits.len() % 2 == 0)
        .then(|| digits.chunks(2).map(pair).collect::<Option<Vec<_>>>())?
        .map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Columns {
        let name = |name: &str| Some(name.to_owned());
        let (key, headers, body) = (name("k"), name("h"), "b".to_owned());
        Columns { key, headers, body, destination: None, id: None }
    }

    fn read(kind: u32, body: &'static str, headers: &'static str) -> Result<Content, String> {
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
        let Payload::Json(json) = read(114, "{\"a\":\n \"x\\ny\"}", "{}").unwrap().payload else {
            panic!("json is JSON")
        };
        assert_eq!(json.get(), r#"{"a":  "x\ny"}"#);
        let bytes = |kind, text| match read(kind, text, "{}").unwrap().payload {
            Payload::Bytes { content_type, bytes } => (content_type, bytes),
            Payload::Json(json) => panic!("{json}"),
        };
        assert_eq!(bytes(17, "\\x00ff"), (OCTETS.to_owned(), Bytes::from_static(b"\x00\xff")));
        assert_eq!(bytes(25, "{}").1, "{}");
        assert!(bytes(25, "{}").0.starts_with("text/plain"));
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
            let told = read(kind, body, headers).unwrap_err();
            assert!(told.starts_with(problem), "{told}");
        }
    }

    #[test]
    fn emitted_text_is_an_object_with_one_body() {
        let read = |text: &str| of_emitted(text.as_bytes());
        let content = read(r#"{"key": "a", "destination": "erp", "body": {"n": 1}}"#).unwrap();
        assert_eq!(
            (content.key.as_deref(), content.destination.as_deref()),
            (Some("a"), Some("erp"))
        );
        assert!(matches!(content.payload, Payload::Json(json) if json.get() == r#"{"n": 1}"#));
        for wrong in ["x", "{}", r#"{"body": 1, "body_base64": ""}"#, r#"{"body": 1, "lane": 2}"#] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
