//! The transitions between the states of a message, as the diagram of [`State`] shows them.

use domain::{Stage, State, Tombstone};

/// An event in the life of a message. Named after its script, or the part of the script that causes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// A processor claims it under a lease.
    Claim,
    /// A claim skips it, because other suspects of its destination are in processing.
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

/// The state of a newly stamped message. A delayed message always needs processing, even if its
/// destination has no transform.
pub fn arrived(needs_processing: bool, is_delayed: bool) -> State {
    match (needs_processing, is_delayed) {
        (true, true) => State::Delayed,
        (true, false) => State::Waiting,
        (false, _) => State::Ready,
    }
}

/// The state after `event`; `None` if the diagram has no such transition.
pub fn after(state: State, event: Event) -> Option<State> {
    use {Event as E, State as S};
    match (state, event) {
        (S::Waiting, E::Claim) => Some(S::Processing),
        (S::Waiting, E::Defer) => Some(S::Delayed),
        (S::Processing, E::Requeue | E::Reap) => Some(S::Waiting),
        (S::Processing, E::Fail) => Some(S::Delayed),
        (S::Delayed, E::Due) => Some(S::Waiting),
        (S::Processing, E::Complete) => Some(S::Ready),
        (S::Ready, E::Release) => Some(S::Delivering),
        (S::Delivering, E::Postpone) => Some(S::Ready),
        (S::Delivering, E::Ack) => Some(S::Delivered),
        (S::Processing | S::Delivering, E::Halt) => Some(S::Halted),
        (S::Halted, E::Retry(Stage::Transform)) => Some(S::Waiting),
        (S::Halted, E::Retry(Stage::Delivery)) => Some(S::Ready),
        (S::Waiting | S::Delayed | S::Ready | S::Halted, E::Withdraw(why)) => Some(why.into()),
        _ => None,
    }
}
