//! Messages that have left a lane, and that Redis has not settled yet.

use domain::{Sequence, Stamped};
use store::{LogEntry, Settled};

/// The messages are in two parts, because Redis may have carried out a call without answering. The call is repeated
/// with exactly the same content, so that Redis counts no message twice. Messages that left later go into the next
/// call.
#[derive(Debug, Default)]
pub(super) struct Settling {
    /// The content of a call that is not answered yet.
    carried: Settled,
    /// Messages that left after that call began.
    fresh: Settled,
}

impl Settling {
    /// Adds a message that has left: accepted after an attempt of `delivery_ms`, or passed because it is a tombstone.
    /// `log` as in [`super::Rules`].
    pub(super) fn add(
        &mut self,
        message: &Stamped,
        delivery_ms: u64,
        now_ms: u64,
        log: Option<bool>,
    ) {
        let entry = log.map(|with_body| LogEntry::of(message, now_ms, delivery_ms, with_body));
        self.fresh.add(message, entry);
    }

    /// The content of the next call.
    pub(super) fn carry(&mut self) -> Settled {
        if self.carried.upto == 0 {
            self.carried = std::mem::take(&mut self.fresh);
        }
        self.carried.clone()
    }

    /// The number of messages that [`Settling::carry`] would return.
    pub(super) fn next_count(&self) -> usize {
        if self.carried.upto == 0 { self.fresh.count } else { self.carried.count }
    }

    /// Called when Redis has carried out the call.
    pub(super) fn confirmed(&mut self) {
        if self.carried.upto > 0 {
            self.carried = Settled::default();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.upto() == 0
    }

    /// The last message that has left; 0: none.
    pub(super) fn upto(&self) -> Sequence {
        self.carried.upto.max(self.fresh.upto)
    }

    /// The last message that has left and is not in a call yet; 0: none.
    pub(super) fn fresh_upto(&self) -> Sequence {
        self.fresh.upto
    }
}
