//! The states of a message and the transitions between them.
//!
//! ```text
//!             ingest                claim                  complete
//!   (arrival) ──────► waiting ◄───────────► processing ──────────────► ready
//!      │                 ▲    requeue, reap   │     │                   │  ▲
//!      │ ingest          │ due                │     │ fail, reap        │  │ postpone
//!      ├────────────► delayed ◄───────────────┘     │ (used up)  release▼  │
//!      │                            fail            │              delivering ──► delivered
//!      │                                            ▼              halt │    ack
//!      └─ ready, if it needs no processing        halted ◄──────────────┘
//!                                                   │ retry
//!                                                   └──────► waiting, or ready
//!
//!   withdraw: waiting, delayed, ready, halted ──► tombstone ──► dropped, dead-lettered or cancelled
//! ```
//!
//! Each transition is one Lua script of the same name (`due` is part of `reap`, `ack` of
//! `release`, `retry` is `retry_head`). The state of a message is not stored: it follows from the
//! sets that hold its sequence. A tombstone is in `ready`; the sender settles it without delivery.
//! After a message's last attempt, `fail` also does what `withdraw` does, unless the message stays halted.
//! With serial processing, a message that awaits its turn is `waiting`. A claim that leaves a suspect out makes it
//! `delayed` (`defer`, part of `claim`). A suspect is a message that may have crashed its worker.
//!
//! `crates/testing/src/model/events.rs` has these transitions as a table. The reference model compares every call of a
//! script with it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Tombstone;

/// The state of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The message may be claimed now.
    Waiting,
    /// A processor or worker has a lease on the message.
    Processing,
    /// The message must not be processed before its time, or is in backoff after a failed attempt.
    Delayed,
    /// The message is processed. It leaves when all messages before it in its lane have left.
    Ready,
    /// The message was released to the sender, which is trying to deliver it.
    Delivering,
    /// The attempts at the message are used up: its lane waits for an operator.
    Halted,
    /// The message is pending, but its data in Redis cannot be read: its lane waits for an operator.
    Damaged,
    /// The message is gone: the receiver accepted it.
    Delivered,
    /// The message is gone: its transform or a policy dropped it.
    Dropped,
    /// The message is gone: it is a dead letter.
    DeadLettered,
    /// The message is gone: it was cancelled.
    Cancelled,
}

impl From<Tombstone> for State {
    fn from(tombstone: Tombstone) -> State {
        match tombstone {
            Tombstone::Dropped => State::Dropped,
            Tombstone::DeadLettered => State::DeadLettered,
            Tombstone::Cancelled => State::Cancelled,
        }
    }
}

impl State {
    /// True if the message is gone.
    pub fn is_settled(self) -> bool {
        matches!(self, State::Delivered | State::Dropped | State::DeadLettered | State::Cancelled)
    }
}
