//! Ownership of partitions, and the list of pods that live (`lua/own.lua`, `lua/disown.lua`,
//! `lua/beat.lua`).

use std::time::Duration;

use tokio::time::Instant;

use super::{Store, StoreError, clock};
use crate::domain::Epoch;

/// The random token under which a sender pod owns partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerToken(String);

impl OwnerToken {
    /// A token that nobody else has.
    pub fn random() -> Self {
        OwnerToken(uuid::Uuid::new_v4().simple().to_string())
    }

    /// As the scripts compare it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A partition that is now owned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owned {
    /// The partition's epoch.
    pub epoch: Epoch,
    /// How long releases must still wait after a restart of Redis.
    pub quarantine: Duration,
}

impl Store {
    /// Takes a free partition, or renews the lease on one that is owned under the same token. Where
    /// there are replicas it counts only once they have it, so that a primary that was cut off keeps
    /// no owner: else the call is unconfirmed.
    pub async fn own(
        &self,
        partition: u16,
        token: &OwnerToken,
        lease: Duration,
    ) -> Result<Owned, StoreError> {
        let keys = self.keys().partition(partition);
        let (name, mut call) = self.script(|scripts| &scripts.own);
        call.key(keys.epoch()).key(keys.owner());
        call.arg(token.as_str()).arg(lease.as_millis() as u64);
        call.arg(self.known_of_epoch(partition));
        let (answer, confirmed) =
            self.run_confirmed(name, &call, self.confirm_of_ownership()).await?;
        let (epoch, wait_ms): (Epoch, u64) = answer;
        self.inner.epochs.note(partition, epoch);
        if !confirmed {
            let problem = "too few replicas have noted who owns the partition";
            return Err(StoreError::Unconfirmed(problem.to_owned()));
        }
        Ok(Owned { epoch, quarantine: Duration::from_millis(wait_ms) })
    }

    /// Gives a partition back. False if it was not owned under this token any more.
    pub async fn disown(&self, partition: u16, token: &OwnerToken) -> Result<bool, StoreError> {
        let keys = self.keys().partition(partition);
        let (name, mut call) = self.script(|scripts| &scripts.disown);
        call.key(keys.owner()).key(keys.wake_owner()).key(keys.epoch());
        call.arg(token.as_str());
        self.run(name, &call).await
    }

    /// Says that this pod lives in this role, and counts those who said so within `lease`.
    pub async fn heartbeat(&self, role: &str, lease: Duration) -> Result<usize, StoreError> {
        let (name, mut call) = self.script(|scripts| &scripts.beat);
        call.key(self.keys().pods());
        call.arg(role).arg(self.pod()).arg(lease.as_millis() as u64);
        self.run(name, &call).await
    }

    /// Says that this pod leaves this role.
    pub async fn leave(&self, role: &str) -> Result<(), StoreError> {
        let member = format!("{role}:{}", self.pod());
        self.query::<()>(redis::pipe().zrem(self.keys().pods(), member).ignore()).await
    }

    /// The server's clock, in ms since 1970: on a cluster, that of the node on which pods note that
    /// they live.
    pub async fn server_time_ms(&self) -> Result<u64, StoreError> {
        let asked = Instant::now();
        let now_ms = self.time_at(&self.keys().pods()).await?;
        clock::note(now_ms, asked);
        Ok(now_ms)
    }
}
