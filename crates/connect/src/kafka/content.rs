//! Converts records to messages.

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use krafka::consumer::ConsumerRecord;
use serde_json::value::RawValue;

use super::Settings;
use crate::source::Content;

/// Converts a record to a message. The error says why this is not possible. `Ok(None)`: the settings skip the record.
pub fn of_record(settings: &Settings, record: ConsumerRecord) -> Result<Option<Content>, String> {
    if record.value.is_none() && !settings.tombstones {
        return Ok(None);
    }
    let key = record.key.as_ref().filter(|key| !key.is_empty());
    let key = key.map_or_else(|| record.partition.to_string(), key_of);
    let mut content = Content { key: Some(key), ..Content::default() };
    let mut content_type = settings.content_type.as_str();
    for (name, value) in &record.headers {
        // CloudEvents names begin with `ce_` in Kafka, and with `ce-` in HTTP.
        let name = name.to_lowercase();
        let name = name.strip_prefix("ce_").map_or(name.clone(), |rest| format!("ce-{rest}"));
        let is_type = name == "content-type";
        if !is_type && !settings.takes(&name) {
            continue;
        }
        let text = value.as_deref().unwrap_or_default();
        let text = std::str::from_utf8(text).ok().filter(|text| !text.contains(char::is_control));
        let text = text.ok_or_else(|| format!("header {name}: its value is not text"))?;
        match is_type {
            true => content_type = text,
            // If a header is repeated, the last one applies, as in Kafka's clients.
            false => drop(content.headers.insert(name, text.to_owned())),
        }
    }
    match record.value {
        None => {
            content.headers.insert("x-kafka-tombstone".to_owned(), "true".to_owned());
            content.set_bytes("application/octet-stream", b"");
        }
        Some(bytes) => match json_of(content_type, &bytes) {
            Some(json) => content.body = Some(json),
            None => content.set_bytes(content_type, &bytes),
        },
    }
    Ok(Some(content))
}

/// The key unchanged if it is printable text, else in base64.
fn key_of(key: &Bytes) -> String {
    match std::str::from_utf8(key) {
        Ok(text) if !text.contains(char::is_control) => text.to_owned(),
        _ => BASE64_STANDARD.encode(key),
    }
}

/// The bytes as JSON, if that preserves them exactly. It does not preserve line breaks, or space around the value.
fn json_of(content_type: &str, bytes: &Bytes) -> Option<Box<RawValue>> {
    let is_whole =
        content_type == "application/json" && !bytes.iter().any(|byte| b"\r\n".contains(byte));
    let json = is_whole.then(|| serde_json::from_slice::<Box<RawValue>>(bytes).ok())??;
    (json.get().len() == bytes.len()).then_some(json)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(key: Option<&'static [u8]>, value: Option<&'static [u8]>) -> ConsumerRecord {
        let bytes = |bytes: Option<&'static [u8]>| bytes.map(Bytes::from_static);
        ConsumerRecord::new("t", 3, 0, bytes(key), bytes(value))
    }

    fn settings() -> Settings {
        serde_json::from_str(r#"{"topic": "t"}"#).unwrap()
    }

    #[test]
    fn key_and_body_travel_unchanged() {
        let read = |key, value| of_record(&settings(), record(key, value)).unwrap().unwrap();
        for (key, expected) in [
            (None, "3"),
            (Some(&b"acct-7"[..]), "acct-7"),
            (Some(b"\0\0\0\x41"), "AAAAQQ=="),
            (Some(b"\xff"), "/w=="),
        ] {
            assert_eq!(read(key, Some(b"1")).key.as_deref(), Some(expected));
        }
        for (body, is_json) in [
            (&b"{\"a\": 1.0}"[..], true),
            (b" 1", false),
            (b"{\"a\":\n1}", false),
            (b"no", false),
            (b"", false),
        ] {
            let Content { body: json, body_base64, .. } = read(None, Some(body));
            assert_eq!(json.is_some(), is_json);
            assert!(json.is_none_or(|json| json.get().as_bytes() == body));
            assert_eq!(body_base64, (!is_json).then(|| BASE64_STANDARD.encode(body)));
        }
    }

    #[test]
    fn headers_that_are_listed_travel() {
        let mut given = record(None, None);
        let header =
            |name: &str, value: &'static [u8]| (name.into(), Some(Bytes::from_static(value)));
        given.headers =
            vec![header("ce_type", b"t"), header("X-Tenant", b"7"), header("__TypeId__", b"\xff")];
        let content = of_record(&settings(), given.clone()).unwrap().unwrap();
        let names: Vec<&String> = content.headers.keys().collect();
        assert_eq!(names, ["ce-type", "x-kafka-tombstone", "x-tenant"]);
        given.headers.push(header("x-raw", b"\xff"));
        let told = of_record(&settings(), given.clone()).unwrap_err();
        assert_eq!(told, "header x-raw: its value is not text");
        let skips = Settings { tombstones: false, ..settings() };
        assert!(of_record(&skips, given).unwrap().is_none());
    }
}
