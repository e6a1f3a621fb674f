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
//! With serial processing, a message that awaits its turn is `waiting`. A claim that passes a suspect makes it `delayed`
//! (`defer`, part of `claim`).
//!
//! The reference model (`crates/testing/src/model/transitions.rs`) compares every call of a script with this table.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Stage, Tombstone};

/// The state of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// May be claimed now.
    Waiting,
    /// Under a processor's lease.
    Processing,
    /// Not to be processed before its time, or in backoff after a failed attempt.
    Delayed,
    /// Processed; leaves when all messages before it in its lane have left.
    Ready,
    /// Released to the sender, which is trying to deliver it.
    Delivering,
    /// Its attempts are used up: its lane waits for an operator.
    Halted,
    /// Pending, but its data in Redis cannot be read: its lane waits for an operator.
    Damaged,
    /// Gone: accepted by the receiver.
    Delivered,
    /// Gone: its transform or a policy dropped it.
    Dropped,
    /// Gone: it is a dead letter.
    DeadLettered,
    /// Gone: cancelled.
    Cancelled,
}

/// An event in the life of a message. Named after its script, or the part of it that the event comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// A processor claims it under a lease.
    Claim,
    /// A claim passes it, because other suspects of its destination are processed.
    Defer,
    /// A processor returns it unprocessed.
    Requeue,
    /// Its lease expired.
    Reap,
    /// The attempt to process it failed.
    Fail,
    /// Its backoff is over.
    Due,
    /// Its processing succeeded.
    Complete,
    /// The sender takes it: all messages before it in its lane have left.
    Release,
    /// The receiver refused it; the same position is tried again.
    Postpone,
    /// The receiver accepted it.
    Ack,
    /// Its attempts are used up, and it keeps its position.
    Halt,
    /// An operator retries it, from the stage in which it halted.
    Retry(Stage),
    /// It leaves without delivery.
    Withdraw(Tombstone),
}

/// An event that is not possible in this state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{event:?} cannot happen to a message that is {state:?}")]
pub struct InvalidTransition {
    /// The state of the message.
    pub state: State,
    /// The event.
    pub event: Event,
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

    /// The state of a newly stamped message. A delayed message always needs processing, also if its
    /// destination has no transform.
    pub fn arrived(needs_processing: bool, is_delayed: bool) -> State {
        match (needs_processing, is_delayed) {
            (true, true) => State::Delayed,
            (true, false) => State::Waiting,
            (false, _) => State::Ready,
        }
    }

    /// The state after `event`; an error if the diagram has no such transition.
    pub fn after(self, event: Event) -> Result<State, InvalidTransition> {
        use {Event as E, State as S};
        match (self, event) {
            (S::Waiting, E::Claim) => Ok(S::Processing),
            (S::Waiting, E::Defer) => Ok(S::Delayed),
            (S::Processing, E::Requeue | E::Reap) => Ok(S::Waiting),
            (S::Processing, E::Fail) => Ok(S::Delayed),
            (S::Delayed, E::Due) => Ok(S::Waiting),
            (S::Processing, E::Complete) => Ok(S::Ready),
            (S::Ready, E::Release) => Ok(S::Delivering),
            (S::Delivering, E::Postpone) => Ok(S::Ready),
            (S::Delivering, E::Ack) => Ok(S::Delivered),
            (S::Processing | S::Delivering, E::Halt) => Ok(S::Halted),
            (S::Halted, E::Retry(Stage::Transform)) => Ok(S::Waiting),
            (S::Halted, E::Retry(Stage::Delivery)) => Ok(S::Ready),
            (S::Waiting | S::Delayed | S::Ready | S::Halted, E::Withdraw(why)) => Ok(why.into()),
            (state, event) => Err(InvalidTransition { state, event }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use {Event as E, State as S};

    #[test]
    fn the_whole_way_and_every_way_back() {
        let steps = [
            (E::Claim, S::Processing),
            (E::Reap, S::Waiting),
            (E::Defer, S::Delayed),
            (E::Due, S::Waiting),
            (E::Claim, S::Processing),
            (E::Fail, S::Delayed),
            (E::Due, S::Waiting),
            (E::Claim, S::Processing),
            (E::Requeue, S::Waiting),
            (E::Claim, S::Processing),
            (E::Complete, S::Ready),
            (E::Release, S::Delivering),
            (E::Postpone, S::Ready),
            (E::Release, S::Delivering),
            (E::Halt, S::Halted),
            (E::Retry(Stage::Delivery), S::Ready),
            (E::Release, S::Delivering),
            (E::Ack, S::Delivered),
        ];
        let mut state = S::arrived(true, false);
        for (event, expected) in steps {
            state = state.after(event).unwrap();
            assert_eq!(state, expected);
        }
    }

    #[test]
    fn nothing_leaves_delivered_and_nothing_is_completed_unclaimed() {
        let withdraw = E::Withdraw(Tombstone::Cancelled);
        for event in [E::Claim, E::Complete, E::Release, E::Ack, E::Reap, E::Fail, withdraw] {
            assert!(S::Delivered.after(event).is_err());
        }
        // A message in progress leaves when its attempt ends, not before.
        assert!(S::Processing.after(withdraw).is_err());
        assert!(S::Delivering.after(withdraw).is_err());
        assert!(S::Waiting.after(E::Complete).is_err());
        assert!(S::Ready.after(E::Ack).is_err());
    }
}
