//! A message as a raw request: its body, and the headers that say what else it is.

use std::borrow::Cow;

use axum::{
    body::Bytes,
    http::{HeaderMap, header},
};
use percent_encoding::percent_decode_str;

use super::{
    Recipients,
    due::{self, parse_delay},
};
use crate::{
    domain::{
        Arrival, Body, Due, Message,
        message::{
            HEADERS_BYTES_MAX, HEADERS_MAX, ID_BYTES_MAX, IDEMPOTENCY_KEY_BYTES_MAX, KEY_BYTES_MAX,
            check_text, travels,
        },
    },
    store::server_clock_ms,
    wire::problem::Problem,
};

const DELAY: &str = "Reseq-Delay";
const NOT_BEFORE: &str = "Reseq-Not-Before";
const PRIORITY: &str = "Reseq-Priority";
/// The longest text of these three, in bytes.
const TEXT_BYTES_MAX: usize = 64;

/// The arrival that a raw request makes.
pub(super) fn arrival_of(
    headers: &HeaderMap,
    body: Bytes,
    to: &Recipients,
) -> Result<Arrival, Problem> {
    let id = encoded(headers, "Reseq-Id", ID_BYTES_MAX)?;
    let content_type = match headers.get(header::CONTENT_TYPE) {
        Some(value) => {
            value.to_str().map_err(|_| Problem::invalid_field("Content-Type: not text"))?
        }
        None => "application/octet-stream",
    };
    let idempotency_key = plain(headers, "Idempotency-Key", IDEMPOTENCY_KEY_BYTES_MAX)?;
    let idempotency_key = idempotency_key.map(Cow::into_owned);
    let message = Message {
        id: id.unwrap_or_else(|| to.fresh_id(idempotency_key.as_deref(), &body)),
        key: encoded(headers, "Reseq-Key", KEY_BYTES_MAX)?,
        headers: travelling(headers)?,
        body: Body { content_type: content_type.to_owned(), bytes: body },
        received_ms: server_clock_ms(),
    };
    let (due, priority) = (due_of(headers)?, priority_of(headers)?);
    Ok(Arrival { idempotency_key, due, priority, ..Arrival::of(message) })
}

fn due_of(headers: &HeaderMap) -> Result<Option<Due>, Problem> {
    let delay = plain(headers, DELAY, TEXT_BYTES_MAX)?;
    let not_before = plain(headers, NOT_BEFORE, TEXT_BYTES_MAX)?;
    let due = match (delay, not_before) {
        (None, None) => Ok(None),
        (Some(delay), None) => {
            parse_delay(&delay).and_then(due::after).map_err(|error| format!("{DELAY}: {error}"))
        }
        (None, Some(time)) => {
            due::at(&time, server_clock_ms()).map_err(|error| format!("{NOT_BEFORE}: {error}"))
        }
        (Some(_), Some(_)) => Err(format!("{NOT_BEFORE}: give either it or {DELAY}, not both")),
    };
    due.map_err(Problem::invalid_field)
}

fn priority_of(headers: &HeaderMap) -> Result<Option<u8>, Problem> {
    let Some(text) = plain(headers, PRIORITY, TEXT_BYTES_MAX)? else { return Ok(None) };
    let priority = text.parse().map_err(|_| due::PRIORITY_FORM.to_owned());
    let priority = priority.and_then(due::check_priority);
    priority.map(Some).map_err(|error| Problem::invalid_field(format!("{PRIORITY}: {error}")))
}

/// A header's text, checked.
fn plain<'h>(
    headers: &'h HeaderMap,
    name: &str,
    max: usize,
) -> Result<Option<Cow<'h, str>>, Problem> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let text = std::str::from_utf8(value.as_bytes())
        .map_err(|_| Problem::invalid_field(format!("{name}: not UTF-8")))?;
    check_text(name, text, max).map_err(Problem::invalid_field)?;
    Ok(Some(Cow::Borrowed(text)))
}

/// A header's text, percent-decoded as the sender of deliveries encodes it.
fn encoded(headers: &HeaderMap, name: &str, max: usize) -> Result<Option<String>, Problem> {
    let Some(text) = plain(headers, name, 3 * max)? else { return Ok(None) };
    let decoded = percent_decode_str(&text).decode_utf8().map_err(|_| {
        Problem::invalid_field(format!("{name}: percent-encodes what is not UTF-8"))
    })?;
    check_text(name, &decoded, max).map_err(Problem::invalid_field)?;
    Ok(Some(decoded.into_owned()))
}

fn travelling(headers: &HeaderMap) -> Result<Vec<(String, String)>, Problem> {
    let mut taken = Vec::new();
    let mut bytes = 0;
    for (name, value) in headers.iter().filter(|(name, _)| travels(name.as_str())) {
        // The id of a request is the request's, not the message's.
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
