//! The shards of destinations. Each is defined in its own partition, as the first shard is.

use std::{collections::HashSet, sync::Arc, time::Duration};

use redis::Cmd;
use tokio_util::sync::CancellationToken;

use super::{Catalog, ChangedNames};
use crate::{
    Author, CatalogEntry, Paused, Replaces, Store, StoreError, Terms,
    entry::{ordering_text, processing_text},
};
use domain::{DeliveryKind, Destination, DestinationName};

/// The longest wait before this process defines shards that differ from the first: another process has probably
/// defined them by then.
const WAIT_MAX: Duration = Duration::from_secs(2);

impl Catalog {
    /// The shards of this destination that this pod knows, in their order.
    pub fn shards(&self, entry: &CatalogEntry) -> Vec<Arc<CatalogEntry>> {
        entry.destination.shard_names().filter_map(|name| self.get(name.as_str())).collect()
    }

    /// True for a shard that belongs to a destination. Lists of destinations leave it out.
    pub fn is_in_destination(&self, name: &DestinationName) -> bool {
        let shard = name.shard();
        shard > 0 && self.get(name.base()).is_some_and(|first| shard < first.destination.shards)
    }

    /// Defines and pauses all other shards of a destination as its first. Goes on with the others if one cannot be
    /// completed, and returns the first error. Repeat the call until it succeeds.
    pub async fn complete_shards(
        &self,
        first: &CatalogEntry,
        by: &Author,
    ) -> Result<(), StoreError> {
        let definition = first.definition();
        if definition.shards == 1 {
            return Ok(());
        }
        let mut done = Ok(());
        for shard in definition.shard_names().skip(1) {
            // The first shard decides. It may have changed meanwhile; the copy of this pod may be outdated.
            let Some(first) = self.refresh(&definition.name).await? else {
                return self.take_back(definition).await;
            };
            if shard.shard() >= first.definition().shards {
                break;
            }
            let completed = self.complete_shard(&shard, &first, by).await;
            done = done.and(completed);
        }
        match self.refresh(&definition.name).await? {
            Some(_) => done,
            None => self.take_back(definition).await,
        }
    }

    async fn complete_shard(
        &self,
        shard: &DestinationName,
        first: &CatalogEntry,
        by: &Author,
    ) -> Result<(), StoreError> {
        let held = self.get(shard.as_str());
        if held.as_ref().is_some_and(|held| is_like(held, first)) {
            return Ok(());
        }
        let wanted = Destination { name: shard.clone(), ..first.definition().clone() };
        let defined = self.store.define_over(&wanted, &Terms::new(by.clone(), Replaces::Any)).await;
        let Paused { ingest, processing, delivery } = first.paused;
        let [ingest, processing, delivery] = [ingest, processing, delivery].map(Some);
        // A shard whose definition cannot change must be paused and resumed all the same.
        let paused = self.store.pause(shard, ingest, processing, delivery).await;
        self.refresh(shard).await?;
        defined.map(drop).and(paused.map(drop))
    }

    /// Removes the shards that were defined while somebody removed their destination, unless they have messages or
    /// there is a new first shard.
    async fn take_back(&self, definition: &Destination) -> Result<(), StoreError> {
        for shard in definition.shard_names().skip(1) {
            if self.refresh(&definition.name).await?.is_some() {
                return Ok(());
            }
            match self.store.delete_destination(&shard, false).await {
                Ok(_) | Err(StoreError::UnknownDestination) => {}
                Err(error) => return Err(error),
            }
            self.refresh(&shard).await?;
        }
        Ok(())
    }

    /// Completes the shards of these destinations. True if all are complete now.
    async fn complete(&self, firsts: Vec<Arc<CatalogEntry>>, by: &Author) -> bool {
        let mut are_complete = true;
        for first in firsts {
            if let Err(error) = self.complete_shards(&first, by).await {
                let name = &first.destination.name;
                tracing::warn!(destination = %name, %error, "not all shards could be defined; tried again");
                are_complete = false;
            }
        }
        are_complete
    }

    /// Completes the shards of all destinations, as far as their partitions are available.
    pub async fn complete_all_shards(&self, by: &Author) {
        self.complete(self.incomplete(&ChangedNames::Any), by).await;
    }

    /// Completes the shards of all destinations until `stop`: whoever defined a destination may be gone.
    pub async fn keep_shards(self, by: Author, stop: CancellationToken) {
        let (mut changes, mut changed) = (self.changes(), self.changed());
        let mut names = ChangedNames::Any;
        loop {
            changes.mark_unchanged();
            let incomplete = self.incomplete(&names);
            if !incomplete.is_empty() {
                let wait = WAIT_MAX.mul_f64(rand::random());
                if stop.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
                    return;
                }
            }
            names = changed.take();
            if !self.complete(incomplete, &by).await {
                names = ChangedNames::Any;
                continue;
            }
            tokio::select! {
                () = stop.cancelled() => return,
                news = changes.changed() => if news.is_err() { return },
            }
            names = names.and(changed.take());
        }
    }

    /// The destinations among these names, or of shards among them, with a shard that differs from the first.
    fn incomplete(&self, names: &ChangedNames) -> Vec<Arc<CatalogEntry>> {
        let is_incomplete = |first: &Arc<CatalogEntry>| {
            let is_other = |name: DestinationName| {
                self.get(name.as_str()).is_none_or(|held| !is_like(&held, first))
            };
            first.destination.shard_names().skip(1).any(is_other)
        };
        let entries: Vec<_> = match names {
            ChangedNames::Any => self.all(),
            ChangedNames::These(names) => {
                let firsts: HashSet<&str> = names.iter().map(DestinationName::base).collect();
                firsts.into_iter().filter_map(|name| self.get(name)).collect()
            }
        };
        let firsts = entries.into_iter().filter(|entry| entry.destination.name.shard() == 0);
        firsts.filter(is_incomplete).collect()
    }
}

/// The refusal of a definition while this shard of an earlier destination is left.
pub fn left_over(shard: &DestinationName) -> StoreError {
    let name = shard.base();
    StoreError::WrongState(format!(
        "{shard} of an earlier destination is left: remove {name} again (DELETE, with force=true if it has messages), \
         then create it"
    ))
}

/// What the partition of a shard holds.
struct StoredShard {
    name: DestinationName,
    shards: String,
    ordering: String,
    processing: String,
    delivery: String,
    has_messages: bool,
}

impl StoredShard {
    /// The field of the definition that cannot change while this shard has messages.
    fn fixed_field(&self, wanted: &Destination) -> Option<&'static str> {
        let takes_pull = (self.delivery == "pull") != (wanted.delivery.kind == DeliveryKind::Pull);
        let changed = [
            ("ordering", self.ordering != ordering_text(wanted.ordering)),
            ("processing", self.processing != processing_text(wanted.processing)),
            ("delivery.kind", takes_pull),
        ];
        let changed = changed.into_iter().find(|(_, is_changed)| *is_changed && self.has_messages);
        changed.map(|(field, _)| field)
    }
}

impl Store {
    /// Refuses a definition that another shard of the destination would refuse, before the first one takes it.
    pub(crate) async fn check_shards(&self, wanted: &Destination) -> Result<(), StoreError> {
        // The first shard last: whoever defines a destination begins with it, so without it the others are left over.
        let mut stored = Vec::new();
        for shard in (0..wanted.shards).rev() {
            stored.extend(self.stored_shard(wanted.name.of_shard(shard)).await?);
        }
        let count = wanted.shards.to_string();
        let first = stored.last().filter(|last| last.name.shard() == 0);
        if first.is_some_and(|first| first.shards != count) {
            // The script refuses to change the number of shards.
            return Ok(());
        }
        for one in &stored {
            // Shards that are like the wanted ones stay if Redis has lost the definition of the first.
            let is_other = one.ordering != ordering_text(wanted.ordering);
            if one.shards != count || first.is_none() && is_other {
                return Err(left_over(&one.name));
            }
            if let Some(field) = one.fixed_field(wanted) {
                return Err(StoreError::WrongState(format!(
                    "{field} cannot change while messages are pending, and {} has some",
                    one.name.shard_in_paths()
                )));
            }
        }
        Ok(())
    }

    /// True if the partition of a destination, or of a shard, holds it, also if its removal has begun.
    pub async fn is_stored(&self, name: &DestinationName) -> Result<bool, StoreError> {
        let hash = self.keys().destination(name).hash();
        Ok(self.ask::<u64>(&Cmd::hexists(hash, "version")).await? > 0)
    }

    async fn stored_shard(&self, name: DestinationName) -> Result<Option<StoredShard>, StoreError> {
        let hash = self.keys().destination(&name).hash();
        let fields = [
            "version",
            "deleted",
            "shards",
            "ordering",
            "processing",
            "delivery",
            "last",
            "settled",
        ];
        type Text = Option<String>;
        type Stored = (Text, Text, Text, Text, Text, Text, Option<u64>, Option<u64>);
        let stored: Stored = self.ask(&Cmd::hmget(hash, &fields)).await?;
        let (Some(_), None, shards, ordering, processing, delivery, last, settled) = stored else {
            return Ok(None);
        };
        Ok(Some(StoredShard {
            name,
            shards: shards.unwrap_or_else(|| "1".to_owned()),
            ordering: ordering.unwrap_or_default(),
            processing: processing.unwrap_or_default(),
            delivery: delivery.unwrap_or_default(),
            has_messages: last.unwrap_or_default() > settled.unwrap_or_default(),
        }))
    }
}

/// True if this shard is defined and paused as the first.
fn is_like(held: &CatalogEntry, first: &CatalogEntry) -> bool {
    let name = held.destination.name.clone();
    held.paused == first.paused
        && *held.definition() == Destination { name, ..first.definition().clone() }
}
