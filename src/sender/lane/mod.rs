//! One lane in hand: what was released and not yet settled, and what may be done next. No I/O.
//!
//! ```text
//!            released              accepted           settled by the next call
//!   Redis ─────────────► queue ──────────────► settling ─────────────────────► gone
//!                         ▲  ▲ front: one message, or one batch, in flight
//!                         │  └─ refused: put off, halted or withdrawn, and the lane let go of
//!                         └─ a withdrawal: what it names, and all behind it, is let go of
//! ```

mod settling;
#[cfg(test)]
mod tests;

use std::{collections::VecDeque, sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{
    domain::{AttemptError, Sequence, Stamped, Tombstone},
    store::LaneRequest,
};
use settling::Settling;

/// While a batch waits to become full, Redis is asked for more so many times.
const LINGER_ASKS: u32 = 4;

/// What the definition says about a lane.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    /// The most messages in hand.
    pub(super) release_batch_max: usize,
    /// The most messages of one delivery.
    pub(super) batch_max: usize,
    /// The most messages of a delivery whose first one was refused before.
    pub(super) refused_max: usize,
    /// The most bytes of bodies in one delivery of several messages.
    pub(super) batch_bytes_max: u64,
    /// How long a batch that is not full waits for more.
    pub(super) linger: Duration,
    /// The lane is one message: nothing is in order.
    pub(super) is_single: bool,
    /// Whether what leaves is noted in the log, and if so, whether with its body.
    pub(super) log: Option<bool>,
}

/// The time, by the clock that waits are measured with, and in ms since 1970.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    pub(super) instant: Instant,
    pub(super) ms: u64,
}

/// What becomes of a head that its receiver did not accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Disposition {
    /// It is tried again after this time.
    Postpone(Duration),
    /// It stays, and its lane waits for a person.
    Halt,
    /// It leaves without being delivered.
    Withdraw(Tombstone, String),
}

/// A head that its receiver did not accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) sequence: Sequence,
    /// Attempts at its delivery that failed, with this one.
    pub(super) failed: u32,
    pub(super) error: AttemptError,
    pub(super) disposition: Disposition,
}

/// Whether the front may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// Not before something else has happened.
    No,
    /// Not before then, unless more comes: look again.
    At(Instant),
    /// Now.
    Yes,
}

/// A message in hand.
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
    queue: VecDeque<BufferedMessage>,
    /// The last message of the delivery in flight; 0: there is none.
    in_flight_to: Sequence,
    settling: Settling,
    refused: Option<Refused>,
    /// When Redis last said what there is; none: it is to be asked.
    asked: Option<Instant>,
    /// The queue was cut: what a call brings that was begun before would leave a gap.
    is_truncated: bool,
    /// So many messages are sent one by one: one of them had a whole batch refused.
    one_by_one: usize,
    /// How many have been delivered since the lane was taken in hand.
    pub(super) delivered: usize,
    /// To be let go of after what it holds, so that another lane gets its turn.
    pub(super) yielding: bool,
    /// Redis had nothing more, when last asked with nothing left in hand.
    exhausted: bool,
    /// The most to have in hand, where that is less than a run: its head was refused before. What is
    /// behind it is let go of when it is refused again, so it is fetched as deliveries succeed: twice
    /// as much after each.
    eased: Option<usize>,
}

impl Lane {
    /// Whether there is something to send, and nothing in flight.
    pub(super) fn turn(&mut self, rules: &Rules, now: Now) -> Turn {
        self.pass_tombstones(rules, now);
        if self.in_flight_to > 0 || self.refused.is_some() {
            return Turn::No;
        }
        let Some(first) = self.queue.front() else { return Turn::No };
        if first.message.damaged.is_some() {
            return Turn::No;
        }
        let until = first.came + rules.linger;
        if until <= now.instant || self.one_by_one > 0 || self.next_batch(rules).1 {
            return Turn::Yes;
        }
        // No wake-up tells what comes behind a head that is in hand already.
        let pause = (rules.linger / LINGER_ASKS).max(Duration::from_millis(1));
        if self.asked.is_some_and(|asked| asked + pause <= now.instant) {
            self.asked = None;
        }
        Turn::At(until.min(now.instant + pause))
    }

    /// The front, if it can never be sent because it cannot be read, and why.
    pub(super) fn damaged_front(&self) -> Option<(Arc<Stamped>, String)> {
        if self.in_flight_to > 0 || self.refused.is_some() {
            return None;
        }
        let front = &self.queue.front()?.message;
        Some((front.clone(), front.damaged.clone()?))
    }

    /// Passes tombstones at the front: nobody is to be sent them.
    pub(super) fn pass_tombstones(&mut self, rules: &Rules, now: Now) {
        if self.in_flight_to > 0 || self.refused.is_some() {
            return;
        }
        while let Some(buffered) = self.pop_if(|buffered| buffered.message.tombstone.is_some()) {
            self.settling.add(&buffered.message, 0, now.ms, rules.log);
        }
    }

    fn pop_if(
        &mut self,
        condition: impl FnOnce(&BufferedMessage) -> bool,
    ) -> Option<BufferedMessage> {
        condition(self.queue.front()?).then(|| self.queue.pop_front()).flatten()
    }

    /// The messages to deliver now, in order. Only where it is the lane's [`Lane::turn`].
    pub(super) fn begin(&mut self, rules: &Rules) -> Vec<Arc<Stamped>> {
        let (batch, _) = self.next_batch(rules);
        self.in_flight_to = batch.last().map_or(0, |message| message.position.sequence);
        batch
    }

    /// The messages that make the next delivery, without the tombstones among them, and whether
    /// there is no use in waiting for more.
    fn next_batch(&self, rules: &Rules) -> (Vec<Arc<Stamped>>, bool) {
        let max = if self.one_by_one > 0 { 1 } else { rules.batch_max.max(1) };
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
            || self.eased.is_some()
            || self.yielding;
        (batch, is_full)
    }

    /// The receiver has the first `count` of what was in flight, after `delivery_ms`.
    pub(super) fn accepted(&mut self, count: usize, delivery_ms: u64, rules: &Rules, now: Now) {
        let in_flight_to = std::mem::take(&mut self.in_flight_to);
        if count > 0 {
            self.eased =
                self.eased.map(|most| 2 * most).filter(|most| *most < rules.release_batch_max);
        }
        let mut left = count;
        while left > 0
            && let Some(buffered) = self.pop_if(|buffered| buffered.sequence() <= in_flight_to)
        {
            let is_delivered = buffered.message.tombstone.is_none();
            let took_ms = if is_delivered { delivery_ms } else { 0 };
            self.settling.add(&buffered.message, took_ms, now.ms, rules.log);
            if is_delivered {
                left -= 1;
                self.delivered += 1;
                self.one_by_one = self.one_by_one.saturating_sub(1);
            }
        }
    }

    /// The receiver does not have the front: nothing behind it may leave before it does.
    pub(super) fn refused(&mut self, failed: u32, error: AttemptError, disposition: Disposition) {
        self.in_flight_to = 0;
        if let Some(buffered) = self.queue.front() {
            self.refused =
                Some(Refused { sequence: buffered.sequence(), failed, error, disposition });
        }
        self.queue.truncate(1);
    }

    /// The receiver does not have the batch of `count`, and never will have it as it is. One of its
    /// messages is to blame, and it is not said which: they are sent one by one, at once, until the
    /// culprit is found. None is counted as refused for it.
    pub(super) fn refused_together(&mut self, count: usize) {
        self.in_flight_to = 0;
        self.one_by_one = count;
    }

    /// The head that was refused, once all before it is settled.
    pub(super) fn to_end(&self) -> Option<&Refused> {
        self.refused.as_ref().filter(|_| self.settling.is_empty())
    }

    /// A message is to leave without being delivered. True if it is not in hand (any more: what is
    /// behind it is let go of too), so that this can be done at once. False if it is just being
    /// sent, has been accepted, or leaves this way after a refusal.
    pub(super) fn apply_withdrawal(
        &mut self,
        sequence: Sequence,
        how: Tombstone,
        reason: &str,
    ) -> bool {
        if sequence <= self.settling.upto() || sequence <= self.in_flight_to {
            return false;
        }
        if let Some(refused) = &mut self.refused
            && refused.sequence == sequence
        {
            refused.disposition = Disposition::Withdraw(how, reason.to_owned());
            return false;
        }
        let before = self.queue.partition_point(|buffered| buffered.sequence() < sequence);
        if before < self.queue.len() {
            self.queue.truncate(before);
            self.is_truncated = true;
            self.asked = None;
        }
        true
    }

    /// How many messages the next call settles.
    pub(super) fn settles(&self) -> usize {
        self.settling.next_count()
    }

    /// What to ask of Redis: to settle, to release more, or both. Nothing while the lane has
    /// enough in hand. What is settled by it stays in mind until it has been answered.
    pub(super) fn request(
        &mut self,
        key: Option<&str>,
        rules: &Rules,
        stop: bool,
    ) -> Option<LaneRequest> {
        let let_go = stop || self.yielding || self.refused.is_some() || self.exhausted;
        let asks = self.asked.is_none() && !let_go;
        if !asks && self.settling.is_empty() {
            return None;
        }
        self.is_truncated = false;
        let settled = self.settling.carry();
        let most = self.eased.unwrap_or(rules.release_batch_max);
        let wants = asks || (!let_go && self.queue.len() <= most / 2);
        Some(LaneRequest {
            key: key.map(str::to_owned),
            settled,
            // A lane that is let go of leaves what it holds to the next owner.
            in_hand: if stop && self.in_flight_to == 0 { 0 } else { self.last() },
            want: if wants { most.saturating_sub(self.queue.len()) } else { 0 },
        })
    }

    /// The last message that came and is not settled by what is asked; 0: there is none.
    fn last(&self) -> Sequence {
        self.queue.back().map_or(self.settling.fresh_upto(), BufferedMessage::sequence)
    }

    /// Redis has done what was asked for, and released these.
    pub(super) fn answered(
        &mut self,
        request: &LaneRequest,
        released: Vec<Stamped>,
        rules: &Rules,
        now: Now,
    ) {
        self.settling.confirmed();
        if !self.is_truncated {
            self.asked = Some(now.instant);
        }
        let nothing_left = released.is_empty() && request.in_hand == 0;
        self.exhausted |= request.want > 0 && (nothing_left || rules.is_single);
        let was_refused = released.first().is_some_and(|first| first.attempts.failed > 0);
        if was_refused && self.queue.is_empty() {
            self.eased =
                Some(rules.refused_max.max(1)).filter(|most| *most < rules.release_batch_max);
        }
        let last = self.last();
        // A refusal, or a withdrawal, that came meanwhile has let go of all behind it.
        if self.refused.is_none() && !self.is_truncated {
            let after = released.into_iter().filter(|message| message.position.sequence > last);
            let buffered =
                |message| BufferedMessage { message: Arc::new(message), came: now.instant };
            self.queue.extend(after.map(buffered));
        }
    }

    /// True when nothing is left to do with it here.
    pub(super) fn is_done(&self, stop: bool) -> bool {
        let let_go = stop || self.yielding || self.exhausted;
        let empty = self.queue.is_empty() || stop;
        let nothing_left = empty && self.in_flight_to == 0 && self.settling.is_empty();
        nothing_left && let_go && self.refused.is_none()
    }
}
