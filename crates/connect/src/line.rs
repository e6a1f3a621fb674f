//! One line of a batch for `POST /v1/messages`.

use std::collections::BTreeMap;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::source::{Content, Payload};

/// A message on its way to one destination.
#[derive(Debug)]
pub struct Line {
    /// The index of its destination.
    pub destination: usize,
    pub position: String,
    /// `None`: only the mark moves.
    pub content: Option<Content>,
}

#[derive(Serialize)]
struct Wire<'a> {
    destinations: [&'a str; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    headers: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'a str>,
    source: WireSource<'a>,
}

#[derive(Serialize)]
struct WireSource<'a> {
    name: &'a str,
    position: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<&'a str>,
    skip: bool,
}

impl Line {
    /// A line that only moves the mark.
    pub fn skip(destination: usize, position: &str) -> Line {
        Line { destination, position: position.to_owned(), content: None }
    }

    /// Appends it to a batch.
    pub fn write(
        &self,
        batch: &mut Vec<u8>,
        destination: &str,
        source: &str,
        after: Option<&str>,
    ) -> serde_json::Result<()> {
        let (none, content) = (BTreeMap::new(), self.content.as_ref());
        let (body, body_base64, content_type) = match content.map(|content| &content.payload) {
            None => (None, None, None),
            Some(Payload::Json(json)) => (Some(&**json), None, None),
            Some(Payload::Bytes { content_type, bytes }) => {
                (None, Some(BASE64_STANDARD.encode(bytes)), Some(content_type.as_str()))
            }
        };
        let wire = Wire {
            destinations: [destination],
            key: content.and_then(|content| content.key.as_deref()),
            id: content.and_then(|content| content.id.as_deref()),
            headers: content.map_or(&none, |content| &content.headers),
            body,
            body_base64,
            content_type,
            source: WireSource {
                name: source,
                position: &self.position,
                after,
                skip: content.is_none(),
            },
        };
        serde_json::to_writer(&mut *batch, &wire)?;
        batch.push(b'\n');
        Ok(())
    }
}
