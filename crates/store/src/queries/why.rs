//! What blocks a lane: its head, the messages behind it, and the owner that may deliver it.

use redis::{Cmd, Pipeline};

use super::{messages::Listed, pods::Ownership, work::time_of_hint};
use crate::{Store, StoreError, WrongType, entry::CatalogEntry};
use domain::Ordering;

/// The field of a destination that holds until when its rate is used up (`lua/include/rate.lua`).
const GRANTED_UNTIL: &str = "granted_until";

/// A lane and its head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneHead {
    /// The head, without a body that is stored out of line.
    pub head: Listed,
    /// How many messages of the lane wait behind the head.
    pub behind: u64,
    /// The bytes of these messages' bodies, if the destination is one lane.
    pub bytes_behind: Option<u64>,
    /// Before this time, the head is not released, in ms since 1970: the end of its backoff. `None` if there is no
    /// backoff.
    pub not_before_ms: Option<u64>,
    /// When the rate of the transform allows the next attempt, in ms since 1970; `None` without a rate.
    pub next_attempt_ms: Option<u64>,
    /// Since when this message is the head, in ms since 1970; `None` if the log does not have the previous message
    /// any more.
    pub head_since_ms: Option<u64>,
    /// How many messages of the destination are being delivered, as their owner recorded within the last seconds.
    pub delivering: u64,
    /// How many deliveries of the destination wait for a connection, as their owner recorded.
    pub awaiting_connection: u64,
    /// If the receiver fails: when the owner probes it next, in ms since 1970, as the owner recorded.
    pub probe_at_ms: Option<u64>,
    /// The owner of the partition.
    pub ownership: Ownership,
}

impl Store {
    /// The key with the wrong type that halts the destination, if there is one.
    pub async fn wrong_type(&self, entry: &CatalogEntry) -> Result<Option<WrongType>, StoreError> {
        let noted: Option<String> =
            self.ask(&Cmd::hget(self.keys_of(entry).hash(), "wrong_type")).await?;
        let Some((expected, key)) = noted.as_deref().and_then(|noted| noted.split_once(' ')) else {
            return Ok(None);
        };
        let found: String = self.ask(redis::cmd("TYPE").arg(key)).await?;
        let (key, expected) = (key.to_owned(), expected.to_owned());
        // The next call of the destination ends the halt.
        let is_over = found == expected || found == "none";
        Ok((!is_over).then_some(WrongType { key, found, expected }))
    }

    /// The head of the lane with this ordering key. Without a key: the head of the destination's lane, or, with
    /// several lanes, the oldest head. `None` if no message is pending.
    pub async fn why(
        &self,
        entry: &CatalogEntry,
        key: Option<&str>,
    ) -> Result<Option<LaneHead>, StoreError> {
        let head = match (entry.destination.ordering, key) {
            (Ordering::Key, Some(key)) => self.lane_head(entry, Some(key)).await?,
            (Ordering::Key, None) => {
                let heads = self.heads(entry, false).await?;
                heads.first().map(|head| head.sequence)
            }
            _ => self.lane_head(entry, None).await?,
        };
        let Some(sequence) = head else { return Ok(None) };
        let Some(head) = self.listed(entry, &[sequence]).await?.into_iter().next() else {
            return Ok(None);
        };
        let keys = self.keys_of(entry);
        let lane = entry.destination.lane_key(head.message.message.key.as_deref());
        let mut pipe = Pipeline::new();
        pipe.zcard(keys.in_progress(lane));
        self.ask_not_before(&mut pipe, entry, &head);
        pipe.hget(keys.hash(), "bytes").hget(keys.hash(), GRANTED_UNTIL);
        pipe.get(keys.delivering()).get(keys.awaiting_connection()).get(keys.probe_at());
        type Number = Option<u64>;
        type Found = (u64, Option<f64>, Number, Number, Number, Number, Number);
        let found: Found = self.query(&pipe).await?;
        let (pending, not_before, bytes, granted_until, delivering, awaiting, probe_at_ms) = found;
        let transform = &entry.destination.transform;
        let is_whole = entry.destination.ordering == Ordering::Destination;
        Ok(Some(LaneHead {
            behind: match entry.destination.ordering {
                Ordering::None => 0,
                _ => pending.saturating_sub(1),
            },
            bytes_behind: bytes
                .filter(|_| is_whole)
                .map(|bytes| bytes.saturating_sub(head.message.accounted_bytes)),
            not_before_ms: time_of_hint(not_before),
            next_attempt_ms: transform.next_attempt_ms(granted_until.unwrap_or_default()),
            delivering: delivering.unwrap_or_default(),
            awaiting_connection: awaiting.unwrap_or_default(),
            probe_at_ms,
            head_since_ms: self.head_since(entry, &head).await?,
            ownership: self.ownership(entry.partition).await?,
            head,
        }))
    }

    /// Until when the rate of the transform is used up, in µs since 1970; 0 if no message has used it yet.
    pub(super) async fn granted_until_us(&self, entry: &CatalogEntry) -> Result<u64, StoreError> {
        let until: Option<f64> =
            self.ask(&Cmd::hget(self.keys_of(entry).hash(), GRANTED_UNTIL)).await?;
        Ok(until.unwrap_or_default() as u64)
    }

    /// Adds a query to `pipe`: when this head may be released, as a score in ms since 1970.
    fn ask_not_before(&self, pipe: &mut Pipeline, entry: &CatalogEntry, head: &Listed) {
        let keys = self.keys_of(entry);
        let lane = entry.destination.lane_key(head.message.message.key.as_deref());
        match (entry.destination.ordering, lane) {
            (Ordering::Key, Some(key)) => pipe.zscore(keys.lanes(), key),
            (Ordering::None, _) => pipe.zscore(keys.lanes(), head.message.position.sequence),
            _ => pipe.zscore(keys.partition.releasable(), entry.destination.name.as_str()),
        };
    }

    /// The oldest heads of a destination's lanes; at most ten. `ownership` is the owner of the destination's
    /// partition. Does not count the messages behind the heads.
    pub async fn lane_heads(
        &self,
        entry: &CatalogEntry,
        ownership: &Ownership,
    ) -> Result<Vec<LaneHead>, StoreError> {
        let sequences = self.head_candidates(entry).await?;
        let listed = self.listed(entry, &sequences).await?;
        if listed.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipe = Pipeline::new();
        pipe.hget(self.keys_of(entry).hash(), GRANTED_UNTIL);
        listed.iter().for_each(|head| self.ask_not_before(&mut pipe, entry, head));
        let found = self.query_lenient(&pipe).await?.into_iter();
        let mut scores =
            found.map(|score| redis::from_redis_value::<Option<f64>>(score).ok().flatten());
        let granted_until = scores.next().flatten().unwrap_or_default() as u64;
        let next_attempt_ms = entry.destination.transform.next_attempt_ms(granted_until);
        let lane = |(head, not_before): (Listed, Option<f64>)| LaneHead {
            head,
            behind: 0,
            bytes_behind: None,
            not_before_ms: time_of_hint(not_before),
            next_attempt_ms,
            head_since_ms: None,
            delivering: 0,
            awaiting_connection: 0,
            probe_at_ms: None,
            ownership: ownership.clone(),
        };
        Ok(listed.into_iter().zip(scores).map(lane).collect())
    }

    /// When the previous message of the lane left, or when the head itself arrived, if that was later.
    async fn head_since(
        &self,
        entry: &CatalogEntry,
        head: &Listed,
    ) -> Result<Option<u64>, StoreError> {
        let sequence = head.message.position.sequence;
        let before = match entry.destination.ordering {
            Ordering::Destination => sequence.checked_sub(1).filter(|before| *before > 0),
            Ordering::Key => head.message.previous,
            Ordering::None => None,
        };
        let received_ms = head.message.message.received();
        let Some(before) = before else { return Ok(received_ms) };
        let left = self.log_entries(entry, &[before]).await?.into_iter().next().flatten();
        Ok(left.map(|left| left.settled_ms.max(received_ms.unwrap_or_default())))
    }
}
