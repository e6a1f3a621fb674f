//! The phases of a lane, and the types that its methods return.

use tokio::time::Instant;

use domain::{AttemptError, Disposition, Sequence};

/// What happens to the front of the queue.
#[derive(Debug, Default)]
pub(super) enum Phase {
    /// No message is in flight. The front of the queue, if there is one, may be sent.
    #[default]
    Ready,
    /// The messages up to `upto` are in flight.
    Delivering { upto: Sequence },
    /// The head was refused. The lane sends no more: a call carries out the disposition of the
    /// head, then the lane is dropped.
    Refused(Refused),
}

/// Whether Redis may hold more messages of the lane, and whether the lane takes them.
#[derive(Debug, Default)]
pub(super) enum Supply {
    /// The lane has to ask Redis.
    #[default]
    Unknown,
    /// At this time, Redis released all ready messages up to the limit.
    Known(Instant),
    /// Redis had nothing more. The lane is dropped as soon as it is empty.
    Ended,
    /// Other lanes wait. The lane sends what it holds, takes no more, and is dropped.
    Yielding,
    /// The partition is being given back. Deliveries in flight end, delivered messages are
    /// settled, and the next owner gets the rest.
    Draining,
}

impl Supply {
    /// True if the lane takes more messages.
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Supply::Unknown | Supply::Known(_))
    }

    /// Called when Redis has answered a request for messages.
    pub(super) fn known(&mut self, at: Instant) {
        if self.is_open() {
            *self = Supply::Known(at);
        }
    }

    /// Notes that the lane must ask Redis again.
    pub(super) fn ask_again(&mut self) {
        if self.is_open() {
            *self = Supply::Unknown;
        }
    }

    /// Notes that Redis has nothing more.
    pub(super) fn end(&mut self) {
        if self.is_open() {
            *self = Supply::Ended;
        }
    }

    /// Notes that other lanes wait. Has no effect on a draining lane.
    pub(super) fn yield_to_others(&mut self) {
        if !matches!(self, Supply::Draining) {
            *self = Supply::Yielding;
        }
    }
}

/// A head that its receiver did not accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) sequence: Sequence,
    /// Failed attempts to deliver this message, including the last one.
    pub(crate) failed: u32,
    pub(crate) error: AttemptError,
    pub(crate) disposition: Disposition,
}

/// How a delivery ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The number of messages that the receiver accepted, from the first on.
    pub(crate) accepted: usize,
    pub(crate) delivery_ms: u64,
    /// Why the receiver did not accept the next message; `None` if it accepted all.
    pub(crate) refusal: Option<Refusal>,
}

/// The messages that the receiver refused.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The receiver did not accept this message. No message behind it may leave before it.
    Head { failed: u32, error: AttemptError, disposition: Disposition },
    /// A batch of `count` messages that is not sent again as a batch: its attempts are used up, or
    /// the refusal is final. The receiver did not say which message is the cause, so the lane sends
    /// them one by one, without a wait. The refusal does not count as an attempt at any message.
    Batch { count: usize },
}

/// Whether the front of the queue may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The lane must wait for another event.
    No,
    /// The lane may send at this time, or earlier if more messages come.
    At(Instant),
    /// The lane may send now.
    Yes,
}

/// The next action of the destination for a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Send, settle or ask for more, when it is the lane's turn.
    Continue,
    /// Carry out the disposition of the refused head: everything before it is settled.
    Resolve,
    /// Drop the lane: nothing is left to do.
    Drop,
}
