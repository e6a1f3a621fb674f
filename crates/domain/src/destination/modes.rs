//! How a destination orders, processes and compares its messages, and what it does with messages that cannot succeed.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Which messages must stay in order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ordering {
    /// All messages of the destination: one lane.
    #[default]
    Destination,
    /// The messages of one ordering key: one lane per key, created on demand.
    Key,
    /// No messages: each message leaves when it is ready.
    None,
}

/// How many messages of a lane are processed at a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Processing {
    /// As many as the processors can process.
    #[default]
    Parallel,
    /// One: the next message waits until the message before it has been processed.
    Serial,
}

/// When a message with a known idempotency key counts as a repeat.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum IdempotencyCompare {
    /// If it has the same body as the first message. A message with another body is refused.
    #[default]
    Body,
    /// Always: only the key counts. A producer may send the same message with another body, for example with the time
    /// of sending in it.
    Key,
}

/// What happens to a message when its attempts are used up, or when it can never succeed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnExhausted {
    /// The message keeps its position, and its lane waits for an operator.
    #[default]
    Halt,
    /// The message becomes a dead letter; a tombstone holds its position until the lane has passed it.
    DeadLetter,
    /// The message is dropped; a tombstone holds its position until the lane has passed it.
    Drop,
}
