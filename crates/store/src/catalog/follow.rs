//! Follows the three indexes. Reads the changes, and reads a whole index again only if the index cannot tell what
//! changed.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use futures::future::try_join_all;
use tokio::sync::broadcast::{
    self,
    error::{RecvError, TryRecvError},
};
use tokio_util::sync::CancellationToken;

use super::{
    Catalog,
    index::{Changes, Followed},
    tokens::CatalogToken,
    topics::CatalogTopic,
};
use crate::{StoreError, keys::IndexKeys, wake::Wake};
use domain::{DestinationName, TopicName};

/// The most names that are looked up in parallel because the index no longer lists them.
const LOOKED_UP_MAX: usize = 32;

/// The part of the catalog that copies one index.
trait Copied {
    fn index(&self) -> IndexKeys;
    /// Takes over the index entries of these names, except entries that are older than the copy.
    fn take(&self, entries: &[(String, String)]);
    /// All names in the copy.
    fn held(&self) -> Vec<String>;
    fn holds(&self, name: &str) -> bool;
    /// Looks up a name in its partition, whose answer is authoritative.
    fn look_up(&self, name: &str) -> impl Future<Output = Result<(), StoreError>> + Send;
}

struct Destinations<'a>(&'a Catalog);

impl Copied for Destinations<'_> {
    fn index(&self) -> IndexKeys {
        self.0.store.keys().destinations()
    }

    fn take(&self, entries: &[(String, String)]) {
        let copied = entries
            .iter()
            .filter_map(|(name, entry)| self.0.store.parse_index_entry(name, entry).map(Arc::new));
        self.0.change_all(copied.collect());
    }

    fn held(&self) -> Vec<String> {
        self.0.read(|names| names.by_name.keys().map(ToString::to_string).collect())
    }

    fn holds(&self, name: &str) -> bool {
        self.0.read(|names| names.by_name.contains_key(name))
    }

    async fn look_up(&self, name: &str) -> Result<(), StoreError> {
        let Ok(name) = name.parse::<DestinationName>() else { return Ok(()) };
        self.0.refresh(&name).await.map(drop)
    }
}

struct Topics<'a>(&'a Catalog);

impl Copied for Topics<'_> {
    fn index(&self) -> IndexKeys {
        self.0.store.keys().topics()
    }

    fn take(&self, entries: &[(String, String)]) {
        let copied = entries.iter().filter_map(|(name, entry)| CatalogTopic::of_entry(name, entry));
        let copied = copied.map(|entry| (entry.topic.name.clone(), entry));
        self.0.change_topics(|topics| take_newer(topics, copied, |entry| entry.version));
    }

    fn held(&self) -> Vec<String> {
        self.0.read_topics(|topics| topics.keys().map(ToString::to_string).collect())
    }

    fn holds(&self, name: &str) -> bool {
        name.parse().is_ok_and(|name| self.0.topic(&name).is_some())
    }

    async fn look_up(&self, name: &str) -> Result<(), StoreError> {
        let Ok(name) = name.parse::<TopicName>() else { return Ok(()) };
        self.0.refresh_topic(&name).await.map(drop)
    }
}

struct Tokens<'a>(&'a Catalog);

impl Copied for Tokens<'_> {
    fn index(&self) -> IndexKeys {
        self.0.store.keys().tokens()
    }

    fn take(&self, entries: &[(String, String)]) {
        let copied = entries.iter().filter_map(|(id, entry)| CatalogToken::of_entry(id, entry));
        let copied = copied.map(|entry| (entry.token.id.clone(), entry));
        self.0.change_tokens(|tokens| take_newer(tokens, copied, |entry| entry.version));
    }

    fn held(&self) -> Vec<String> {
        self.0.read_tokens(|tokens| tokens.keys().cloned().collect())
    }

    fn holds(&self, id: &str) -> bool {
        self.0.token(id).is_some()
    }

    async fn look_up(&self, id: &str) -> Result<(), StoreError> {
        self.0.refresh_token(id).await.map(drop)
    }
}

/// Takes over the entries that are newer than the held ones.
fn take_newer<K: Ord, V>(
    held: &mut BTreeMap<K, Arc<V>>,
    entries: impl Iterator<Item = (K, V)>,
    version: impl Fn(&V) -> u64,
) {
    for (key, entry) in entries {
        if held.get(&key).is_none_or(|held| version(held) < version(&entry)) {
            held.insert(key, entry.into());
        }
    }
}

impl Catalog {
    /// Follows Redis until `stop`: after each wake-up, and once a second.
    pub async fn follow(self, mut wakes: broadcast::Receiver<Wake>, stop: CancellationToken) {
        let mut tick = tokio::time::interval(Duration::from_secs(1));
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = tick.tick() => telemetry::forget_gone(),
                wake = wakes.recv() => match wake {
                    Ok(Wake::Definitions | Wake::Everything) => {}
                    Ok(_) => continue,
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return,
                }
            }
            // One read serves all wake-ups that came before it.
            while !matches!(wakes.try_recv(), Err(TryRecvError::Empty | TryRecvError::Closed)) {}
            if let Err(error) = self.catch_up().await {
                tracing::debug!(%error, "cannot follow changes of destinations, topics and tokens");
            }
        }
    }

    /// Takes over the changes of the three indexes.
    pub(super) async fn catch_up(&self) -> Result<(), StoreError> {
        let mut followed = self.followed.lock().await;
        let [destinations, topics, tokens] = &mut *followed;
        let (of_destinations, of_topics, of_tokens) =
            (Destinations(self), Topics(self), Tokens(self));
        // Run all to the end: damage in one index must not stop the others.
        let (destinations, topics, tokens, sessions) = tokio::join!(
            self.catch_up_with(&of_destinations, destinations),
            self.catch_up_with(&of_topics, topics),
            self.catch_up_with(&of_tokens, tokens),
            self.catch_up_with_sessions()
        );
        // Without the sessions, nobody is signed in; everything else continues.
        if let Err(error) = sessions {
            tracing::debug!(%error, "cannot follow the sessions of the console");
        }
        destinations.and(topics).and(tokens)
    }

    async fn catch_up_with(
        &self,
        copied: &impl Copied,
        followed: &mut Option<Followed>,
    ) -> Result<(), StoreError> {
        let index = copied.index();
        loop {
            let changes = match &*followed {
                Some(followed) => self.store.index_changes(&index, followed).await?,
                None => Changes::Unknown,
            };
            match changes {
                Changes::Nothing => return Ok(()),
                Changes::Of(names, upto) => {
                    take_over(copied, names).await?;
                    *followed = Some(upto);
                }
                // The next poll finds changes that happen meanwhile.
                Changes::Unknown => {
                    let now = self.store.index_now(&index).await?;
                    self.reload(copied).await?;
                    *followed = Some(now);
                    return Ok(());
                }
            }
        }
    }

    async fn reload(&self, copied: &impl Copied) -> Result<(), StoreError> {
        let index = copied.index();
        let mut seen = HashSet::new();
        let mut cursor = 0;
        loop {
            let (next, entries) = self.store.index_page(&index, cursor).await?;
            copied.take(&entries);
            seen.extend(entries.into_iter().map(|(name, _)| name));
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
        let mut gone = copied.held();
        gone.retain(|name| !seen.contains(name));
        look_up_all(copied, gone).await
    }
}

/// Takes over the current index entries of some names.
async fn take_over(
    copied: &impl Copied,
    names: Vec<(String, Option<String>)>,
) -> Result<(), StoreError> {
    let (mut there, mut gone) = (Vec::new(), Vec::new());
    for (name, entry) in names {
        match entry {
            Some(entry) => there.push((name, entry)),
            None => gone.push(name),
        }
    }
    copied.take(&there);
    gone.retain(|name| copied.holds(name));
    look_up_all(copied, gone).await
}

/// Looks up names that the index no longer lists: their partitions may have newer data than the index.
async fn look_up_all(copied: &impl Copied, names: Vec<String>) -> Result<(), StoreError> {
    for some in names.chunks(LOOKED_UP_MAX) {
        try_join_all(some.iter().map(|name| copied.look_up(name))).await?;
    }
    Ok(())
}
