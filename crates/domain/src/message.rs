//! A message, before and after it is stamped.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{
    AttemptError, Attempts, DestinationName, Epoch, ProcessingOptions, Sequence, TraceContext,
};

/// The longest ordering key, in bytes.
pub const KEY_BYTES_MAX: usize = 256;
/// The longest idempotency key, in bytes.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 256;
/// The longest id that a producer may give, in bytes.
pub const ID_BYTES_MAX: usize = 128;
/// The longest name of a source, in bytes.
pub const SOURCE_NAME_BYTES_MAX: usize = 128;
/// The longest position in a source, in bytes.
pub const SOURCE_POSITION_BYTES_MAX: usize = 64;
/// The longest a message may be delayed, in milliseconds (a year).
pub const DELAY_MS_MAX: u64 = 365 * 24 * 3_600_000;
/// The highest priority. It is claimed first.
pub const PRIORITY_MAX: u8 = 9;
/// The priority of a message without one, as in the Jakarta Messaging specification.
pub const PRIORITY_DEFAULT: u8 = 4;
/// With each level of priority, a message is claimed before this many messages that arrived earlier
/// (`lua/include/waiting.lua`).
pub const PRIORITY_STEP: u64 = 1 << 18;
/// The most headers that travel with a message.
pub const HEADERS_MAX: usize = 64;
/// The most bytes that these headers may hold together.
pub const HEADERS_BYTES_MAX: usize = 16 * 1024;

/// A body: bytes and their media type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body {
    /// The media type, as the producer or the transform named it.
    pub content_type: String,
    /// The bytes. Reseq does not interpret them.
    pub bytes: Bytes,
}

/// A message, at any stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// A UUIDv7, or the producer's own id.
    pub id: String,
    /// The ordering key, if the producer gave one.
    pub key: Option<String>,
    /// Headers that travel with the message, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Body,
    /// When ingest accepted the message, in ms since 1970 by the clock of Redis, as the ingest pod estimates it. For
    /// display and metrics only.
    pub received_ms: u64,
}

impl Message {
    /// When the message was received; `None` if it is damaged, and the time cannot be read.
    pub fn received(&self) -> Option<u64> {
        Some(self.received_ms).filter(|received_ms| *received_ms > 0)
    }

    /// How long ago the message was received, if that is known.
    pub fn age_ms(&self, now_ms: u64) -> Option<u64> {
        self.received().map(|received_ms| now_ms.saturating_sub(received_ms))
    }
}

/// The ids that name a message in logs, besides its position.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MessageIds {
    /// The message's id.
    pub id: String,
    /// The message's trace, if it has one.
    pub trace: Option<TraceContext>,
}

impl MessageIds {
    /// The id of the trace.
    pub fn trace_id(&self) -> Option<String> {
        self.trace.map(|trace| trace.trace_id_text())
    }
}

impl Message {
    /// The ids that name this message in logs.
    pub fn ids(&self) -> MessageIds {
        MessageIds { id: self.id.clone(), trace: TraceContext::of(&self.headers) }
    }
}

/// A message that ingest has accepted but not yet stamped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// The message itself.
    pub message: Message,
    /// Arrivals with the same key within the destination's window are stamped only once.
    pub idempotency_key: Option<String>,
    /// The earliest time of processing.
    pub due: Option<Due>,
    /// 0 to 9, only without ordering: higher priorities are claimed first.
    pub priority: Option<u8>,
    /// The original message, if this is a redrive or a replay.
    pub origin: Option<Origin>,
    /// The dead letter that the message replaces, if it is a redrive.
    pub redrive: Option<Redrive>,
    /// How the producer wants the message to be processed.
    pub options: ProcessingOptions,
    /// The source of the message, if its producer names one.
    pub source: Option<Box<Source>>,
    /// Set if the trace of the message is recorded. Its header `traceparent` then names the span of its ingest.
    pub traced: Option<Traced>,
}

/// The source of a message. Each destination keeps, for each source, the position of its last message: its *mark*.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The name of the source, such as that of a table, or of a partition of a topic.
    pub name: String,
    /// The position of the message in the source. Positions are compared byte by byte: write numbers with leading
    /// zeros.
    pub position: String,
    /// The mark that the source must have: with another mark, the message is not stored. `None`: any mark is accepted.
    pub after: Option<String>,
    /// True if only the mark moves, and no message is stored.
    pub skip: bool,
}

/// The trace of an arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traced {
    /// The span of the producer, if it named one.
    pub parent: Option<[u8; 8]>,
}

/// A dead letter to enqueue again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redrive {
    /// The position of the dead letter, in the same destination.
    pub letter: Position,
    /// The message with the result of its processing, if it has one. It is then not processed again.
    pub processed: Option<Box<Stamped>>,
}

impl Arrival {
    /// An arrival without options.
    pub fn of(message: Message) -> Arrival {
        Arrival {
            message,
            idempotency_key: None,
            due: None,
            priority: None,
            origin: None,
            redrive: None,
            options: ProcessingOptions::default(),
            source: None,
            traced: None,
        }
    }
}

/// When a delayed message may be processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// This many milliseconds after it was stamped.
    After(u64),
    /// At this time, in milliseconds since 1970.
    At(u64),
}

/// The original of a redriven or replayed message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The destination of the original.
    pub destination: DestinationName,
    /// The position of the original in that destination.
    pub position: Position,
}

/// A message's position in the order of its destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Position {
    /// The epoch in which ingest stamped the message.
    pub epoch: Epoch,
    /// The number of the message within the destination.
    pub sequence: Sequence,
}

/// A message with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamped {
    /// The destination of the message.
    pub destination: DestinationName,
    /// The position of the message in the order of its destination.
    pub position: Position,
    /// The sequence of the message before it in its lane: 0 if it is the first, `None` if that is no longer known.
    pub previous: Option<Sequence>,
    /// The message; after processing, its body is the transform's output.
    pub message: Message,
    /// The failed attempts, stalls, errors and checkpoint of the message.
    pub attempts: Attempts,
    /// Set if the message only holds its position and is not delivered.
    pub tombstone: Option<Tombstone>,
    /// The result of its processing; `None` before it is processed.
    pub processed: Option<Processed>,
    /// The body as it arrived, if the destination's log keeps bodies and the transform changed it.
    pub input: Option<Body>,
    /// The idempotency key, if Redis removes it together with the message.
    pub idempotency_key: Option<String>,
    /// The bytes of the body as it arrived, which count against `backlog_bytes_max`.
    pub accounted_bytes: u64,
    /// The priority of the message; used only without ordering.
    pub priority: u8,
    /// The original message, if it was redriven or replayed.
    pub origin: Option<Origin>,
    /// How the producer wants the message to be processed.
    pub options: ProcessingOptions,
    /// The bodies of the message that are stored apart from the record.
    pub out_of_line: OutOfLine,
    /// Why a consumer did not accept the message. Set while the sender decides what becomes of it.
    pub refused: Option<Arc<ConsumerRefusal>>,
    /// Why the message cannot be read, if its data in Redis is damaged or missing. Then only its sequence is known.
    pub damaged: Option<String>,
}

/// Why a consumer did not accept a message: its answer, or its lease expired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerRefusal {
    /// The error.
    pub error: AttemptError,
    /// The wait before the next attempt that the consumer asks for.
    pub retry_after: Option<Duration>,
    /// True if no other attempt can succeed.
    pub is_permanent: bool,
}

/// The length in bytes of each body that is stored apart from the record. Long bodies are stored apart, so that Redis
/// can read records without bodies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutOfLine {
    /// The current body.
    pub body: Option<u64>,
    /// The body as it arrived, if it is kept besides the current body.
    pub input: Option<u64>,
}

impl OutOfLine {
    /// The sum of these lengths.
    pub fn bytes(self) -> u64 {
        self.body.unwrap_or_default() + self.input.unwrap_or_default()
    }
}

impl Stamped {
    /// A stamped message without anything special.
    pub fn new(
        destination: DestinationName,
        position: Position,
        previous: impl Into<Option<Sequence>>,
        message: Message,
    ) -> Stamped {
        Stamped {
            destination,
            position,
            previous: previous.into(),
            accounted_bytes: message.body.bytes.len() as u64,
            message,
            attempts: Attempts::default(),
            tombstone: None,
            processed: None,
            input: None,
            idempotency_key: None,
            priority: PRIORITY_DEFAULT,
            origin: None,
            options: ProcessingOptions::default(),
            out_of_line: OutOfLine::default(),
            refused: None,
            damaged: None,
        }
    }

    /// When the processing of the message ended, in ms since 1970, if that is known. Without a transform: when the
    /// message arrived.
    pub fn processed_ms(&self, has_transform: bool) -> Option<u64> {
        let received_ms = self.message.received()?;
        match self.processed {
            Some(processed) => Some(received_ms + processed.waited_ms + processed.took_ms),
            None if has_transform => None,
            None => Some(received_ms),
        }
    }

    /// A message that cannot be read, and why. Only its sequence is known.
    pub fn unreadable(destination: DestinationName, sequence: Sequence, why: String) -> Stamped {
        let body = Body { content_type: "application/octet-stream".into(), bytes: Bytes::new() };
        let (id, key, headers) = (String::new(), None, Vec::new());
        let message = Message { id, key, headers, body, received_ms: 0 };
        let position = Position { epoch: 0, sequence };
        let before = sequence.saturating_sub(1);
        Stamped { damaged: Some(why), ..Stamped::new(destination, position, before, message) }
    }

    /// The message with the result of its processing: this body, or a tombstone. With
    /// `keeps_input`, also keeps the body as it arrived if the output differs.
    pub fn finished(
        mut self,
        output: Option<Body>,
        processed: Processed,
        keeps_input: bool,
    ) -> Stamped {
        if output.is_none() {
            self.tombstone = Some(Tombstone::Dropped);
        }
        let arrived = &self.message.body;
        let nothing = Body { content_type: arrived.content_type.clone(), bytes: Bytes::new() };
        let arrived = std::mem::replace(&mut self.message.body, output.unwrap_or(nothing));
        let is_encoded_alike = arrived.bytes == self.message.body.bytes;
        if keeps_input && self.input.is_none() && arrived != self.message.body {
            self.input = Some(arrived);
        }
        if !is_encoded_alike {
            self.message.end_encoding(self.input.is_some());
        }
        self.processed = Some(processed);
        self
    }
}

/// Why a message only holds its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tombstone {
    /// A transform or a policy dropped the message.
    Dropped,
    /// An operator or a policy made the message a dead letter.
    DeadLettered,
    /// The message was cancelled.
    Cancelled,
}

impl Tombstone {
    /// Its name in the API, in metrics and in logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Tombstone::Dropped => "dropped",
            Tombstone::DeadLettered => "dead_lettered",
            Tombstone::Cancelled => "cancelled",
        }
    }
}

/// How long a message waited for processing, and how long that took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Processed {
    /// From arrival to the claim that succeeded, in milliseconds.
    pub waited_ms: u64,
    /// From that claim to its result, in milliseconds.
    pub took_ms: u64,
    /// Attempts, including the successful one.
    pub attempts: u32,
}

/// The header of a message that says how its body is encoded (RFC 9110, 8.4).
pub const CONTENT_ENCODING: &str = "content-encoding";
/// The header that says how the body as it arrived is encoded, after another body has replaced it. Never leaves Reseq.
pub const INPUT_ENCODING: &str = "reseq-input-encoding";

impl Message {
    /// The encoding of the body: the first name in the header, unless that is `identity`.
    pub fn encoding(headers: &[(String, String)]) -> Option<&str> {
        let (_, named) = headers.iter().find(|(name, _)| name == CONTENT_ENCODING)?;
        let named = named.trim();
        (!named.is_empty() && !named.eq_ignore_ascii_case("identity")).then_some(named)
    }

    /// Removes the encoding, because another body replaces the encoded one. With `keeps_input`, remembers the encoding
    /// of the body as it arrived.
    pub fn end_encoding(&mut self, keeps_input: bool) {
        let headers = &mut self.headers;
        headers.retain(|(name, _)| keeps_input || name != CONTENT_ENCODING);
        let named = headers.iter_mut().filter(|(name, _)| name == CONTENT_ENCODING);
        named.for_each(|(name, _)| *name = INPUT_ENCODING.to_owned());
    }
}

/// True for a byte that a header name may have (`tchar` of RFC 9110, 5.6.2).
pub fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Merges headers of the same name, joining their values as RFC 9110, 5.3 allows.
pub fn joined_headers(headers: &[(String, String)]) -> BTreeMap<String, String> {
    let mut joined: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in headers.iter().filter(|(name, _)| name != INPUT_ENCODING) {
        joined
            .entry(name.clone())
            .and_modify(|whole| {
                whole.push_str(", ");
                whole.push_str(value);
            })
            .or_insert_with(|| value.clone());
    }
    joined
}

/// Checks a text for use in a Redis key or an HTTP header: 1 to `max` bytes of printable characters. Returns the
/// problem.
pub fn check_text(what: &str, text: &str, max: usize) -> Result<(), String> {
    if text.is_empty() || text.len() > max {
        return Err(format!("{what}: must be 1 to {max} bytes long"));
    }
    if text.chars().any(char::is_control) {
        return Err(format!("{what}: must not contain control characters"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_age_of_a_message_without_a_time_of_arrival_is_unknown() {
        let body = Body { content_type: "text/plain".into(), bytes: Bytes::new() };
        let mut message =
            Message { id: "a".into(), key: None, headers: Vec::new(), body, received_ms: 0 };
        assert_eq!((message.received(), message.age_ms(7)), (None, None));
        message.received_ms = 5;
        assert_eq!((message.received(), message.age_ms(7)), (Some(5), Some(2)));
        // Clocks differ.
        assert_eq!(message.age_ms(4), Some(0));
    }

    #[test]
    fn values_of_one_name_are_joined_in_their_order() {
        let headers = [("x-a", ""), ("x-b", "1"), ("x-a", "2")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let joined = joined_headers(&headers);
        assert_eq!((joined["x-a"].as_str(), joined["x-b"].as_str()), (", 2", "1"));
    }

    #[test]
    fn what_arrived_is_kept_once_and_only_beside_another_body() {
        let body = |text: &'static str| Body { content_type: "t".into(), bytes: text.into() };
        let message = Message {
            id: "m".into(),
            key: None,
            headers: Vec::new(),
            body: body("in"),
            received_ms: 0,
        };
        let position = Position { epoch: 1, sequence: 1 };
        let arrived = Stamped::new("erp".parse().unwrap(), position, 0, message);
        let processed = Processed { waited_ms: 1, took_ms: 2, attempts: 3 };
        let same = arrived.clone().finished(Some(body("in")), processed, true);
        assert_eq!((&same.input, same.processed), (&None, Some(processed)));
        let other = arrived.clone().finished(Some(body("out")), processed, true);
        assert_eq!((&other.message.body, &other.input), (&body("out"), &Some(body("in"))));
        assert_eq!(other.accounted_bytes, 2);
        let again = other.finished(Some(body("out 2")), processed, true);
        assert_eq!(again.input, Some(body("in")));
        assert_eq!(arrived.clone().finished(Some(body("out")), processed, false).input, None);
        let dropped = arrived.finished(None, processed, true);
        assert_eq!(dropped.tombstone, Some(Tombstone::Dropped));
        assert_eq!((&*dropped.message.body.bytes, dropped.input), (&b""[..], Some(body("in"))));
    }

    #[test]
    fn control_characters_and_lengths_are_refused_by_name() {
        assert!(check_text("Reseq-Key", "a\r\nb", 10).unwrap_err().contains("Reseq-Key"));
        assert!(check_text("Reseq-Key", "", 10).is_err());
        assert!(check_text("Reseq-Key", &"x".repeat(11), 10).is_err());
        assert!(check_text("Reseq-Key", "kontō {7}", 20).is_ok());
    }
}
