//! Begins the deliveries of a destination, and handles their results.

use std::{sync::Arc, time::Duration};

use futures::FutureExt;
use tokio::time::Instant;

use super::{Definition, DestinationSender, LaneKey, now, scheduler::Due, spans};
use crate::{
    breaker::Probes,
    deliver::Verdict,
    lane::{Next, Now, Outcome, Refusal, Rules, Turn},
    tail::Ended,
};
use domain::excerpt::excerpt;
use domain::{
    AttemptError, DeliveryKind, Disposition, Finality, RetryPolicy, Stamped, TransformKind,
};
use faults::pause::{Point, point};
use telemetry::{Failed, RECEIVERS};

/// After delivering this many full releases, a lane makes room for waiting lanes.
const RUNS_MAX: usize = 4;

/// Without ordering, one delivery carries at least this many messages, if so many wait and the batch limit allows it.
const GROUP_MIN: usize = 16;

/// A delivery that has ended.
pub(super) struct Delivered {
    /// The lane of the messages; without ordering, one lane for each message.
    keys: Vec<LaneKey>,
    messages: Vec<Arc<Stamped>>,
    probes: Probes,
    verdict: Verdict,
    took: Duration,
}

impl DestinationSender {
    /// Begins all deliveries that may begin now: lanes in turn, one delivery per lane, within the rate limit.
    pub(super) fn begin_deliveries(&mut self) {
        let Some(definition) = self.definition.clone() else { return };
        // If paused, still settle messages that consumers accepted. Consumers get no more (`lua/consume.lua`).
        let is_paused = definition.entry.paused.delivery && !definition.rules.is_pulled;
        if !is_paused {
            self.scheduler.resume();
        }
        // Checked for each delivery: the lease may have just expired. More than `lanes_max` lanes
        // may be loaded, but at most `lanes_max` deliver.
        while self.in_flight.deliveries.len() < self.lanes_max()
            && self.deps.lease.may_send()
            && let Some(key) = self.scheduler.next_to_send()
        {
            if is_paused {
                self.rest(&key);
            } else if !self.begin_delivery(&key, &definition) {
                return;
            }
        }
    }

    /// Lets a lane of a paused destination rest: it sends nothing until the destination is resumed.
    fn rest(&mut self, key: &LaneKey) {
        if self.lanes.contains_key(key) {
            self.scheduler.rest(key);
        }
    }

    /// Begins a lane's next delivery, if there is one. False if the rate limit is reached, or the receiver fails.
    fn begin_delivery(&mut self, key: &LaneKey, definition: &Definition) -> bool {
        let Some(lane) = self.lanes.get_mut(key) else { return true };
        let turn = lane.turn(&definition.rules, now());
        if lane.may_request() {
            // The lane may need more messages from Redis.
            self.scheduler.wants_request(key);
        }
        if lane.next() == Next::Resolve {
            self.scheduler.wants_resolve(key);
        }
        match turn {
            Turn::No => return true,
            Turn::At(at) => {
                self.scheduler.at(at, key, Due::Send);
                return true;
            }
            Turn::Yes => {}
        }
        let Some(probes) = self.scheduler.take_slot(key, Instant::now()) else { return false };
        let mut messages = lane.delivery_begun(&definition.rules);
        let mut keys = vec![key.clone()];
        if definition.rules.is_grouped() && !lane.is_isolated() {
            self.add_lanes(&mut keys, &mut messages, &definition.rules);
        }
        keys.iter().for_each(|key| self.scheduler.goes_in_turn(key));
        self.deliver(keys, messages, probes, definition);
        true
    }

    /// Without ordering, each message is a lane. Adds messages of other lanes to a delivery, at most a batch. If several
    /// deliveries may still start, adds only this delivery's share of the waiting lanes (`GROUP_MIN` or more).
    fn add_lanes(
        &mut self,
        keys: &mut Vec<LaneKey>,
        messages: &mut Vec<Arc<Stamped>>,
        rules: &Rules,
    ) {
        let slots = self.lanes_max().saturating_sub(self.in_flight.deliveries.len()).max(1);
        let share = (self.scheduler.waiting_to_send() + 1).div_ceil(slots).max(GROUP_MIN);
        let size_of = |message: &Arc<Stamped>| message.message.body.bytes.len() as u64;
        let mut bytes: u64 = messages.iter().map(size_of).sum();
        while keys.len() < share.min(rules.batch_max)
            && let Some(key) = self.scheduler.next_to_send()
        {
            let Some(lane) = self.lanes.get_mut(&key) else { continue };
            if lane.is_isolated() || bytes + lane.next_bytes() > rules.batch_bytes_max {
                return self.scheduler.send_first(key);
            }
            let turn = lane.turn(rules, now());
            if lane.next() == Next::Resolve {
                self.scheduler.wants_resolve(&key);
            }
            if turn == Turn::Yes {
                bytes += lane.next_bytes();
                messages.extend(lane.delivery_begun(rules));
                keys.push(key);
            }
        }
    }

    fn deliver(
        &mut self,
        keys: Vec<LaneKey>,
        messages: Vec<Arc<Stamped>>,
        probes: Probes,
        definition: &Definition,
    ) {
        let Some(first) = messages.first() else { return };
        let attempt = first.attempts.failed + 1;
        self.in_flight.messages += messages.len();
        let (transport, lease) = (definition.transport.clone(), self.deps.lease.clone());
        let delivery = async move {
            let begun = Instant::now();
            point(Point::SenderSending).await;
            // If the lease has expired by now, this never resolves: the end of the task drops the delivery before it
            // sends anything.
            lease.still_lasts().await;
            let verdict = transport.deliver(&messages, attempt).await;
            point(match verdict {
                Verdict::Accepted(_) => Point::SenderAccepted,
                Verdict::Refused { .. } => Point::SenderRefused,
            })
            .await;
            Delivered { keys, messages, probes, verdict, took: begun.elapsed() }
        };
        self.in_flight.deliveries.push(delivery.boxed());
    }

    pub(super) fn delivery_ended(&mut self, delivered: Delivered) {
        let Delivered { keys, messages, probes, verdict, took } = delivered;
        self.in_flight.messages -= messages.len();
        let Some(definition) = self.definition.as_ref() else { return };
        let rules = definition.rules.clone();
        let has_transform = definition.entry.destination.transform.kind != TransformKind::None;
        let now = now();
        let asked_max =
            Duration::from_millis(definition.entry.destination.delivery.retry_after_max_ms);
        if let Some(first) = messages.first() {
            let (receiver, first) = (self.scheduler.receiver(), first.position.sequence);
            receiver.ended(&verdict, first, &probes, asked_max, now.instant);
        }
        if messages.iter().any(|message| telemetry::is_traced(&message.message)) {
            let (accepted, error) = match &verdict {
                Verdict::Accepted(accepted) => (*accepted, None),
                Verdict::Refused { accepted, error, .. } => (*accepted, Some(&*error.detail)),
            };
            let lane = keys.first().and_then(|key| self.lanes.get(key));
            let before = lane.and_then(|lane| lane.before());
            spans::note(&messages, accepted, error, has_transform, took, before);
        }
        if self.deps.tail.is_wanted(&self.deps.name, now.instant) {
            self.show(&messages, &verdict, took, now.ms);
        }
        let (accepted, refused) = match verdict {
            Verdict::Accepted(accepted) => (accepted, None),
            Verdict::Refused { accepted, error, retry_after, finality } => {
                let name = self.deps.name.as_str();
                telemetry::delivered(name, "refused", took, messages.len());
                (accepted, Some((error, retry_after, finality)))
            }
        };
        // Without ordering, a refused batch counts as a refusal of each message that was not accepted. Over TCP each
        // frame has its own answer, and the receiver has discarded the frames behind the refused one.
        let destination = &definition.entry.destination;
        let refuses_all = rules.is_grouped() && !destination.is_tcp();
        let left = messages.len().saturating_sub(accepted);
        let refusals: Vec<Refusal> = match refused {
            None => Vec::new(),
            Some((error, retry_after, finality)) => messages[accepted..]
                .iter()
                .take(if refuses_all { left } else { 1 })
                .filter_map(|head| self.refusal(head, left, error.clone(), retry_after, finality))
                .collect(),
        };
        if accepted > 0 {
            let name = self.deps.name.as_str();
            telemetry::delivered(name, "accepted", took, accepted);
            RECEIVERS.succeeded(name, 1);
        }
        // Split the verdict by lane: the messages of the lane, how many were accepted, and the refusal of the next one.
        let mut refusals = refusals.into_iter();
        let each = if rules.is_grouped() { 1 } else { messages.len().max(1) };
        let (mut times, took_ms) = (Vec::new(), took.as_millis() as u64);
        for ((number, key), messages) in keys.iter().enumerate().zip(messages.chunks(each)) {
            let accepted = accepted.saturating_sub(number * each).min(messages.len());
            let refusal = if accepted < messages.len() { refusals.next() } else { None };
            let outcome = Outcome { accepted, delivery_ms: took_ms, refusal };
            self.lane_delivered(key, outcome, &rules, now);
            if let Some(lane) = self.lanes.get_mut(key).filter(|_| accepted > 0) {
                times.extend(lane.times(&messages[..accepted], has_transform, took_ms, now));
            }
            self.schedule(key);
        }
        telemetry::accepted(self.deps.name.as_str(), times.into_iter());
    }

    /// Called when a delivery with messages of this lane has ended.
    fn lane_delivered(&mut self, key: &LaneKey, outcome: Outcome, rules: &Rules, now: Now) {
        let others_wait = self.is_full() && self.scheduler.others_wait();
        let Some(lane) = self.lanes.get_mut(key) else { return };
        let is_refused = matches!(outcome.refusal, Some(Refusal::Head { .. }));
        let is_accepted = outcome.accepted > 0;
        lane.delivery_ended(outcome, rules, now);
        if others_wait && is_accepted {
            lane.others_wait(RUNS_MAX * self.deps.release_batch_max);
        }
        self.reapply_withdrawals(key);
        if is_refused {
            // Resolving the refused head does not wait for other lanes.
            self.scheduler.goes_first(key);
        }
    }

    /// Publishes the end of a delivery for `reseq tail`. For a refused request, shows only the
    /// first message that was not accepted.
    fn show(&self, messages: &[Arc<Stamped>], verdict: &Verdict, took: Duration, now_ms: u64) {
        let (destination, pod) = (&self.deps.name, self.deps.store.pod());
        let ended = Ended { destination, pod, messages, took, now_ms };
        let (accepted, error) = match verdict {
            Verdict::Accepted(accepted) => (*accepted, None),
            Verdict::Refused { accepted, error, .. } => (*accepted, Some(error)),
        };
        for message in messages.iter().take(accepted) {
            self.deps.tail.note(ended.of(message, None));
        }
        if let (Some(message), Some(error)) = (messages.get(accepted), error) {
            self.deps.tail.note(ended.of(message, Some(error)));
        }
    }

    /// Decides how to handle the refusal of `head`, one of `count` messages that were not accepted.
    fn refusal(
        &self,
        head: &Stamped,
        count: usize,
        error: AttemptError,
        retry_after: Option<Duration>,
        finality: Finality,
    ) -> Option<Refusal> {
        let definition = self.definition.as_ref()?;
        let destination = &definition.entry.destination;
        let (sequence, failed) = (head.position.sequence, head.attempts.failed + 1);
        let withdrawal = self.withdrawals.of(sequence);
        let disposition = match withdrawal {
            Some(withdrawal) => Disposition::Withdraw(withdrawal.how, withdrawal.reason.clone()),
            None => {
                let policy = RetryPolicy::of_delivery(destination);
                policy.after(failed, finality, retry_after, rand::random())
            }
        };
        let reason = excerpt(error.detail.as_bytes());
        let ids = head.message.ids();
        let wait = disposition.wait();
        RECEIVERS.failed(&Failed {
            destination: self.deps.name.as_str(),
            sequence,
            id: Some(&ids.id),
            trace: ids.trace_id().as_deref(),
            attempt: failed,
            reason: &reason,
            wait,
        });
        // The first message is the cause: over TCP each frame has an answer, and a consumer names the message.
        let is_batch = count > 1 && destination.delivery.kind == DeliveryKind::Push;
        let may_be_another = is_batch && !destination.is_tcp() && finality != Finality::Halts;
        if wait.is_none() && may_be_another && withdrawal.is_none() {
            return Some(Refusal::Batch { count });
        }
        Some(Refusal::Head { failed, error, disposition })
    }
}
