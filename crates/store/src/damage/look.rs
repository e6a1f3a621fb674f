//! Checks whether known damage still exists.

use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, stream};
use redis::{Cmd, Pipeline};
use tokio_util::sync::CancellationToken;

use crate::{Store, StoreError, entry::CatalogEntry, key_types, record};
use domain::{DestinationName, Sequence, Stamped};

/// How often a pod checks while it knows of damage.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The most locations that are checked in parallel.
const LOOKS_MAX: usize = 8;
/// The most halted messages that one check reads.
pub const HALTED_LOOK_MAX: usize = 100;

impl Store {
    /// Checks once a second whether known damage still exists, until `stop`.
    pub async fn watch_damage(self, stop: CancellationToken) {
        let mut tick = tokio::time::interval(LOOK_EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while stop.run_until_cancelled(tick.tick()).await.is_some() {
            stop.run_until_cancelled(self.look_at_damage()).await;
        }
    }

    /// Checks whether known damage still exists, and forgets damage that was repaired. Keeps damage that cannot be
    /// checked.
    pub async fn look_at_damage(&self) {
        if !self.has_damage() {
            return;
        }
        let _looking = self.inner.damage.looking.lock().await;
        let (calls, messages) = {
            let kept = self.inner.damage.kept.lock();
            let with_keys = kept.calls.iter().filter(|(_, failure)| !failure.suspects.is_empty());
            let calls: Vec<_> =
                with_keys.map(|(at, failure)| (at.clone(), failure.suspects.clone())).collect();
            let messages: Vec<(String, Vec<Sequence>)> = kept
                .messages
                .iter()
                .map(|(location, all)| (location.clone(), all.iter().copied().collect()))
                .collect();
            (calls, messages)
        };
        let calls = stream::iter(calls).map(|(at, keys)| self.look_at_keys(at, keys));
        calls.buffer_unordered(LOOKS_MAX).for_each(async |()| {}).await;
        let messages =
            stream::iter(messages).map(|(location, all)| self.look_at_messages(location, all));
        messages.buffer_unordered(LOOKS_MAX).for_each(async |()| {}).await;
    }

    /// Checks which keys of a failed call have the wrong type.
    async fn look_at_keys(&self, at: (String, String), keys: Vec<String>) {
        let mut pipe = Pipeline::new();
        for key in &keys {
            pipe.cmd("TYPE").arg(key);
        }
        let kinds: Vec<String> = match self.query(&pipe).await {
            Ok(kinds) => kinds,
            Err(error) => return tracing::debug!(%error, "cannot check known damage"),
        };
        let looked_at = keys.iter().zip(kinds);
        let wrong = looked_at.filter(|(key, kind)| !key_types::fits(self.keys(), key, kind));
        let wrong: Vec<String> = wrong.map(|(key, _)| key.clone()).collect();
        self.inner.damage.change(|kept| {
            let Some(failure) = kept.calls.get_mut(&at) else { return };
            // Other keys may have been recorded meanwhile.
            failure.suspects.retain(|key| wrong.contains(key) || !keys.contains(key));
            if failure.suspects.is_empty() {
                kept.calls.remove(&at);
            } else {
                failure.last = tokio::time::Instant::now();
            }
        });
    }

    async fn look_at_messages(&self, location: String, sequences: Vec<Sequence>) {
        let Ok(name) = location.parse::<DestinationName>() else { return };
        let damaged = match self.damaged_among(&name, &sequences).await {
            Ok(damaged) => damaged,
            Err(error) => return tracing::debug!(%error, "cannot check known damage"),
        };
        self.inner.damage.change(|kept| {
            let Some(all) = kept.messages.get_mut(&location) else { return };
            all.retain(|sequence| damaged.contains(sequence) || !sequences.contains(sequence));
            if all.is_empty() {
                kept.messages.remove(&location);
            }
        });
    }

    /// Returns the messages that are halted and unreadable. The first process that reads a damaged message halts it.
    /// The message stays halted until it leaves or is retried.
    async fn damaged_among(
        &self,
        name: &DestinationName,
        sequences: &[Sequence],
    ) -> Result<Vec<Sequence>, StoreError> {
        let keys = self.keys().destination(name);
        let mut pipe = Pipeline::new();
        pipe.zscore_multiple(keys.halted(), sequences).hmget(keys.messages(), sequences);
        let (halted, records): (Vec<Option<f64>>, Vec<Option<Bytes>>) = self.query(&pipe).await?;
        let (mut damaged, mut readable) = (Vec::new(), Vec::new());
        for ((sequence, _), record) in
            sequences.iter().zip(halted).zip(records).filter(|((_, since), _)| since.is_some())
        {
            let record = record.unwrap_or_default();
            match record::read(record, name, *sequence, Default::default()) {
                Ok(message) => readable.push(message),
                Err(_) => damaged.push(*sequence),
            }
        }
        // A tombstone of an unreadable message is not damage, so check only messages with bodies.
        let mut with_bodies: Vec<&mut Stamped> =
            readable.iter_mut().filter(|message| message.damaged.is_none()).collect();
        self.find_missing_bodies(name, &mut with_bodies).await?;
        let bodiless = with_bodies.iter().filter(|message| message.damaged.is_some());
        damaged.extend(bodiless.map(|message| message.position.sequence));
        Ok(damaged)
    }

    /// Reads halted messages of a destination, beginning at this rank, and records the damaged ones: the pod that
    /// found them may be gone. Returns the next rank, or `None` at the end.
    pub async fn find_damaged(
        &self,
        entry: &CatalogEntry,
        from: usize,
    ) -> Result<Option<usize>, StoreError> {
        let name = &entry.destination.name;
        let last = (from + HALTED_LOOK_MAX - 1) as isize;
        let halted: Vec<Sequence> = self
            .ask(&Cmd::zrange(self.keys().destination(name).halted(), from as isize, last))
            .await?;
        if halted.is_empty() {
            return Ok(None);
        }
        let damaged = self.damaged_among(name, &halted).await?;
        if !damaged.is_empty() {
            self.note_damaged_messages(entry, &damaged);
        }
        Ok((halted.len() == HALTED_LOOK_MAX).then_some(from + HALTED_LOOK_MAX))
    }
}
