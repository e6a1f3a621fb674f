//! Applies a destination's `on_exhausted` to messages that used up their processing attempts.

use std::sync::Arc;

use bytes::Bytes;

use super::{
    CatalogEntry, Failed, Status, Store, StoreError, WITHDRAW_MAX, Who, Withdrawal, attempts,
};
use domain::{OnExhausted, Sequence, Stage, Tombstone};
use redis_client::read;

/// The most halted messages that one query returns.
const PAGE_MAX: isize = 100;
/// The most such queries in a row.
const PAGES_MAX: isize = 20;

const USED_UP: &str = "its attempts were used up";
const PERMANENT: &str = "failed for good";

/// The kind of tombstone that a policy leaves; `None` if the message stays halted.
fn leaves_as(policy: OnExhausted) -> Option<Tombstone> {
    match policy {
        OnExhausted::Halt => None,
        OnExhausted::DeadLetter => Some(Tombstone::DeadLettered),
        OnExhausted::Drop => Some(Tombstone::Dropped),
    }
}

impl Store {
    /// Applies the policy to those of `failed` that [`Store::fail`] answered with
    /// [`Status::Halted`]. If this fails, the owner of the partition does it later.
    pub async fn apply_policy_to_failed(
        &self,
        entry: &CatalogEntry,
        failed: &[Failed],
        statuses: &[Status],
    ) {
        let name = &entry.destination.name;
        let (mut used_up, mut for_good) = (Vec::new(), Vec::new());
        let halted = failed.iter().zip(statuses).filter(|(_, status)| **status == Status::Halted);
        for (one, _) in halted {
            let sequence = one.token.sequence;
            let why = if one.is_final { PERMANENT } else { USED_UP };
            let kind = one.error.kind.as_str();
            let outcome = match entry.destination.on_exhausted {
                OnExhausted::Halt => "halted",
                OnExhausted::DeadLetter => "dead_lettered",
                OnExhausted::Drop => "dropped",
            };
            match entry.destination.on_exhausted {
                OnExhausted::Halt => tracing::error!(
                    destination = %name, sequence, id = one.ids.id, trace = one.ids.trace_id(), why, kind,
                    "a message is halted until an operator intervenes",
                ),
                OnExhausted::DeadLetter | OnExhausted::Drop => tracing::warn!(
                    destination = %name, sequence, id = one.ids.id, trace = one.ids.trace_id(), why, kind,
                    "giving up a message",
                ),
            }
            telemetry::note_given_up(name.as_str(), sequence, &one.ids, outcome, kind);
            let lane = entry.destination.lane_of(one.token.key.as_deref(), sequence);
            if one.is_final { &mut for_good } else { &mut used_up }.push((lane, sequence));
        }
        for (messages, reason) in [(used_up, USED_UP), (for_good, PERMANENT)] {
            if let Err(error) = self.give_up(entry, &messages, reason).await {
                tracing::debug!(destination = %name, %error, "cannot apply on_exhausted; the partition's owner will");
            }
        }
    }

    /// Applies the policy to halted messages that no pod has handled. The owner of their partitions
    /// calls it now and then.
    pub async fn apply_policy_to_all_halted(&self, some: &[Arc<CatalogEntry>]) {
        let concerned =
            some.iter().filter(|entry| entry.destination.on_exhausted != OnExhausted::Halt);
        let concerned: Vec<_> = concerned.collect();
        if concerned.is_empty() {
            return;
        }
        let looks = concerned.iter().map(|entry| {
            let mut pipe = redis::pipe();
            pipe.zcard(self.keys().destination(&entry.destination.name).halted());
            pipe
        });
        let counts = self.query_each(&looks.collect::<Vec<_>>()).await;
        let counts = counts.into_iter().map(|count| match count {
            Ok(count) => read(count.into_iter().next(), "a count").unwrap_or(0u64),
            Err(error) => {
                tracing::debug!(%error, "cannot count halted messages");
                0
            }
        });
        let halted = concerned.iter().zip(counts).filter(|(_, count)| *count > 0);
        for (entry, _) in halted {
            if let Err(error) = self.apply_policy_to_halted(entry).await {
                let name = &entry.destination.name;
                tracing::debug!(destination = %name, %error, "cannot apply on_exhausted");
            }
        }
    }

    /// Applies the policy to some of a destination's messages that halted in processing. Returns
    /// how many.
    pub async fn apply_policy_to_halted(&self, entry: &CatalogEntry) -> Result<usize, StoreError> {
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
                let lanes: Vec<_> = lanes.collect();
                if !lanes.is_empty() {
                    self.give_up(entry, &lanes, USED_UP).await?;
                    return Ok(lanes.len());
                }
            }
            if is_last {
                break;
            }
        }
        Ok(0)
    }

    /// Halted messages from this rank on that halted in processing; the sender handles those that
    /// halted in delivery. True if there are no more.
    async fn halted_in_processing(
        &self,
        entry: &CatalogEntry,
        from: isize,
    ) -> Result<(Vec<Sequence>, bool), StoreError> {
        let keys = self.keys().destination(&entry.destination.name);
        let mut pipe = redis::pipe();
        pipe.zrange(keys.halted(), from, from + PAGE_MAX - 1);
        let (halted,): (Vec<Sequence>,) = self.query(&pipe).await?;
        if halted.is_empty() {
            return Ok((Vec::new(), true));
        }
        let is_last = halted.len() < PAGE_MAX as usize;
        let mut pipe = redis::pipe();
        pipe.hmget(keys.attempts(), &halted);
        let (kept,): (Vec<Option<Bytes>>,) = self.query(&pipe).await?;
        let mut sequences = Vec::new();
        for (sequence, kept) in halted.into_iter().zip(kept) {
            let attempts = attempts::read(&kept.unwrap_or_default());
            if attempts.halted_in == Some(Stage::Transform) {
                sequences.push(sequence);
            }
        }
        // In the order of arrival: if the dead letters have no room for all, the earliest fit in.
        sequences.sort_unstable();
        Ok((sequences, is_last))
    }

    async fn give_up(
        &self,
        entry: &CatalogEntry,
        messages: &[(Option<String>, Sequence)],
        reason: &str,
    ) -> Result<(), StoreError> {
        let Some(how) = leaves_as(entry.destination.on_exhausted) else { return Ok(()) };
        for messages in messages.chunks(WITHDRAW_MAX) {
            let withdrawal = Withdrawal { how, reason, error: None, messages };
            self.withdraw(entry, Who::Policy, &withdrawal).await?;
        }
        Ok(())
    }
}
