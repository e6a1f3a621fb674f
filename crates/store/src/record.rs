//! The format of a message in Redis.
//!
//! ```text
//!  [ 'T' why | 'B' <length of the body> ';' ]  [ 'P' <previous> ';' | 'N' <priority> ';' ]
//!    tombstone  the body is stored out of line         ordering by key    no ordering
//!  format <accounted_bytes> ',' <length of the header> ';'  MessagePack header  body, to the end
//!  '3', by the schema
//! ```
//!
//! A body longer than [`INLINE_MAX`] bytes is stored out of line, in the hash `bodies`. The field `<sequence>` holds
//! the current body. If the body as it arrived is kept too, the field `<sequence>i` holds it. Such a record ends with
//! its header.
//!
//! Scripts write the part before the format, because only they know its values (Rust writes it again with an output):
//! the previous sequence of the lane (empty if no longer known; not stored if the destination is one lane), the
//! priority, and why a tombstone left (`d` dropped, `s` dead-lettered, `c` cancelled). A tombstone has no body. The
//! accounted bytes, which count against `backlog_bytes_max`, are the length of the body as it arrived.

mod out_of_line;
mod prefix;
mod well_known;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

pub use out_of_line::{INLINE_MAX, Part, fill, is_out_of_line, read_with};
use out_of_line::{is_long, write_out_of_line};
use prefix::{Prefix, accounted_bytes_of_damaged, number, read_prefix};
pub(super) use prefix::{letter, tombstone_of};
use well_known::{ContentType, Id};

use super::known_schema::{FIRST, known};
use domain::{
    Arrival, Attempts, Body, Destination, DestinationName, Epoch, Message, Ordering, Origin,
    OutOfLine, Position, Processed, ProcessingOptions, Sequence, Stamped,
    message::PRIORITY_DEFAULT,
};

/// A record, and the changes to the hash `bodies` that belong to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// The record.
    pub record: Vec<u8>,
    /// Bodies to store out of line; `None`: a body to remove.
    pub bodies: Vec<(Part, Option<Bytes>)>,
}

/// The format byte for a schema. All schemas so far have the same header.
fn format_of(schema: u32) -> u8 {
    b'0' + schema as u8
}

/// A record that this version cannot read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Another version wrote the record.
    #[error("a record has format {0:?}, which this version does not know")]
    UnknownFormat(char),
    /// The bytes of the record are damaged.
    #[error("a record cannot be read: {0}")]
    Damaged(String),
}

/// The header is serialised as an array: field names would take more space than most bodies.
#[derive(Serialize, Deserialize)]
struct Header {
    epoch: Epoch,
    received_ms: u64,
    id: Id,
    key: Option<String>,
    content_type: ContentType,
    headers: Vec<(String, String)>,
    /// Fields that few messages have.
    more: Option<Box<More>>,
}

/// Fields that few messages have.
#[derive(Default, PartialEq, Serialize, Deserialize)]
struct More {
    processed: Option<Processed>,
    idempotency_key: Option<String>,
    origin: Option<Origin>,
    /// The content type and bytes of the body as it arrived.
    input: Option<(String, Bytes)>,
    /// The body as it arrived, if it is stored out of line: its content type and length.
    #[serde(default)]
    input_out_of_line: Option<(String, u64)>,
    /// The last field, because most messages have no options: only the last field can be left out.
    #[serde(default, skip_serializing_if = "ProcessingOptions::are_none")]
    options: ProcessingOptions,
}

/// Writes the part of a record after the prefix. Leaves out a body that is stored out of line.
fn write(
    out: &mut Vec<u8>,
    schema: u32,
    message: &Message,
    epoch: Epoch,
    accounted_bytes: u64,
    more: More,
) {
    let header = Header {
        epoch,
        received_ms: message.received_ms,
        id: Id::of(&message.id),
        key: message.key.clone(),
        content_type: ContentType::of(&message.body.content_type),
        headers: message.headers.clone(),
        more: (more != More::default()).then(|| Box::new(more)),
    };
    // Writing into memory cannot fail, and MessagePack can express all fields.
    let header = rmp_serde::to_vec(&header).unwrap_or_default();
    out.push(format_of(schema));
    out.extend_from_slice(format!("{accounted_bytes},{};", header.len()).as_bytes());
    out.extend_from_slice(&header);
    if !is_long(&message.body.bytes) {
        out.extend_from_slice(&message.body.bytes);
    }
}

/// The record of an arrival that is about to be stamped in `epoch`, without the prefix that the script adds. With
/// `keeps_key`, the record contains the idempotency key, which is removed together with the message.
pub fn of_arrival(arrival: &Arrival, epoch: Epoch, keeps_key: bool, schema: u32) -> Written {
    let body = &arrival.message.body.bytes;
    let mut out = Vec::with_capacity(body.len().min(INLINE_MAX) + 64);
    write_out_of_line(&mut out, body);
    let more = More {
        idempotency_key: arrival.idempotency_key.clone().filter(|_| keeps_key),
        origin: arrival.origin.clone(),
        options: arrival.options,
        ..More::default()
    };
    write(&mut out, schema, &arrival.message, epoch, body.len() as u64, more);
    let bodies = if is_long(body) { vec![(Part::Body, Some(body.clone()))] } else { Vec::new() };
    Written { record: out, bodies }
}

/// The message of an arrival that was just stamped, as it would be read from its record.
pub fn arrived(
    arrival: &Arrival,
    destination: &Destination,
    position: Position,
    previous: Option<Sequence>,
) -> Stamped {
    let (name, message) = (destination.name.clone(), arrival.message.clone());
    let body = &arrival.message.body.bytes;
    let keeps_key = destination.idempotency_window_ms == 0;
    let has_priority = destination.ordering == Ordering::None;
    Stamped {
        previous,
        priority: arrival.priority.filter(|_| has_priority).unwrap_or(PRIORITY_DEFAULT),
        accounted_bytes: body.len() as u64,
        idempotency_key: arrival.idempotency_key.clone().filter(|_| keeps_key),
        origin: arrival.origin.clone(),
        options: arrival.options,
        out_of_line: OutOfLine { body: is_long(body).then_some(body.len() as u64), input: None },
        ..Stamped::new(name, position, 0, message)
    }
}

/// The record of a redriven dead letter that was already processed, without the prefix that the script adds.
/// `idempotency_key` is removed together with the message.
pub fn of_redriven(
    stamped: &Stamped,
    epoch: Epoch,
    idempotency_key: Option<String>,
    schema: u32,
) -> Written {
    let plain = Stamped {
        position: Position { epoch, ..stamped.position },
        tombstone: None,
        idempotency_key,
        // No body is stored for the new position yet.
        out_of_line: OutOfLine::default(),
        ..stamped.clone()
    };
    of_stamped(&plain, Ordering::Destination, schema)
}

/// The record of a stamped message, with an output or a repaired body. `out_of_line` of the message says which bodies
/// are stored out of line so far.
pub fn of_stamped(stamped: &Stamped, ordering: Ordering, schema: u32) -> Written {
    let body = &stamped.message.body.bytes;
    let mut out = Vec::with_capacity(body.len().min(INLINE_MAX) + 80);
    let mut bodies = Vec::new();
    match stamped.tombstone {
        Some(tombstone) => out.extend_from_slice(format!("T{}", letter(tombstone)).as_bytes()),
        None => write_out_of_line(&mut out, body),
    }
    if is_long(body) {
        bodies.push((Part::Body, Some(body.clone())));
    } else if stamped.out_of_line.body.is_some() {
        bodies.push((Part::Body, None));
    }
    match ordering {
        Ordering::Destination => {}
        Ordering::Key => {
            let previous = stamped.previous.map(|previous| previous.to_string());
            out.extend_from_slice(format!("P{};", previous.unwrap_or_default()).as_bytes());
        }
        Ordering::None => out.extend_from_slice(format!("N{};", stamped.priority).as_bytes()),
    }
    let mut more = More {
        processed: stamped.processed,
        idempotency_key: stamped.idempotency_key.clone(),
        origin: stamped.origin.clone(),
        options: stamped.options,
        ..More::default()
    };
    match (stamped.input.clone(), stamped.out_of_line.input) {
        (Some(input), _) if is_long(&input.bytes) => {
            more.input_out_of_line = Some((input.content_type, input.bytes.len() as u64));
            bodies.push((Part::Input, Some(input.bytes)));
        }
        // The body is stored out of line and was not read: it stays there.
        (Some(input), Some(length)) => more.input_out_of_line = Some((input.content_type, length)),
        (input, _) => more.input = input.map(|body| (body.content_type, body.bytes)),
    }
    write(
        &mut out,
        schema,
        &stamped.message,
        stamped.position.epoch,
        stamped.accounted_bytes,
        more,
    );
    Written { record: out, bodies }
}

fn damaged(what: &dyn std::fmt::Display) -> RecordError {
    RecordError::Damaged(what.to_string())
}

/// Reads a record. Bodies that are stored out of line are empty; [`fill`] loads them. A tombstone can always be read,
/// because only its position matters.
pub fn read(
    record: Bytes,
    destination: &DestinationName,
    sequence: Sequence,
    attempts: Attempts,
) -> Result<Stamped, RecordError> {
    let error = match read_whole(record.clone(), destination, sequence, attempts) {
        Ok(message) => return Ok(message),
        Err(error) => error,
    };
    let is_tombstone = record.first() == Some(&b'T');
    match tombstone_of(record.get(1).copied()) {
        Ok(tombstone) if is_tombstone => Ok(Stamped {
            tombstone: Some(tombstone),
            accounted_bytes: accounted_bytes_of_damaged(&record),
            ..Stamped::unreadable(destination.clone(), sequence, error.to_string())
        }),
        _ => Err(error),
    }
}

/// The id of the message in a record; `None` if it cannot be read.
pub fn id_of(record: Bytes, sequence: Sequence) -> Option<String> {
    let (_, header, _) = parts(record, sequence).ok()?;
    Some(header.id.into_text())
}

/// Like `read`, but for an unreadable record returns a message that contains the reason.
pub fn read_or_damaged(
    record: Bytes,
    destination: &DestinationName,
    sequence: Sequence,
    attempts: Attempts,
) -> Stamped {
    read(record, destination, sequence, attempts.clone()).unwrap_or_else(|error| Stamped {
        attempts,
        ..Stamped::unreadable(destination.clone(), sequence, error.to_string())
    })
}

/// The prefix, the header, the accounted bytes and the body of a record.
fn parts(record: Bytes, sequence: Sequence) -> Result<(Prefix, Header, (u64, Bytes)), RecordError> {
    let (prefix, record) = read_prefix(record, sequence)?;
    match record.first() {
        Some(format) if (format_of(FIRST)..=format_of(known())).contains(format) => {}
        Some(&other) => return Err(RecordError::UnknownFormat(other.into())),
        None => return Err(damaged(&"it is missing or empty")),
    }
    let (accounted_bytes, after) = number(&record, 1, b',')?;
    let (length, at) = number(&record, after, b';')?;
    let body_at = at.saturating_add(usize::try_from(length).map_err(|e| damaged(&e))?);
    let header = record.get(at..body_at).ok_or_else(|| damaged(&"the header is truncated"))?;
    let header: Header = rmp_serde::from_slice(header).map_err(|e| damaged(&e))?;
    let body = record.slice(body_at..);
    Ok((prefix, header, (accounted_bytes, body)))
}

fn read_whole(
    record: Bytes,
    destination: &DestinationName,
    sequence: Sequence,
    attempts: Attempts,
) -> Result<Stamped, RecordError> {
    let (prefix, header, (accounted_bytes, body)) = parts(record, sequence)?;
    if prefix.out_of_line.is_some() && !body.is_empty() {
        return Err(damaged(&"it has a body both in it and stored out of line"));
    }
    let more = header.more.map(|more| *more).unwrap_or_default();
    let out_of_line = OutOfLine {
        body: prefix.out_of_line,
        input: more.input_out_of_line.as_ref().map(|(_, length)| *length),
    };
    let input =
        more.input.or(more.input_out_of_line.map(|(content_type, _)| (content_type, Bytes::new())));
    Ok(Stamped {
        destination: destination.clone(),
        position: Position { epoch: header.epoch, sequence },
        previous: prefix.previous,
        priority: prefix.priority,
        accounted_bytes,
        message: Message {
            id: header.id.into_text(),
            key: header.key,
            headers: header.headers,
            body: Body { content_type: header.content_type.into_text(), bytes: body },
            received_ms: header.received_ms,
        },
        attempts,
        tombstone: prefix.tombstone,
        processed: more.processed,
        input: input.map(|(content_type, bytes)| Body { content_type, bytes }),
        idempotency_key: more.idempotency_key,
        origin: more.origin,
        options: more.options,
        out_of_line,
        refused: None,
        damaged: None,
    })
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use domain::Tombstone;

    pub(super) const JSON: &str = "application/json";

    pub(super) fn stamped(id: &str, content_type: &str, body: &'static [u8]) -> Stamped {
        Stamped {
            destination: "erp".parse().unwrap(),
            position: Position { epoch: 7, sequence: 42 },
            previous: Some(41),
            message: Message {
                id: id.into(),
                key: Some("acct;7".into()),
                headers: vec![("x-tenant".into(), "7".into())],
                body: Body { content_type: content_type.into(), bytes: body.into() },
                received_ms: 1_790_000_000_000,
            },
            attempts: Attempts { failed: 3, ..Attempts::default() },
            tombstone: None,
            priority: PRIORITY_DEFAULT,
            processed: Some(Processed { waited_ms: 5, took_ms: 750, attempts: 4 }),
            input: Some(Body { content_type: JSON.into(), bytes: "[1]".into() }),
            idempotency_key: Some("order 7".into()),
            accounted_bytes: 3,
            origin: Some(Origin {
                destination: "crm".parse().unwrap(),
                position: Position { epoch: 6, sequence: 17 },
            }),
            options: ProcessingOptions { keep_result: true, attempts_max: 3, backoff_ms: Some(0) },
            out_of_line: OutOfLine::default(),
            refused: None,
            damaged: None,
        }
    }

    #[test]
    fn records_come_back_as_they_were_written() {
        let uuid = Uuid::now_v7().to_string();
        for (id, content_type, body) in
            [(uuid.as_str(), JSON, b"{}".as_slice()), ("order-1", "text/plain", b"\0\xff;1\n")]
        {
            let whole = stamped(id, content_type, body);
            let orderings = [
                (Ordering::Destination, Some(41), PRIORITY_DEFAULT),
                (Ordering::Key, Some(17), PRIORITY_DEFAULT),
                (Ordering::Key, None, PRIORITY_DEFAULT),
                (Ordering::None, Some(0), 9),
            ];
            for (ordering, previous, priority) in orderings {
                for tombstone in [None, Some(Tombstone::DeadLettered)] {
                    let whole = Stamped { previous, priority, tombstone, ..whole.clone() };
                    let attempts = whole.attempts.clone();
                    let Written { record, bodies } = of_stamped(&whole, ordering, FIRST);
                    assert_eq!(bodies, []);
                    assert_eq!(read(record.into(), &whole.destination, 42, attempts), Ok(whole));
                }
            }
        }
    }

    /// A message with none of the fields that few have.
    fn plain() -> Stamped {
        Stamped {
            processed: None,
            input: None,
            idempotency_key: None,
            origin: None,
            options: ProcessingOptions::default(),
            accounted_bytes: 2,
            ..stamped("a", JSON, b"{}")
        }
    }

    /// They are written by position, and one may be left out.
    #[test]
    fn each_rare_field_comes_back_alone() {
        let Stamped { processed, input, idempotency_key, origin, options, .. } =
            stamped("a", JSON, b"{}");
        for one in [
            Stamped { processed, ..plain() },
            Stamped { input, ..plain() },
            Stamped { idempotency_key, ..plain() },
            Stamped { origin, ..plain() },
            Stamped { options, ..plain() },
        ] {
            let Written { record, .. } = of_stamped(&one, Ordering::Destination, FIRST);
            let attempts = one.attempts.clone();
            assert_eq!(read(record.into(), &one.destination, 42, attempts), Ok(one));
        }
    }

    #[test]
    fn what_nothing_is_said_of_costs_one_byte() {
        let plain = plain();
        let arrival = Arrival::of(plain.message.clone());
        let arrived = of_arrival(&arrival, 7, true, FIRST);
        assert_eq!(of_stamped(&plain, Ordering::Destination, FIRST), arrived);
        assert_eq!(arrived.record.last_chunk::<3>(), Some(b"\xc0{}"));
    }

    #[test]
    fn arrival_is_what_its_record_says() {
        let long: &'static [u8] = &[b'x'; INLINE_MAX + 1];
        let of =
            |ordering| Destination { ordering, ..Destination::new("erp".parse().unwrap(), "") };
        let cases = [
            (Ordering::Destination, "", Some(41)),
            (Ordering::Key, "P17;", Some(17)),
            (Ordering::Key, "P;", None),
            (Ordering::None, "N7;", Some(0)),
        ];
        for ((ordering, prefix, previous), body) in
            cases.into_iter().flat_map(|case| [(case, b"{}".as_slice()), (case, long)])
        {
            let whole = stamped("a", JSON, body);
            let arrival = Arrival {
                idempotency_key: Some("order 7".into()),
                priority: Some(7),
                origin: whole.origin.clone(),
                options: whole.options,
                ..Arrival::of(whole.message.clone())
            };
            let Written { record, bodies } = of_arrival(&arrival, 7, true, FIRST);
            let mark = record.iter().position(|byte| *byte == b'3').filter(|_| body.len() > 2);
            let (mark, rest) = record.split_at(mark.unwrap_or_default());
            let record = [mark, prefix.as_bytes(), rest].concat();
            let body = bodies.into_iter().find_map(|(_, body)| body);
            let read = read_with(record.into(), body, &whole.destination, 42, Attempts::default());
            let destination = Destination { idempotency_window_ms: 0, ..of(ordering) };
            assert_eq!(Ok(arrived(&arrival, &destination, whole.position, previous)), read);
        }
    }

    #[test]
    fn what_another_version_wrote_is_refused_not_misread() {
        let erp = "erp".parse().unwrap();
        assert_eq!(
            read("4…".into(), &erp, 1, Attempts::default()),
            Err(RecordError::UnknownFormat('4'))
        );
        for damaged in ["", "P12", "Px;1", "3\u{7f}", "T", "Tx1", "B9", "B9;", "32,9;", "3x,1;"] {
            let result = read(Bytes::from(damaged), &erp, 1, Attempts::default());
            assert!(matches!(result, Err(RecordError::Damaged(_))), "{damaged:?}: {result:?}");
        }
    }
}
