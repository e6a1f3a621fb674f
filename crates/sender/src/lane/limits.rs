//! Limits of the messages that a lane sends and holds at once.

use std::time::Duration;

/// The rules of the destination's definition for a lane.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    /// The most messages in the queue.
    pub(crate) release_batch_max: usize,
    /// The most messages of one delivery.
    pub(crate) batch_max: usize,
    /// The most messages of a delivery whose first message was refused earlier.
    pub(crate) refused_max: usize,
    /// The most bytes of bodies in one delivery of several messages.
    pub(crate) batch_bytes_max: u64,
    /// A batch that is not full waits this long for more messages.
    pub(crate) linger: Duration,
    /// The lane is one message: the destination has no ordering.
    pub(crate) is_single: bool,
    /// Consumers take the messages: the lane gets only messages that consumers accepted or refused.
    pub(crate) is_pulled: bool,
    /// `Some` if the log records settled messages; true if it records their bodies too.
    pub(crate) log: Option<bool>,
}

impl Rules {
    /// True if one delivery may carry the messages of several lanes: each lane is one message, for a receiver.
    pub(crate) fn is_grouped(&self) -> bool {
        self.is_single && !self.is_pulled
    }
}

/// Lower limits than those of the definition, after a refusal.
#[derive(Debug, Default)]
pub(super) struct Limits {
    /// Number of messages to send individually, to find the one that made a batch fail.
    one_by_one: usize,
    /// The most messages to hold, while below `release_batch_max`, because the head was refused
    /// earlier. If the head is refused again, the lane drops everything behind it. So the lane
    /// fetches few messages at first, and twice as many after each delivery.
    slow_start: Option<usize>,
}

impl Limits {
    /// The most messages of the next delivery.
    pub(super) fn batch_max(&self, rules: &Rules) -> usize {
        if self.one_by_one > 0 { 1 } else { rules.batch_max.max(1) }
    }

    /// The most messages to hold.
    pub(super) fn queue_max(&self, rules: &Rules) -> usize {
        self.slow_start.unwrap_or(rules.release_batch_max)
    }

    /// True during the slow start. Batches then do not wait to become full.
    pub(super) fn is_slow_start(&self) -> bool {
        self.slow_start.is_some()
    }

    /// The released head had already been refused earlier.
    pub(super) fn start_slowly(&mut self, rules: &Rules) {
        self.slow_start =
            Some(rules.refused_max.max(1)).filter(|most| *most < rules.release_batch_max);
    }

    /// True if the next message is sent alone.
    pub(super) fn is_isolated(&self) -> bool {
        self.one_by_one > 0
    }

    /// A batch of `count` messages was refused.
    pub(super) fn isolate(&mut self, count: usize) {
        self.one_by_one = count;
    }

    /// The receiver accepted a delivery, or a part of it.
    pub(super) fn grow(&mut self, rules: &Rules) {
        self.slow_start =
            self.slow_start.map(|most| 2 * most).filter(|most| *most < rules.release_batch_max);
    }

    /// One message was delivered.
    pub(super) fn delivered_one(&mut self) {
        self.one_by_one = self.one_by_one.saturating_sub(1);
    }
}
