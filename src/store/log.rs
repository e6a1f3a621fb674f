//! The log of a destination: what became of its last messages.

use serde::{Deserialize, Serialize};

use bytes::Bytes;

use super::{Known, Store, StoreError};
use crate::domain::{Body, Epoch, Processed, Sequence, Stamped, State};

/// What became of a message that is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEntry {
    /// `delivered`, `dropped`, `skipped` or `cancelled`.
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
    /// The body, as it arrived.
    pub bytes: bytes::Bytes,
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
        let body: &Body = message.input.as_ref().unwrap_or(&message.message.body);
        LogEntry {
            outcome: message.tombstone.map_or(State::Delivered, State::from),
            epoch: message.place.epoch,
            id: message.message.id.clone(),
            key: message.message.key.clone(),
            received_ms: message.message.received_ms,
            settled_ms,
            processed: message.processed,
            attempts: message.attempts.failed + u32::from(message.tombstone.is_none()),
            delivery_ms,
            content: with_body.then(|| Content {
                headers: message.message.headers.clone(),
                content_type: body.content_type.clone(),
                bytes: body.bytes.clone(),
            }),
        }
    }
}

impl Store {
    /// What the log says of these sequences; none where it says nothing (any more).
    pub async fn log_entries(
        &self,
        known: &Known,
        sequences: &[Sequence],
    ) -> Result<Vec<Option<LogEntry>>, StoreError> {
        if sequences.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipe = redis::pipe();
        pipe.hmget(self.keys().destination(&known.destination.name).log(), sequences);
        let (entries,): (Vec<Option<Bytes>>,) = self.query(&pipe).await?;
        entries.into_iter().map(|e| e.map(|bytes| LogEntry::decode(&bytes)).transpose()).collect()
    }
}
