//! Creates, changes and removes topics (`lua/topic.lua`).

use super::index::REMOVED_MAX;
use crate::{
    domain::{Topic, TopicName},
    store::{Store, StoreError},
};

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
        let mut call = self.call(|scripts| &scripts.topic);
        let index = self.keys().topics();
        call.key(index.hash()).key(index.changes()).key(index.removed());
        call.arg(topic.as_str()).arg(definition).arg(self.keys().wake_definitions());
        call.arg(REMOVED_MAX);
        self.run(&call).await
    }
}
