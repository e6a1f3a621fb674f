//! Finds out what the head of a lane waits for.

use serde::Serialize;
use utoipa::ToSchema;

use super::{messages::Listed, why::LaneHead};
use crate::{entry::CatalogEntry, keys::Claimers};
use domain::{Stage, State};

/// Why the head has not left yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = BlockedBy)]
pub enum Cause {
    /// No message is pending.
    Nothing,
    /// Nothing blocks the head: messages leave all the time.
    Draining,
    /// Redis holds data of the head that cannot be read.
    Damaged,
    /// The head has no attempts left, or was refused permanently.
    Halted,
    /// The head leaves as soon as the attempt in progress has ended.
    Withdrawing,
    /// The head's producer delayed it, or its worker asked to get it later.
    Delayed,
    /// An attempt to process or deliver the head failed, and the next attempt is not due yet.
    Backoff,
    /// The head waits for processing, and no pod has the role processor.
    NoProcessor,
    /// The head waits for a processor: all are busy.
    AwaitingProcessor,
    /// The head waits for a worker to claim it.
    AwaitingWorker,
    /// The head waits for processing, and the rate of the destination's transform allows no more attempts at the
    /// moment.
    TransformRateLimit,
    /// A processor or a worker holds the head.
    Processing,
    /// Processing or delivery is paused.
    Paused,
    /// The head is processed, and no pod delivers for its partition.
    NoOwner,
    /// After a failover, the new owner waits until an owner that Redis has forgotten must have stopped.
    TakeoverWait,
    /// The head is processed, and the destination's rate allows no more deliveries in this second.
    RateLimit,
    /// The head is processed, and deliveries of the destination wait: it has as many connections as it may have.
    AwaitingConnection,
    /// The head is processed, and its receiver fails: one message at a time probes the receiver.
    ReceiverFailing,
    /// The head is processed, and waits for a consumer to take it.
    AwaitingConsumer,
    /// A consumer holds the head.
    Consuming,
    /// The head is being delivered to its receiver, or is about to be.
    Delivering,
    /// Redis does not answer.
    Redis,
    /// Redis answers, but refuses all writes.
    RedisRefusesWrites,
}

/// Facts that decide the cause, in addition to the lane itself.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings {
    /// The time of Redis, in ms since 1970.
    pub now_ms: u64,
    /// Whether a pod has the role processor. Only matters for a head that waits for a processor.
    pub has_processor: bool,
    /// Whether the next delivery of the destination waits for its rate limit.
    pub is_rate_limited: bool,
    /// Whether deliveries of the destination wait for a connection.
    pub awaits_connection: bool,
    /// Whether the receiver of the destination fails, and lanes wait for the next probe.
    pub is_receiver_probed: bool,
    /// Whether Redis refuses all writes. Then no message leaves, whatever else the lane waits for.
    pub refuses_writes: bool,
}

impl Cause {
    /// The name of the cause in the API and in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Cause::Nothing => "nothing",
            Cause::Draining => "draining",
            Cause::Damaged => "damaged",
            Cause::Halted => "halted",
            Cause::Withdrawing => "withdrawing",
            Cause::Delayed => "delayed",
            Cause::Backoff => "backoff",
            Cause::NoProcessor => "no_processor",
            Cause::AwaitingProcessor => "awaiting_processor",
            Cause::AwaitingWorker => "awaiting_worker",
            Cause::TransformRateLimit => "transform_rate_limit",
            Cause::Processing => "processing",
            Cause::Paused => "paused",
            Cause::NoOwner => "no_owner",
            Cause::TakeoverWait => "takeover_wait",
            Cause::RateLimit => "rate_limit",
            Cause::AwaitingConnection => "awaiting_connection",
            Cause::ReceiverFailing => "receiver_failing",
            Cause::AwaitingConsumer => "awaiting_consumer",
            Cause::Consuming => "consuming",
            Cause::Delivering => "delivering",
            Cause::Redis => "redis",
            Cause::RedisRefusesWrites => "redis_refuses_writes",
        }
    }

    /// What the head of this lane waits for.
    pub fn of(entry: &CatalogEntry, lane: &LaneHead, around: &Surroundings) -> Cause {
        let LaneHead { head, ownership, .. } = lane;
        let attempts = &head.message.attempts;
        match head.state {
            _ if around.refuses_writes => Cause::RedisRefusesWrites,
            State::Damaged => Cause::Damaged,
            State::Halted => Cause::Halted,
            // Only an owner carries out the withdrawal.
            State::Ready | State::Delivering if head.withdrawing && ownership.owner.is_none() => {
                Cause::NoOwner
            }
            _ if head.withdrawing => Cause::Withdrawing,
            State::Delayed if head.waits_for_later() => Cause::Delayed,
            State::Delayed if attempts.failed + attempts.stalls > 0 => Cause::Backoff,
            State::Delayed => Cause::Delayed,
            State::Processing => Cause::Processing,
            State::Waiting if entry.paused.processing => Cause::Paused,
            State::Waiting if waits_for_processor(entry, head) && !around.has_processor => {
                Cause::NoProcessor
            }
            State::Waiting if lane.next_attempt_ms.is_some_and(|at| at > around.now_ms) => {
                Cause::TransformRateLimit
            }
            State::Waiting if !waits_for_processor(entry, head) => Cause::AwaitingWorker,
            State::Waiting => Cause::AwaitingProcessor,
            _ if entry.paused.delivery => Cause::Paused,
            _ if head.lease.is_some() => Cause::Consuming,
            _ if ownership.owner.is_none() => Cause::NoOwner,
            _ if ownership.takeover_wait_ms > 0 => Cause::TakeoverWait,
            _ if waits_for_backoff(lane, around.now_ms) => Cause::Backoff,
            _ if head.is_for_consumers => Cause::AwaitingConsumer,
            _ if around.is_receiver_probed => Cause::ReceiverFailing,
            _ if around.awaits_connection => Cause::AwaitingConnection,
            _ if around.is_rate_limited => Cause::RateLimit,
            _ => Cause::Delivering,
        }
    }
}

/// True if a built-in processor must claim the head.
pub fn waits_for_processor(entry: &CatalogEntry, head: &Listed) -> bool {
    head.state == State::Waiting && entry.claimers() == Claimers::Builtin
}

fn waits_for_backoff(lane: &LaneHead, now_ms: u64) -> bool {
    let attempts = &lane.head.message.attempts;
    let last = attempts.errors.first();
    let has_failed = last.is_some_and(|(_, error)| error.stage == Stage::Delivery);
    has_failed && attempts.failed > 0 && lane.not_before_ms.is_some_and(|until| until > now_ms)
}
