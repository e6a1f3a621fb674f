//! What is kept of a message that has left.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{StoreError, record::Part};
use crate::domain::{Epoch, Processed, Stamped, State, Tombstone};

/// What became of a message that is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEntry {
    /// `delivered`, `dropped`, `dead_lettered` or `cancelled`.
    pub outcome: State,
    /// The epoch of its place.
    pub epoch: Epoch,
    /// Its id.
    pub id: String,
    /// Its ordering key.
    pub key: Option<String>,
    /// When it came, in ms since 1970 by the ingest pod's clock.
    pub received_ms: u64,
    /// When it left, in ms since 1970 by the sender's clock.
    pub settled_ms: u64,
    /// How its processing went; none if it was not processed.
    pub processed: Option<Processed>,
    /// Attempts at its delivery, with the one that succeeded.
    pub attempts: u32,
    /// How long the last attempt at its delivery took, in ms.
    pub delivery_ms: u64,
    /// Headers and the body as it arrived, where the log holds bodies.
    pub content: Option<Content>,
}

/// What a replay needs of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// The headers that travelled with it.
    pub headers: Vec<(String, String)>,
    /// The media type of the body.
    pub content_type: String,
    /// The body, as it arrived; empty where it is stored apart and was not read.
    pub bytes: bytes::Bytes,
    /// Where the body is stored apart: true for the field of bodies as they arrived; and its length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apart: Option<(bool, u64)>,
}

impl Content {
    /// The body of a message as it arrived, with its headers. A body that is stored apart stays there. A
    /// dead letter keeps its own.
    fn of(message: &Stamped) -> Content {
        let (body, is_input) = match &message.input {
            Some(input) => (input, true),
            None => (&message.message.body, false),
        };
        let length = if is_input { message.apart.input } else { message.apart.body };
        let length = length.filter(|_| message.tombstone != Some(Tombstone::DeadLettered));
        Content {
            headers: message.message.headers.clone(),
            content_type: body.content_type.clone(),
            bytes: if length.is_some() { Bytes::new() } else { body.bytes.clone() },
            apart: length.map(|length| (is_input, length)),
        }
    }

    pub(super) fn part(&self) -> Option<(Part, u64)> {
        let part = |is_input| if is_input { Part::Input } else { Part::Body };
        self.apart.map(|(is_input, length)| (part(is_input), length))
    }
}

impl LogEntry {
    /// As it is kept.
    pub(super) fn encode(&self) -> Vec<u8> {
        // Writing into memory cannot fail, and no field has a form that MessagePack lacks.
        rmp_serde::to_vec(self).unwrap_or_default()
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<LogEntry, StoreError> {
        rmp_serde::from_slice(bytes)
            .map_err(|error| StoreError::Unreadable(format!("an entry of the log: {error}")))
    }

    /// The entry of a message that leaves now: accepted by its receiver after an attempt of
    /// `delivery_ms`, or passed as the tombstone that it is. With its content if `with_body`.
    pub fn of(message: &Stamped, settled_ms: u64, delivery_ms: u64, with_body: bool) -> LogEntry {
        LogEntry {
            outcome: message.tombstone.map_or(State::Delivered, State::from),
            epoch: message.position.epoch,
            id: message.message.id.clone(),
            key: message.message.key.clone(),
            received_ms: message.message.received_ms,
            settled_ms,
            processed: message.processed,
            attempts: message.attempts.failed + u32::from(message.tombstone.is_none()),
            delivery_ms,
            content: with_body.then(|| Content::of(message)),
        }
    }

    /// Which body of its message is kept for it, apart from it.
    pub(super) fn part_kept(&self) -> Option<Part> {
        self.content.as_ref()?.part().map(|(part, _)| part)
    }
}
