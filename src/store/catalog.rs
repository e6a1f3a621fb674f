//! What this pod knows of the destinations and topics: a copy that follows Redis within a second.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;

use super::{Claimers, KnownTopic, Store, StoreError, Wake, destinations};
use crate::domain::{Destination, DestinationName, Epoch, TopicName};

/// What of a destination a person has paused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Paused {
    /// Nothing is taken in.
    pub ingest: bool,
    /// Nothing is sent.
    pub delivery: bool,
}

impl Paused {
    /// As the partition keeps it.
    pub(super) fn text(self) -> &'static str {
        match (self.ingest, self.delivery) {
            (false, false) => "",
            (true, false) => "ingest",
            (false, true) => "delivery",
            (true, true) => "ingest,delivery",
        }
    }

    pub(super) fn of_text(text: &str) -> Paused {
        let names = |what| text.split(',').any(|name| name == what);
        Paused { ingest: names("ingest"), delivery: names("delivery") }
    }

    /// As the index keeps it, with the epoch that the destination was born in: never empty.
    pub(super) fn mark(self, born: Epoch) -> String {
        let paused = if self == Paused::default() { "-" } else { self.text() };
        format!("{paused},@{born}")
    }

    /// What [`Paused::mark`] says. No epoch where the index was written by a version that noted none.
    pub(super) fn of_mark(mark: &str) -> (Paused, Option<Epoch>) {
        let born = mark.split(',').find_map(|part| part.strip_prefix('@')?.parse().ok());
        (Paused::of_text(mark), born)
    }
}

/// A destination as this pod knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Its definition.
    pub destination: Destination,
    /// The definition's version; scripts refuse another than the current one.
    pub version: u64,
    /// The partition it lives in.
    pub partition: u16,
    /// What a person has paused.
    pub paused: Paused,
    /// The epoch that it was born in: one of the same name that is made after it was removed is another
    /// destination, and born in a higher one.
    pub born: Epoch,
}

impl Known {
    /// Who may claim its messages.
    pub fn claimers(&self) -> Claimers {
        destinations::claimers_of(self.destination.transform.kind)
    }

    pub(super) fn processing_text(&self) -> &'static str {
        destinations::processing_text(self.destination.processing)
    }

    pub(super) fn ordering_text(&self) -> &'static str {
        destinations::ordering_text(self.destination.ordering)
    }
}

type ByName = HashMap<DestinationName, Arc<Known>>;
type TopicsByName = BTreeMap<TopicName, Arc<KnownTopic>>;

/// The destinations and topics that this pod knows. Cheap to clone.
#[derive(Clone)]
pub struct Catalog {
    store: Store,
    by_name: Arc<RwLock<Arc<ByName>>>,
    topics: Arc<RwLock<Arc<TopicsByName>>>,
    /// Goes up with each change, for those who follow.
    changes: watch::Sender<u64>,
}

impl Catalog {
    /// Reads all destinations and topics.
    pub async fn load(store: Store) -> Result<Catalog, StoreError> {
        let (changes, _) = watch::channel(0);
        let catalog = Catalog { store, by_name: Arc::default(), topics: Arc::default(), changes };
        catalog.reload().await?;
        catalog.reload_topics().await?;
        Ok(catalog)
    }

    /// The destination of this name.
    pub fn get(&self, name: &str) -> Option<Arc<Known>> {
        self.all().get(name).cloned()
    }

    /// All destinations, as they are known now.
    pub fn all(&self) -> Arc<ByName> {
        self.by_name.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Wakes up whenever something has changed.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Looks up one destination where the truth is, after a script refused what was known of it.
    pub async fn refresh(&self, name: &DestinationName) -> Result<Option<Arc<Known>>, StoreError> {
        let before = self.get(name.as_str()).map(|held| held.version);
        let known = self.store.true_definition(name).await?.map(Arc::new);
        self.change(|by_name| match &known {
            // What was read slowly may be older than what was heard meanwhile. Older than what was known
            // before it is the truth all the same: Redis has lost the later one.
            Some(known)
                if by_name.get(name).is_some_and(|held| {
                    held.version > known.version && Some(held.version) != before
                }) => {}
            Some(known) => drop(by_name.insert(name.clone(), known.clone())),
            None => drop(by_name.remove(name)),
        });
        Ok(known)
    }

    /// The destination of this name; asks Redis if this pod has not heard of it yet.
    pub async fn find(&self, name: &DestinationName) -> Result<Option<Arc<Known>>, StoreError> {
        match self.get(name.as_str()) {
            Some(known) => Ok(Some(known)),
            None => self.refresh(name).await,
        }
    }

    /// All topics, as they are known now.
    pub fn topics(&self) -> Arc<TopicsByName> {
        self.topics.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Looks up one topic where the truth is.
    pub async fn refresh_topic(
        &self,
        name: &TopicName,
    ) -> Result<Option<Arc<KnownTopic>>, StoreError> {
        let known = self.store.true_topic(name).await?.map(Arc::new);
        self.change_topics(|topics| match &known {
            Some(known) => topics.insert(name.clone(), known.clone()),
            None => topics.remove(name),
        });
        Ok(known)
    }

    /// The topic of this name; asks Redis if this pod has not heard of it yet.
    pub async fn find_topic(
        &self,
        name: &TopicName,
    ) -> Result<Option<Arc<KnownTopic>>, StoreError> {
        match self.topics().get(name) {
            Some(known) => Ok(Some(known.clone())),
            None => self.refresh_topic(name).await,
        }
    }

    async fn reload_topics(&self) -> Result<(), StoreError> {
        let all = self.store.topics().await?;
        self.change_topics(|topics| {
            let newest = all.into_iter().map(|known| {
                let held = topics.get(&known.topic.name).cloned();
                let held = held.filter(|held| held.version >= known.version);
                (known.topic.name.clone(), held.unwrap_or_else(|| known.into()))
            });
            *topics = newest.collect();
        });
        Ok(())
    }

    fn change_topics<R>(&self, change: impl FnOnce(&mut TopicsByName) -> R) {
        let mut held = self.topics.write().unwrap_or_else(PoisonError::into_inner);
        let mut fresh = TopicsByName::clone(&held);
        change(&mut fresh);
        *held = Arc::new(fresh);
    }

    async fn reload(&self) -> Result<(), StoreError> {
        let all = self.store.indexed().await?;
        self.change(|by_name| {
            let newest = all.into_iter().map(|known| {
                let held = by_name.get(&known.destination.name).cloned();
                let known =
                    held.filter(|held| held.version >= known.version).unwrap_or(known.into());
                (known.destination.name.clone(), known)
            });
            *by_name = newest.collect();
        });
        Ok(())
    }

    fn change<R>(&self, change: impl FnOnce(&mut ByName) -> R) {
        let mut held = self.by_name.write().unwrap_or_else(PoisonError::into_inner);
        let mut fresh = ByName::clone(&held);
        change(&mut fresh);
        if fresh != **held {
            *held = Arc::new(fresh);
            drop(held);
            self.changes.send_modify(|number| *number += 1);
        }
    }

    /// Follows Redis until `stop`: told of a change, or once a second.
    pub async fn follow(self, mut wakes: broadcast::Receiver<Wake>, stop: CancellationToken) {
        let mut revision = None;
        let mut tick = tokio::time::interval(Duration::from_secs(1));
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = tick.tick() => {}
                wake = wakes.recv() => match wake {
                    Ok(Wake::Definitions | Wake::Everything) => {}
                    Ok(_) => continue,
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return,
                }
            }
            let seen = tokio::try_join!(self.store.revision(), self.store.topics_revision());
            let now = match seen {
                Ok(now) => now,
                Err(error) => {
                    tracing::debug!(%error, "cannot look for changes of definitions");
                    continue;
                }
            };
            if revision == Some(now) {
                continue;
            }
            match tokio::try_join!(self.reload(), self.reload_topics()) {
                Ok(_) => revision = Some(now),
                Err(error) => tracing::warn!(%error, "cannot read the destinations and topics"),
            }
        }
    }
}
