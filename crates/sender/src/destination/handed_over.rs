//! Takes a message from a wake-up, instead of reading it from Redis.
//!
//! A hand-over says that this message was the ready head of its lane when Redis published it. That may have
//! been long ago. The task takes the message only if it knows that the message has not changed since:
//!
//! - Only the owner of the partition settles its messages. This owner's lease began in the epoch
//!   of the hand-over and still lasts, so no other owner has settled the message.
//! - This task is the only one for its destination under the lease, and it notes the highest
//!   sequence that it has seen. So a message with a higher sequence has not left.
//! - This task carries out withdrawals, and it knows of none.
//!
//! In any other case the task asks Redis, as after a wake-up without a message.

use super::{Definition, DestinationSender, now};
use crate::lane::Lane;
use domain::{Epoch, Sequence};
use faults::planted;
use store::HandOver;

/// The facts that decide whether this task may take a message that was handed over.
#[derive(Debug, Clone)]
struct Known {
    version: u64,
    epoch: Epoch,
    heard_upto: Option<Sequence>,
    /// True if the destination is one lane, and Reseq sends its messages to a receiver.
    is_one_lane_with_receiver: bool,
    /// True if no lane is loaded, no call or lookup is in flight, and the partition is not being given back.
    is_idle: bool,
    has_no_withdrawals: bool,
}

impl Known {
    /// True if the message cannot have changed since it was handed over.
    fn allows(&self, handed: &HandOver) -> bool {
        let is_new = self.heard_upto.is_some_and(|upto| handed.sequence > upto);
        handed.version == self.version
            && handed.epoch == self.epoch
            && (is_new || planted::is("late_hand_over_taken"))
            && self.is_one_lane_with_receiver
            && self.is_idle
            && self.has_no_withdrawals
    }
}

impl DestinationSender {
    /// Loads the lane with the message, if it may be delivered now. False if the task must ask Redis.
    pub(super) fn take_handed(&mut self, handed: &HandOver) -> bool {
        let Some(definition) = self.definition.clone() else { return false };
        if !self.known(&definition).allows(handed) {
            return false;
        }
        let Some(message) = handed.message(&definition.entry) else { return false };
        telemetry::handed_over();
        self.heard_of(handed.sequence);
        self.lanes.insert(None, Lane::handed(message, &definition.rules, now()));
        self.schedule(&None);
        true
    }

    fn known(&self, definition: &Definition) -> Known {
        let is_calling = self.in_flight.call.is_some() || self.in_flight.lookup.is_some();
        Known {
            version: definition.entry.version,
            epoch: self.deps.lease.owner.epoch,
            heard_upto: self.heard_upto,
            is_one_lane_with_receiver: self.is_one_lane() && !definition.rules.is_pulled,
            is_idle: self.lanes.is_empty() && !is_calling && !self.scheduler.is_draining(),
            has_no_withdrawals: self.withdrawals.are_none(),
        }
    }

    /// Notes a message that Redis released to this task, or that is being withdrawn.
    pub(super) fn heard_of(&mut self, sequence: Sequence) {
        self.heard_upto = self.heard_upto.max(Some(sequence));
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn hand_over_is_used_only_if_message_is_surely_unchanged() {
        let handed = HandOver { version: 3, epoch: 7, sequence: 5, record: Bytes::new() };
        let known = Known {
            version: 3,
            epoch: 7,
            heard_upto: Some(4),
            is_one_lane_with_receiver: true,
            is_idle: true,
            has_no_withdrawals: true,
        };
        assert!(known.allows(&handed));
        // An operator removed the halted messages in between, without this task.
        assert!(Known { heard_upto: Some(1), ..known.clone() }.allows(&handed));
        for other in [
            Known { version: 4, ..known.clone() },
            Known { version: 2, ..known.clone() },
            Known { epoch: 8, ..known.clone() },
            Known { epoch: 6, ..known.clone() },
            Known { heard_upto: None, ..known.clone() },
            Known { heard_upto: Some(5), ..known.clone() },
            Known { heard_upto: Some(6), ..known.clone() },
            Known { is_one_lane_with_receiver: false, ..known.clone() },
            Known { is_idle: false, ..known.clone() },
            Known { has_no_withdrawals: false, ..known.clone() },
        ] {
            assert!(!other.allows(&handed), "{other:?}");
        }
    }
}
