//! Messages as JSON: several in one body, or one per frame.
//!
//! ```text
//! {"id": "…", "sequence": 42, "previous": 41, "epoch": 3, "key": null, "attempt": 1,
//!  "headers": {"x-tenant": "7"}, "content_type": "application/json",
//!  "body": {"any": "JSON"}}         or "body_base64": "…", if some JSON parsers would refuse the body
//! ```

use std::{borrow::Borrow, collections::BTreeMap};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use super::json::{joined_headers, json_body};
use domain::{BatchFormat, Body, Epoch, Origin, Sequence, Stamped};

/// A message as JSON.
#[derive(Serialize)]
struct Envelope<'a> {
    id: &'a str,
    sequence: Sequence,
    #[serde(skip_serializing_if = "Option::is_none")]
    previous: Option<Sequence>,
    epoch: Epoch,
    key: Option<&'a str>,
    attempt: u32,
    headers: BTreeMap<String, String>,
    content_type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
}

/// The content type and the body of a batch.
///
/// `depth_max` is the deepest nesting allowed for the whole JSON.
pub fn batch(
    messages: &[impl Borrow<Stamped>],
    format: BatchFormat,
    depth_max: usize,
) -> (&'static str, Bytes) {
    let (content_type, begin, between, end) = match format {
        BatchFormat::Json => ("application/json", "[", ",", "]"),
        BatchFormat::Ndjson => ("application/x-ndjson", "", "", ""),
    };
    let mut body = Vec::from(begin);
    for (at, message) in messages.iter().enumerate() {
        if at > 0 {
            body.extend_from_slice(between.as_bytes());
        }
        write(message.borrow(), format, depth_max, &mut body);
        if format == BatchFormat::Ndjson {
            body.push(b'\n');
        }
    }
    body.extend_from_slice(end.as_bytes());
    (content_type, body.into())
}

/// One message as one line, without a line break at its end.
pub fn frame(message: &Stamped, depth_max: usize) -> Bytes {
    let mut line = Vec::with_capacity(message.message.body.bytes.len() + 256);
    write(message, BatchFormat::Ndjson, depth_max, &mut line);
    line.into()
}

fn write(message: &Stamped, format: BatchFormat, depth_max: usize, out: &mut Vec<u8>) {
    // Fails only for maps whose keys are not strings. An envelope has no such map.
    let _ = serde_json::to_writer(out, &envelope(message, format, depth_max));
}

/// The position of the original of a redriven or replayed message.
pub fn origin_text(origin: &Origin) -> String {
    format!(
        "{}/{}/{}",
        origin.destination.as_str(),
        origin.position.epoch,
        origin.position.sequence
    )
}

fn envelope(message: &Stamped, format: BatchFormat, depth_max: usize) -> Envelope<'_> {
    let Body { content_type, bytes } = &message.message.body;
    let json = json_of(content_type, bytes, format, depth_max);
    Envelope {
        id: &message.message.id,
        sequence: message.position.sequence,
        previous: message.previous,
        epoch: message.position.epoch,
        key: message.message.key.as_deref(),
        attempt: message.attempts.failed + 1,
        headers: joined_headers(&message.message.headers),
        content_type,
        origin: message.origin.as_ref().map(origin_text),
        body_base64: json.is_none().then(|| STANDARD.encode(bytes)),
        body: json,
    }
}

/// The body as JSON, on one line if the format requires it.
fn json_of(
    content_type: &str,
    bytes: &Bytes,
    format: BatchFormat,
    depth_max: usize,
) -> Option<Box<RawValue>> {
    let json = json_body(content_type, bytes, depth_max)?;
    if format == BatchFormat::Ndjson && json.get().contains(['\n', '\r']) {
        // In JSON, line breaks occur only between values, where a space is equivalent.
        return RawValue::from_string(json.get().replace(['\n', '\r'], " ")).ok();
    }
    Some(json)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use domain::{Message, Position};

    fn message(content_type: &str, body: &'static str) -> Stamped {
        let body = Body { content_type: content_type.into(), bytes: body.into() };
        let headers = [("x-a", "1"), ("x-a", "2")].map(|(n, v)| (n.to_owned(), v.to_owned()));
        let message = Message {
            id: "order-7".into(),
            key: Some("kontō".into()),
            headers: headers.into(),
            body,
            received_ms: 0,
        };
        Stamped::new("erp".parse().unwrap(), Position { epoch: 3, sequence: 42 }, 41, message)
    }

    #[test]
    fn an_array_holds_an_envelope_each() {
        let mut second = message("text/plain", "two");
        second.message.key = None;
        second.message.headers.clear();
        second.attempts.failed = 2;
        let position = Position { epoch: 1, sequence: 7 };
        second.origin = Some(Origin { destination: "old".parse().unwrap(), position });
        let first = message("application/json; charset=utf-8", "{\"a\":\n1.0}");
        let (content_type, body) = batch(&[first, second], BatchFormat::Json, 128);
        assert_eq!(content_type, "application/json");
        assert!(std::str::from_utf8(&body).unwrap().contains("{\"a\":\n1.0}"), "the very text");
        let shown: Value = serde_json::from_slice(&body).unwrap();
        let expected = json!([
            {"id": "order-7", "sequence": 42, "previous": 41, "epoch": 3, "key": "kontō",
             "attempt": 1, "headers": {"x-a": "1, 2"},
             "content_type": "application/json; charset=utf-8", "body": {"a": 1.0}},
            {"id": "order-7", "sequence": 42, "previous": 41, "epoch": 3, "key": null,
             "attempt": 3, "headers": {}, "content_type": "text/plain", "origin": "old/1/7",
             "body_base64": "dHdv"},
        ]);
        assert_eq!(shown, expected);
    }

    #[test]
    fn each_line_of_ndjson_is_one_envelope() {
        let messages =
            [message("application/json", "{\"a\":\r\n1}"), message("application/x+json", "{")];
        let (content_type, body) = batch(&messages, BatchFormat::Ndjson, 128);
        assert_eq!(content_type, "application/x-ndjson");
        let text = String::from_utf8(body.into()).unwrap();
        assert!(text.ends_with('\n'));
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(
            (&lines[0]["body"], &lines[1]["body_base64"]),
            (&json!({"a": 1}), &json!("ew=="))
        );
    }

    #[test]
    fn a_body_that_parsers_refuse_does_not_break_the_batch() {
        let deep: &'static str = format!("{}{}", "[".repeat(500), "]".repeat(500)).leak();
        let bodies = ["[1]", deep, "[1e999]", r#"["\ud800"]"#];
        let messages = bodies.map(|body| message("application/json", body));
        for format in [BatchFormat::Json, BatchFormat::Ndjson] {
            let (_, body) = batch(&messages, format, 128);
            let text = String::from_utf8(body.into()).unwrap();
            let array = match format {
                BatchFormat::Json => text,
                BatchFormat::Ndjson => format!("[{}]", text.trim_end().replace('\n', ",")),
            };
            let shown: Vec<Value> = serde_json::from_str(&array).expect("all parsers can read it");
            assert_eq!(shown[0]["body"], json!([1]));
            for (shown, body) in shown.iter().zip(bodies).skip(1) {
                assert_eq!(shown["body_base64"], json!(STANDARD.encode(body)), "{body}");
            }
        }
    }

    #[test]
    fn a_frame_is_one_envelope_in_one_line() {
        let line = frame(&message("application/json", "{\"a\":\r\n1}"), 128);
        assert!(!line.contains(&b'\n'));
        let shown: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!((&shown["body"], &shown["sequence"]), (&json!({"a": 1}), &json!(42)));
    }
}
