//! What people ask a destination: how much, how far, and why not further.

use bytes::Bytes;
use redis::Pipeline;
use serde::Serialize;

use super::{Known, Store, StoreError, record};
use crate::domain::{Ordering, Sequence, State};

/// How many heads are listed where lanes are keys.
const HEADS_MAX: usize = 10;
/// How many candidates for the oldest heads are looked at, of each kind.
const CANDIDATES_MAX: isize = 20;

/// A destination's numbers, of one instant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// The last sequence stamped.
    pub last_sequence: Sequence,
    /// Messages that may be claimed now.
    pub waiting: u64,
    /// Messages under a lease.
    pub processing: u64,
    /// Messages that are processed and wait for their turn.
    pub ready: u64,
    /// Messages that a sender is trying to deliver.
    pub delivering: u64,
    /// Messages that wait out a backoff of their processing.
    pub delayed: u64,
    /// Messages that receivers have accepted.
    pub delivered_total: u64,
    /// Messages that their transform dropped.
    pub dropped_total: u64,
    /// The oldest of the lanes' heads.
    pub head: Option<Head>,
    /// Where lanes are keys, the oldest heads.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub heads: Vec<Head>,
}

/// A lane's head, and what it waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Head {
    /// Its sequence.
    pub sequence: Sequence,
    /// Its ordering key, where lanes are keys.
    pub key: Option<String>,
    /// Where it is.
    pub state: State,
    /// How long ago it arrived, in milliseconds.
    pub age_ms: u64,
    /// What it waits for: `transform` or `delivery`.
    pub blocked_by: &'static str,
    /// Attempts that did not succeed, of what it waits for.
    pub attempts: u32,
}

/// A head before it is known where it is.
type Candidate = (Sequence, Option<String>);

impl Store {
    /// The numbers of a destination.
    pub async fn stats(&self, known: &Known) -> Result<Stats, StoreError> {
        let keys = self.keys().destination(&known.destination.name);
        let mut pipe = Pipeline::new();
        pipe.atomic();
        let fields = ["last", "settled", "ready", "delayed", "delivered", "dropped"];
        pipe.hmget(keys.hash(), &fields).llen(keys.waiting()).get(keys.delivering());
        type Answer = (Vec<Option<u64>>, u64, Option<u64>);
        let (numbers, waiting, delivering): Answer = self.query(&pipe).await?;
        let number = |at: usize| numbers.get(at).copied().flatten().unwrap_or_default();
        let (last, settled, finished, delayed) = (number(0), number(1), number(2), number(3));
        let pending = last.saturating_sub(settled);
        let delivering = delivering.unwrap_or_default().min(finished);
        let heads = self.heads(known).await?;
        Ok(Stats {
            last_sequence: last,
            waiting,
            processing: pending.saturating_sub(waiting + finished + delayed),
            ready: finished - delivering,
            delivering,
            delayed,
            delivered_total: number(4),
            dropped_total: number(5),
            head: heads.first().cloned(),
            heads: match known.destination.ordering {
                Ordering::Destination => Vec::new(),
                Ordering::Key | Ordering::None => heads,
            },
        })
    }

    /// The lanes' heads, the oldest first. Where lanes are keys they are found among the messages
    /// that have waited longest in each state: all of them if there are few, else nearly so.
    async fn heads(&self, known: &Known) -> Result<Vec<Head>, StoreError> {
        let candidates = match known.destination.ordering {
            Ordering::Destination => {
                let keys = self.keys().destination(&known.destination.name);
                let mut pipe = Pipeline::new();
                pipe.zrange(keys.in_progress(None), 0, 0);
                let (head,): (Vec<Sequence>,) = self.query(&pipe).await?;
                head.into_iter().map(|sequence| (sequence, None)).collect()
            }
            Ordering::Key | Ordering::None => self.keyed_candidates(known).await?,
        };
        let mut heads = Vec::new();
        for (sequence, key) in candidates {
            heads.extend(self.head(known, sequence, key).await?);
        }
        Ok(heads)
    }

    async fn keyed_candidates(&self, known: &Known) -> Result<Vec<Candidate>, StoreError> {
        let name = &known.destination.name;
        let keys = self.keys().destination(name);
        let mut pipe = Pipeline::new();
        pipe.lrange(keys.waiting(), 0, CANDIDATES_MAX - 1);
        pipe.zrange(keys.lanes(), 0, CANDIDATES_MAX - 1);
        pipe.zrange(keys.partition.leases(), 0, 10 * CANDIDATES_MAX - 1);
        pipe.zrange(keys.partition.delayed(), 0, 10 * CANDIDATES_MAX - 1);
        type Answer = (Vec<Sequence>, Vec<String>, Vec<String>, Vec<String>);
        let (mut sequences, mut lanes, leases, delayed): Answer = self.query(&pipe).await?;
        for member in leases.iter().chain(&delayed) {
            let mut parts = member.split('/');
            if parts.next() == Some(name.as_str()) {
                sequences.extend(parts.next().and_then(|text| text.parse::<Sequence>().ok()));
            }
        }
        // Each of these stands in a lane, whose head is what matters.
        if !sequences.is_empty() {
            let mut pipe = Pipeline::new();
            pipe.hmget(keys.messages(), &sequences);
            let (records,): (Vec<Option<Bytes>>,) = self.query(&pipe).await?;
            lanes.extend(records.into_iter().zip(&sequences).filter_map(|(bytes, sequence)| {
                let message = record::read(bytes?, name, *sequence, Default::default()).ok()?;
                known.destination.lane_key(message.message.key.as_deref()).map(str::to_owned)
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
        let heads: Vec<Vec<Sequence>> = self.query(&pipe).await?;
        let mut found: Vec<Candidate> = heads
            .into_iter()
            .zip(lanes)
            .filter_map(|(head, lane)| Some((*head.first()?, Some(lane))))
            .collect();
        found.sort();
        found.truncate(HEADS_MAX);
        Ok(found)
    }

    /// Where a head is. None if it has left meanwhile.
    async fn head(
        &self,
        known: &Known,
        sequence: Sequence,
        key: Option<String>,
    ) -> Result<Option<Head>, StoreError> {
        let name = &known.destination.name;
        let keys = self.keys().destination(name);
        let mut pipe = Pipeline::new();
        pipe.hget(keys.messages(), sequence).hget(keys.attempts(), sequence);
        pipe.zscore(keys.ready(key.as_deref()), sequence);
        pipe.zscore(keys.partition.delayed(), format!("{name}/{sequence}"));
        pipe.cmd("LPOS").arg(keys.waiting()).arg(sequence).arg("MAXLEN").arg(1000);
        pipe.exists(keys.delivering()).cmd("TIME");
        type Answer =
            (Option<Bytes>, Option<u32>, Option<f64>, Option<f64>, Option<u64>, bool, (u64, u64));
        let (bytes, attempts, ready, delayed, waiting, delivering, time): Answer =
            self.query(&pipe).await?;
        let attempts = attempts.unwrap_or_default();
        let message =
            bytes.and_then(|bytes| record::read(bytes, name, sequence, Default::default()).ok());
        let Some(message) = message else { return Ok(None) };
        let state = match (ready, delayed, waiting) {
            (Some(_), _, _) if delivering => State::Delivering,
            (Some(_), _, _) => State::Ready,
            (_, Some(_), _) => State::Delayed,
            (_, _, Some(_)) => State::Waiting,
            _ => State::Processing,
        };
        let blocked_by = match state {
            State::Waiting | State::Processing | State::Delayed => "transform",
            _ => "delivery",
        };
        let now_ms = time.0 * 1000 + time.1 / 1000;
        let age_ms = now_ms.saturating_sub(message.message.received_ms);
        Ok(Some(Head { sequence, key, state, age_ms, blocked_by, attempts }))
    }
}
