//! Creates and revokes API tokens (`lua/token.lua`).

use super::index::REMOVED_MAX;
use crate::{Store, StoreError, contract::contract, keys::Keys};
use domain::Token;

contract! {
    token
    keys(keys: &Keys) {
        tokens: keys.tokens().hash(), changes: keys.tokens().changes(),
        removed: keys.tokens().removed(), used: keys.tokens_used(),
    }
    args<'a> {
        id: &'a str,
        token: &'a str,
        channel: String,
        removed_max: usize,
        most: usize,
    }
}

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
        let call = Args {
            id,
            token,
            channel: self.keys().wake_definitions(),
            removed_max: REMOVED_MAX,
            most: TOKENS_MAX,
        }
        .call(self, self.keys());
        self.run(&call).await
    }
}
