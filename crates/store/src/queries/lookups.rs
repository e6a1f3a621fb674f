//! Small queries about a destination: the head of a lane, the message under an idempotency key, the
//! latest entries of the log.

use bytes::Bytes;
use redis::{Cmd, Pipeline};

use crate::{
    LogEntry, Store, StoreError,
    entry::{CatalogEntry, set_key},
    record,
};
use domain::{Epoch, Position, Sequence};

/// How many messages one round trip searches for an id.
const SEARCHED_AT_ONCE: usize = 250;

/// A page of the log: its newest entries, or the entries before a position.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Newest {
    /// The sequences, newest first.
    pub sequences: Vec<Sequence>,
    /// Where the next page begins; `None` on the last page.
    pub next: Option<u64>,
}

impl Store {
    /// The head of a lane (`lane` is as in [`LaneRequest::key`](crate::LaneRequest::key)); `None` if the lane is
    /// empty. Without ordering, the oldest message.
    pub async fn lane_head(
        &self,
        entry: &CatalogEntry,
        lane: Option<&str>,
    ) -> Result<Option<Sequence>, StoreError> {
        let keys = self.keys_of(entry);
        let head: Vec<Sequence> =
            self.ask(&Cmd::zrange(keys.in_progress(set_key(entry, lane)), 0, 0)).await?;
        Ok(head.first().copied())
    }

    /// The position that was stamped under an idempotency key, while Redis remembers the key.
    pub async fn stamped_under(
        &self,
        entry: &CatalogEntry,
        idempotency_key: &str,
    ) -> Result<Option<Position>, StoreError> {
        let keys = self.keys_of(entry);
        let mut pipe = Pipeline::new();
        pipe.hget(keys.hash(), "born");
        match entry.destination.idempotency_window_ms {
            0 => pipe.hget(keys.idempotency_keys(), idempotency_key),
            _ => pipe.get(keys.idempotency(idempotency_key)),
        };
        let (born, kept): (Option<Epoch>, Option<String>) = self.query(&pipe).await?;
        let Some(kept) = kept else { return Ok(None) };
        // `<epoch> <sequence> <deadline> <digest> <id>`
        let mut words = kept.split(' ').map(str::parse::<u64>);
        let (Some(Ok(epoch)), Some(Ok(sequence))) = (words.next(), words.next()) else {
            return Err(StoreError::Unreadable(format!("the idempotency key {idempotency_key:?}")));
        };
        // A key that was stored for an earlier destination with the same name does not count.
        Ok((epoch >= born.unwrap_or_default()).then_some(Position { epoch, sequence }))
    }

    /// The sequence of the last message with this id, among the last `max` and `ids_max` messages. Found in the
    /// index, or by a search of the messages and the log, newest first.
    pub async fn stamped_with_id(
        &self,
        entry: &CatalogEntry,
        id: &str,
        max: u64,
    ) -> Result<Option<Sequence>, StoreError> {
        let keys = self.keys_of(entry);
        let mut pipe = Pipeline::new();
        if entry.destination.ids_indexed() > 0 {
            pipe.zscore(keys.ids(), id);
            let (score,): (Option<f64>,) = self.query(&pipe).await?;
            // Scores are exact up to 2^53, and no sequence is above 2^53.
            return Ok(score.map(|score| score as Sequence));
        }
        pipe.hget(keys.hash(), "last");
        let (last,): (Option<Sequence>,) = self.query(&pipe).await?;
        let last = last.unwrap_or_default();
        let first = last.saturating_sub(max.min(entry.destination.ids_max));
        let newest: Vec<Sequence> = (first + 1..=last).rev().collect();
        for some in newest.chunks(SEARCHED_AT_ONCE) {
            let mut pipe = Pipeline::new();
            pipe.hmget(keys.messages(), some).hmget(keys.log(), some);
            let (records, logged): (Vec<Option<Bytes>>, Vec<Option<Bytes>>) =
                self.query(&pipe).await?;
            for ((record, logged), sequence) in records.into_iter().zip(logged).zip(some) {
                if record
                    .is_some_and(|record| record::id_of(record, *sequence).as_deref() == Some(id))
                    || logged
                        .is_some_and(|one| LogEntry::decode(&one).is_ok_and(|one| one.id == id))
                {
                    return Ok(Some(*sequence));
                }
            }
        }
        Ok(None)
    }

    /// Tells which of these sequences are dead letters.
    pub async fn are_dead(
        &self,
        entry: &CatalogEntry,
        sequences: &[Sequence],
    ) -> Result<Vec<bool>, StoreError> {
        if sequences.is_empty() {
            return Ok(Vec::new());
        }
        let scores: Vec<Option<f64>> =
            self.ask(&Cmd::zscore_multiple(self.keys_of(entry).dead_letters(), sequences)).await?;
        Ok(scores.into_iter().map(|score| score.is_some()).collect())
    }

    /// A page of the messages that left last: those before position `before`. The position counts all messages that
    /// have ever left, so pages stay aligned while further messages leave.
    pub async fn log_newest(
        &self,
        entry: &CatalogEntry,
        before: Option<u64>,
        max: usize,
    ) -> Result<Newest, StoreError> {
        let keys = self.keys_of(entry);
        let settled: Option<u64> = self.ask(&Cmd::hget(keys.hash(), "settled")).await?;
        let before = before.unwrap_or_else(|| settled.unwrap_or_default());
        let skipped = settled.unwrap_or_default().saturating_sub(before);
        let (newer, max) = (skipped as isize, max.max(1) as isize);
        let mut pipe = Pipeline::new();
        pipe.hget(keys.hash(), "settled").llen(keys.log_order());
        pipe.lrange(keys.log_order(), -newer - max, -newer - 1);
        type Answer = (Option<u64>, u64, Vec<Sequence>);
        let (settled, length, mut sequences): Answer = self.query_at_once(&pipe).await?;
        sequences.reverse();
        // Messages that left between the two reads have shifted the list: skip messages that the last page has
        // returned.
        let first = settled.unwrap_or_default().saturating_sub(skipped);
        let shown_before = first.saturating_sub(before).min(sequences.len() as u64) as usize;
        let end = first.saturating_sub(sequences.len() as u64);
        let is_last = skipped + sequences.len() as u64 >= length;
        sequences.drain(..shown_before);
        Ok(Newest { sequences, next: (!is_last).then_some(end) })
    }
}
