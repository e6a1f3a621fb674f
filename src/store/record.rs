//! How a message is written down in Redis.
//!
//! ```text
//!  [ 'T' why | 'B' <length of the body> ';' ]  [ 'P' <previous> ';' | 'N' <priority> ';' ]
//!    tombstone  the body stands apart            lanes are keys     nothing is in order
//!  format <charge> ',' <length of the header> ';'  MessagePack header  body, to the end
//!  '1', by the schema
//! ```
//!
//! A body of more than [`INLINE_MAX`] bytes stands apart, in the hash `bodies`: the body as it is now
//! in the field `<sequence>`, the body as it arrived, where it is kept too, in `<sequence>i`. Such a
//! record ends with its header.
//!
//! What stands before the format is put there by scripts, which alone know it (and written again
//! here with an output): the previous sequence of the lane (nothing if it is not known any more; where
//! the destination is one lane it is the sequence before), the priority, and what became of a message that only keeps its place
//! (`d` dropped, `s` skipped, `c` cancelled). A tombstone has no body. The charge is what the message
//! counts for in `max_backlog_bytes`: the bytes of its body as it arrived.

mod short;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use short::{ContentType, Id};

use super::schema::{FIRST, known};
use crate::domain::{
    Apart, Arrival, Attempts, Body, DestinationName, Epoch, Message, Ordering, Origin, Place,
    Processed, Sequence, Stamped, Tombstone, message::PRIORITY_DEFAULT,
};

/// The longest body that stands in its record, in bytes. Longer ones stand apart.
pub const INLINE_MAX: usize = 2048;

/// A record, and what changes in the hash `bodies` with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The record.
    pub record: Vec<u8>,
    /// Bodies to store apart; none: to remove.
    pub bodies: Vec<(Part, Option<Bytes>)>,
}

/// A body of a message that has two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The body as it is now.
    Body,
    /// The body as it arrived.
    Input,
}

impl Part {
    /// What follows the sequence in the name of the body's field.
    pub fn suffix(self) -> &'static str {
        match self {
            Part::Body => "",
            Part::Input => "i",
        }
    }

    /// The body's field in the hash `bodies`.
    pub fn field(self, sequence: Sequence) -> String {
        format!("{sequence}{}", self.suffix())
    }
}

/// What records of this schema begin with. All schemas so far have the same header.
fn format_of(schema: u32) -> u8 {
    b'0' + schema as u8
}

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
    content_type: ContentType,
    headers: Vec<(String, String)>,
    /// What few messages have.
    more: Option<Box<More>>,
}

/// What a record holds only where there is a reason.
#[derive(Default, PartialEq, Serialize, Deserialize)]
struct More {
    processed: Option<Processed>,
    idempotency_key: Option<String>,
    origin: Option<Origin>,
    /// Content type and bytes of the body as it arrived.
    input: Option<(String, Bytes)>,
    /// The same where the bytes stand apart: content type and length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    input_apart: Option<(String, u64)>,
}

/// Writes what follows the prefix. The body is left out where it stands apart.
fn write(out: &mut Vec<u8>, schema: u32, message: &Message, epoch: Epoch, charge: u64, more: More) {
    let header = Header {
        epoch,
        received_ms: message.received_ms,
        id: Id::of(&message.id),
        key: message.key.clone(),
        content_type: ContentType::of(&message.body.content_type),
        headers: message.headers.clone(),
        more: (more != More::default()).then(|| Box::new(more)),
    };
    // Writing into memory cannot fail, and no field has a form that MessagePack lacks.
    let header = rmp_serde::to_vec(&header).unwrap_or_default();
    out.push(format_of(schema));
    out.extend_from_slice(format!("{charge},{};", header.len()).as_bytes());
    out.extend_from_slice(&header);
    if !is_long(&message.body.bytes) {
        out.extend_from_slice(&message.body.bytes);
    }
}

fn is_long(bytes: &Bytes) -> bool {
    bytes.len() > INLINE_MAX
}

/// Says at the front of a record that its body stands apart.
fn write_apart(out: &mut Vec<u8>, body: &Bytes) {
    if is_long(body) {
        out.extend_from_slice(format!("B{};", body.len()).as_bytes());
    }
}

/// The record of a message that is about to be stamped in `epoch`, without what the script puts
/// before it. `keeps_key`: its idempotency key is forgotten together with it.
pub fn of_arrival(arrival: &Arrival, epoch: Epoch, keeps_key: bool, schema: u32) -> Written {
    let body = &arrival.message.body.bytes;
    let mut out = Vec::with_capacity(body.len().min(INLINE_MAX) + 64);
    write_apart(&mut out, body);
    let more = More {
        idempotency_key: arrival.idempotency_key.clone().filter(|_| keeps_key),
        origin: arrival.origin.clone(),
        ..More::default()
    };
    write(&mut out, schema, &arrival.message, epoch, body.len() as u64, more);
    let bodies = if is_long(body) { vec![(Part::Body, Some(body.clone()))] } else { Vec::new() };
    Written { record: out, bodies }
}

/// The record of a dead letter that had been processed and arrives anew, in `epoch`, without what
/// the script puts before it. `idempotency_key`: the one that is forgotten together with it.
pub fn of_redriven(
    stamped: &Stamped,
    epoch: Epoch,
    idempotency_key: Option<String>,
    schema: u32,
) -> Written {
    let plain = Stamped {
        place: Place { epoch, ..stamped.place },
        tombstone: None,
        idempotency_key,
        // Nothing is stored of it yet at its new place.
        apart: Apart::default(),
        ..stamped.clone()
    };
    of_stamped(&plain, Ordering::Destination, schema)
}

/// The record of a message that has its place, as it is: with an output or a repaired body. `apart`
/// of the message says what is stored until now.
pub fn of_stamped(stamped: &Stamped, ordering: Ordering, schema: u32) -> Written {
    let body = &stamped.message.body.bytes;
    let mut out = Vec::with_capacity(body.len().min(INLINE_MAX) + 80);
    let mut bodies = Vec::new();
    match stamped.tombstone {
        Some(tombstone) => out.extend_from_slice(format!("T{}", letter(tombstone)).as_bytes()),
        None => write_apart(&mut out, body),
    }
    if is_long(body) {
        bodies.push((Part::Body, Some(body.clone())));
    } else if stamped.apart.body.is_some() {
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
        ..More::default()
    };
    match (stamped.input.clone(), stamped.apart.input) {
        (Some(input), _) if is_long(&input.bytes) => {
            more.input_apart = Some((input.content_type, input.bytes.len() as u64));
            bodies.push((Part::Input, Some(input.bytes)));
        }
        // It stands apart, and was not read: it stays.
        (Some(input), Some(length)) => more.input_apart = Some((input.content_type, length)),
        (input, _) => more.input = input.map(|body| (body.content_type, body.bytes)),
    }
    write(&mut out, schema, &stamped.message, stamped.place.epoch, stamped.charge, more);
    Written { record: out, bodies }
}

/// As records and scripts spell it.
pub(super) fn letter(tombstone: Tombstone) -> char {
    match tombstone {
        Tombstone::Dropped => 'd',
        Tombstone::Skipped => 's',
        Tombstone::Cancelled => 'c',
    }
}

/// What [`letter`] spells.
pub(super) fn tombstone_of(letter: Option<u8>) -> Result<Tombstone, RecordError> {
    match letter {
        Some(b'd') => Ok(Tombstone::Dropped),
        Some(b's') => Ok(Tombstone::Skipped),
        Some(b'c') => Ok(Tombstone::Cancelled),
        other => Err(damaged(&format!("unknown tombstone {other:?}"))),
    }
}

/// What stands before the format.
struct Prefix {
    tombstone: Option<Tombstone>,
    /// The length of a body that stands apart.
    apart: Option<u64>,
    previous: Option<Sequence>,
    priority: u8,
}

fn read_prefix(record: Bytes, sequence: Sequence) -> Result<(Prefix, Bytes), RecordError> {
    let mut prefix = Prefix {
        tombstone: None,
        apart: None,
        previous: Some(sequence.saturating_sub(1)),
        priority: PRIORITY_DEFAULT,
    };
    let mut rest = record;
    if rest.first() == Some(&b'T') {
        prefix.tombstone = Some(tombstone_of(rest.get(1).copied())?);
        rest = rest.slice(2..);
    } else if rest.first() == Some(&b'B') {
        let (length, after) = number(&rest, 1, b';')?;
        prefix.apart = Some(length);
        rest = rest.slice(after..);
    }
    match rest.first() {
        Some(b'P') => {
            let after = if rest.get(1) == Some(&b';') {
                prefix.previous = None;
                2
            } else {
                let (previous, after) = number(&rest, 1, b';')?;
                prefix.previous = Some(previous);
                after
            };
            rest = rest.slice(after..);
        }
        Some(b'N') => {
            let (priority, after) = number(&rest, 1, b';')?;
            prefix.previous = Some(0);
            prefix.priority = priority as u8;
            rest = rest.slice(after..);
        }
        _ => {}
    }
    Ok((prefix, rest))
}

/// The number from here to the next `end`, and where it goes on behind that.
fn number(bytes: &[u8], from: usize, end: u8) -> Result<(u64, usize), RecordError> {
    let rest = bytes.get(from..).unwrap_or_default();
    let length = rest.iter().take(20).position(|&b| b == end);
    let length = length.ok_or_else(|| damaged(&"a number has no end"))?;
    let text = std::str::from_utf8(&rest[..length]).map_err(|e| damaged(&e))?;
    Ok((text.parse().map_err(|e| damaged(&e))?, from + length + 1))
}

fn damaged(what: &dyn std::fmt::Display) -> RecordError {
    RecordError::Damaged(what.to_string())
}

/// Reads a record. Bodies that stand apart are empty; [`fill`] puts them in. A tombstone can always be
/// read: it only keeps a place.
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
            charge: charge_of_damaged(&record),
            ..Stamped::unreadable(destination.clone(), sequence, error.to_string())
        }),
        _ => Err(error),
    }
}

/// The same, where a message is needed in any case: one that cannot be read says why.
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

/// The charge of a tombstone that cannot be read otherwise, as far as it is there: scripts write
/// `T<how>D<charge>;` in the place of a record that they could not read.
fn charge_of_damaged(record: &Bytes) -> u64 {
    if record.get(2) == Some(&b'D') {
        return number(record, 3, b';').map_or(0, |(charge, _)| charge);
    }
    let charge = || {
        let (_, rest) = read_prefix(record.clone(), 1).ok()?;
        Some(number(&rest, 1, b',').ok()?.0)
    };
    charge().unwrap_or_default()
}

fn read_whole(
    record: Bytes,
    destination: &DestinationName,
    sequence: Sequence,
    attempts: Attempts,
) -> Result<Stamped, RecordError> {
    let (prefix, record) = read_prefix(record, sequence)?;
    match record.first() {
        Some(format) if (format_of(FIRST)..=format_of(known())).contains(format) => {}
        Some(&other) => return Err(RecordError::UnknownFormat(other.into())),
        None => return Err(damaged(&"it is missing or empty")),
    }
    let (charge, after) = number(&record, 1, b',')?;
    let (length, at) = number(&record, after, b';')?;
    let body_at = at.saturating_add(usize::try_from(length).map_err(|e| damaged(&e))?);
    let header = record.get(at..body_at).ok_or_else(|| damaged(&"the header is cut"))?;
    let header: Header = rmp_serde::from_slice(header).map_err(|e| damaged(&e))?;
    let body = record.slice(body_at..);
    if prefix.apart.is_some() && !body.is_empty() {
        return Err(damaged(&"a body stands in it and apart"));
    }
    let more = header.more.map(|more| *more).unwrap_or_default();
    let apart =
        Apart { body: prefix.apart, input: more.input_apart.as_ref().map(|(_, length)| *length) };
    let input =
        more.input.or(more.input_apart.map(|(content_type, _)| (content_type, Bytes::new())));
    Ok(Stamped {
        destination: destination.clone(),
        place: Place { epoch: header.epoch, sequence },
        previous: prefix.previous,
        priority: prefix.priority,
        charge,
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
        apart,
        damaged: None,
    })
}

/// True if a script that answers with this record gives its body behind it (`bytes_apart` in
/// `lua/include/bodies.lua`).
pub fn is_apart(record: &[u8]) -> bool {
    let Some(rest) = record.strip_prefix(b"B") else { return false };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    rest.get(digits) == Some(&b';') && rest[..digits].iter().any(|digit| *digit != b'0')
}

/// Reads a record with the body that a script gave behind it, if it did.
pub fn read_with(
    record: Bytes,
    body: Option<Bytes>,
    destination: &DestinationName,
    sequence: Sequence,
    attempts: Attempts,
) -> Result<Stamped, RecordError> {
    let mut message = read(record, destination, sequence, attempts)?;
    if let Some(body) = body {
        fill(&mut message, Part::Body, Some(body).filter(|body| !body.is_empty()))?;
    }
    Ok(message)
}

/// Puts a body that stands apart into its message, as it was found.
pub fn fill(stamped: &mut Stamped, part: Part, found: Option<Bytes>) -> Result<(), RecordError> {
    let found = found.ok_or_else(|| damaged(&"its body is missing"))?;
    let (length, body) = match part {
        Part::Body => (stamped.apart.body, Some(&mut stamped.message.body)),
        Part::Input => (stamped.apart.input, stamped.input.as_mut()),
    };
    if length != Some(found.len() as u64) {
        return Err(damaged(&"its body has another length than its record says"));
    }
    if let Some(body) = body {
        body.bytes = found;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const JSON: &str = "application/json";

    fn stamped(id: &str, content_type: &str, body: &'static [u8]) -> Stamped {
        Stamped {
            destination: "erp".parse().unwrap(),
            place: Place { epoch: 7, sequence: 42 },
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
            charge: 3,
            origin: Some(Origin {
                destination: "crm".parse().unwrap(),
                place: Place { epoch: 6, sequence: 17 },
            }),
            apart: Apart::default(),
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
                for tombstone in [None, Some(Tombstone::Skipped)] {
                    let whole = Stamped { previous, priority, tombstone, ..whole.clone() };
                    let attempts = whole.attempts.clone();
                    let Written { record, bodies } = of_stamped(&whole, ordering, FIRST);
                    assert_eq!(bodies, []);
                    assert_eq!(read(record.into(), &whole.destination, 42, attempts), Ok(whole));
                }
            }
        }
    }

    #[test]
    fn long_bodies_stand_apart_and_are_put_in_again() {
        let long: &'static [u8] = &[b'x'; INLINE_MAX + 1];
        let mut whole = Stamped { charge: 5, ..stamped("a", JSON, long) };
        whole.input = Some(Body { content_type: JSON.into(), bytes: vec![b'i'; 3000].into() });
        let Written { record, bodies } = of_stamped(&whole, Ordering::Key, FIRST);
        assert!(record.starts_with(b"B2049;P41;1") && record.len() < 200, "{record:?}");
        let input = whole.input.as_ref().unwrap().bytes.clone();
        let apart = [(Part::Body, Some(long.into())), (Part::Input, Some(input.clone()))];
        assert_eq!(bodies, apart);

        let record = Bytes::from(record);
        let attempts = whole.attempts.clone();
        let mut found = read(record.clone(), &whole.destination, 42, attempts).unwrap();
        assert_eq!(found.apart, Apart { body: Some(2049), input: Some(3000) });
        assert_eq!(found.message.body.bytes, "");
        // What was read without its bodies can be written again: the input stays where it is.
        let again = Stamped { tombstone: Some(Tombstone::Dropped), ..found.clone() };
        let again = of_stamped(&again, Ordering::Key, FIRST);
        assert_eq!(again.bodies, [(Part::Body, None)]);
        assert!(fill(&mut found, Part::Body, None).is_err());
        assert!(fill(&mut found, Part::Body, Some("short".into())).is_err());
        fill(&mut found, Part::Body, Some(long.into())).unwrap();
        fill(&mut found, Part::Input, Some(input)).unwrap();
        assert_eq!(Stamped { apart: Apart::default(), ..found }, whole);

        // A shorter output has the longer one removed.
        let shorter =
            Stamped { apart: Apart { body: Some(2049), input: None }, ..stamped("a", JSON, b"{}") };
        assert_eq!(of_stamped(&shorter, Ordering::Key, FIRST).bodies, [(Part::Body, None)]);
    }

    #[test]
    fn what_nothing_is_said_of_costs_one_byte() {
        let plain = Stamped {
            processed: None,
            input: None,
            idempotency_key: None,
            origin: None,
            charge: 2,
            ..stamped("a", JSON, b"{}")
        };
        let arrival = Arrival::of(plain.message.clone());
        let arrived = of_arrival(&arrival, 7, true, FIRST);
        assert_eq!(of_stamped(&plain, Ordering::Destination, FIRST), arrived);
        assert_eq!(arrived.record.last_chunk::<3>(), Some(b"\xc0{}"));
    }

    #[test]
    fn what_another_version_wrote_is_refused_not_misread() {
        let erp = "erp".parse().unwrap();
        assert_eq!(
            read("2…".into(), &erp, 1, Attempts::default()),
            Err(RecordError::UnknownFormat('2'))
        );
        for damaged in ["", "P12", "Px;1", "1\u{7f}", "T", "Tx1", "B9", "B9;", "12,9;", "1x,1;"] {
            let result = read(Bytes::from(damaged), &erp, 1, Attempts::default());
            assert!(matches!(result, Err(RecordError::Damaged(_))), "{damaged:?}: {result:?}");
        }
    }
}
