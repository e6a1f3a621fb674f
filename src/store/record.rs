//! How a message is written down in Redis.
//!
//! ```text
//!  [ 'P' <previous> ';' ]  '1'  MessagePack header  body, to the end
//!    where lanes are keys   │    (id, epoch, …)
//!                         format
//! ```
//!
//! The previous sequence of the lane is put in front by `ingest.lua`, which alone knows it; where
//! the destination is one lane it is the sequence before.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::domain::{
    Arrival, Body, DestinationName, Epoch, Message, Ordering, Place, Sequence, Stamped,
};

/// The format that this version writes.
const FORMAT: u8 = b'1';

/// A record that this version cannot read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Written by another version.
    #[error("a record has format {0:?}, which this version does not know")]
    UnknownFormat(char),
    /// Damaged.
    #[error("a record cannot be read: {0}")]
    Damaged(String),
}

/// Serialised as an array: field names would cost more than most bodies.
#[derive(Serialize, Deserialize)]
struct Header {
    epoch: Epoch,
    received_ms: u64,
    id: Id,
    key: Option<String>,
    /// None: `application/json`.
    content_type: Option<String>,
    headers: Vec<(String, String)>,
    tombstone: bool,
}

/// Most ids are UUIDs, and 16 bytes rather than 36.
#[derive(Serialize, Deserialize)]
enum Id {
    Uuid(Uuid),
    Text(String),
}

impl Id {
    fn of(text: &str) -> Id {
        match Uuid::parse_str(text) {
            Ok(uuid) if uuid.hyphenated().to_string() == text => Id::Uuid(uuid),
            _ => Id::Text(text.to_owned()),
        }
    }

    fn into_text(self) -> String {
        match self {
            Id::Uuid(uuid) => uuid.hyphenated().to_string(),
            Id::Text(text) => text,
        }
    }
}

const JSON: &str = "application/json";

fn write(out: &mut Vec<u8>, message: &Message, epoch: Epoch, tombstone: bool) {
    let header = Header {
        epoch,
        received_ms: message.received_ms,
        id: Id::of(&message.id),
        key: message.key.clone(),
        content_type: Some(&message.body.content_type).filter(|t| *t != JSON).cloned(),
        headers: message.headers.clone(),
        tombstone,
    };
    out.push(FORMAT);
    // Writing into memory cannot fail, and no field has a form that MessagePack lacks.
    let _ = rmp_serde::encode::write(out, &header);
    if !tombstone {
        out.extend_from_slice(&message.body.bytes);
    }
}

/// The record of a message that is about to be stamped in `epoch`.
pub fn of_arrival(arrival: &Arrival, epoch: Epoch) -> Vec<u8> {
    let mut out = Vec::with_capacity(arrival.message.body.bytes.len() + 64);
    write(&mut out, &arrival.message, epoch, false);
    out
}

/// The record of a message that has been processed.
pub fn of_output(output: &Stamped, ordering: Ordering) -> Vec<u8> {
    let mut out = Vec::with_capacity(output.message.body.bytes.len() + 80);
    if ordering == Ordering::Key {
        out.extend_from_slice(format!("P{};", output.previous).as_bytes());
    }
    write(&mut out, &output.message, output.place.epoch, output.tombstone);
    out
}

/// Reads a record.
pub fn read(
    record: Bytes,
    destination: &DestinationName,
    sequence: Sequence,
    attempts: u32,
) -> Result<Stamped, RecordError> {
    let damaged = |what: &dyn std::fmt::Display| RecordError::Damaged(what.to_string());
    let (previous, record) = match record.first() {
        Some(b'P') => {
            let end = record.iter().position(|&b| b == b';').ok_or_else(|| damaged(&"no ';'"))?;
            let text = std::str::from_utf8(&record[1..end]).map_err(|e| damaged(&e))?;
            (text.parse().map_err(|e| damaged(&e))?, record.slice(end + 1..))
        }
        _ => (sequence.saturating_sub(1), record),
    };
    match record.first() {
        Some(&FORMAT) => {}
        Some(&other) => return Err(RecordError::UnknownFormat(other.into())),
        None => return Err(damaged(&"it is empty")),
    }
    let mut rest = &record[1..];
    let header: Header = rmp_serde::from_read(&mut rest).map_err(|e| damaged(&e))?;
    let body = record.slice(record.len() - rest.len()..);
    Ok(Stamped {
        destination: destination.clone(),
        place: Place { epoch: header.epoch, sequence },
        previous,
        message: Message {
            id: header.id.into_text(),
            key: header.key,
            headers: header.headers,
            body: Body {
                content_type: header.content_type.unwrap_or_else(|| JSON.to_owned()),
                bytes: body,
            },
            received_ms: header.received_ms,
        },
        attempts,
        tombstone: header.tombstone,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamped(id: &str, content_type: &str, body: &'static [u8]) -> Stamped {
        Stamped {
            destination: "erp".parse().unwrap(),
            place: Place { epoch: 7, sequence: 42 },
            previous: 41,
            message: Message {
                id: id.into(),
                key: Some("acct;7".into()),
                headers: vec![("x-tenant".into(), "7".into())],
                body: Body { content_type: content_type.into(), bytes: body.into() },
                received_ms: 1_790_000_000_000,
            },
            attempts: 3,
            tombstone: false,
        }
    }

    #[test]
    fn records_come_back_as_they_were_written() {
        let uuid = Uuid::now_v7().to_string();
        for (id, content_type, body) in
            [(uuid.as_str(), JSON, b"{}".as_slice()), ("order-1", "text/plain", b"\0\xff;1\n")]
        {
            let whole = stamped(id, content_type, body);
            for (ordering, previous) in [(Ordering::Destination, 41), (Ordering::Key, 17)] {
                let whole = Stamped { previous, ..whole.clone() };
                let record = of_output(&whole, ordering);
                assert_eq!(read(record.into(), &whole.destination, 42, 3), Ok(whole));
            }
        }
    }

    #[test]
    fn a_tombstone_carries_no_body() {
        let whole = Stamped { tombstone: true, ..stamped("a", JSON, b"a long body") };
        let record = of_output(&whole, Ordering::Destination);
        let back = read(record.into(), &whole.destination, 42, 3).unwrap();
        assert!(back.tombstone && back.message.body.bytes.is_empty());
    }

    #[test]
    fn what_another_version_wrote_is_refused_not_misread() {
        let erp = "erp".parse().unwrap();
        assert_eq!(read("2…".into(), &erp, 1, 0), Err(RecordError::UnknownFormat('2')));
        for damaged in ["", "P12", "Px;1", "1\u{7f}"] {
            let result = read(Bytes::from(damaged), &erp, 1, 0);
            assert!(matches!(result, Err(RecordError::Damaged(_))), "{damaged:?}: {result:?}");
        }
    }
}
