//! The shards of destinations. Each is defined in its own partition, as the first shard is.

use std::{collections::HashSet, sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use super::{Catalog, ChangedNames};
use crate::{Author, CatalogEntry, Replaces, StoreError, Terms};
use domain::DestinationName;

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

    /// Defines and pauses all other shards of a destination as its first. Repeat the call until it succeeds.
    pub async fn complete_shards(
        &self,
        name: &DestinationName,
        by: &Author,
    ) -> Result<(), StoreError> {
        // The first shard decides; the copy of this pod may be outdated.
        let Some(first) = self.refresh(&name.of_shard(0)).await? else { return Ok(()) };
        for name in first.definition().shard_names().skip(1) {
            let held = self.get(name.as_str());
            if held.as_ref().is_some_and(|held| is_like(held, &first)) {
                continue;
            }
            let wanted = domain::Destination { name, ..first.definition().clone() };
            self.store.define_over(&wanted, &Terms::new(by.clone(), Replaces::Any)).await?;
            let paused = first.paused;
            let [ingest, processing, delivery] =
                [paused.ingest, paused.processing, paused.delivery].map(Some);
            self.store.pause(&wanted.name, ingest, processing, delivery).await?;
            self.refresh(&wanted.name).await?;
        }
        Ok(())
    }

    /// Completes the shards of these destinations. True if all are complete now.
    async fn complete(&self, names: HashSet<DestinationName>, by: &Author) -> bool {
        let mut are_complete = true;
        for name in names {
            if let Err(error) = self.complete_shards(&name, by).await {
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
    fn incomplete(&self, names: &ChangedNames) -> HashSet<DestinationName> {
        let is_incomplete = |first: &Arc<CatalogEntry>| {
            let is_other = |name: DestinationName| {
                self.get(name.as_str()).is_none_or(|held| !is_like(&held, first))
            };
            first.destination.shard_names().skip(1).any(is_other)
        };
        let entries: Vec<_> = match names {
            ChangedNames::Any => self.all(),
            ChangedNames::These(names) => {
                names.iter().filter_map(|name| self.get(name.base())).collect()
            }
        };
        let firsts = entries.into_iter().filter(|entry| entry.destination.name.shard() == 0);
        firsts.filter(is_incomplete).map(|first| first.destination.name.clone()).collect()
    }
}

/// True if this shard is defined and paused as the first.
fn is_like(held: &CatalogEntry, first: &CatalogEntry) -> bool {
    let name = held.destination.name.clone();
    held.paused == first.paused
        && *held.definition() == domain::Destination { name, ..first.definition().clone() }
}
