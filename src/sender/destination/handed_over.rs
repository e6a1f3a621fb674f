//! Takes a message that a wake-up carries, instead of asking Redis for it.
//!
//! A hand-over says that this message was the first of its lane, and ready, when Redis published it. That may have
//! been long ago, so nothing may have happened to the message since. What this task knows decides:
//!
//! - Only the owner of the partition lets messages of it leave. The lease of this owner began in the epoch of the
//!   hand-over and lasts, so nobody else has let it leave.
//! - This task is the only one of its destination under the lease. It has seen a message before, so what had left when
//!   it began has lower sequences; and it notes the highest sequence of which it has heard since.
//! - Withdrawals are carried out by this task, and it knows of none.
//!
//! In any other case it asks Redis, as after a wake-up without a message.

use super::{Definition, DestinationSender, now};
use crate::{domain::Sequence, faults::planted, sender::lane::Lane, store::HandOver, telemetry};

impl DestinationSender {
    /// Loads the lane with the message, if it may be delivered now. False if Redis has to be asked.
    pub(super) fn take_handed(&mut self, handed: &HandOver) -> bool {
        let Some(definition) = self.definition.clone() else { return false };
        if !self.may_take(handed, &definition) {
            return false;
        }
        let Some(message) = handed.message(&definition.entry) else { return false };
        telemetry::handed_over();
        self.heard_of(handed.sequence);
        self.lanes.insert(None, Lane::handed(message, now()));
        self.schedule(&None);
        true
    }

    fn may_take(&self, handed: &HandOver, definition: &Definition) -> bool {
        let is_current = handed.version == definition.entry.version
            && handed.epoch == self.deps.lease.owner.epoch;
        let is_new = self.heard_upto.is_some_and(|upto| handed.sequence > upto);
        let is_idle = self.lanes.is_empty()
            && self.in_flight.call.is_none()
            && self.in_flight.lookup.is_none()
            && !self.scheduler.is_draining();
        is_current
            && (is_new || planted::is("late_hand_over_taken"))
            && is_idle
            && self.is_one_lane()
            && !definition.rules.is_pulled
            && self.withdrawals.are_none()
    }

    /// This message has been released to this task, or is withdrawn.
    pub(super) fn heard_of(&mut self, sequence: Sequence) {
        self.heard_upto = self.heard_upto.max(Some(sequence));
    }
}
