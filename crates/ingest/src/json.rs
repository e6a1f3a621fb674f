//! Parses a message in JSON: the body of `POST /v1/messages`, a line of NDJSON, or a frame over TCP
//! (without destinations).
//!
//! ```text
//! {"destinations": ["erp", "crm"] | "topic": "orders",
//!  "body": {…any JSON…}              kept as the very text that was sent, application/json
//!  | "body_base64": "…", "content_type": "…"       (application/octet-stream if not named)
//!  "id": "…", "key": "…", "idempotency_key": "…", "headers": {"x-tenant": "7"},
//!  "delay_ms": 0 | "due_at": "2026-11-21T10:00:00Z", "priority": 4,
//!  "keep_result": false, "attempts_max": 3, "backoff_ms": 200,
//!  "source": {"name": "orders/3", "position": "0012", "after": "0011"}}
//! ```

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{error::Category, value::RawValue};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{
    Draft, Recipients, due,
    headers::{HeaderList, check_headers},
    message_headers::{self, MessageHeaders},
    options,
    source::{self, SourceFields},
};
use domain::{
    Arrival, Body, DestinationName, Due, Message,
    excerpt::excerpt,
    message::{ID_BYTES_MAX, IDEMPOTENCY_KEY_BYTES_MAX, KEY_BYTES_MAX, check_text},
    nearest::for_people,
    topic::DESTINATIONS_MAX,
};
use formats::{
    code::Code,
    json::{even_null, is_deeper},
};

/// The longest content type, in bytes.
pub const CONTENT_TYPE_BYTES_MAX: usize = 256;

/// Limits of a message's body.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The most bytes.
    pub body_bytes_max: usize,
    /// The most levels of nesting, for a body in JSON.
    pub json_depth_max: usize,
}

impl Limits {
    /// The configured limits.
    pub fn of(http: &config::Http) -> Limits {
        let config::Http { body_bytes_max, json_depth_max, .. } = *http;
        Limits { body_bytes_max, json_depth_max }
    }
}

/// Why a text is not a valid message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct ItemError {
    /// The stable code.
    pub code: Code,
    /// What is wrong, and where, as text.
    pub detail: String,
}

/// A message in JSON. Give either `destinations` or a `topic`, and either a `body` or a `body_base64`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a message as an object")]
#[schema(as = NewMessage)]
pub(super) struct Sent<'a> {
    /// The destinations of the message.
    #[schema(min_items = 1, max_items = 100)]
    destinations: Option<Vec<String>>,
    /// The topic to publish to: each of its destinations gets a copy.
    topic: Option<String>,
    /// The body, as JSON.
    #[serde(borrow, default, deserialize_with = "even_null")]
    #[schema(value_type = Option<serde_json::Value>)]
    body: Option<&'a RawValue>,
    /// The body, in base64.
    body_base64: Option<String>,
    /// The content type of `body_base64`.
    content_type: Option<String>,
    /// The id of the message; a new UUID if absent.
    id: Option<String>,
    /// The ordering key.
    key: Option<String>,
    /// The idempotency key. A repeated message with the same key is not stored again.
    idempotency_key: Option<String>,
    /// Headers that travel with the message. Each destination decides which headers it accepts (`forward_headers`).
    #[serde(default)]
    #[schema(value_type = std::collections::BTreeMap<String, String>)]
    headers: HeaderList,
    /// Reseq processes the message only after this time has passed.
    #[schema(maximum = 31_536_000_000_u64)]
    delay_ms: Option<u64>,
    /// Reseq processes the message only after this instant.
    #[schema(format = DateTime)]
    due_at: Option<String>,
    /// The priority: 9 goes first. Only without ordering.
    #[schema(maximum = 9)]
    priority: Option<u64>,
    /// True: keep the output for 60 s, so that the result can be read.
    keep_result: Option<bool>,
    /// The most attempts to process the message; not more than the destination allows.
    #[schema(minimum = 1, maximum = 1_000_000)]
    attempts_max: Option<u64>,
    /// The longest wait after the first failed attempt; not longer than the longest wait of the destination.
    #[schema(minimum = 1, maximum = 86_400_000)]
    backoff_ms: Option<u64>,
    /// The source of the message.
    source: Option<SourceFields>,
}

impl Sent<'_> {
    /// Adds the values of headers. If a header and a field both give a value, the values must be equal.
    fn add(&mut self, said: MessageHeaders, now_ms: u64) -> Result<(), String> {
        if said.delay_ms.is_some() && self.due_at.is_some() {
            return Err(differs("due_at", message_headers::DELAY));
        }
        if said.due_at.is_some() && self.delay_ms.is_some_and(|ms| ms > 0) {
            return Err(differs("delay_ms", message_headers::DUE_AT));
        }
        let time = |text: &Option<String>| text.as_deref().map(|text| due::at(text, now_ms).ok());
        if time(&self.due_at).flatten() == time(&said.due_at).flatten() {
            // One instant can be written in several ways.
            self.due_at = said.due_at.clone().or(self.due_at.take());
        }
        both(&mut self.id, said.id, "id", message_headers::ID)?;
        both(&mut self.key, said.key, "key", message_headers::KEY)?;
        let name = message_headers::IDEMPOTENCY_KEY;
        both(&mut self.idempotency_key, said.idempotency_key, "idempotency_key", name)?;
        both(&mut self.delay_ms, said.delay_ms, "delay_ms", message_headers::DELAY)?;
        both(&mut self.due_at, said.due_at, "due_at", message_headers::DUE_AT)?;
        both(
            &mut self.priority,
            said.priority.map(u64::from),
            "priority",
            message_headers::PRIORITY,
        )?;
        let (kept, attempts) = (message_headers::KEEP_RESULT, message_headers::ATTEMPTS_MAX);
        both(&mut self.keep_result, said.keep_result, "keep_result", kept)?;
        both(&mut self.attempts_max, said.attempts_max, "attempts_max", attempts)?;
        both(&mut self.backoff_ms, said.backoff_ms, "backoff_ms", message_headers::BACKOFF)?;
        both(&mut self.source, said.source, "source", message_headers::SOURCE)
    }
}

/// Sets a field to the value of a header. If both have a value, the values must be equal.
fn both<T: PartialEq>(
    field: &mut Option<T>,
    said: Option<T>,
    name: &str,
    header: &str,
) -> Result<(), String> {
    match (field.as_ref(), said) {
        (_, None) => Ok(()),
        (Some(given), Some(said)) if *given != said => Err(differs(name, header)),
        (_, said) => {
            *field = said;
            Ok(())
        }
    }
}

fn differs(field: &str, header: &str) -> String {
    format!("{field}: the header {header} has a different value; give one of the two")
}

/// Parses one object that arrived at `now_ms`. The limits apply to the body alone; the caller limits the whole object.
/// The parser does not recurse into the body: it counts the depth of the body, and limits it.
pub fn parse_item(bytes: &[u8], now_ms: u64, limits: Limits) -> Result<Draft, ItemError> {
    parse_item_with(MessageHeaders::default(), bytes, now_ms, limits)
}

/// Like `parse_item`, for a request with one object, whose headers may give some of the fields.
pub(super) fn parse_item_with(
    said: MessageHeaders,
    bytes: &[u8],
    now_ms: u64,
    limits: Limits,
) -> Result<Draft, ItemError> {
    let mut sent = parse_object(bytes)?;
    sent.add(said, now_ms).map_err(invalid)?;
    let to = parse_recipients(sent.destinations.take(), sent.topic.take())?;
    let is_id_final = sent.id.is_some() || sent.idempotency_key.is_some() || to.is_one();
    let fresh_id = |key: Option<&str>, body: &[u8]| to.fresh_id(key, body);
    let arrival = arrival_of(sent, fresh_id, now_ms, limits)?;
    Ok(Draft { to, arrival, request: None, is_id_final })
}

/// Parses an object from a listener with a fixed destination. The object must not name a destination.
pub fn parse_message(bytes: &[u8], now_ms: u64, limits: Limits) -> Result<Arrival, ItemError> {
    let sent = parse_object(bytes)?;
    for (field, is_there) in
        [("destinations", sent.destinations.is_some()), ("topic", sent.topic.is_some())]
    {
        if is_there {
            let problem = "this listener feeds one destination; leave it out";
            return Err(invalid(format!("{field}: {problem}")));
        }
    }
    arrival_of(sent, |_, _| Uuid::now_v7().to_string(), now_ms, limits)
}

/// Makes the arrival of an object. `fresh_id` creates an id from idempotency key and body, for a message without an id.
fn arrival_of(
    sent: Sent<'_>,
    fresh_id: impl FnOnce(Option<&str>, &[u8]) -> String,
    now_ms: u64,
    limits: Limits,
) -> Result<Arrival, ItemError> {
    let due = parse_due(sent.delay_ms, sent.due_at, now_ms).map_err(invalid)?;
    let priority = sent.priority.map(due::check_priority).transpose();
    let priority = priority.map_err(|error| invalid(format!("priority: {error}")))?;
    let asked = (sent.keep_result, sent.attempts_max, sent.backoff_ms);
    let options = options::check(asked, ["attempts_max", "backoff_ms"]).map_err(invalid)?;
    check_optional("id", &sent.id, ID_BYTES_MAX)?;
    check_optional("key", &sent.key, KEY_BYTES_MAX)?;
    check_optional("idempotency_key", &sent.idempotency_key, IDEMPOTENCY_KEY_BYTES_MAX)?;
    let source = sent.source.map(source::check).transpose();
    let source = source.map_err(|error| invalid(format!("source{error}")))?.map(Box::new);
    let body = match &source {
        Some(source) if source.skip => {
            source::no_body(sent.body.is_some() || sent.body_base64.is_some())?
        }
        _ => parse_body(sent.body, sent.body_base64, sent.content_type, limits)?,
    };
    let headers = check_headers(sent.headers).map_err(invalid)?;
    let idempotency_key = sent.idempotency_key;
    let id = sent.id.unwrap_or_else(|| fresh_id(idempotency_key.as_deref(), &body.bytes));
    let message = Message { id, key: sent.key, headers, body, received_ms: now_ms };
    Ok(Arrival { idempotency_key, due, priority, options, source, ..Arrival::of(message) })
}

fn parse_object(bytes: &[u8]) -> Result<Sent<'_>, ItemError> {
    // Serde would also accept an array with the values of the fields, by position.
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        return Err(invalid("a message is an object, not an array"));
    }
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let sent = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        json_error((path != ".").then_some(&path), error.inner())
    })?;
    deserializer.end().map_err(|error| json_error(None, &error))?;
    Ok(sent)
}

fn json_error(path: Option<&String>, error: &serde_json::Error) -> ItemError {
    // The error may quote any length of the input.
    let text = excerpt(for_people(&error.to_string()).as_bytes());
    match (error.classify(), path) {
        (Category::Data, Some(path)) => invalid(format!("{}: {text}", excerpt(path.as_bytes()))),
        (Category::Data, None) => invalid(text),
        (Category::Syntax | Category::Eof | Category::Io, _) => {
            ItemError { code: Code::InvalidJson, detail: text }
        }
    }
}

fn parse_recipients(
    destinations: Option<Vec<String>>,
    topic: Option<String>,
) -> Result<Recipients, ItemError> {
    match (destinations, topic) {
        (Some(_), Some(_)) => Err(invalid("topic: give either it or destinations, not both")),
        (None, Some(name)) => name.parse().map(Recipients::Topic).map_err(|error| ItemError {
            code: Code::UnknownTopic,
            detail: format!("there is no topic \"{}\": {error}", excerpt(name.as_bytes())),
        }),
        (names, None) => {
            let names = parse_destinations(&names.unwrap_or_default())?;
            Ok(Recipients::Destinations(names.into()))
        }
    }
}

fn parse_due(
    delay_ms: Option<u64>,
    due_at: Option<String>,
    now_ms: u64,
) -> Result<Option<Due>, String> {
    match (delay_ms.filter(|&ms| ms > 0), due_at) {
        (None, None) => Ok(None),
        (Some(ms), None) => due::after(ms).map_err(|error| format!("delay_ms: {error}")),
        (None, Some(time)) => due::at(&time, now_ms).map_err(|error| format!("due_at: {error}")),
        (Some(_), Some(_)) => Err("due_at: give either it or delay_ms, not both".to_owned()),
    }
}

fn parse_destinations(names: &[String]) -> Result<Vec<DestinationName>, ItemError> {
    if names.is_empty() || names.len() > DESTINATIONS_MAX {
        return Err(invalid(format!(
            "destinations: name 1 to {DESTINATIONS_MAX} of them, or a topic"
        )));
    }
    let mut destinations: Vec<DestinationName> = Vec::with_capacity(names.len());
    for name in names {
        let shown = excerpt(name.as_bytes());
        let name = name.parse().map_err(|error| ItemError {
            code: Code::UnknownDestination,
            detail: format!("there is no destination \"{shown}\": {error}"),
        })?;
        if destinations.contains(&name) {
            return Err(invalid(format!("destinations: \"{shown}\" is named twice")));
        }
        destinations.push(name);
    }
    Ok(destinations)
}

fn parse_body(
    json: Option<&RawValue>,
    base64: Option<String>,
    content_type: Option<String>,
    Limits { body_bytes_max: bytes_max, json_depth_max }: Limits,
) -> Result<Body, ItemError> {
    match (json, base64) {
        (Some(json), None) => {
            if content_type.is_some() {
                let problem = "content_type: only with body_base64; body is application/json";
                return Err(invalid(problem));
            }
            check_length(json.get().len(), bytes_max)?;
            if is_deeper(json.get().as_bytes(), json_depth_max) {
                return Err(invalid(format!(
                    "body: nests deeper than {json_depth_max} levels (http.json_depth_max); to send it \
                     anyway, give body_base64 with content_type application/json"
                )));
            }
            let bytes = Bytes::copy_from_slice(json.get().as_bytes());
            Ok(Body { content_type: "application/json".to_owned(), bytes })
        }
        (None, Some(base64)) => {
            // Base64 has four characters for three bytes, without padding. This checks the length before it decodes.
            check_length(base64.trim_end_matches('=').len() / 4 * 3, bytes_max)?;
            let decoded = STANDARD.decode(base64);
            let bytes = decoded.map_err(|error| invalid(format!("body_base64: {error}")))?;
            check_length(bytes.len(), bytes_max)?;
            let content_type = content_type.unwrap_or("application/octet-stream".to_owned());
            check_content_type(&content_type)?;
            Ok(Body { content_type, bytes: bytes.into() })
        }
        (Some(_), Some(_)) => Err(invalid("body_base64: give either it or body, not both")),
        (None, None) => Err(invalid("body: missing; give it or body_base64")),
    }
}

fn check_length(bytes: usize, bytes_max: usize) -> Result<(), ItemError> {
    if bytes <= bytes_max {
        return Ok(());
    }
    let detail = format!("the body is longer than {bytes_max} bytes");
    Err(ItemError { code: Code::BodyTooLarge, detail })
}

fn check_content_type(text: &str) -> Result<(), ItemError> {
    check_text("content_type", text, CONTENT_TYPE_BYTES_MAX).map_err(invalid)?;
    if !text.is_ascii() || !text.contains('/') {
        return Err(invalid("content_type: not a media type; write e.g. text/plain"));
    }
    Ok(())
}

fn check_optional(field: &str, text: &Option<String>, max: usize) -> Result<(), ItemError> {
    text.as_deref().map_or(Ok(()), |text| check_text(field, text, max)).map_err(invalid)
}

fn invalid(detail: impl Into<String>) -> ItemError {
    ItemError { code: Code::InvalidField, detail: detail.into() }
}

#[cfg(test)]
mod tests;
