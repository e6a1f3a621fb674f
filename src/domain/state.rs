//! The states of a message and the transitions between them.
//!
//! ```text
//!             ingest                claim                  complete
//!   (arrival) ──────► waiting ◄───────────► processing ──────────────► ready
//!      │                 ▲    unclaim, reap     │                       ▲  │
//!      │                 │ due                  │ fail                  │  │ release
//!      │              delayed ◄─────────────────┘              postpone │  ▼
//!      │                                                             delivering
//!      └── ingest, where nothing is transformed ──────────────► ready      │ ack
//!                                                                          ▼
//!                                                                      delivered
//! ```
//!
//! Each transition is one Lua script of the same name (`due` is part of `reap`); the state of a
//! message is not stored but follows from the sets that hold its sequence.

use serde::Serialize;

/// Where a message is between its arrival and its delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// May be claimed now.
    Waiting,
    /// Under a processor's lease.
    Processing,
    /// Failed in processing, and waits out its backoff.
    Delayed,
    /// Processing has finished; leaves when all before it in its lane have left.
    Ready,
    /// Handed to the sender, which is trying to deliver it.
    Delivering,
    /// Accepted by the receiver, or dropped by its transform: gone.
    Delivered,
}

/// What happens to a message. Named as the scripts are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// A processor takes it under a lease.
    Claim,
    /// A processor hands it back unprocessed.
    Unclaim,
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

impl State {
    /// The state of a message just stamped.
    pub fn arrived(needs_processing: bool) -> State {
        if needs_processing { State::Waiting } else { State::Ready }
    }

    /// The state after `event`; every transition that is not in the diagram is an error.
    pub fn after(self, event: Event) -> Result<State, InvalidTransition> {
        use {Event as E, State as S};
        match (self, event) {
            (S::Waiting, E::Claim) => Ok(S::Processing),
            (S::Processing, E::Unclaim | E::Reap) => Ok(S::Waiting),
            (S::Processing, E::Fail) => Ok(S::Delayed),
            (S::Delayed, E::Due) => Ok(S::Waiting),
            (S::Processing, E::Complete) => Ok(S::Ready),
            (S::Ready, E::Release) => Ok(S::Delivering),
            (S::Delivering, E::Postpone) => Ok(S::Ready),
            (S::Delivering, E::Ack) => Ok(S::Delivered),
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
            (E::Unclaim, S::Waiting),
            (E::Claim, S::Processing),
            (E::Complete, S::Ready),
            (E::Release, S::Delivering),
            (E::Postpone, S::Ready),
            (E::Release, S::Delivering),
            (E::Ack, S::Delivered),
        ];
        let mut state = S::arrived(true);
        for (event, expected) in steps {
            state = state.after(event).unwrap();
            assert_eq!(state, expected);
        }
    }

    #[test]
    fn nothing_leaves_delivered_and_nothing_is_completed_unclaimed() {
        for event in [E::Claim, E::Complete, E::Release, E::Ack, E::Reap, E::Fail] {
            assert!(S::Delivered.after(event).is_err());
        }
        assert!(S::Waiting.after(E::Complete).is_err());
        assert!(S::Ready.after(E::Ack).is_err());
    }
}
