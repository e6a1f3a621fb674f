//! The state of a destination for display: its backlog, its progress, and what blocks it.

use bytes::Bytes;
use redis::{Cmd, Pipeline};
use serde::Serialize;

use super::{attention::Attention, messages::Listed};
use crate::{
    Store, StoreError,
    entry::{CatalogEntry, Paused},
    record,
};
use domain::{AttemptError, DeliveryKind, Destination, Ordering, Sequence, State};
use redis_client::texts;

/// How often heads are read again because some of them have left meanwhile.
const HEADS_READ_MAX: usize = 3;
/// The most heads to list for a destination with many lanes.
const HEADS_MAX: usize = 10;
/// How many candidates of each kind are read to find the oldest heads.
const CANDIDATES_MAX: isize = 20;

/// A destination's numbers, read at one instant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Stats {
    /// The last sequence that was stamped; with several shards, the sum of theirs.
    pub last_sequence: Sequence,
    /// Messages that have not left: the sum of the next six numbers. Together with the totals of messages that have
    /// left, it equals `last_sequence`.
    pub pending: u64,
    /// Messages that wait for processing.
    pub waiting: u64,
    /// Messages under a lease.
    pub processing: u64,
    /// Messages that are processed, or need no processing, and wait for their turn to be delivered.
    pub ready: u64,
    /// Messages in delivery.
    pub delivering: u64,
    /// Messages that have no attempts left: their lanes wait for an operator.
    pub halted: u64,
    /// Messages that may not be processed yet, or wait for their backoff.
    pub delayed: u64,
    /// The bytes of the pending messages' bodies as they arrived.
    pub pending_bytes: u64,
    /// Dead letters. They are not pending.
    pub dead_letters: u64,
    /// Messages that receivers have accepted.
    pub delivered_total: u64,
    /// Messages that their transform or a policy dropped.
    pub dropped_total: u64,
    /// Messages that became dead letters.
    pub dead_lettered_total: u64,
    /// Messages that were cancelled.
    pub cancelled_total: u64,
    /// Which parts are paused.
    pub paused: Paused,
    /// Fields of the destination's hash and keys that cannot be read. Their numbers are 0, and numbers derived from
    /// them are wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<&'static str>,
    /// Why the destination needs attention, the worst cause first; empty if it needs none.
    pub attention: Vec<Attention>,
    /// Messages with stored attempts. Most of them have failed.
    #[serde(skip)]
    pub with_attempts: u64,
    /// The oldest head of all lanes.
    pub head: Option<Head>,
    /// The oldest heads, if the destination has several lanes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub heads: Vec<Head>,
}

/// The head of a lane, and what it waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Head {
    /// The shard of the head, if the destination has several, as paths name it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shard: Option<String>,
    /// The sequence of the head.
    pub sequence: Sequence,
    /// The ordering key of the head, with ordering by key.
    pub key: Option<String>,
    /// The state of the head.
    pub state: State,
    /// How long ago the head arrived, in milliseconds.
    pub age_ms: u64,
    /// What the head waits for: `transform`, `delivery`, its `delay`, or an `operator`.
    pub blocked_by: &'static str,
    /// Failed attempts in the current stage of the head.
    pub attempts: u32,
    /// Leases on the head that expired.
    pub stalls: u32,
    /// How long the head has been halted, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub halted_for_ms: Option<u64>,
    /// The last error of the head.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<AttemptError>,
}

impl Stats {
    /// The numbers of two shards together.
    pub fn and(mut self, other: Stats) -> Stats {
        for (sum, more) in [
            (&mut self.last_sequence, other.last_sequence),
            (&mut self.pending, other.pending),
            (&mut self.waiting, other.waiting),
            (&mut self.processing, other.processing),
            (&mut self.ready, other.ready),
            (&mut self.delivering, other.delivering),
            (&mut self.halted, other.halted),
            (&mut self.delayed, other.delayed),
            (&mut self.pending_bytes, other.pending_bytes),
            (&mut self.dead_letters, other.dead_letters),
            (&mut self.delivered_total, other.delivered_total),
            (&mut self.dropped_total, other.dropped_total),
            (&mut self.dead_lettered_total, other.dead_lettered_total),
            (&mut self.cancelled_total, other.cancelled_total),
            (&mut self.with_attempts, other.with_attempts),
        ] {
            *sum += more;
        }
        for one in other.attention {
            match self.attention.iter_mut().find(|known| known.cause == one.cause) {
                Some(known) => {
                    known.count += one.count;
                    known.since = known.since.min(one.since);
                }
                None => self.attention.push(one),
            }
        }
        self.attention.sort_by_key(|one| one.cause);
        self.damaged.extend(other.damaged);
        self.heads.extend(other.heads);
        self.heads.sort_by_key(|head| std::cmp::Reverse(head.age_ms));
        self.heads.truncate(HEADS_MAX);
        self.head = self.heads.first().cloned();
        self
    }
}

impl Store {
    /// The numbers of a destination.
    pub async fn stats(&self, entry: &CatalogEntry) -> Result<Stats, StoreError> {
        let mut counts = self.counts(entry).await?;
        counts.attention = self.attention(&[(entry, &counts)]).await.pop().unwrap_or_default();
        self.add_heads(entry, &mut counts).await?;
        Ok(counts)
    }

    /// Adds the heads to these numbers.
    pub async fn add_heads(
        &self,
        entry: &CatalogEntry,
        stats: &mut Stats,
    ) -> Result<(), StoreError> {
        let heads = self.heads(entry, stats.delivering > 0).await;
        let heads = match self.noted(entry, "stats", heads) {
            // Damage must not hide the numbers.
            Err(error) if error.is_damage() => Vec::new(),
            heads => heads?,
        };
        stats.head = heads.first().cloned();
        stats.heads = match entry.destination.ordering {
            Ordering::Destination => Vec::new(),
            Ordering::Key | Ordering::None => heads,
        };
        Ok(())
    }

    /// Only the numbers, without heads.
    pub async fn counts(&self, entry: &CatalogEntry) -> Result<Stats, StoreError> {
        self.backlog_now(entry).await
    }

    /// The heads of the lanes, oldest first. With many lanes, the search covers the messages that have waited longest
    /// in each state. It is exact if there are few heads, and almost exact otherwise.
    pub(super) async fn heads(
        &self,
        entry: &CatalogEntry,
        delivering: bool,
    ) -> Result<Vec<Head>, StoreError> {
        let keys = self.keys_of(entry);
        let mut listed = Vec::new();
        for _ in 0..HEADS_READ_MAX {
            let sequences = self.head_candidates(entry).await?;
            listed = self.listed(entry, &sequences).await?;
            // A head may leave between the two reads. Then another message is the head.
            if listed.len() == sequences.len() {
                break;
            }
        }
        let now_ms = self.time_at(&keys.hash()).await?;
        let held = match entry.destination.delivery.kind {
            DeliveryKind::Pull if delivering => self.held(entry, &listed, now_ms).await?,
            _ => vec![delivering; listed.len()],
        };
        let heads = listed.into_iter().zip(held);
        Ok(heads.map(|(one, is_held)| head(one, entry, is_held, now_ms)).collect())
    }

    /// Whether a consumer holds the lane of each of these messages.
    async fn held(
        &self,
        entry: &CatalogEntry,
        listed: &[Listed],
        now_ms: u64,
    ) -> Result<Vec<bool>, StoreError> {
        if listed.is_empty() {
            return Ok(Vec::new());
        }
        let keys = self.keys_of(entry);
        let lane = |one: &Listed| {
            let (key, sequence) =
                (one.message.message.key.as_deref(), one.message.position.sequence);
            entry.destination.lane_of(key, sequence).unwrap_or_default()
        };
        let ends: Vec<Option<f64>> = self
            .ask(&Cmd::zscore_multiple(
                keys.consumer_lease_ends(),
                &listed.iter().map(lane).collect::<Vec<_>>(),
            ))
            .await?;
        Ok(ends.into_iter().map(|end| end.is_some_and(|end| end > now_ms as f64)).collect())
    }

    /// The sequences of the lanes' heads, as [`Store::heads`] finds them.
    pub(super) async fn head_candidates(
        &self,
        entry: &CatalogEntry,
    ) -> Result<Vec<Sequence>, StoreError> {
        if entry.destination.ordering == Ordering::Key {
            return self.keyed_candidates(entry).await;
        }
        let keys = self.keys_of(entry);
        let all = entry.destination.ordering == Ordering::None;
        let last = if all { HEADS_MAX as isize - 1 } else { 0 };
        let heads: Vec<Sequence> = self.ask(&Cmd::zrange(keys.in_progress(None), 0, last)).await?;
        Ok(heads)
    }

    async fn keyed_candidates(&self, entry: &CatalogEntry) -> Result<Vec<Sequence>, StoreError> {
        let name = &entry.destination.name;
        let keys = self.keys().destination(name);
        let mut pipe = Pipeline::new();
        pipe.lrange(keys.waiting(), 0, CANDIDATES_MAX - 1);
        pipe.zrange(keys.lanes(), 0, CANDIDATES_MAX - 1);
        // A lane that a consumer holds comes after all free lanes.
        pipe.zrange(keys.lanes(), -CANDIDATES_MAX, -1);
        pipe.zrange(keys.partition.leases(), 0, 10 * CANDIDATES_MAX - 1);
        pipe.zrange(keys.partition.delayed(), 0, 10 * CANDIDATES_MAX - 1);
        pipe.zrange(keys.halted(), 0, CANDIDATES_MAX - 1);
        let answers = self.query_lenient(&pipe).await?.into_iter();
        let answers = answers.map(|answer| texts(Some(answer), "a query for heads"));
        // A key that cannot be read adds no candidates, and must not hide the candidates of other keys.
        let mut answers = answers.map(Result::unwrap_or_default);
        let mut next = || answers.next().unwrap_or_default();
        let numbers = |all: Vec<String>| -> Vec<Sequence> {
            all.iter().filter_map(|text| text.parse().ok()).collect()
        };
        let mut sequences = numbers(next());
        let (mut lanes, last_lanes, leases, delayed) = (next(), next(), next(), next());
        lanes.extend(last_lanes);
        sequences.extend(numbers(next()));
        for member in leases.iter().chain(&delayed) {
            let mut parts = member.split('/');
            if parts.next() == Some(name.as_str()) {
                sequences.extend(parts.next().and_then(|text| text.parse::<Sequence>().ok()));
            }
        }
        // Each of these messages is in a lane, whose head is a candidate.
        if !sequences.is_empty() {
            let records: Vec<Option<Bytes>> =
                self.ask(&Cmd::hmget(keys.messages(), &sequences)).await?;
            lanes.extend(records.into_iter().zip(&sequences).filter_map(|(bytes, sequence)| {
                let message = record::read(bytes?, name, *sequence, Default::default()).ok()?;
                entry.destination.lane_key(message.message.key.as_deref()).map(str::to_owned)
            }));
        }
        lanes.sort();
        lanes.dedup();
        if lanes.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipe = Pipeline::new();
        for lane in &lanes {
            pipe.zrange(keys.in_progress(Some(lane)), 0, 0);
        }
        let heads = self.query_lenient(&pipe).await?.into_iter();
        let read = |head| redis::from_redis_value::<Vec<Sequence>>(head).ok()?.first().copied();
        let mut found: Vec<Sequence> = heads.filter_map(read).collect();
        found.sort_unstable();
        found.truncate(HEADS_MAX);
        Ok(found)
    }
}

fn head(listed: Listed, entry: &CatalogEntry, delivering: bool, now_ms: u64) -> Head {
    let waits_for_later = listed.waits_for_later();
    let Listed { message, state, halted_ms, .. } = listed;
    let state = match state {
        State::Ready if delivering => State::Delivering,
        state => state,
    };
    let last_error = message.attempts.errors.first().map(|(_, error)| error.clone());
    let has_failed = message.attempts.failed + message.attempts.stalls > 0;
    let Destination { name, shards, .. } = &entry.destination;
    Head {
        shard: (*shards > 1).then(|| name.shard_in_paths()),
        sequence: message.position.sequence,
        key: entry.destination.lane_key(message.message.key.as_deref()).map(str::to_owned),
        state,
        age_ms: message.message.age_ms(now_ms).unwrap_or_default(),
        blocked_by: match state {
            State::Halted | State::Damaged => "operator",
            State::Delayed if waits_for_later || !has_failed => "delay",
            State::Waiting | State::Processing | State::Delayed => "transform",
            _ => "delivery",
        },
        attempts: message.attempts.failed,
        stalls: message.attempts.stalls,
        halted_for_ms: halted_ms.map(|since| now_ms.saturating_sub(since)),
        last_error,
    }
}
