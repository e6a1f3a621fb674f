//! State of one lane: messages released but not yet settled, and the next allowed action. No I/O.
//!
//! The way of a message:
//!
//! ```text
//!            released              accepted           settled by the next call
//!   Redis ─────────────► queue ──────────────► settling ─────────────────────► removed
//! ```
//!
//! What happens to the front of the queue ([`Phase`]):
//!
//! ```text
//!                    delivery_begun
//!             ┌──────────────────────────┐
//!             │                          ▼
//!   new ──► Ready                    Delivering
//!             │ ▲   delivery_ended:      │ │
//!             │ │   accepted, or a batch │ │
//!             │ └────────────────────────┘ │ delivery_ended: the head is refused
//!             │                            ▼
//!             └───────────────────────► Refused ──► disposition carried out, lane dropped
//!               turn: the head is damaged
//! ```
//!
//! Whether the lane takes more messages ([`Supply`]):
//!
//! ```text
//!                   released                released: nothing more
//!   new ──► Unknown ────────► Known ──────────────────────────────► Ended
//!              ▲                │
//!              └────────────────┘         others_wait ──► Yielding
//!      withdrawn, or a batch waits        draining    ──► Draining
//!        for more messages (turn)
//! ```
//!
//! In `Ended`, `Yielding` and `Draining` the lane takes no more messages. It is dropped as soon
//! as it has no more work ([`Next::Drop`]).

mod limits;
mod phase;
mod settling;
#[cfg(test)]
mod tests;
mod times;

use std::{collections::VecDeque, sync::Arc, time::Duration};

use tokio::time::Instant;

use domain::{
    AttemptError, Disposition, ErrorKind, MessageIds, Sequence, Stage, Stamped, Tombstone,
};
use limits::Limits;
pub(super) use limits::Rules;
pub(super) use phase::{Next, Outcome, Refusal, Refused, Turn};
use phase::{Phase, Supply};
use settling::Settling;
use store::LaneRequest;
pub(super) use times::Before;

/// How many times a lane asks Redis for more messages while a batch waits to become full.
const LINGER_ASKS: u32 = 4;

/// The current time: by the monotonic clock, and in ms since 1970 by Redis's clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    pub(super) instant: Instant,
    pub(super) ms: u64,
}

/// A message in the queue.
#[derive(Debug)]
struct BufferedMessage {
    message: Arc<Stamped>,
    came: Instant,
}

impl BufferedMessage {
    fn sequence(&self) -> Sequence {
        self.message.position.sequence
    }
}

#[derive(Debug, Default)]
pub(super) struct Lane {
    /// Released and not yet accepted, in order. Messages in flight stay here until their delivery ends.
    queue: VecDeque<BufferedMessage>,
    phase: Phase,
    supply: Supply,
    settling: Settling,
    limits: Limits,
    /// Number of messages delivered since the lane was loaded.
    delivered: usize,
    /// The earliest time at which the last delivery could have ended, in ms since 1970.
    ideal_end_ms: u64,
    /// The message that was delivered last.
    before: Option<Before>,
}

/// The events of a lane.
impl Lane {
    /// A lane that got its first message from a wake-up.
    pub(super) fn handed(message: Stamped, rules: &Rules, now: Now) -> Lane {
        let mut lane = Lane { supply: Supply::Known(now.instant), ..Lane::default() };
        lane.fill([message], rules, now);
        lane
    }

    /// Called when it is the lane's turn to send. Returns whether the next delivery may begin.
    pub(super) fn turn(&mut self, rules: &Rules, now: Now) -> Turn {
        let Phase::Ready = self.phase else { return Turn::No };
        let Some(first) = self.queue.front() else { return Turn::No };
        if let Some(why) = &first.message.damaged {
            // A damaged message can never be sent.
            let error = AttemptError::new(Stage::Delivery, ErrorKind::Damaged, why);
            let failed = first.message.attempts.failed;
            self.refuse(failed, error, Disposition::Halt);
            return Turn::No;
        }
        let until = first.came + rules.linger;
        if until <= now.instant || self.next_batch(rules).1 {
            return Turn::Yes;
        }
        // Redis sends no wake-up for a message behind a released head, so ask again.
        let pause = (rules.linger / LINGER_ASKS).max(Duration::from_millis(1));
        if let Supply::Known(at) = self.supply
            && at + pause <= now.instant
        {
            self.supply.ask_again();
        }
        Turn::At(until.min(now.instant + pause))
    }

    /// The next delivery begins, after [`Lane::turn`] said [`Turn::Yes`]. Returns its messages, in order.
    pub(super) fn delivery_begun(&mut self, rules: &Rules) -> Vec<Arc<Stamped>> {
        let (batch, _) = self.next_batch(rules);
        if let Some(last) = batch.last() {
            self.phase = Phase::Delivering { upto: last.position.sequence };
        }
        batch
    }

    /// Called when the delivery in flight has ended.
    pub(super) fn delivery_ended(&mut self, outcome: Outcome, rules: &Rules, now: Now) {
        let Phase::Delivering { upto } = self.phase else {
            debug_assert!(false, "a delivery ended in {:?}", self.phase);
            return;
        };
        self.phase = Phase::Ready;
        if outcome.accepted > 0 {
            self.limits.grow(rules);
            self.accept(outcome.accepted, upto, outcome.delivery_ms, rules, now);
        }
        match outcome.refusal {
            None => {}
            Some(Refusal::Batch { count }) => self.limits.isolate(count),
            Some(Refusal::Head { failed, error, disposition }) => {
                self.pass_tombstones(rules, now);
                self.refuse(failed, error, disposition);
            }
        }
        self.pass_tombstones(rules, now);
    }

    /// Called when Redis has carried out `request`, and released these messages.
    pub(super) fn released(
        &mut self,
        request: &LaneRequest,
        messages: Vec<Stamped>,
        rules: &Rules,
        now: Now,
    ) {
        self.settling.confirmed();
        let last = self.last();
        // The queue was truncated after the request: the answer would leave a gap.
        let has_gap = last < request.held_upto;
        if !has_gap {
            self.supply.known(now.instant);
        }
        let is_empty = messages.is_empty() && request.held_upto == 0;
        if rules.is_pulled && !messages.is_empty() {
            // Redis may hold more messages. A scan finds the lane again.
            self.supply.yield_to_others();
        } else if request.limit > 0 && (is_empty || rules.is_single) {
            self.supply.end();
        }
        let was_refused = messages.first().is_some_and(|first| first.attempts.failed > 0);
        if was_refused && self.queue.is_empty() {
            self.limits.start_slowly(rules);
        }
        if !has_gap && !self.is_refused() {
            let after = messages.into_iter().filter(|message| message.position.sequence > last);
            self.fill(after, rules, now);
        }
    }

    /// Withdraws a message: removes it and everything behind it from the queue. True if the
    /// withdrawal can be carried out at once. False if the message is in flight or was accepted,
    /// or is the refused head. The head's disposition is then the withdrawal.
    pub(super) fn withdrawn(&mut self, sequence: Sequence, how: Tombstone, reason: &str) -> bool {
        if sequence <= self.settling.upto() || sequence <= self.in_flight_upto() {
            return false;
        }
        if let Phase::Refused(refused) = &mut self.phase
            && refused.sequence == sequence
        {
            refused.disposition = Disposition::Withdraw(how, reason.to_owned());
            return false;
        }
        let before = self.queue.partition_point(|buffered| buffered.sequence() < sequence);
        if before < self.queue.len() {
            self.queue.truncate(before);
            self.supply.ask_again();
        }
        true
    }

    /// Called when other lanes wait. If this lane has delivered at least `most` messages, it makes room for them.
    pub(super) fn others_wait(&mut self, most: usize) {
        if self.delivered >= most {
            self.supply.yield_to_others();
        }
    }

    /// Called when the partition is given back.
    pub(super) fn draining(&mut self) {
        self.supply = Supply::Draining;
    }

    /// The lane's request to Redis: to settle, to release more, or both. `None` if the lane has no messages to
    /// settle and needs no more. Settles the same messages in each call until [`Lane::released`].
    pub(super) fn request(&mut self, key: Option<&str>, rules: &Rules) -> Option<LaneRequest> {
        let is_open = self.supply.is_open() && !self.is_refused();
        let asks = is_open && matches!(self.supply, Supply::Unknown);
        if !asks && self.settling.is_empty() {
            return None;
        }
        let settled = self.settling.carry();
        let most = self.limits.queue_max(rules);
        let wants = asks || (is_open && self.queue.len() <= most / 2);
        let is_delivering = matches!(self.phase, Phase::Delivering { .. });
        // A draining lane leaves its queue to the next owner.
        let leaves_queue = matches!(self.supply, Supply::Draining) && !is_delivering;
        Some(LaneRequest {
            key: key.map(str::to_owned),
            settled,
            held_upto: if leaves_queue { 0 } else { self.last() },
            limit: if wants { most.saturating_sub(self.queue.len()) } else { 0 },
        })
    }
}

/// The state of a lane that the task of the destination reads.
impl Lane {
    /// The destination's next action for this lane, after any event.
    pub(super) fn next(&self) -> Next {
        if !self.settling.is_empty() {
            return Next::Continue;
        }
        match (&self.phase, &self.supply) {
            (Phase::Refused(_), _) => Next::Resolve,
            (Phase::Ready, Supply::Draining) => Next::Drop,
            (Phase::Ready, Supply::Ended | Supply::Yielding) if self.queue.is_empty() => Next::Drop,
            (Phase::Ready | Phase::Delivering { .. }, _) => Next::Continue,
        }
    }

    /// True if the lane has messages to send, when it is its turn.
    pub(super) fn may_send(&self) -> bool {
        matches!(self.phase, Phase::Ready) && !self.queue.is_empty()
    }

    /// True if [`Lane::request`] may have something to settle or to ask for.
    pub(super) fn may_request(&self) -> bool {
        !self.settling.is_empty() || self.supply.is_open()
    }

    /// True if the lane makes room for other lanes, so that Redis may hold more of its messages.
    pub(super) fn is_yielding(&self) -> bool {
        matches!(self.supply, Supply::Yielding)
    }

    /// True if the next message must be sent alone, not with messages of other lanes: it may have made a delivery fail.
    pub(super) fn is_isolated(&self) -> bool {
        let was_refused = |first: &BufferedMessage| first.message.attempts.failed > 0;
        self.limits.is_isolated() || self.queue.front().is_some_and(was_refused)
    }

    /// The bytes of the body of the next message.
    pub(super) fn next_bytes(&self) -> u64 {
        self.queue.front().map_or(0, |first| first.message.message.body.bytes.len() as u64)
    }

    /// The refused head, once everything before it is settled.
    pub(super) fn refused_head(&self) -> Option<&Refused> {
        match &self.phase {
            Phase::Refused(refused) if self.settling.is_empty() => Some(refused),
            _ => None,
        }
    }

    /// The ids of the front of the queue, for logs.
    pub(super) fn head_ids(&self) -> Option<MessageIds> {
        self.queue.front().map(|head| head.message.message.ids())
    }

    /// The number of messages that the next call settles.
    pub(super) fn settles(&self) -> usize {
        self.settling.next_count()
    }

    fn is_refused(&self) -> bool {
        matches!(self.phase, Phase::Refused(_))
    }

    /// The last message in flight; 0: none.
    fn in_flight_upto(&self) -> Sequence {
        match self.phase {
            Phase::Delivering { upto } => upto,
            Phase::Ready | Phase::Refused(_) => 0,
        }
    }

    /// The last sequence in the queue. If the queue is empty: the last message that left and that
    /// no call has reported to Redis yet; 0: none.
    fn last(&self) -> Sequence {
        self.queue.back().map_or(self.settling.fresh_upto(), BufferedMessage::sequence)
    }

    /// The messages of the next delivery, without the tombstones among them; and true if it is useless to wait for more
    /// messages.
    fn next_batch(&self, rules: &Rules) -> (Vec<Arc<Stamped>>, bool) {
        let max = self.limits.batch_max(rules);
        let (mut batch, mut bytes) = (Vec::new(), 0);
        for buffered in self.queue.iter().filter(|buffered| buffered.message.tombstone.is_none()) {
            if buffered.message.damaged.is_some() {
                return (batch, true);
            }
            bytes += buffered.message.message.body.bytes.len() as u64;
            if batch.len() == max || (!batch.is_empty() && bytes > rules.batch_bytes_max) {
                return (batch, true);
            }
            batch.push(buffered.message.clone());
        }
        let is_full = batch.len() == max
            || self.queue.len() >= rules.release_batch_max
            || rules.is_single
            || self.limits.is_slow_start()
            || self.is_yielding();
        (batch, is_full)
    }
}

/// The steps that the events share.
impl Lane {
    /// Appends messages to the queue. Passes tombstones at its front at once: even if other lanes
    /// wait, or the destination is paused.
    fn fill(&mut self, messages: impl IntoIterator<Item = Stamped>, rules: &Rules, now: Now) {
        let buffered = |message| BufferedMessage { message: Arc::new(message), came: now.instant };
        self.queue.extend(messages.into_iter().map(buffered));
        self.pass_tombstones(rules, now);
    }

    /// Settles tombstones at the front of the queue without sending them.
    fn pass_tombstones(&mut self, rules: &Rules, now: Now) {
        let Phase::Ready = self.phase else { return };
        while let Some(buffered) = self.pop_if(|buffered| buffered.message.tombstone.is_some()) {
            self.settling.add(&buffered.message, 0, now.ms, rules.log);
        }
    }

    /// Settles the first `count` messages of a delivery up to `upto`, and the tombstones among them.
    fn accept(&mut self, count: usize, upto: Sequence, delivery_ms: u64, rules: &Rules, now: Now) {
        let mut left = count;
        while left > 0
            && let Some(buffered) = self.pop_if(|buffered| buffered.sequence() <= upto)
        {
            let is_delivered = buffered.message.tombstone.is_none();
            let took_ms = if is_delivered { delivery_ms } else { 0 };
            self.settling.add(&buffered.message, took_ms, now.ms, rules.log);
            if is_delivered {
                left -= 1;
                self.delivered += 1;
                self.limits.delivered_one();
            }
        }
    }

    /// Refuses the front. Drops everything behind it, because no message may leave before the front.
    fn refuse(&mut self, failed: u32, error: AttemptError, disposition: Disposition) {
        if let Some(head) = self.queue.front() {
            let sequence = head.sequence();
            self.phase = Phase::Refused(Refused { sequence, failed, error, disposition });
        }
        self.queue.truncate(1);
    }

    fn pop_if(
        &mut self,
        condition: impl FnOnce(&BufferedMessage) -> bool,
    ) -> Option<BufferedMessage> {
        condition(self.queue.front()?).then(|| self.queue.pop_front()).flatten()
    }
}
