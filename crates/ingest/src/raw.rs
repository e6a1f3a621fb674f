//! Reads a message from a raw request: the body, and headers for the other fields.

use axum::{
    body::Bytes,
    http::{HeaderMap, header},
};

use super::{
    Draft, Recipients, due,
    message_headers::{DELAY, DUE_AT, MessageHeaders, SOURCE},
    source,
};
use domain::{Arrival, Body, Due, Message};
use http_server::problem::Problem;
use store::server_clock_ms;

/// The message of a raw request.
pub(super) fn draft_of(headers: HeaderMap, body: Bytes, to: Recipients) -> Result<Draft, Problem> {
    let now_ms = server_clock_ms();
    let said = MessageHeaders::read(&headers, now_ms).map_err(Problem::invalid_header)?;
    let content_type = match headers.get(header::CONTENT_TYPE) {
        Some(value) => {
            value.to_str().map_err(|_| Problem::invalid_header("Content-Type: not text"))?
        }
        None => "application/octet-stream",
    };
    let due = due_of(&said, now_ms).map_err(Problem::invalid_header)?;
    let options = said.options().map_err(Problem::invalid_header)?;
    // Names all fields, so that a new header does not compile until it is used here.
    let MessageHeaders {
        id,
        key,
        idempotency_key,
        priority,
        source,
        delay_ms: _,
        due_at: _,
        keep_result: _,
        attempts_max: _,
        backoff_ms: _,
    } = said;
    let source = source.map(source::check).transpose();
    let source =
        source.map_err(|error| Problem::invalid_header(format!("{SOURCE}: {}", &error[1..])))?;
    let is_id_final = id.is_some() || idempotency_key.is_some() || to.is_one();
    let message = Message {
        id: id.unwrap_or_else(|| to.fresh_id(idempotency_key.as_deref(), &body)),
        key,
        // The destination decides which headers travel.
        headers: Vec::new(),
        body: Body { content_type: content_type.to_owned(), bytes: body },
        received_ms: now_ms,
    };
    let source = source.map(Box::new);
    let arrival =
        Arrival { idempotency_key, due, priority, options, source, ..Arrival::of(message) };
    Ok(Draft { to, arrival, request: Some(headers), is_id_final })
}

fn due_of(said: &MessageHeaders, now_ms: u64) -> Result<Option<Due>, String> {
    match (said.delay_ms, &said.due_at) {
        (Some(ms), _) => due::after(ms).map_err(|error| format!("{DELAY}: {error}")),
        (None, Some(time)) => due::at(time, now_ms).map_err(|error| format!("{DUE_AT}: {error}")),
        (None, None) => Ok(None),
    }
}
