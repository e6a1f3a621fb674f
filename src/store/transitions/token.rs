//! Makes and revokes tokens (`lua/token.lua`).

use super::index::REMOVED_MAX;
use crate::{
    domain::Token,
    store::{Store, StoreError},
};

/// The most tokens of a deployment.
const TOKENS_MAX: usize = 10_000;

impl Store {
    /// Stores a new token, and notifies all pods.
    pub async fn make_token(&self, token: &Token) -> Result<(), StoreError> {
        let text = serde_json::to_string(token)
            .map_err(|error| StoreError::WrongState(error.to_string()))?;
        self.note_token(&token.id, &text).await.map(drop)
    }

    /// Revokes a token, and notifies all pods. False if it did not exist.
    pub async fn revoke_token(&self, id: &str) -> Result<bool, StoreError> {
        self.note_token(id, "").await
    }

    async fn note_token(&self, id: &str, token: &str) -> Result<bool, StoreError> {
        let mut call = self.call(|scripts| &scripts.token);
        let index = self.keys().tokens();
        call.key(index.hash()).key(index.changes()).key(index.removed());
        call.key(self.keys().tokens_used());
        call.arg(id).arg(token).arg(self.keys().wake_definitions()).arg(REMOVED_MAX);
        call.arg(TOKENS_MAX);
        self.run(&call).await
    }
}
