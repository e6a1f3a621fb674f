//! Resigns a partition, and vouches that no earlier sender still sends (`lua/resign_partition.lua`).

use futures::{StreamExt, stream};

use super::acquire_partition::OwnerToken;
use crate::{Store, StoreError, contract::contract, keys::PartitionKeys};
use domain::Epoch;

contract! {
    resign_partition
    keys(keys: &PartitionKeys) {
        owner, wake_owner, epoch,
    }
    args<'a> {
        token: &'a str,
        seen_epoch: String,
        vouched_epoch: String,
    }
}

/// The most partitions to vouch for in parallel.
const CALLS_MAX: usize = 16;

/// The answer to resigning a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resigned {
    /// False if this token did not own the partition any more.
    pub was_owned: bool,
    /// The partition's epoch.
    pub epoch: Epoch,
}

impl Store {
    /// Resigns a partition. `vouched` is an epoch: the caller declares that no sender of an earlier epoch still
    /// sends. If it is the current epoch, the takeover wait ends. Only a caller that learned of the epoch while its
    /// own lease lasted by its own clock, had not resigned, and has stopped sending since may declare this.
    pub async fn resign_partition(
        &self,
        partition: u16,
        token: &OwnerToken,
        vouched: Option<Epoch>,
    ) -> Result<Resigned, StoreError> {
        let keys = self.keys().partition(partition);
        let call = Args {
            token: token.as_str(),
            seen_epoch: self.known_of_epoch(partition),
            vouched_epoch: vouched.map_or_else(String::new, |epoch| epoch.to_string()),
        }
        .call(self, &keys);
        let (was_owned, epoch): (bool, Epoch) = self.run(&call).await?;
        self.inner.epochs.note(partition, epoch);
        Ok(Resigned { was_owned, epoch })
    }

    /// Declares for each partition that no sender from before this start of Redis still sends. This is only true
    /// after a clean stop of Redis.
    pub async fn vouch(&self) {
        let nobody = OwnerToken::random();
        let all = stream::iter(0..self.keys().partitions()).map(|partition| {
            let nobody = &nobody;
            async move {
                let begun = self.resign_partition(partition, nobody, None).await?.epoch;
                self.resign_partition(partition, nobody, Some(begun)).await
            }
        });
        let vouched: Vec<_> = all.buffer_unordered(CALLS_MAX).collect().await;
        let waiting = vouched.iter().filter(|vouched| vouched.is_err()).count();
        tracing::info!(waiting, "Redis was stopped cleanly: deliveries need not wait");
    }
}
