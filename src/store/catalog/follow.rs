//! Following the two indexes: what changed is taken over, and only if that cannot be told is everything
//! read again.

use std::{collections::HashSet, sync::Arc, time::Duration};

use futures::future::try_join_all;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use super::{Catalog, TopicsByName};
use crate::{
    domain::{DestinationName, TopicName},
    faults::planted,
    store::{
        KnownTopic, StoreError, Wake,
        index::{Changes, Followed},
    },
    telemetry,
};

/// Destinations that are looked up side by side where the index says that they are gone.
const LOOKED_UP_MAX: usize = 32;

impl Catalog {
    /// Follows Redis until `stop`: told of a change, or once a second.
    pub async fn follow(self, mut wakes: broadcast::Receiver<Wake>, stop: CancellationToken) {
        let mut tick = tokio::time::interval(Duration::from_secs(1));
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = tick.tick() => {
                    if !planted::is("gone_series_kept") {
                        telemetry::forget_gone();
                    }
                }
                wake = wakes.recv() => match wake {
                    Ok(Wake::Definitions | Wake::Everything) => {}
                    Ok(_) => continue,
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return,
                }
            }
            if let Err(error) = self.catch_up().await {
                tracing::debug!(%error, "cannot follow changes of destinations and topics");
            }
        }
    }

    /// Takes over what has changed in the two indexes.
    pub(super) async fn catch_up(&self) -> Result<(), StoreError> {
        let mut followed = self.followed.lock().await;
        let [destinations, topics] = &mut *followed;
        tokio::try_join!(
            self.catch_up_with_destinations(destinations),
            self.catch_up_with_topics(topics)
        )?;
        Ok(())
    }

    async fn catch_up_with_destinations(
        &self,
        followed: &mut Option<Followed>,
    ) -> Result<(), StoreError> {
        let index = self.store.keys().destinations();
        loop {
            let changes = match &*followed {
                Some(followed) => self.store.index_changes(&index, followed).await?,
                None => Changes::Unknown,
            };
            match changes {
                Changes::Nothing => return Ok(()),
                Changes::Of(names, upto) => {
                    self.take_over(names).await?;
                    *followed = Some(upto);
                }
                // What changes meanwhile, the next look finds.
                Changes::Unknown => {
                    let now = self.store.index_now(&index).await?;
                    self.reload().await?;
                    *followed = Some(now);
                    return Ok(());
                }
            }
        }
    }

    async fn take_over(&self, entries: Vec<(String, Option<String>)>) -> Result<(), StoreError> {
        let mut gone = Vec::new();
        for (name, entry) in entries {
            match entry {
                Some(entry) => self.take_entry(&name, &entry),
                None => gone.extend(name.parse().ok()),
            }
        }
        self.look_up_gone(gone).await
    }

    /// Takes over what the index holds of a destination, unless something newer is known.
    fn take_entry(&self, name: &str, entry: &str) {
        let Some(known) = self.store.known_of_entry(name, entry).map(Arc::new) else { return };
        let name = &known.destination.name;
        self.change(name, |names| {
            let held = names.by_name.get(name).map(|held| held.version);
            held.is_none_or(|held| held < known.version) && names.insert(&known)
        });
    }

    /// Looks up destinations that the index no longer holds: the truth may be newer than the index.
    async fn look_up_gone(&self, names: Vec<DestinationName>) -> Result<(), StoreError> {
        let held: Vec<_> =
            names.into_iter().filter(|name| self.get(name.as_str()).is_some()).collect();
        for some in held.chunks(LOOKED_UP_MAX) {
            try_join_all(some.iter().map(|name| self.refresh(name))).await?;
        }
        Ok(())
    }

    async fn reload(&self) -> Result<(), StoreError> {
        let index = self.store.keys().destinations();
        let mut seen = HashSet::new();
        let mut cursor = 0;
        loop {
            let (next, entries) = self.store.index_page(&index, cursor).await?;
            for (name, entry) in entries {
                self.take_entry(&name, &entry);
                seen.insert(name);
            }
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
        let all = self.read(|names| names.by_name.keys().cloned().collect::<Vec<_>>());
        self.look_up_gone(all.into_iter().filter(|name| !seen.contains(name.as_str())).collect())
            .await
    }

    async fn catch_up_with_topics(
        &self,
        followed: &mut Option<Followed>,
    ) -> Result<(), StoreError> {
        let index = self.store.keys().topics();
        loop {
            let changes = match &*followed {
                Some(followed) => self.store.index_changes(&index, followed).await?,
                None => Changes::Unknown,
            };
            match changes {
                Changes::Nothing => return Ok(()),
                Changes::Of(names, upto) => {
                    self.change_topics(|topics| {
                        names.iter().for_each(|(name, entry)| take_topic(topics, name, entry));
                    });
                    *followed = Some(upto);
                }
                Changes::Unknown => {
                    let now = self.store.index_now(&index).await?;
                    self.reload_topics().await?;
                    *followed = Some(now);
                    return Ok(());
                }
            }
        }
    }

    async fn reload_topics(&self) -> Result<(), StoreError> {
        let index = self.store.keys().topics();
        let mut seen = HashSet::new();
        let mut cursor = 0;
        loop {
            let (next, entries) = self.store.index_page(&index, cursor).await?;
            self.change_topics(|topics| {
                for (name, entry) in entries {
                    take_topic(topics, &name, &Some(entry));
                    seen.insert(name);
                }
            });
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
        let gone: Vec<TopicName> = self.read_topics(|topics| {
            topics.keys().filter(|name| !seen.contains(name.as_str())).cloned().collect()
        });
        for name in gone {
            self.refresh_topic(&name).await?;
        }
        Ok(())
    }
}

/// Takes over what the index holds of a topic, unless something newer is known.
fn take_topic(topics: &mut TopicsByName, name: &str, entry: &Option<String>) {
    let Some(entry) = entry else {
        if let Ok(name) = name.parse::<TopicName>() {
            topics.remove(&name);
        }
        return;
    };
    if let Some(known) = KnownTopic::of_entry(name, entry)
        && topics.get(&known.topic.name).is_none_or(|held| held.version < known.version)
    {
        topics.insert(known.topic.name.clone(), known.into());
    }
}
