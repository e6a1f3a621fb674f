//! Which definitions of the configuration file are in force. A process with a configuration file writes its
//! destinations and topics into Redis when it starts, and then refuses to change them over HTTP. But a process
//! without that file may remove a destination or topic. The removal is in force until the next start: this process
//! logs it, and anyone may create the destination or topic again.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use parking_lot::Mutex;

use config::FileRule;
use tokio_util::sync::CancellationToken;

use super::{Catalog, ChangedNames};
use crate::{CatalogEntry, StoreError};
use domain::{Destination, DestinationName, Topic, TopicName, destination::Change};

/// The destinations and topics of this process's configuration file. Cheap to clone.
#[derive(Clone)]
pub struct InFile {
    catalog: Catalog,
    destinations: Arc<HashMap<DestinationName, Destination>>,
    topics: Arc<HashMap<TopicName, Topic>>,
    removed: Arc<Mutex<Removed>>,
    rule: FileRule,
}

/// The definitions that were removed and do not match the file again yet.
#[derive(Default)]
struct Removed {
    destinations: HashSet<DestinationName>,
    topics: HashSet<TopicName>,
}

impl InFile {
    /// The definitions of the file, which have just been written into Redis.
    pub fn new(
        catalog: Catalog,
        destinations: &[Destination],
        topics: &[Topic],
        rule: FileRule,
    ) -> InFile {
        let destinations = destinations.iter().map(|one| (one.name.clone(), one.clone()));
        let topics = topics.iter().map(|one| (one.name.clone(), one.clone()));
        InFile {
            catalog,
            destinations: Arc::new(destinations.collect()),
            topics: Arc::new(topics.collect()),
            removed: Arc::default(),
            rule,
        }
    }

    /// True if the next start writes the definitions of the file, whatever is in force then.
    pub fn is_always_written(&self) -> bool {
        self.rule == FileRule::Always
    }

    /// The destinations whose current definition differs from the file, with the differences, by name.
    pub fn differing(&self) -> Vec<(Arc<CatalogEntry>, Vec<Change>)> {
        let differs = |of_file: &Destination| {
            let entry = self.catalog.get(of_file.name.as_str())?;
            // A comparison is cheaper than a list of the differences.
            let is_other = entry.definition() != of_file && self.controls(&of_file.name);
            is_other.then(|| (entry.clone(), entry.definition().changes_to(of_file)))
        };
        let mut all: Vec<_> = self.destinations.values().filter_map(differs).collect();
        all.sort_unstable_by(|(a, _), (b, _)| a.destination.name.cmp(&b.destination.name));
        all
    }

    /// True if the file controls this destination, as far as this process knows.
    pub fn controls(&self, name: &DestinationName) -> bool {
        self.destinations.contains_key(name) && !self.removed.lock().destinations.contains(name)
    }

    /// True if the file controls this topic, as far as this process knows.
    pub fn controls_topic(&self, name: &TopicName) -> bool {
        self.topics.contains_key(name) && !self.removed.lock().topics.contains(name)
    }

    /// True if the file controls this destination. Asks Redis.
    pub async fn check_controls(&self, name: &DestinationName) -> Result<bool, StoreError> {
        let Some(of_file) = self.destinations.get(name) else { return Ok(false) };
        let now = self.catalog.refresh(name).await?;
        let is_same = now.map(|entry| entry.definition() == of_file);
        if self.removed.lock().note(is_same, name, |removed| &mut removed.destinations) {
            tracing::warn!(
                destination = %name,
                "a destination of the configuration file is no longer in Redis: another process has removed it, \
                 or Redis has lost it. Sends to it are answered 404. PUT /v1/destinations/{name} creates \
                 it again, and so does a restart of this process; or remove it from the file"
            );
        }
        Ok(self.controls(name))
    }

    /// True if the file controls this topic. Asks Redis.
    pub async fn check_controls_topic(&self, name: &TopicName) -> Result<bool, StoreError> {
        let Some(of_file) = self.topics.get(name) else { return Ok(false) };
        let now = self.catalog.refresh_topic(name).await?;
        let is_same = now.map(|known| known.topic == *of_file);
        if self.removed.lock().note(is_same, name, |removed| &mut removed.topics) {
            tracing::warn!(
                topic = %name,
                "a topic of the configuration file is no longer in Redis: another process has removed it, or \
                 Redis has lost it. Sends to it are answered 404. PUT /v1/topics/{name} creates it again, and \
                 so does a restart of this process; or remove it from the file"
            );
        }
        Ok(self.controls_topic(name))
    }

    /// Records a definition that was just written: the destination may match the file again.
    pub fn note_defined(&self, destination: &Destination) {
        if self.destinations.get(&destination.name) == Some(destination) {
            self.removed.lock().destinations.remove(&destination.name);
        }
    }

    /// Records a topic that was just written: it may match the file again.
    pub fn note_topic_defined(&self, topic: &Topic) {
        if self.topics.get(&topic.name) == Some(topic) {
            self.removed.lock().topics.remove(&topic.name);
        }
    }

    /// Checks for removals until `stop`, after each change of the catalog. Checks only names that changed, because a
    /// file may contain very many definitions.
    pub async fn watch(self, stop: CancellationToken) {
        let (mut changes, mut changed) = (self.catalog.changes(), self.catalog.changed());
        let (mut names, mut topics_seen) = (ChangedNames::Any, None);
        loop {
            // `borrow` does not mark the value as seen, so any change from here on wakes the loop.
            let topics = changes.borrow().topics;
            let has_topics = topics_seen.replace(topics) != Some(topics);
            let checked = self.check_changed(&names, has_topics).await;
            tokio::select! {
                () = stop.cancelled() => return,
                news = changes.changed() => if news.is_err() { return },
            }
            names = changed.take();
            if let Err(error) = checked {
                // It is unknown which names were checked, so check all of them again.
                tracing::debug!(%error, "cannot check which definitions of the file are in force");
                (names, topics_seen) = (ChangedNames::Any, None);
            }
        }
    }

    /// Asks Redis about definitions that the catalog does not have, and about removed definitions: the catalog may be
    /// outdated.
    async fn check_changed(
        &self,
        names: &ChangedNames,
        with_topics: bool,
    ) -> Result<(), StoreError> {
        let news: Vec<&DestinationName> = match names {
            ChangedNames::Any => self.destinations.keys().collect(),
            ChangedNames::These(names) => names.iter().collect(),
        };
        for name in news {
            let Some(of_file) = self.destinations.get(name) else { continue };
            let entry = self.catalog.get(name.as_str());
            let is_same = entry.map(|entry| entry.definition() == of_file);
            if is_news(is_same, self.controls(name)) {
                self.check_controls(name).await?;
            }
        }
        if !with_topics {
            return Ok(());
        }
        for (name, of_file) in self.topics.iter() {
            let entry = self.catalog.topic(name);
            let is_same = entry.map(|entry| entry.topic == *of_file);
            if is_news(is_same, self.controls_topic(name)) {
                self.check_controls_topic(name).await?;
            }
        }
        Ok(())
    }
}

/// True if a definition in force is missing, or if a removed definition matches the file again.
fn is_news(is_same: Option<bool>, is_held: bool) -> bool {
    match is_same {
        None => is_held,
        Some(is_same) => is_same && !is_held,
    }
}

impl Removed {
    /// Records whether a definition exists and matches the file. Returns true if its removal is new.
    fn note<T: Clone + Eq + std::hash::Hash>(
        &mut self,
        is_same: Option<bool>,
        name: &T,
        of: impl FnOnce(&mut Removed) -> &mut HashSet<T>,
    ) -> bool {
        let removed = of(self);
        match is_same {
            None => removed.insert(name.clone()),
            Some(true) => {
                removed.remove(name);
                false
            }
            // The definition exists, but differs from the file. If it is in the set of removed ones, someone has
            // created it again since.
            Some(false) => false,
        }
    }
}
