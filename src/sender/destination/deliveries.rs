//! What a destination sends: which lanes' fronts, when, and what comes of it.

use std::{sync::Arc, time::Duration};

use futures::FutureExt;
use tokio::time::Instant;

use super::{Current, DestinationSender, LaneKey, exhausted::disposition, now};
use crate::{
    domain::{AttemptError, ErrorKind, Stage, Stamped},
    faults::pause::{Point, point},
    sender::{
        deliver::{Finality, Verdict},
        lane::{Disposition, Turn},
    },
    telemetry,
    wire::answer::excerpt,
};

/// After so many runs a lane goes to the end of the line, if others wait.
const RUNS_MAX: usize = 4;

/// A delivery that has ended.
pub(super) struct Delivered {
    key: LaneKey,
    messages: Vec<Arc<Stamped>>,
    verdict: Verdict,
    took: Duration,
}

impl DestinationSender {
    /// Begins what may begin: in turn, one a lane, as the pace allows.
    pub(super) fn begin_deliveries(&mut self) {
        self.next_slot = None;
        let Some(current) = self.current.clone() else { return };
        let is_paused = current.known.paused.delivery;
        while !is_paused && let Some(key) = self.resting.pop() {
            self.to_send.push(&key);
        }
        // Asked for each delivery: by the clock, the lease may have just run out.
        while self.lease.may_send()
            && let Some(key) = self.to_send.pop()
        {
            if is_paused {
                self.rest(&key);
            } else if let Err(wait) = self.begin_delivery(&key, &current) {
                self.to_send.push_front(key);
                self.next_slot = Some(Instant::now() + wait);
                return;
            }
        }
    }

    /// Tombstones are passed also while the destination is paused; nothing is sent.
    fn rest(&mut self, key: &LaneKey) {
        if self.lanes.contains_key(key) {
            self.pass_tombstones(key);
            self.to_ask.push(key);
            self.resting.push(key);
        }
    }

    /// Begins a lane's next delivery, if there is one. An error says how long the pace forbids it.
    fn begin_delivery(&mut self, key: &LaneKey, current: &Current) -> Result<(), Duration> {
        let Some(lane) = self.lanes.get_mut(key) else { return Ok(()) };
        let turn = lane.turn(&current.rules, now());
        // Tombstones may have been passed.
        self.to_ask.push(key);
        if let Some((message, why)) = lane.damaged_front() {
            let error = AttemptError::new(Stage::Delivery, ErrorKind::Damaged, why);
            lane.refused(message.attempts.failed, error, Disposition::Halt);
            self.to_end.push(key);
            return Ok(());
        }
        match turn {
            Turn::No => return Ok(()),
            Turn::At(instant) => {
                self.lingering.insert((instant, key.clone()));
                return Ok(());
            }
            Turn::Yes => self.pace.take()?,
        }
        let messages = lane.begin(&current.rules);
        let Some(first) = messages.first() else { return Ok(()) };
        let attempt = first.attempts.failed + 1;
        self.in_flight += messages.len();
        let (key, way, lease) = (key.clone(), current.way.clone(), self.lease.clone());
        let delivery = async move {
            let begun = Instant::now();
            point(Point::SenderSending).await;
            // The lease may have run out since: then this is dropped.
            lease.still_lasts().await;
            let verdict = way.deliver(&messages, attempt).await;
            point(match verdict {
                Verdict::Accepted(_) => Point::SenderAccepted,
                Verdict::Refused { .. } => Point::SenderRefused,
            })
            .await;
            Delivered { key, messages, verdict, took: begun.elapsed() }
        };
        self.deliveries.push(delivery.boxed());
        Ok(())
    }

    pub(super) fn delivered(&mut self, delivered: Delivered) {
        let Delivered { key, messages, verdict, took } = delivered;
        self.in_flight -= messages.len();
        match verdict {
            Verdict::Accepted(count) => self.accepted(&key, &messages, count, took),
            Verdict::Refused { accepted, error, retry_after, finality } => {
                if accepted > 0 {
                    self.accepted(&key, &messages, accepted, took);
                    // What was refused is then the front.
                    self.pass_tombstones(&key);
                }
                telemetry::delivered(self.name.as_str(), "refused", took);
                self.refused(&key, &messages[accepted..], error, retry_after, finality);
            }
        }
        self.reapply_withdrawals(&key);
        self.to_send.push(&key);
        self.to_ask.push(&key);
        if self.lanes.get(&key).is_some_and(|lane| lane.to_end().is_some()) {
            self.to_end.push(&key);
        }
    }

    fn accepted(&mut self, key: &LaneKey, messages: &[Arc<Stamped>], count: usize, took: Duration) {
        let others_wait = self.is_full() && (self.look || !self.named.is_empty());
        let Some(current) = &self.current else { return };
        let Some(lane) = self.lanes.get_mut(key) else { return };
        let now = now();
        lane.accepted(count, took.as_millis() as u64, &current.rules, now);
        lane.yielding |= others_wait && lane.delivered >= RUNS_MAX * self.release_batch_max;
        telemetry::delivered(self.name.as_str(), "accepted", took);
        let ages = messages.iter().take(count).map(|message| {
            Duration::from_millis(now.ms.saturating_sub(message.message.received_ms))
        });
        telemetry::end_to_end(self.name.as_str(), ages);
    }

    fn pass_tombstones(&mut self, key: &LaneKey) {
        if let (Some(lane), Some(current)) = (self.lanes.get_mut(key), &self.current) {
            lane.pass_tombstones(&current.rules, now());
        }
    }

    fn refused(
        &mut self,
        key: &LaneKey,
        messages: &[Arc<Stamped>],
        error: AttemptError,
        retry_after: Option<Duration>,
        finality: Finality,
    ) {
        let (Some(current), Some(head)) = (&self.current, messages.first()) else { return };
        let Some(lane) = self.lanes.get_mut(key) else { return };
        let destination = &current.known.destination;
        let (sequence, attempt) = (head.position.sequence, head.attempts.failed + 1);
        let disposition = match self.withdrawals.of(sequence) {
            Some(withdrawal) => Disposition::Withdraw(withdrawal.how, withdrawal.reason.clone()),
            None => disposition(destination, attempt, finality, retry_after, rand::random()),
        };
        let key = key.as_deref();
        let reason = excerpt(error.detail.as_bytes());
        match &disposition {
            Disposition::Postpone(wait) => {
                let wait_ms = wait.as_millis() as u64;
                tracing::warn!(
                    destination = %self.name, sequence, key, attempt, reason, wait_ms,
                    "a delivery was not accepted, and is tried again",
                );
            }
            // Told when it has been done.
            Disposition::Halt | Disposition::Withdraw(..) => {}
        }
        let count = messages.len();
        let is_withdrawing = self.withdrawals.of(sequence).is_some();
        // Frames are answered one by one: over TCP it is the first.
        let may_be_another =
            count > 1 && !destination.is_tcp() && finality != Finality::Halts && !is_withdrawing;
        if may_be_another && !matches!(disposition, Disposition::Postpone(_)) {
            tracing::warn!(
                destination = %self.name, sequence, key, count, reason,
                "a batch was not accepted, and its messages are sent one by one",
            );
            lane.refused_together(count);
        } else {
            lane.refused(attempt, error, disposition);
        }
    }
}
