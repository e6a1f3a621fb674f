//! This pod's copy of the destinations, topics and tokens. It follows Redis within a second.

mod definitions;
mod follow;
mod from_file;
mod in_file;
mod index;
mod names;
mod schema;
mod sealing;
mod sessions;
mod shards;
mod tokens;
mod topics;

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::RwLock;
use tokio::sync::{Mutex, watch};

pub use from_file::FromFile;
pub use in_file::InFile;
pub use names::{Changed, ChangedNames, Counts, Round, Watch};
pub use schema::OlderPod;
pub use sealing::SecretsFound;
pub use shards::left_over;
pub use tokens::CatalogToken;
pub use topics::CatalogTopic;

use crate::{Store, StoreError, entry::CatalogEntry};
use domain::{DestinationName, TopicName};
use index::Followed;
use names::{Listeners, Names};
use sessions::Sessions;

type TopicsByName = BTreeMap<TopicName, Arc<CatalogTopic>>;
type TokensById = BTreeMap<String, Arc<CatalogToken>>;

/// The destinations, topics and tokens that this pod knows. Cheap to clone.
#[derive(Clone)]
pub struct Catalog {
    store: Store,
    names: Arc<RwLock<Names>>,
    topics: Arc<RwLock<TopicsByName>>,
    tokens: Arc<RwLock<TokensById>>,
    sessions: Arc<RwLock<Sessions>>,
    listeners: Arc<Listeners>,
    /// The position up to which each of the three indexes has been followed.
    followed: Arc<Mutex<[Option<Followed>; 3]>>,
    _metrics: telemetry::Knows,
}

impl Catalog {
    /// Reads all destinations, topics and tokens.
    pub async fn load(store: Store) -> Result<Catalog, StoreError> {
        let names: Arc<RwLock<Names>> = Arc::default();
        let of_metrics = names.clone();
        let catalog = Catalog {
            store,
            names,
            topics: Arc::default(),
            tokens: Arc::default(),
            sessions: Arc::default(),
            listeners: Arc::default(),
            followed: Arc::default(),
            _metrics: telemetry::Knows::new(move |name| {
                let names = of_metrics.read();
                names.by_name.contains_key(name)
            }),
        };
        catalog.catch_up().await?;
        Ok(catalog)
    }

    /// The destination of this name.
    pub fn get(&self, name: &str) -> Option<Arc<CatalogEntry>> {
        self.read(|names| names.by_name.get(name).cloned())
    }

    /// All destinations, by name. Only for requests; periodic work uses [`Catalog::some`].
    pub fn all(&self) -> Vec<Arc<CatalogEntry>> {
        let mut all: Vec<_> = self.read(|names| names.by_name.values().cloned().collect());
        all.sort_unstable_by(|a, b| a.destination.name.cmp(&b.destination.name));
        all
    }

    /// The next destinations of these partitions, at most `max`, and whether the round is complete.
    pub fn some(
        &self,
        round: &mut Round,
        partitions: &[u16],
        max: usize,
    ) -> (Vec<Arc<CatalogEntry>>, bool) {
        self.read(|names| round.next(names, partitions, max))
    }

    /// Watches one destination for changes.
    pub fn watch(&self, name: &DestinationName) -> Watch {
        self.listeners.watch(name)
    }

    /// Collects the names of destinations that change from now on.
    pub fn changed(&self) -> Changed {
        self.listeners.changed()
    }

    /// Notifies the receiver whenever a destination or a topic may have changed, without its name.
    pub fn changes(&self) -> watch::Receiver<Counts> {
        self.listeners.changes()
    }

    /// Reads one definition from its partition, after a script has refused the version that this pod had.
    pub async fn refresh(
        &self,
        name: &DestinationName,
    ) -> Result<Option<Arc<CatalogEntry>>, StoreError> {
        let before = self.get(name.as_str()).map(|held| held.version);
        let entry = self.store.stored_definition(name).await?.map(Arc::new);
        self.change(name, |names| match &entry {
            // A slow read may return a version older than one that arrived meanwhile: ignore it. But a version older
            // than the one known *before* the read is right: Redis has lost the newer one.
            Some(entry)
                if names.by_name.get(name).is_some_and(|held| {
                    held.version > entry.version && Some(held.version) != before
                }) =>
            {
                false
            }
            Some(entry) => names.insert(entry),
            None => names.remove(name),
        });
        Ok(entry)
    }

    /// The destination with this name; asks Redis if this pod does not know it yet.
    pub async fn find(
        &self,
        name: &DestinationName,
    ) -> Result<Option<Arc<CatalogEntry>>, StoreError> {
        match self.get(name.as_str()) {
            Some(entry) => Ok(Some(entry)),
            None => self.refresh(name).await,
        }
    }

    /// All topics that this pod knows. Only for requests.
    pub fn topics(&self) -> Vec<Arc<CatalogTopic>> {
        self.read_topics(|topics| topics.values().cloned().collect())
    }

    /// The topic with this name, if this pod knows it.
    pub fn topic(&self, name: &TopicName) -> Option<Arc<CatalogTopic>> {
        self.read_topics(|topics| topics.get(name).cloned())
    }

    /// Reads one topic from Redis.
    pub async fn refresh_topic(
        &self,
        name: &TopicName,
    ) -> Result<Option<Arc<CatalogTopic>>, StoreError> {
        let entry = self.store.stored_topic(name).await?.map(Arc::new);
        self.change_topics(|topics| match &entry {
            Some(entry) => topics.insert(name.clone(), entry.clone()),
            None => topics.remove(name),
        });
        Ok(entry)
    }

    /// The topic with this name; asks Redis if this pod does not know it yet.
    pub async fn find_topic(
        &self,
        name: &TopicName,
    ) -> Result<Option<Arc<CatalogTopic>>, StoreError> {
        match self.topic(name) {
            Some(entry) => Ok(Some(entry)),
            None => self.refresh_topic(name).await,
        }
    }

    /// The token with this id, if this pod knows it. Reads only memory: while Redis is not available, the last known
    /// tokens remain valid.
    pub fn token(&self, id: &str) -> Option<Arc<CatalogToken>> {
        self.read_tokens(|tokens| tokens.get(id).cloned())
    }

    /// All tokens that this pod knows, by id.
    pub fn tokens(&self) -> Vec<Arc<CatalogToken>> {
        self.read_tokens(|tokens| tokens.values().cloned().collect())
    }

    /// True if there is any token.
    pub fn has_tokens(&self) -> bool {
        self.read_tokens(|tokens| !tokens.is_empty())
    }

    /// Reads one token from Redis.
    pub async fn refresh_token(&self, id: &str) -> Result<Option<Arc<CatalogToken>>, StoreError> {
        let token = self.store.stored_token(id).await?.map(Arc::new);
        self.change_tokens(|tokens| match &token {
            Some(token) => tokens.insert(id.to_owned(), token.clone()),
            None => tokens.remove(id),
        });
        Ok(token)
    }

    fn read_tokens<R>(&self, read: impl FnOnce(&TokensById) -> R) -> R {
        read(&self.tokens.read())
    }

    fn change_tokens<R>(&self, change: impl FnOnce(&mut TokensById) -> R) -> R {
        change(&mut self.tokens.write())
    }

    fn read<R>(&self, read: impl FnOnce(&Names) -> R) -> R {
        read(&self.names.read())
    }

    /// Changes one destination. Notifies the listeners if this changed anything.
    fn change(&self, name: &DestinationName, change: impl FnOnce(&mut Names) -> bool) {
        let mut names = self.names.write();
        let is_news = change(&mut names);
        drop(names);
        if is_news {
            self.listeners.notify(name);
        }
    }

    /// Takes over the destinations that are newer than the known ones, and notifies the listeners.
    fn change_all(&self, all: Vec<Arc<CatalogEntry>>) {
        let mut names = self.names.write();
        let is_news = |entry: &Arc<CatalogEntry>| {
            let held = names.by_name.get(&entry.destination.name).map(|held| held.version);
            held.is_none_or(|held| held < entry.version) && names.insert(entry)
        };
        let news: Vec<_> = all.into_iter().filter(is_news).collect();
        drop(names);
        news.iter().for_each(|entry| self.listeners.notify(&entry.destination.name));
    }

    fn read_topics<R>(&self, read: impl FnOnce(&TopicsByName) -> R) -> R {
        read(&self.topics.read())
    }

    fn change_topics<R>(&self, change: impl FnOnce(&mut TopicsByName) -> R) -> R {
        let changed = change(&mut self.topics.write());
        self.listeners.notify_topics();
        changed
    }
}
