//! What has left a lane, and Redis does not know it yet.

use crate::{
    domain::{Sequence, Stamped},
    store::{LogEntry, Settled},
};

/// In two parts, because a call that was not answered may have been carried out all the same: it
/// is made again with exactly what it carried, so that nothing is counted twice, and what left
/// later goes with the next.
#[derive(Debug, Default)]
pub(super) struct Settling {
    /// What a call carries that is not answered yet.
    carried: Settled,
    /// What left since.
    fresh: Settled,
}

impl Settling {
    /// A message has left: accepted after an attempt of `delivery_ms`, or passed as the tombstone
    /// that it is. `log` as in [`super::Rules`].
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

    /// What the next call is to settle.
    pub(super) fn carry(&mut self) -> Settled {
        if self.carried.upto == 0 {
            self.carried = std::mem::take(&mut self.fresh);
        }
        self.carried.clone()
    }

    /// How many messages [`Settling::carry`] would carry.
    pub(super) fn next_count(&self) -> usize {
        if self.carried.upto == 0 { self.fresh.count } else { self.carried.count }
    }

    /// The call was carried out.
    pub(super) fn confirmed(&mut self) {
        self.carried = Settled::default();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.upto() == 0
    }

    /// The last that has left; 0: none.
    pub(super) fn upto(&self) -> Sequence {
        self.carried.upto.max(self.fresh.upto)
    }

    /// The last that has left and that no call carries; 0: none.
    pub(super) fn fresh_upto(&self) -> Sequence {
        self.fresh.upto
    }
}
