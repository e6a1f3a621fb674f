//! The functions that the fuzz targets call (`crates/testing/src/fuzzing/`).

use axum::{
    body::Bytes,
    http::{HeaderMap, HeaderName, HeaderValue},
};

use super::{
    Draft, Recipients,
    http::lines_of,
    json::{ItemError, Limits, parse_item, parse_item_with, parse_message},
    message_headers::MessageHeaders,
    raw,
};
use domain::{
    Arrival, Destination,
    destination::is_reserved,
    message::{
        HEADERS_BYTES_MAX, HEADERS_MAX, ID_BYTES_MAX, IDEMPOTENCY_KEY_BYTES_MAX, KEY_BYTES_MAX,
        check_text, is_token,
    },
};
use formats::json::is_deeper;
use http_server::problem::Problem;

const NOW_MS: u64 = 1_764_000_000_000;
const LIMITS: Limits = Limits { body_bytes_max: 256, json_depth_max: 8 };

/// Parses a message in JSON: the first byte decides whether it is the body of a request, a frame over TCP, or a batch.
pub fn messages(input: &[u8]) {
    let Some((kind, text)) = input.split_first() else { return };
    match kind % 3 {
        0 => item(text),
        1 => match parse_message(text, NOW_MS, LIMITS) {
            Ok(arrival) => check_arrival(&arrival),
            Err(error) => check_error(&error),
        },
        _ => match lines_of(text) {
            Ok(lines) => lines.into_iter().for_each(item),
            Err(problem) => check_problem(&problem),
        },
    }
}

fn item(text: &[u8]) {
    match parse_item(text, NOW_MS, LIMITS) {
        Ok(draft) => check(&draft),
        Err(error) => check_error(&error),
    }
}

/// Parses lines `name:value`, an empty line, and a body: as a raw request, and as a request with a message in JSON.
pub fn headers(input: &[u8]) {
    let end = input.windows(2).position(|two| two == b"\n\n");
    let (head, body) = input.split_at(end.unwrap_or(input.len()));
    let body = Bytes::copy_from_slice(body.get(2..).unwrap_or_default());
    let mut headers = HeaderMap::new();
    for line in head.split(|byte| *byte == b'\n').take(100) {
        let at = line.iter().skip(1).position(|byte| *byte == b':').map_or(line.len(), |at| at + 1);
        let (name, value) = line.split_at(at);
        let value = HeaderValue::from_bytes(value.get(1..).unwrap_or_default());
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), value) {
            headers.append(name, value);
        }
    }
    if MessageHeaders::nothing(&headers).is_ok() {
        let said = MessageHeaders::read(&headers, NOW_MS).unwrap();
        assert!(said.id.is_none() && said.key.is_none() && said.priority.is_none());
    }
    if let Ok(said) = MessageHeaders::read(&headers, NOW_MS) {
        match parse_item_with(said, &body, NOW_MS, LIMITS) {
            Ok(draft) => check(&draft),
            Err(error) => check_error(&error),
        }
    }
    let one = Recipients::Destinations(["erp".parse().unwrap()].into());
    let topic = Recipients::Topic("orders".parse().unwrap());
    for to in [one, topic] {
        match raw::draft_of(headers.clone(), body.clone(), to) {
            Ok(draft) => check(&draft),
            Err(problem) => check_problem(&problem),
        }
    }
}

/// Checks that an accepted message keeps all limits, for every destination.
fn check(draft: &Draft) {
    check_arrival(&draft.arrival);
    let destination = Destination::new("erp".parse().unwrap(), "http://erp.example/");
    if let Ok(copy) = draft.copy_for(&destination) {
        check_arrival(&copy);
        for (name, _) in &copy.message.headers {
            assert!(destination.forwards(name) && !is_reserved(name), "{name}");
        }
    }
    let body = &draft.arrival.message.body;
    if draft.request.is_none() {
        assert!(body.bytes.len() <= LIMITS.body_bytes_max);
        if body.content_type == "application/json" && !is_deeper(&body.bytes, LIMITS.json_depth_max)
        {
            // A body in base64 may contain anything.
            let _ = serde_json::from_slice::<serde_json::Value>(&body.bytes);
        }
    }
}

fn check_arrival(arrival: &Arrival) {
    let message = &arrival.message;
    check_text("id", &message.id, ID_BYTES_MAX).unwrap();
    let key = message.key.as_deref().map_or(Ok(()), |key| check_text("key", key, KEY_BYTES_MAX));
    key.unwrap();
    if let Some(key) = &arrival.idempotency_key {
        check_text("idempotency_key", key, IDEMPOTENCY_KEY_BYTES_MAX).unwrap();
    }
    assert!(arrival.priority.is_none_or(|priority| priority <= 9));
    assert!(message.headers.len() <= HEADERS_MAX);
    let bytes = message.headers.iter().map(|(name, value)| name.len() + value.len());
    assert!(bytes.sum::<usize>() <= HEADERS_BYTES_MAX);
    for (name, value) in &message.headers {
        assert!(!name.is_empty() && name.bytes().all(is_token), "{name:?}");
        assert!(!value.contains(['\r', '\n', '\0']), "{name}: {value:?}");
    }
}

/// Checks that an error is short, and fits on one line.
fn check_error(error: &ItemError) {
    assert!(error.detail.len() < 4_000 && !error.detail.contains(['\r', '\n', '\0']), "{error:?}");
}

fn check_problem(problem: &Problem) {
    assert!(problem.detail.len() < 4_000, "{problem:?}");
    assert!(!problem.json(None).to_string().contains(['\r', '\n', '\0']));
}
