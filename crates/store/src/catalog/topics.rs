//! Topics as Redis stores them.

use super::index::read_entry;
use crate::{Store, StoreError};
use domain::{Topic, TopicName};

/// A topic, as this pod's catalog holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogTopic {
    /// The definition of the topic.
    pub topic: Topic,
    /// The version of the definition: a higher version is newer.
    pub version: u64,
}

impl CatalogTopic {
    /// Parses an index entry: `<version> <definition>`.
    pub(crate) fn of_entry(name: &str, entry: &str) -> Option<CatalogTopic> {
        let Some((version, topic)) = read_entry(entry) else {
            tracing::error!(topic = name, "a stored topic cannot be read");
            return None;
        };
        Some(CatalogTopic { topic, version })
    }
}

impl Store {
    /// Reads the topic with this name from Redis.
    pub(crate) async fn stored_topic(
        &self,
        name: &TopicName,
    ) -> Result<Option<CatalogTopic>, StoreError> {
        let (text,): (Option<String>,) =
            self.query(redis::pipe().hget(self.keys().topics().hash(), name.as_str())).await?;
        Ok(text.and_then(|text| CatalogTopic::of_entry(name.as_str(), &text)))
    }
}
