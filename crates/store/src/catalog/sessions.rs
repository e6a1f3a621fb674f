//! The sessions of the console: the key that seals them, which all pods share, and the sessions that have ended.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use redis::Pipeline;

use super::Catalog;
use crate::{Store, StoreError, queries::audit::AuditId, transitions::end_session::ENDED_MAX};
use domain::token::random_text;

/// How many of the newest ended sessions each poll reads.
const NEWEST: usize = 100;

/// The state of sessions that this pod knows.
#[derive(Default)]
pub(super) struct Sessions {
    /// `None` before this pod has read Redis.
    key: Option<Arc<str>>,
    /// The ids of ended sessions, by the time at which they ended.
    ended: BTreeMap<AuditId, String>,
}

impl Sessions {
    fn has_ended(&self, id: &str, begun_ms: u64) -> bool {
        // If the map is full, sessions that ended earlier may have been forgotten.
        let oldest = self.ended.keys().next().filter(|_| self.ended.len() >= ENDED_MAX);
        oldest.is_some_and(|oldest| begun_ms <= oldest.at_ms)
            || self.ended.values().any(|ended| ended == id)
    }

    fn take(&mut self, key: String, ended: Vec<(AuditId, String)>) {
        if self.key.as_deref() != Some(&key) {
            self.key = Some(key.into());
        }
        self.ended.extend(ended);
        while self.ended.len() > ENDED_MAX {
            self.ended.pop_first();
        }
    }
}

impl Catalog {
    /// The key that seals sessions. `None` until this pod has read it.
    pub fn session_key(&self) -> Option<Arc<str>> {
        self.read_sessions(|sessions| sessions.key.clone())
    }

    /// True if a sign-out ended this session, which began at `begun_ms`.
    pub fn has_ended(&self, id: &str, begun_ms: u64) -> bool {
        self.read_sessions(|sessions| sessions.has_ended(id, begun_ms))
    }

    /// Ends a session, here and in all other pods.
    pub async fn end_session(&self, id: &str) -> Result<(), StoreError> {
        self.store.end_session(id).await?;
        self.catch_up_with_sessions().await
    }

    /// Takes over the key and the ended sessions from Redis.
    pub(super) async fn catch_up_with_sessions(&self) -> Result<(), StoreError> {
        let (mut key, mut ended) = self.store.sessions(NEWEST).await?;
        let oldest = ended.last().filter(|_| ended.len() >= NEWEST);
        let has_more = oldest
            .is_some_and(|(id, _)| self.read_sessions(|sessions| !sessions.ended.contains_key(id)));
        if has_more {
            (key, ended) = self.store.sessions(ENDED_MAX).await?;
        }
        let key = match key {
            Some(key) => key,
            None => self.store.make_session_key().await?,
        };
        let mut sessions = self.sessions.write();
        sessions.take(key, ended);
        Ok(())
    }

    fn read_sessions<R>(&self, read: impl FnOnce(&Sessions) -> R) -> R {
        read(&self.sessions.read())
    }
}

impl Store {
    /// Reads the key that seals sessions, and at most `max` ended sessions, newest first.
    async fn sessions(
        &self,
        max: usize,
    ) -> Result<(Option<String>, Vec<(AuditId, String)>), StoreError> {
        let mut pipe = Pipeline::new();
        pipe.hget(self.keys().sessions(), "key");
        pipe.cmd("XREVRANGE").arg(self.keys().sessions_ended()).arg("+").arg("-");
        pipe.arg("COUNT").arg(max);
        type Entry = (String, HashMap<String, String>);
        let (key, found): (Option<String>, Vec<Entry>) = self.query(&pipe).await?;
        let read = |(id, mut fields): Entry| Some((id.parse().ok()?, fields.remove("session")?));
        Ok((key, found.into_iter().filter_map(read).collect()))
    }

    /// Creates the key, unless another pod has created it.
    async fn make_session_key(&self) -> Result<String, StoreError> {
        let mut pipe = Pipeline::new();
        pipe.hset_nx(self.keys().sessions(), "key", random_text(&mut rand::rng())).ignore();
        pipe.hget(self.keys().sessions(), "key");
        let (key,): (String,) = self.query(&pipe).await?;
        Ok(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_that_may_be_forgotten_count_as_ended() {
        let id = |ms: usize| AuditId::last_of(ms as u64);
        let mut sessions = Sessions::default();
        sessions.take("key".into(), (10..20).map(|ms| (id(ms), format!("s{ms}"))).collect());
        assert!(sessions.has_ended("s10", 5) && !sessions.has_ended("other", 5));
        let more = (20..20 + ENDED_MAX).map(|ms| (id(ms), format!("s{ms}")));
        sessions.take("key".into(), more.collect());
        assert_eq!(sessions.ended.len(), ENDED_MAX);
        // The session s10 began before it ended.
        for begun in [5, 9, 20] {
            assert!(sessions.has_ended("s10", begun) && sessions.has_ended("other", begun));
        }
        assert!(!sessions.has_ended("other", 21));
    }
}
