//! Takes a partition, or renews the lease on it (`lua/acquire_partition.lua`).

use std::time::Duration;

use crate::{
    domain::Epoch,
    store::{Store, StoreError},
};

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
    pub takeover_wait: Duration,
}

impl Store {
    /// Takes a free partition, or renews the lease on one that is owned under the same token. Where
    /// there are replicas it counts only once they have it, so that a primary that was cut off keeps
    /// no owner: else the call is unconfirmed.
    pub async fn acquire_partition(
        &self,
        partition: u16,
        token: &OwnerToken,
        lease: Duration,
    ) -> Result<Owned, StoreError> {
        let keys = self.keys().partition(partition);
        let mut call = self.call(|scripts| &scripts.acquire_partition);
        call.key(keys.epoch()).key(keys.owner());
        call.arg(token.as_str()).arg(lease.as_millis() as u64);
        call.arg(self.known_of_epoch(partition));
        let (answer, confirmed) = self.run_confirmed(&call, self.confirm_of_majority()).await?;
        let (epoch, wait_ms): (Epoch, u64) = answer;
        self.inner.epochs.note(partition, epoch);
        if !confirmed {
            let problem = "too few replicas have noted who owns the partition";
            return Err(StoreError::Unconfirmed(problem.to_owned()));
        }
        Ok(Owned { epoch, takeover_wait: Duration::from_millis(wait_ms) })
    }
}
