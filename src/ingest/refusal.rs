//! What becomes of an arrival: its place, or why it was not taken.

use crate::{
    domain::{Durability, Position},
    wire::{code::Code, problem::Problem},
};

/// An arrival that Redis has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// Its place in the order.
    pub position: Position,
    /// The level that it has reached.
    pub durability: Durability,
    /// If the same had been stamped before, here: the id that it has.
    pub duplicate_of: Option<String>,
}

/// Why an arrival was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no such destination.
    #[error("there is no destination {0:?}; PUT /v1/destinations/{0} makes one")]
    UnknownDestination(String),
    /// There is no such topic.
    #[error("there is no topic {0:?}; PUT /v1/topics/{0} makes one")]
    UnknownTopic(String),
    /// The destination could never take it.
    #[error("{0}")]
    Invalid(&'static str),
    /// The idempotency key stands for another body.
    #[error(
        "the idempotency key was used before for another body; use a new key for a new message"
    )]
    Conflict,
    /// The destination has as much pending as it may have.
    #[error(
        "the destination has as many pending messages, or bytes of them, as it may have \
         (backlog_max, backlog_bytes_max); nothing was stored, send again later"
    )]
    BacklogFull,
    /// A person has paused the destination's ingest.
    #[error("the destination is paused and takes nothing in; send again when it is resumed")]
    Paused,
    /// Redis has little memory left, or none.
    #[error(
        "Redis has little memory left (ingest.memory_high_percent); nothing was stored, send again \
         later"
    )]
    MemoryHigh,
    /// Redis did not take it.
    #[error("Redis is not available; nothing was stored, send again later")]
    RedisUnavailable,
    /// The Redis user may not do what storing needs; says which right is missing.
    #[error("{0}; nothing was stored")]
    NoRights(String),
    /// Redis holds what a newer version wrote; says so.
    #[error("{0}")]
    NewerSchema(String),
    /// No answer came from Redis, or what the destination's `durability` asks for was not reached in
    /// time.
    #[error(
        "Redis did not confirm the message: it may be there. Sending again is safe only with an \
         idempotency key"
    )]
    NotConfirmed,
    /// What Redis holds of its lane, or of its idempotency key, is damaged.
    #[error(
        "what Redis holds of its lane, or of what else it needs, is damaged: see /readyz; reseq repair \
         finds and repairs it. Nothing was stored"
    )]
    Damaged,
    /// The deployment cannot give the destination's `durability`; says what to change.
    #[error("{0}; nothing was stored")]
    CannotConfirm(String),
    /// An earlier message of the same producer failed.
    #[error("an earlier message was not taken, and this one must not overtake it; send both again")]
    Aborted,
    /// The process is stopping.
    #[error("this pod is stopping; send again, to another")]
    Draining,
}

impl Refusal {
    /// The stable code, which also says the status over HTTP.
    pub fn code(&self) -> Code {
        match self {
            Refusal::UnknownDestination(_) => Code::UnknownDestination,
            Refusal::UnknownTopic(_) => Code::UnknownTopic,
            Refusal::Invalid(_) => Code::InvalidField,
            Refusal::Conflict => Code::IdempotencyConflict,
            Refusal::BacklogFull => Code::BacklogFull,
            Refusal::Paused => Code::Paused,
            Refusal::MemoryHigh => Code::MemoryHigh,
            Refusal::RedisUnavailable => Code::RedisUnavailable,
            Refusal::NoRights(_) => Code::NoRights,
            Refusal::NewerSchema(_) => Code::NewerSchema,
            Refusal::NotConfirmed => Code::NotConfirmed,
            Refusal::Damaged => Code::Damaged,
            Refusal::CannotConfirm(_) => Code::CannotConfirm,
            Refusal::Aborted => Code::Aborted,
            Refusal::Draining => Code::Draining,
        }
    }

    /// True if sending the same again later may succeed.
    pub fn is_temporary(&self) -> bool {
        self.code().is_temporary()
    }

    /// True if there only is no room, or no leave, to store it just now: surely it is not there.
    pub fn is_wait(&self) -> bool {
        matches!(self, Refusal::BacklogFull | Refusal::Paused | Refusal::MemoryHigh)
    }

    /// As an HTTP client is told.
    pub fn problem(&self) -> Problem {
        Problem::new(self.code(), self.to_string())
    }
}

/// What becomes of one arrival.
pub type Outcome = Result<Receipt, Refusal>;
