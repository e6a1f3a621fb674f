//! What the Redis servers say of themselves.

use crate::{Store, StoreError};
use redis_client::ServerState;

impl Store {
    /// The name and the state of each primary, or why it does not answer.
    pub async fn examine_servers(&self) -> Vec<(String, Result<ServerState, StoreError>)> {
        let asked = self.client().examine(true).await;
        asked.into_iter().map(|(name, state)| (name, state.map_err(StoreError::from))).collect()
    }

    /// How many replicas each primary should have, as configured.
    pub fn replicas_wanted(&self) -> u32 {
        self.inner.replicas
    }
}
