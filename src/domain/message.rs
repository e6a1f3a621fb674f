//! A message, before and after it has its place in the order.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{Attempts, DestinationName, Epoch, Sequence};

/// The longest ordering key, in bytes.
pub const KEY_BYTES_MAX: usize = 256;
/// The longest idempotency key, in bytes.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 256;
/// The longest id that a producer may give, in bytes.
pub const ID_BYTES_MAX: usize = 128;
/// The longest a message may be delayed, in milliseconds (a year).
pub const DELAY_MS_MAX: u64 = 365 * 24 * 3_600_000;
/// The highest priority; it is claimed first.
pub const PRIORITY_MAX: u8 = 9;
/// The priority of a message that names none, as in the Jakarta Messaging specification.
pub const PRIORITY_DEFAULT: u8 = 4;
/// The most headers that travel with a message, and the most bytes they may hold together.
pub const HEADERS_MAX: usize = 64;
/// See [`HEADERS_MAX`].
pub const HEADERS_BYTES_MAX: usize = 16 * 1024;

/// What a message carries: bytes and how to read them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body {
    /// The media type, as the producer or the transform named it.
    pub content_type: String,
    /// The bytes themselves, never looked into.
    pub bytes: Bytes,
}

/// A message, wherever it is on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// A UUIDv7, or the producer's own id.
    pub id: String,
    /// The ordering key, if the producer gave one.
    pub key: Option<String>,
    /// Headers that travel with the message, names in lower case.
    pub headers: Vec<(String, String)>,
    /// What it carries.
    pub body: Body,
    /// When ingest took it in, in milliseconds since 1970 by the ingest pod's clock. For
    /// people and metrics only: nothing is decided by it.
    pub received_ms: u64,
}

/// A message on its way into Redis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// The message itself.
    pub message: Message,
    /// With it, the same arrival twice within the destination's window is stamped once.
    pub idempotency_key: Option<String>,
    /// Not to be processed before.
    pub due: Option<Due>,
    /// 0 to 9, where nothing is in order: what is higher is claimed first.
    pub priority: Option<u8>,
    /// What it was before, if it was redriven or replayed.
    pub origin: Option<Origin>,
    /// The dead letter that it replaces.
    pub redrive: Option<Redrive>,
}

/// A dead letter that arrives anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redrive {
    /// Its old place, in the same destination.
    pub letter: Position,
    /// The message as it was when it had been processed, if it had: it is not processed again.
    pub processed: Option<Box<Stamped>>,
}

impl Arrival {
    /// A message with nothing special about it.
    pub fn of(message: Message) -> Arrival {
        Arrival {
            message,
            idempotency_key: None,
            due: None,
            priority: None,
            origin: None,
            redrive: None,
        }
    }
}

/// When a delayed message may be processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// So many milliseconds after it was stamped.
    After(u64),
    /// At this time, in milliseconds since 1970.
    At(u64),
}

/// The message that a redriven or replayed one was before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Where it was.
    pub destination: DestinationName,
    /// Its place there.
    pub position: Position,
}

/// Where a message stands in the order of its destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Position {
    /// The epoch in which it was stamped.
    pub epoch: Epoch,
    /// Its number in the destination.
    pub sequence: Sequence,
}

/// A message that has its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamped {
    /// The receiver it is for.
    pub destination: DestinationName,
    /// Its place in the destination's order.
    pub position: Position,
    /// The sequence stamped before this one in its lane, 0 if it is the first; none if that is not
    /// known any more.
    pub previous: Option<Sequence>,
    /// The message; after processing, with the transform's output as its body.
    pub message: Message,
    /// What attempts at it left behind.
    pub attempts: Attempts,
    /// Set when it only keeps its place, and is not delivered.
    pub tombstone: Option<Tombstone>,
    /// How its processing went; none before it has been processed.
    pub processed: Option<Processed>,
    /// The body as it arrived, where the destination's log holds bodies and its transform made
    /// another one.
    pub input: Option<Body>,
    /// Its idempotency key, where it is forgotten together with the message.
    pub idempotency_key: Option<String>,
    /// The bytes of the body as it arrived: what it counts for in `backlog_bytes_max`.
    pub accounted_bytes: u64,
    /// Its priority, where nothing is in order.
    pub priority: u8,
    /// What it was before, if it was redriven or replayed.
    pub origin: Option<Origin>,
    /// Which of its bodies Redis keeps apart from its header.
    pub apart: Apart,
    /// Why it cannot be read, if what Redis holds of it is damaged or missing: nothing but its sequence
    /// is known then.
    pub damaged: Option<String>,
}

/// Long bodies are stored apart from their message's header, so that a look at headers reads no
/// bodies. Says of each body that is stored apart how many bytes it has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Apart {
    /// The body as it is now.
    pub body: Option<u64>,
    /// The body as it arrived, where it is kept beside another one.
    pub input: Option<u64>,
}

impl Apart {
    /// The bytes of all bodies that are stored apart.
    pub fn bytes(self) -> u64 {
        self.body.unwrap_or_default() + self.input.unwrap_or_default()
    }
}

impl Stamped {
    /// A message at its place, with nothing special about it.
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
            apart: Apart::default(),
            damaged: None,
        }
    }

    /// A message of which only the sequence is known, and why.
    pub fn unreadable(destination: DestinationName, sequence: Sequence, why: String) -> Stamped {
        let body = Body { content_type: "application/octet-stream".into(), bytes: Bytes::new() };
        let (id, key, headers) = (String::new(), None, Vec::new());
        let message = Message { id, key, headers, body, received_ms: 0 };
        let position = Position { epoch: 0, sequence };
        let before = sequence.saturating_sub(1);
        Stamped { damaged: Some(why), ..Stamped::new(destination, position, before, message) }
    }

    /// The message as its processing left it: with this body, or with none as a tombstone. With
    /// `keeps_input` the body as it arrived is kept beside another one.
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
        if keeps_input && self.input.is_none() && arrived != self.message.body {
            self.input = Some(arrived);
        }
        self.processed = Some(processed);
        self
    }
}

/// Why a message only keeps its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tombstone {
    /// Its transform, or a policy, dropped it.
    Dropped,
    /// A person or a policy skipped it: it is a dead letter.
    DeadLettered,
    /// It was cancelled.
    Cancelled,
}

/// How long a message waited to be processed, and how long that took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Processed {
    /// From its arrival to the claim that succeeded, in milliseconds.
    pub waited_ms: u64,
    /// From that claim to its outcome, in milliseconds.
    pub took_ms: u64,
    /// Attempts, with the one that succeeded.
    pub attempts: u32,
}

/// True for the request headers that travel with a message.
pub fn travels(name: &str) -> bool {
    name.starts_with("x-")
        || name.starts_with("ce-")
        || matches!(name, "traceparent" | "tracestate")
}

/// Checks a text that becomes part of a Redis key or an HTTP header: 1 to `max` bytes of
/// printable characters. Returns what is wrong with it.
pub fn check_text(what: &str, text: &str, max: usize) -> Result<(), String> {
    if text.is_empty() || text.len() > max {
        return Err(format!("{what} must be 1 to {max} bytes long"));
    }
    if text.chars().any(char::is_control) {
        return Err(format!("{what} must not contain control characters"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_extension_and_tracing_headers_travel() {
        for name in ["x-tenant", "ce-type", "traceparent", "tracestate"] {
            assert!(travels(name), "{name}");
        }
        for name in ["authorization", "host", "content-length", "cookie", "reseq-key"] {
            assert!(!travels(name), "{name}");
        }
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
