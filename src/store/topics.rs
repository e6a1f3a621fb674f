//! Creates, changes and removes topics (`lua/topic.lua`).

use super::{Store, StoreError, index::REMOVED_MAX};
use crate::domain::{Topic, TopicName};

/// A topic, as this pod's catalog holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogTopic {
    /// Its definition.
    pub topic: Topic,
    /// The definition's version: a higher one is newer.
    pub version: u64,
}

impl CatalogTopic {
    /// Parses an index entry: `<version> <definition>`.
    pub(super) fn of_entry(name: &str, entry: &str) -> Option<CatalogTopic> {
        let read = || {
            let (version, json) = entry.split_once(' ')?;
            Some((version.parse().ok()?, serde_json::from_str(json).ok()?))
        };
        let Some((version, topic)) = read() else {
            tracing::error!(topic = name, "a stored topic cannot be read");
            return None;
        };
        Some(CatalogTopic { topic, version })
    }
}

impl Store {
    /// Creates or changes a topic, and notifies all pods. True if it is new.
    pub async fn define_topic(&self, topic: &Topic) -> Result<bool, StoreError> {
        let definition = serde_json::to_string(topic)
            .map_err(|error| StoreError::WrongState(error.to_string()))?;
        self.note_topic(&topic.name, &definition).await.map(|was_there| !was_there)
    }

    /// Removes a topic. False if it did not exist.
    pub async fn remove_topic(&self, name: &TopicName) -> Result<bool, StoreError> {
        self.note_topic(name, "").await
    }

    async fn note_topic(&self, topic: &TopicName, definition: &str) -> Result<bool, StoreError> {
        let (name, mut call) = self.script(|scripts| &scripts.topic);
        let index = self.keys().topics();
        call.key(index.hash()).key(index.changes()).key(index.removed());
        call.arg(topic.as_str()).arg(definition).arg(self.keys().wake_definitions());
        call.arg(REMOVED_MAX);
        self.run(name, &call).await
    }

    /// Reads the topic with this name from Redis.
    pub(super) async fn true_topic(
        &self,
        name: &TopicName,
    ) -> Result<Option<CatalogTopic>, StoreError> {
        let (text,): (Option<String>,) =
            self.query(redis::pipe().hget(self.keys().topics().hash(), name.as_str())).await?;
        Ok(text.and_then(|text| CatalogTopic::of_entry(name.as_str(), &text)))
    }
}
