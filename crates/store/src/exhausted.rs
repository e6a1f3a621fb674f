//! Applies a destination's `on_exhausted` to halted messages. Such messages have stalled too often, had no room for
//! their dead letters, or halted before the policy changed.

use std::sync::Arc;

use bytes::Bytes;

use super::{CatalogEntry, Store, StoreError, Who, Withdrawal, attempts};
use domain::{Disposition, OnExhausted, ProcessingOptions, RetryPolicy, Sequence, Stage};
use redis_client::read;

/// The most halted messages that one query returns.
const PAGE_MAX: isize = 100;
/// The most such queries in a row.
const PAGES_MAX: isize = 20;

impl Store {
    /// Applies the policies of these destinations to their halted messages. The owner of their partitions calls this.
    pub async fn apply_policy_to_all_halted(&self, some: &[Arc<CatalogEntry>]) {
        let concerned =
            some.iter().filter(|entry| entry.destination.on_exhausted != OnExhausted::Halt);
        let concerned: Vec<_> = concerned.collect();
        if concerned.is_empty() {
            return;
        }
        let looks = concerned.iter().map(|entry| {
            let mut pipe = redis::pipe();
            pipe.zcard(self.keys_of(entry).halted());
            pipe
        });
        let counts = self.query_each(&looks.collect::<Vec<_>>()).await;
        let count = |answer: Vec<_>| read(answer.into_iter().next(), "a count").unwrap_or(0u64);
        let counts = counts.into_iter().map(|answer| answer.map_or(0, count));
        let halted = concerned.iter().zip(counts).filter(|(_, count)| *count > 0);
        for (entry, _) in halted {
            if let Err(error) = self.apply_policy_to_halted(entry).await {
                let name = &entry.destination.name;
                tracing::debug!(destination = %name, %error, "cannot apply on_exhausted");
            }
        }
    }

    /// Applies the policy to some of a destination's messages that halted in processing. Returns the number of
    /// messages.
    pub async fn apply_policy_to_halted(&self, entry: &CatalogEntry) -> Result<usize, StoreError> {
        let policy = RetryPolicy::of_transform(&entry.destination, &ProcessingOptions::default());
        let Disposition::Withdraw(how, reason) = policy.exhausted(false) else { return Ok(0) };
        for page in 0..PAGES_MAX {
            let from = page * PAGE_MAX;
            let (sequences, is_last) = self.halted_in_processing(entry, from).await?;
            if !sequences.is_empty() {
                let mut messages = self.headers(entry, &sequences).await?;
                let mut present: Vec<_> = messages.iter_mut().flatten().collect();
                self.find_missing_bodies(&entry.destination.name, &mut present).await?;
                // Damaged messages stay: an operator may be able to restore them.
                let readable = messages.iter().flatten().filter(|one| one.damaged.is_none());
                let lanes = readable.map(|message| {
                    let (key, sequence) =
                        (message.message.key.as_deref(), message.position.sequence);
                    (entry.destination.lane_of(key, sequence), sequence)
                });
                let messages: Vec<_> = lanes.collect();
                if !messages.is_empty() {
                    let (reason, messages) = (reason.as_str(), messages.as_slice());
                    let withdrawal = Withdrawal { how, reason, error: None, messages };
                    self.withdraw(entry, Who::Policy, &withdrawal).await?;
                    return Ok(messages.len());
                }
            }
            if is_last {
                break;
            }
        }
        Ok(0)
    }

    /// Reads halted messages, beginning at this rank, that halted in processing and not in delivery. The flag is true
    /// if there are no further messages.
    async fn halted_in_processing(
        &self,
        entry: &CatalogEntry,
        from: isize,
    ) -> Result<(Vec<Sequence>, bool), StoreError> {
        let keys = self.keys_of(entry);
        let halted: Vec<Sequence> =
            self.ask(&redis::Cmd::zrange(keys.halted(), from, from + PAGE_MAX - 1)).await?;
        if halted.is_empty() {
            return Ok((Vec::new(), true));
        }
        let is_last = halted.len() < PAGE_MAX as usize;
        let kept: Vec<Option<Bytes>> =
            self.ask(&redis::Cmd::hmget(keys.attempts(), &halted)).await?;
        let stage = |kept: &Option<Bytes>| attempts::read(kept.as_deref()?).halted_in;
        let all = halted.into_iter().zip(kept);
        let of_transform = all.filter(|(_, kept)| stage(kept) == Some(Stage::Transform));
        let mut sequences: Vec<_> = of_transform.map(|(sequence, _)| sequence).collect();
        // Sorted by arrival: if there is no room for all dead letters, the earliest messages get it.
        sequences.sort_unstable();
        Ok((sequences, is_last))
    }
}
