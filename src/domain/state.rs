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
//!      └─ ready, where nothing is processed       halted ◄──────────────┘
//!                                                   │ retry
//!                                                   └──────► waiting, or ready
//!
//!   withdraw: waiting, delayed, ready, halted ──► tombstone ──► dropped, dead-lettered or cancelled
//! ```
//!
//! Each transition is one Lua script of the same name (`due` is part of `reap`, `ack` of
//! `release`); the state of a message is not stored but follows from the sets that hold its
//! sequence. A tombstone stands in `ready` and is passed, not delivered. With serial processing, a
//! message that awaits its turn is `waiting`.
//!
//! The reference model (`tests/model/transitions.rs`) compares every call of a script with this table.

use serde::{Deserialize, Serialize};

use super::{Stage, Tombstone};

/// Where a message is between its arrival and its delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// May be claimed now.
    Waiting,
    /// Under a processor's lease.
    Processing,
    /// Not to be processed before its time, or failed and waiting out its backoff.
    Delayed,
    /// Processing has finished; leaves when all before it in its lane have left.
    Ready,
    /// Handed to the sender, which is trying to deliver it.
    Delivering,
    /// Its attempts are used up: its lane waits for a person.
    Halted,
    /// Pending, but what Redis holds of it cannot be read: its lane waits for a person.
    Damaged,
    /// Gone: accepted by the receiver.
    Delivered,
    /// Gone: its transform, or a policy, dropped it.
    Dropped,
    /// Gone: set aside as a dead letter.
    DeadLettered,
    /// Gone: cancelled.
    Cancelled,
}

/// What happens to a message. Named as the scripts are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// A processor takes it under a lease.
    Claim,
    /// A processor hands it back unprocessed.
    Requeue,
    /// Its lease ran out.
    Reap,
    /// The attempt to process it failed.
    Fail,
    /// Its backoff is over.
    Due,
    /// Processing has finished.
    Complete,
    /// The sender takes it: all before it in its lane have left.
    Release,
    /// The receiver did not accept it; it is tried again where it stands.
    Postpone,
    /// The receiver accepted it.
    Ack,
    /// Its attempts are used up, and it stays.
    Halt,
    /// A person has it tried again, from where it was halted.
    Retry(Stage),
    /// It is to leave without being delivered.
    Withdraw(Tombstone),
}

/// An event that cannot happen to a message in this state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{event:?} cannot happen to a message that is {state:?}")]
pub struct InvalidTransition {
    /// Where the message was.
    pub state: State,
    /// What was asked for.
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
    /// True for a message that is gone.
    pub fn is_settled(self) -> bool {
        matches!(self, State::Delivered | State::Dropped | State::DeadLettered | State::Cancelled)
    }

    /// The state of a message just stamped. Only what needs processing can be delayed.
    pub fn arrived(needs_processing: bool, is_delayed: bool) -> State {
        match (needs_processing, is_delayed) {
            (true, true) => State::Delayed,
            (true, false) => State::Waiting,
            (false, _) => State::Ready,
        }
    }

    /// The state after `event`; every transition that is not in the diagram is an error.
    pub fn after(self, event: Event) -> Result<State, InvalidTransition> {
        use {Event as E, State as S};
        match (self, event) {
            (S::Waiting, E::Claim) => Ok(S::Processing),
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
        // What is in flight leaves by the end of its attempt, and not before.
        assert!(S::Processing.after(withdraw).is_err());
        assert!(S::Delivering.after(withdraw).is_err());
        assert!(S::Waiting.after(E::Complete).is_err());
        assert!(S::Ready.after(E::Ack).is_err());
    }
}
