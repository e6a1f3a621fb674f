//! Limits of the messages that a lane sends and holds at once.

use std::time::Duration;

/// The rules of the destination's definition for a lane.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    /// The most messages that a lane holds.
    pub(crate) release_batch_max: usize,
    /// The most messages of one delivery.
    pub(crate) batch_max: usize,
    /// The most messages of a delivery whose first message an earlier attempt could not deliver.
    pub(crate) refused_max: usize,
    /// The most bytes of bodies in one delivery of several messages.
    pub(crate) batch_bytes_max: u64,
    /// A batch that is not full waits this long for more messages.
    pub(crate) linger: Duration,
    /// True if the lane is one message: the destination has no ordering.
    pub(crate) is_single: bool,
    /// True if consumers take the messages. The lane then gets only messages that consumers accepted or refused.
    pub(crate) is_pulled: bool,
    /// `Some` if the log keeps settled messages; true if it also keeps their bodies.
    pub(crate) log: Option<bool>,
}

impl Rules {
    /// True if one delivery may carry the messages of several lanes: each lane is one message, for a receiver.
    pub(crate) fn is_grouped(&self) -> bool {
        self.is_single && !self.is_pulled
    }
}

/// Limits after a refusal, lower than the limits of the definition.
#[derive(Debug, Default)]
pub(super) struct Limits {
    /// Number of messages to send individually, to find the one that made a batch fail.
    one_by_one: usize,
    /// During the slow start, the most messages to hold, below `release_batch_max`. It begins when the head was refused
    /// earlier: if the head is refused again, the lane drops everything behind it. So the lane fetches few messages at
    /// first, and twice as many after each delivery.
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

    /// Begins the slow start, because the released head had already been refused earlier.
    pub(super) fn start_slowly(&mut self, rules: &Rules) {
        self.slow_start =
            Some(rules.refused_max.max(1)).filter(|most| *most < rules.release_batch_max);
    }

    /// True if the next message is sent alone.
    pub(super) fn is_isolated(&self) -> bool {
        self.one_by_one > 0
    }

    /// Sends the next `count` messages individually, because a batch of them was refused.
    pub(super) fn isolate(&mut self, count: usize) {
        self.one_by_one = count;
    }

    /// Raises the limit of the slow start, because the receiver accepted a delivery or a part of it.
    pub(super) fn grow(&mut self, rules: &Rules) {
        self.slow_start =
            self.slow_start.map(|most| 2 * most).filter(|most| *most < rules.release_batch_max);
    }

    /// Counts one message as delivered.
    pub(super) fn delivered_one(&mut self) {
        self.one_by_one = self.one_by_one.saturating_sub(1);
    }
}
