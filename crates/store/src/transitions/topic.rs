//! Creates, changes and removes topics (`lua/topic.lua`).

use super::index::REMOVED_MAX;
use crate::{Store, StoreError, contract::contract, keys::IndexKeys};
use domain::{Topic, TopicName};

contract! {
    topic
    keys(keys: &IndexKeys) {
        topics: keys.hash(), changes, removed,
    }
    args<'a> {
        topic: &'a str,
        content: &'a str,
        channel: String,
        removed_max: usize,
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
        let index = self.keys().topics();
        let call = Args {
            topic: topic.as_str(),
            content: definition,
            channel: self.keys().wake_definitions(),
            removed_max: REMOVED_MAX,
        }
        .call(self, &index);
        self.run(&call).await
    }
}
