//! How a destination orders, processes and compares its messages, and what it does with hopeless ones.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What must stay in order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ordering {
    /// All messages of the destination: one lane.
    #[default]
    Destination,
    /// The messages of one ordering key: one lane per key, created on demand.
    Key,
    /// Nothing: each message leaves when it is ready.
    None,
}

/// How many messages of a lane are processed at a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Processing {
    /// As many as the processors can.
    #[default]
    Parallel,
    /// One: the next only when the one before it has been processed.
    Serial,
}

/// What makes a message that arrives under a known idempotency key a repeat.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum IdempotencyCompare {
    /// The same body as the first message. Another body is a mistake, and refused.
    #[default]
    Body,
    /// The key alone: a source may write something new into each sending, such as its time.
    Key,
}

/// What happens to a message when its attempts are used up, or when it can never succeed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnExhausted {
    /// It keeps its position, and its lane waits for an operator.
    #[default]
    Halt,
    /// It becomes a dead letter; a tombstone holds its position until the lane has passed it.
    DeadLetter,
    /// It is dropped; a tombstone holds its position until the lane has passed it.
    Drop,
}
