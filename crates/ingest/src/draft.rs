//! A message as its producer sent it, and the copy of it for one destination.

use axum::http::HeaderMap;

use super::{
    Refusal,
    headers::{check_named, travelling},
    json::ItemError,
};
use domain::excerpt::excerpt;
use domain::{Arrival, Destination, Message, trace::TRACEPARENT};
use formats::code::Code;
use jq::{DECODED, can_decode};

/// A message before the definition of a destination is applied to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// The message. It has the headers that a JSON message names; those of a raw request are apart.
    pub arrival: Arrival,
    /// The headers of a raw request.
    pub request: Option<HeaderMap>,
    /// False if an idempotency key that a destination finds in the message decides the id, so that
    /// a retry of all copies gives the same.
    pub is_id_final: bool,
}

/// The copy of a message for one destination, before its keys are looked for.
#[derive(Debug)]
pub(super) struct Prepared<'a> {
    pub(super) copy: Result<Arrival, Refusal>,
    /// The headers of a raw request.
    pub(super) request: Option<&'a HeaderMap>,
    /// See [`Draft`].
    pub(super) is_id_final: bool,
}

impl Draft {
    /// A message that is a JSON object or a frame.
    pub(super) fn of(arrival: Arrival) -> Draft {
        Draft { arrival, request: None, is_id_final: true }
    }

    /// The copy for this destination, with the headers that travel there.
    pub(super) fn copy_for(&self, destination: &Destination) -> Result<Arrival, Refusal> {
        let headers = self.travelling_to(destination)?;
        let mut copy = self.arrival.clone();
        copy.message.headers = headers.unwrap_or(copy.message.headers);
        telemetry::begin_trace(&mut copy, destination.forwards(TRACEPARENT));
        Ok(copy)
    }

    /// The only copy.
    pub(super) fn into_copy(self, destination: &Destination) -> Result<Arrival, Refusal> {
        let headers = self.travelling_to(destination)?;
        let mut copy = self.arrival;
        copy.message.headers = headers.unwrap_or(copy.message.headers);
        telemetry::begin_trace(&mut copy, destination.forwards(TRACEPARENT));
        Ok(copy)
    }

    /// The headers of a raw request that travel. `None` for other messages: all of theirs must.
    fn travelling_to(
        &self,
        destination: &Destination,
    ) -> Result<Option<Vec<(String, String)>>, Refusal> {
        let headers = self.headers_to(destination)?;
        let encoding = Message::encoding(headers.as_ref().unwrap_or(&self.arrival.message.headers));
        match encoding.filter(|named| destination.reads_bodies() && !can_decode(named)) {
            None => Ok(headers),
            Some(named) => Err(Refusal::Invalid(ItemError {
                code: Code::UnsupportedMediaType,
                detail: format!(
                    "content-encoding: {}: an expression of {} reads the body, and only {DECODED} can be decoded",
                    excerpt(named.as_bytes()),
                    destination.name
                ),
            })),
        }
    }

    fn headers_to(
        &self,
        destination: &Destination,
    ) -> Result<Option<Vec<(String, String)>>, Refusal> {
        match &self.request {
            Some(request) => travelling(request, &destination.forward_headers)
                .map(|mut headers| {
                    headers.retain(|(name, _)| destination.forwards(name));
                    Some(headers)
                })
                .map_err(Refusal::InvalidHeader),
            None => check_named(&self.arrival.message.headers, destination)
                .map(|()| None)
                .map_err(Refusal::invalid_field),
        }
    }
}
