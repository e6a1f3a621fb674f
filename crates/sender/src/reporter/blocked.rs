//! Samples the heads of lanes: their age, and the cause of their wait.

use std::{
    collections::{BTreeSet, HashSet},
    ops::Bound,
    sync::Arc,
    time::Duration,
};

use futures::future::join_all;
use tokio::time::Instant;

use super::{Owned, ownership_of};
use domain::DestinationName;
use store::{
    Catalog, CatalogEntry, Cause, Causes, LaneHead, Store, StoreError, Surroundings,
    server_clock_ms,
};

/// The most destinations to sample each second, over all reporters. With more destinations, reporters sample them in
/// turn.
pub(super) const HEADS_CHECK_MAX: usize = 20;

/// Other facts that explain why a head waits.
#[derive(Clone, Copy)]
pub(super) struct Around<'a> {
    pub(super) owned: &'a Owned,
    pub(super) has_processor: bool,
    /// True if the server of the destination refuses all writes.
    pub(super) refuses_writes: bool,
}

pub(super) struct Blocked {
    store: Store,
    catalog: Catalog,
    /// The destinations of the last sample.
    sampled: HashSet<DestinationName>,
    /// The last destination that was sampled.
    last: Option<DestinationName>,
}

impl Blocked {
    pub(super) fn new(store: Store, catalog: Catalog) -> Blocked {
        Blocked { store, catalog, sampled: HashSet::new(), last: None }
    }

    /// Samples the next `most` destinations with pending messages.
    pub(super) async fn sample(
        &mut self,
        pending: &BTreeSet<DestinationName>,
        most: usize,
        around: Around<'_>,
    ) {
        let gone: Vec<_> =
            self.sampled.iter().filter(|name| !pending.contains(*name)).cloned().collect();
        gone.iter().for_each(|name| self.forget(name));
        let after = self.last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let later = pending.range::<DestinationName, _>((after, Bound::Unbounded));
        let names: Vec<_> = later.chain(pending).take(most.min(pending.len())).cloned().collect();
        self.last = names.last().cloned();
        let entries = names.iter().filter_map(|name| self.catalog.get(name.as_str()));
        let looks = entries.map(|entry| {
            let ownership = ownership_of(around.owned, self.store.pod(), entry.partition);
            let store = self.store.clone();
            async move {
                let heads = store.lane_heads(&entry, &ownership).await;
                let refuses_writes = store.missing_rights().refusal.is_some()
                    && store.refusal_at(entry.partition).await.is_some();
                (entry, heads, refuses_writes)
            }
        });
        for (entry, heads, refuses_writes) in join_all(looks).await {
            self.note(&entry, heads, Around { refuses_writes, ..around });
        }
    }

    fn note(
        &mut self,
        entry: &Arc<CatalogEntry>,
        heads: Result<Vec<LaneHead>, StoreError>,
        around: Around<'_>,
    ) {
        let (name, now) = (&entry.destination.name, Instant::now());
        let grown = match heads {
            Ok(heads) if heads.is_empty() => return self.forget(name),
            Ok(heads) => self.note_heads(entry, &heads, around, now),
            Err(error) if error.is_temporary() => {
                self.store.blocked_times().note_no_answer(name, now)
            }
            Err(error) => {
                tracing::debug!(destination = %name, %error, "cannot sample the heads of lanes");
                return;
            }
        };
        // The destination may have been removed meanwhile, and its series with it.
        if self.catalog.get(name.as_str()).is_none() {
            return;
        }
        for (cause, time) in grown {
            telemetry::blocked(name.as_str(), cause.as_str(), time);
        }
    }

    fn note_heads(
        &mut self,
        entry: &Arc<CatalogEntry>,
        heads: &[LaneHead],
        around: Around<'_>,
        now: Instant,
    ) -> Causes {
        let name = &entry.destination.name;
        let surroundings = Surroundings {
            now_ms: server_clock_ms(),
            has_processor: around.has_processor,
            is_rate_limited: around.owned.is_rate_limited(name),
            awaits_connection: around.owned.awaits_connection(name),
            is_receiver_probed: around.owned.is_probed(name),
            refuses_writes: around.refuses_writes,
        };
        let ages =
            heads.iter().filter_map(|lane| lane.head.message.message.age_ms(surroundings.now_ms));
        telemetry::head_age(name.as_str(), ages.max().map(Duration::from_millis));
        self.sampled.insert(name.clone());
        let of_each = heads.iter().map(|lane| {
            let message = &lane.head.message;
            let key = entry
                .destination
                .lane_of(message.message.key.as_deref(), message.position.sequence);
            (key, message.position, Cause::of(entry, lane, &surroundings))
        });
        self.store.blocked_times().note(name, now, of_each)
    }

    fn forget(&mut self, name: &DestinationName) {
        self.sampled.remove(name);
        self.store.blocked_times().forget(name);
        telemetry::head_age(name.as_str(), None);
    }
}
