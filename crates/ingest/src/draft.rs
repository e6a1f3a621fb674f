//! A message as its producer sent it, and the copy of it for one destination.

use std::sync::Arc;

use axum::http::HeaderMap;

use super::{
    Recipients, Refusal,
    commit::CopyResult,
    headers::{check_named, travelling},
    json::ItemError,
};
use domain::excerpt::excerpt;
use domain::{Arrival, Destination, DestinationName, Message, trace::TRACEPARENT};
use formats::code::Code;
use jq::{DECODED, can_decode};

/// A message to which no definition is applied yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// The recipients of the message.
    pub to: Recipients,
    /// The message, with the headers that a JSON message names. `request` has the headers of a raw request.
    pub arrival: Arrival,
    /// The headers of a raw request.
    pub request: Option<HeaderMap>,
    /// False if the id depends on an idempotency key that a destination finds in the message. A retry of all copies
    /// then gets the same id.
    pub is_id_final: bool,
}

impl Draft {
    pub(super) fn id(&self) -> &String {
        &self.arrival.message.id
    }

    /// The destinations; empty before the topic is resolved.
    pub(super) fn destinations(&self) -> &[DestinationName] {
        match &self.to {
            Recipients::Destinations(names) => names,
            Recipients::Topic(_) => &[],
        }
    }

    /// Replaces the topic by its destinations.
    pub(super) fn address(&mut self, destinations: Arc<[DestinationName]>) {
        self.to = Recipients::Destinations(destinations);
    }

    /// The copy for this destination, with the headers that travel there.
    pub(super) fn copy_for(&self, destination: &Destination) -> CopyResult {
        copy_of(self.arrival.clone(), self.request.as_ref(), destination)
    }
}

/// The copy of a message for this destination, with the headers that travel there: some headers of a raw request, all
/// headers that a JSON message names.
pub(super) fn copy_of(
    mut arrival: Arrival,
    request: Option<&HeaderMap>,
    destination: &Destination,
) -> CopyResult {
    match request {
        Some(request) => {
            let travelling = travelling(request, &destination.forward_headers);
            arrival.message.headers = travelling.map_err(Refusal::InvalidHeader)?;
            arrival.message.headers.retain(|(name, _)| destination.forwards(name));
        }
        None => {
            check_named(&arrival.message.headers, destination).map_err(Refusal::invalid_field)?
        }
    }
    let encoding = Message::encoding(&arrival.message.headers);
    if let Some(named) = encoding.filter(|named| destination.reads_bodies() && !can_decode(named)) {
        return Err(Refusal::Invalid(ItemError {
            code: Code::UnsupportedMediaType,
            detail: format!(
                "content-encoding: {}: an expression of {} reads the body, and only {DECODED} can be decoded",
                excerpt(named.as_bytes()),
                destination.name
            ),
        }));
    }
    telemetry::begin_trace(&mut arrival, destination.forwards(TRACEPARENT));
    Ok(arrival)
}
