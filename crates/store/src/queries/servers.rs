//! Reads the state of the Redis servers.

use std::sync::Arc;

use crate::{Store, StoreError, entry::CatalogEntry};
use redis_client::{SentinelState, ServerState};

impl Store {
    /// The name and the state of each primary, or the reason why it does not answer.
    pub async fn examine_servers(&self) -> Vec<(String, Result<ServerState, StoreError>)> {
        let asked = self.client().examine(true).await;
        asked.into_iter().map(|(name, state)| (name, state.map_err(StoreError::from))).collect()
    }

    /// The address of each sentinel, with its state or the reason why it does not answer. Empty without sentinels.
    pub async fn examine_sentinels(&self) -> Vec<(String, Result<SentinelState, String>)> {
        self.client().examine_sentinels().await
    }

    /// The name of each primary, with the indices of the destinations that it holds.
    pub fn held_by(&self, all: &[Arc<CatalogEntry>]) -> Vec<(String, Vec<usize>)> {
        let hash = |entry: &Arc<CatalogEntry>| self.keys_of(entry).hash();
        self.client().keys_by_name(&all.iter().map(hash).collect::<Vec<_>>())
    }

    /// How many replicas each primary should have, as configured.
    pub fn replicas_wanted(&self) -> u32 {
        self.inner.replicas
    }
}
