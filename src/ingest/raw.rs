//! A message as a raw request: its body, and headers for the other fields.

use axum::{
    body::Bytes,
    http::{HeaderMap, header},
};

use super::{
    Recipients, due,
    message_headers::{DELAY, MessageHeaders, NOT_BEFORE},
};
use crate::{
    domain::{
        Arrival, Body, Due, Message,
        message::{HEADERS_BYTES_MAX, HEADERS_MAX, travels},
    },
    store::server_clock_ms,
    wire::problem::Problem,
};

/// The arrival for a raw request.
pub(super) fn arrival_of(
    headers: &HeaderMap,
    body: Bytes,
    to: &Recipients,
) -> Result<Arrival, Problem> {
    let said = MessageHeaders::read(headers).map_err(Problem::invalid_field)?;
    let content_type = match headers.get(header::CONTENT_TYPE) {
        Some(value) => {
            value.to_str().map_err(|_| Problem::invalid_field("Content-Type: not text"))?
        }
        None => "application/octet-stream",
    };
    let due = due_of(&said).map_err(Problem::invalid_field)?;
    let MessageHeaders { id, key, idempotency_key, priority, .. } = said;
    let message = Message {
        id: id.unwrap_or_else(|| to.fresh_id(idempotency_key.as_deref(), &body)),
        key,
        headers: travelling(headers)?,
        body: Body { content_type: content_type.to_owned(), bytes: body },
        received_ms: server_clock_ms(),
    };
    Ok(Arrival { idempotency_key, due, priority, ..Arrival::of(message) })
}

fn due_of(said: &MessageHeaders) -> Result<Option<Due>, String> {
    match (said.delay_ms, &said.not_before) {
        (Some(ms), _) => due::after(ms).map_err(|error| format!("{DELAY}: {error}")),
        (None, Some(time)) => {
            due::at(time, server_clock_ms()).map_err(|error| format!("{NOT_BEFORE}: {error}"))
        }
        (None, None) => Ok(None),
    }
}

fn travelling(headers: &HeaderMap) -> Result<Vec<(String, String)>, Problem> {
    let mut taken = Vec::new();
    let mut bytes = 0;
    for (name, value) in headers.iter().filter(|(name, _)| travels(name.as_str())) {
        // The request id belongs to the request, not to the message.
        if name == crate::wire::REQUEST_ID {
            continue;
        }
        let value = value
            .to_str()
            .map_err(|_| Problem::invalid_field(format!("{name}: its value is not ASCII text")))?;
        bytes += name.as_str().len() + value.len();
        taken.push((name.as_str().to_owned(), value.to_owned()));
    }
    if taken.len() > HEADERS_MAX || bytes > HEADERS_BYTES_MAX {
        return Err(Problem::invalid_field(format!(
            "at most {HEADERS_MAX} headers, of {HEADERS_BYTES_MAX} bytes together, travel with a message"
        )));
    }
    Ok(taken)
}
