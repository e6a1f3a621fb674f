//! Acquires a partition, or renews the lease on it (`lua/acquire_partition.lua`).

use std::time::Duration;

use crate::{Store, StoreError, contract::contract, keys::PartitionKeys};
use domain::Epoch;

contract! {
    acquire_partition
    keys(keys: &PartitionKeys) {
        epoch, owner,
    }
    args<'a> {
        own_token: &'a str,
        lease_ms: u64,
        seen_epoch: String,
        seen_owner: &'a str,
    }
}

/// The token that identifies a sender as owner of a partition: its pod, `.`, and a random text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerToken(String);

impl OwnerToken {
    /// Creates a unique token that names no pod.
    pub fn random() -> Self {
        OwnerToken(uuid::Uuid::new_v4().simple().to_string())
    }

    /// Creates a unique token that names this pod.
    pub fn of(pod: &str) -> Self {
        OwnerToken(format!("{pod}.{}", uuid::Uuid::new_v4().simple()))
    }

    /// The text that scripts compare.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The answer to acquiring a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owned {
    /// The partition's epoch.
    pub epoch: Epoch,
    /// How long releases must still wait after a restart of Redis, by the clock of this pod. Stays above zero until a
    /// sender has ended the wait (`Store::resign_partition`).
    pub takeover_wait: Duration,
}

impl Store {
    /// Acquires a free partition, or renews the lease of a partition that this token owns.
    pub async fn acquire_partition(
        &self,
        partition: u16,
        token: &OwnerToken,
        lease: Duration,
    ) -> Result<Owned, StoreError> {
        self.take_partition(partition, token, lease, "").await
    }

    /// Like `acquire_partition`. Also takes a partition whose owner key has the value `unchanged`: the caller has
    /// seen this value for the length of the lease in it ([`Store::owner_values`]). If there are replicas, a majority
    /// must confirm the new owner, so that an old primary that is cut off cannot grant ownership. Otherwise the call
    /// is unconfirmed.
    pub async fn take_partition(
        &self,
        partition: u16,
        token: &OwnerToken,
        lease: Duration,
        unchanged: &str,
    ) -> Result<Owned, StoreError> {
        let keys = self.keys().partition(partition);
        let call = Args {
            own_token: token.as_str(),
            lease_ms: lease.as_millis() as u64,
            seen_epoch: self.known_of_epoch(partition),
            seen_owner: unchanged,
        }
        .call(self, &keys);
        let answer = self.run_confirmed(&call, self.confirm_of_majority()).await;
        let (answer, confirmed) = self.learned(partition, answer)?;
        let (epoch, wait_ms): (Epoch, u64) = answer;
        let waited = self.inner.epochs.note(partition, epoch).elapsed();
        let takeover_wait = match Duration::from_millis(wait_ms) {
            Duration::ZERO => Duration::ZERO,
            wait => wait.saturating_sub(waited).max(Duration::from_millis(1)),
        };
        if !confirmed {
            let problem = "too few replicas have confirmed the owner of the partition";
            return Err(StoreError::Unconfirmed(problem.to_owned()));
        }
        Ok(Owned { epoch, takeover_wait })
    }
}
