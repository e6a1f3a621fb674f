//! Writes the first epoch of every partition (`lua/init_epoch.lua`).

use futures::{StreamExt, TryStreamExt, stream};

use crate::{Store, StoreError, contract::contract, keys::PartitionKeys};

contract! {
    init_epoch
    keys(keys: &PartitionKeys) {
        epoch,
    }
    args {
        seen_epoch: String,
    }
}

/// The most first epochs that are written in parallel.
const CALLS_MAX: usize = 16;

impl Store {
    /// Writes the first epoch of every partition of a new deployment. Does not change existing epochs.
    pub async fn init_epoch(&self) -> Result<(), StoreError> {
        let calls = stream::iter(0..self.keys().partitions()).map(async |partition| {
            let call = Args { seen_epoch: self.inner.epochs.text(partition, 0) }
                .call(self, &self.keys().partition(partition));
            self.run::<u64>(&call).await
        });
        calls.buffer_unordered(CALLS_MAX).try_collect::<Vec<u64>>().await?;
        Ok(())
    }
}
