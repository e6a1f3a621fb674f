//! The log entry of a message that has left.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{StoreError, record::Part};
use domain::{
    Epoch, Processed, Stamped, State, Tombstone,
    message::{CONTENT_ENCODING, INPUT_ENCODING},
};

/// The outcome of a message that has left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEntry {
    /// `delivered`, `dropped`, `dead_lettered` or `cancelled`.
    pub outcome: State,
    /// The epoch of the message's position.
    pub epoch: Epoch,
    /// The id of the message.
    pub id: String,
    /// The ordering key of the message.
    pub key: Option<String>,
    /// When the message arrived, in ms since 1970 by the ingest pod's clock.
    pub received_ms: u64,
    /// When the message left, in ms since 1970 by the sender's clock.
    pub settled_ms: u64,
    /// The result of processing the message; `None` if it was not processed.
    pub processed: Option<Processed>,
    /// The number of delivery attempts, including the successful one.
    pub attempts: u32,
    /// How long the last delivery attempt took, in ms.
    pub delivery_ms: u64,
    /// The headers, and the body as it arrived, if the log keeps bodies.
    pub content: Option<Content>,
}

/// The content of a message, which a replay needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// The message's headers.
    pub headers: Vec<(String, String)>,
    /// The media type of the body.
    pub content_type: String,
    /// The body as it arrived; empty if it is stored out of line and was not read.
    pub bytes: bytes::Bytes,
    /// If the body is stored out of line: true if it is in the field for bodies as they arrived; and its length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out_of_line: Option<(bool, u64)>,
}

/// The headers as the message arrived with them.
fn arrived_with(headers: &[(String, String)], is_input: bool) -> Vec<(String, String)> {
    let mut headers = headers.to_vec();
    let named = headers.iter_mut().filter(|(name, _)| is_input && name == INPUT_ENCODING);
    named.for_each(|(name, _)| *name = CONTENT_ENCODING.to_owned());
    headers
}

impl Content {
    /// The body as it arrived, with its headers. A body that is stored out of line stays there, except the body of a
    /// dead letter: the dead letter keeps that one.
    fn of(message: &Stamped) -> Content {
        let (body, is_input) = match &message.input {
            Some(input) => (input, true),
            None => (&message.message.body, false),
        };
        let length = if is_input { message.out_of_line.input } else { message.out_of_line.body };
        let length = length.filter(|_| message.tombstone != Some(Tombstone::DeadLettered));
        Content {
            headers: arrived_with(&message.message.headers, is_input),
            content_type: body.content_type.clone(),
            bytes: if length.is_some() { Bytes::new() } else { body.bytes.clone() },
            out_of_line: length.map(|length| (is_input, length)),
        }
    }

    pub(super) fn part(&self) -> Option<(Part, u64)> {
        let part = |is_input| if is_input { Part::Input } else { Part::Body };
        self.out_of_line.map(|(is_input, length)| (part(is_input), length))
    }
}

impl LogEntry {
    /// The bytes to store in Redis.
    pub(super) fn encode(&self) -> Vec<u8> {
        // Writing into memory cannot fail, and MessagePack can express all fields.
        rmp_serde::to_vec(self).unwrap_or_default()
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<LogEntry, StoreError> {
        rmp_serde::from_slice(bytes)
            .map_err(|error| StoreError::Unreadable(format!("an entry of the log: {error}")))
    }

    /// Creates the entry of a message that leaves now: it was delivered by an attempt of `delivery_ms`, or is a
    /// tombstone. With `with_body`, the entry has the content.
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

    /// The body that this entry needs, if that body is stored out of line.
    pub(super) fn part_kept(&self) -> Option<Part> {
        self.content.as_ref()?.part().map(|(part, _)| part)
    }
}
