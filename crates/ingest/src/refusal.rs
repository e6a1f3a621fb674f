//! The outcome of an arrival: its position, or why it was refused.

use serde_json::json;

use super::json::ItemError;
use domain::{DestinationName, Durability, Position};
use formats::code::Code;
use http_server::problem::Problem;

/// The field of a problem with the mark of a source.
const MARK: &str = "mark";

/// An arrival that Redis has stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The destination, or the shard of it, that holds the arrival.
    pub destination: DestinationName,
    /// The position of the arrival; sequence 0 if it is not known.
    pub position: Position,
    /// The durability that the arrival has reached.
    pub durability: Durability,
    /// The id of the first message, for a duplicate. Empty if the source repeated the message: then the position is 0,
    /// too.
    pub duplicate_of: Option<String>,
}

/// Why an arrival was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no such destination.
    #[error("there is no destination {0:?}; PUT /v1/destinations/{0} creates one")]
    UnknownDestination(String),
    /// There is no such topic.
    #[error("there is no topic {0:?}; PUT /v1/topics/{0} creates one")]
    UnknownTopic(String),
    /// The body is not a message, or this destination rejects it.
    #[error("{0}")]
    Invalid(ItemError),
    /// A header of the request is not valid; the text begins with its name.
    #[error("{0}")]
    InvalidHeader(String),
    /// The message has no key where the definition of the destination says; the text says why.
    #[error("{0}")]
    NoKey(String),
    /// The expression that finds the key did not end in time.
    #[error("{0}; nothing was stored, send again later")]
    KeyUnavailable(String),
    /// The destination verifies signatures, and a frame over TCP has none.
    #[error(
        "the destination verifies signatures, and frames have none; the first frame must be AUTH <token>, with a \
         token of the scope ingest"
    )]
    NoSignature,
    /// The idempotency key was used for another body.
    #[error(
        "the idempotency key was used before for another body; use a new key for a new message"
    )]
    Conflict,
    /// The message does not follow the mark of its source. Contains this mark.
    #[error("{}; nothing was stored", match .0 {
        Some(mark) => format!("the last message of this source is at position {mark:?}: go on after it"),
        None => "the destination has no message of this source: say where it begins, without `after`".to_owned(),
    })]
    SourceGap(Option<String>),
    /// The destination has the marks of as many sources as it may.
    #[error(
        "the destination has the marks of as many sources as it may (sources_max); remove one that has ended. Nothing \
         was stored"
    )]
    SourcesFull,
    /// The destination's backlog is full.
    #[error(
        "the destination has as many pending messages, bytes or idempotency keys as its limits allow \
         (backlog_max, backlog_bytes_max, idempotency_keys_max); nothing was stored, send again later"
    )]
    BacklogFull,
    /// Ingest of the destination is paused.
    #[error(
        "ingest of the destination is paused; nothing was stored, send again when it is resumed"
    )]
    Paused,
    /// The destination or the token has used up its rate. Contains the seconds to wait.
    #[error(
        "more messages in one second than the rate of the destination (ingest_rate_per_second_max) or of \
         the token (rate_per_second_max) allows; nothing was stored, send again after {0} s"
    )]
    RateLimited(u64),
    /// Redis has too little memory left.
    #[error(
        "Redis has little memory left (ingest.memory_high_percent); nothing was stored, send again \
         later"
    )]
    MemoryHigh,
    /// Redis did not accept the call.
    #[error("Redis is not available; nothing was stored, send again later")]
    RedisUnavailable,
    /// Redis refuses all writes. Contains the reason as a sentence.
    #[error("{0}; nothing was stored, send again later")]
    RedisRefusesWrites(String),
    /// The Redis user lacks a right that the call needs. The text names this right.
    #[error("{0}; nothing was stored")]
    NoRights(String),
    /// The secrets of the destination are encrypted with a key that this process lacks; the text names it.
    #[error("{0}; nothing was stored, send again later")]
    NoSecretsKey(String),
    /// Redis holds data of a newer schema; the text says so.
    #[error("{0}")]
    NewerSchema(String),
    /// Redis did not answer, or the destination's `durability` was not reached in time.
    #[error(
        "Redis did not confirm the message: it may be stored. Sending again is safe only with an \
         idempotency key"
    )]
    NotConfirmed,
    /// The data of the destination, or of the idempotency key, is damaged in Redis. The text says which.
    #[error("{0}; nothing was stored")]
    Damaged(String),
    /// The deployment cannot reach the destination's `durability`. The text says how to change that.
    #[error("{0}; nothing was stored")]
    CannotConfirm(String),
    /// An earlier message of the same producer failed, and this message must not overtake it.
    #[error(
        "an earlier message was not stored, and this one must not overtake it; send both again"
    )]
    Aborted,
    /// The process is stopping.
    #[error("this pod is stopping; send again to another pod")]
    Draining,
}

impl Refusal {
    /// A field of the message is invalid; `detail` begins with its path and a colon.
    pub(super) fn invalid_field(detail: impl Into<String>) -> Refusal {
        Refusal::Invalid(ItemError { code: Code::InvalidField, detail: detail.into() })
    }

    /// The stable code, which also determines the HTTP status.
    pub fn code(&self) -> Code {
        match self {
            Refusal::UnknownDestination(_) => Code::UnknownDestination,
            Refusal::UnknownTopic(_) => Code::UnknownTopic,
            Refusal::Invalid(error) => error.code,
            Refusal::InvalidHeader(_) => Code::InvalidField,
            Refusal::NoKey(_) => Code::NoKey,
            Refusal::NoSignature => Code::NoSignature,
            Refusal::KeyUnavailable(_) => Code::KeyUnavailable,
            Refusal::Conflict => Code::IdempotencyConflict,
            Refusal::SourceGap(_) => Code::SourceGap,
            Refusal::SourcesFull => Code::SourcesFull,
            Refusal::BacklogFull => Code::BacklogFull,
            Refusal::Paused => Code::Paused,
            Refusal::RateLimited(_) => Code::RateLimited,
            Refusal::MemoryHigh => Code::MemoryHigh,
            Refusal::RedisUnavailable => Code::RedisUnavailable,
            Refusal::RedisRefusesWrites(_) => Code::RedisRefusesWrites,
            Refusal::NoRights(_) => Code::NoRights,
            Refusal::NoSecretsKey(_) => Code::NoSecretsKey,
            Refusal::NewerSchema(_) => Code::NewerSchema,
            Refusal::NotConfirmed => Code::NotConfirmed,
            Refusal::Damaged(_) => Code::Damaged,
            Refusal::CannotConfirm(_) => Code::CannotConfirm,
            Refusal::Aborted => Code::Aborted,
            Refusal::Draining => Code::Draining,
        }
    }

    /// True if the same message may be accepted later.
    pub fn is_temporary(&self) -> bool {
        self.code().is_temporary()
    }

    /// True if the arrival is certainly not stored, and only waits for room or the end of a pause.
    pub fn is_wait(&self) -> bool {
        matches!(
            self,
            Refusal::BacklogFull | Refusal::Paused | Refusal::MemoryHigh | Refusal::RateLimited(_)
        )
    }

    /// The answer for an HTTP client.
    pub fn problem(&self) -> Problem {
        match self {
            Refusal::Invalid(ItemError { code: Code::InvalidField, detail }) => {
                Problem::invalid_field(detail)
            }
            Refusal::InvalidHeader(detail) => Problem::invalid_header(detail),
            Refusal::RateLimited(seconds) => Problem {
                wait_seconds: Some(*seconds),
                ..Problem::new(Code::RateLimited, self.to_string())
            },
            Refusal::SourceGap(mark) => {
                let mut problem = Problem::new(Code::SourceGap, self.to_string());
                problem.more.insert(MARK.into(), json!(mark));
                problem
            }
            refusal => Problem::new(refusal.code(), refusal.to_string()),
        }
    }
}

/// The outcome of one arrival.
pub type Outcome = Result<Receipt, Refusal>;
