//! Tokens as Redis stores them.

use std::{collections::HashMap, sync::Arc};

use redis::{Cmd, Pipeline};

use super::index::read_entry;
use crate::{Store, StoreError};
use domain::{Grant, Token};

/// A token, as this pod's catalog holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogToken {
    /// The token, without its secret.
    pub token: Token,
    /// The rights of the token.
    pub grant: Arc<Grant>,
    /// The revision of the token's last change: a higher revision is newer.
    pub version: u64,
}

impl CatalogToken {
    /// Parses an index entry: `<version> <token>`.
    pub(crate) fn of_entry(id: &str, entry: &str) -> Option<CatalogToken> {
        let Some((version, token)) = read_entry::<Token>(entry) else {
            tracing::error!(token = id, "a stored token cannot be read; it allows nothing");
            return None;
        };
        let grant = Arc::new(token.grant.clone());
        Some(CatalogToken { token, grant, version })
    }
}

impl Store {
    /// Reads the token with this id from Redis.
    pub(crate) async fn stored_token(&self, id: &str) -> Result<Option<CatalogToken>, StoreError> {
        let (text,): (Option<String>,) =
            self.query(redis::pipe().hget(self.keys().tokens().hash(), id)).await?;
        Ok(text.and_then(|text| CatalogToken::of_entry(id, &text)))
    }

    /// Stores when tokens were last used, in milliseconds since 1970.
    pub async fn note_tokens_used(&self, used: &[(String, u64)]) -> Result<(), StoreError> {
        if used.is_empty() {
            return Ok(());
        }
        let mut pipe = Pipeline::new();
        pipe.cmd("HSET").arg(self.keys().tokens_used()).arg(used).ignore();
        self.query(&pipe).await
    }

    /// When each of these tokens was last used, in milliseconds since 1970. Leaves out tokens without a stored time.
    pub async fn tokens_used(&self, ids: &[&str]) -> Result<HashMap<String, u64>, StoreError> {
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let used: Vec<Option<u64>> = self.ask(&Cmd::hmget(self.keys().tokens_used(), ids)).await?;
        let known = ids.iter().zip(used).filter_map(|(id, used)| Some(((*id).to_owned(), used?)));
        Ok(known.collect())
    }
}
