//! The epochs that this pod has seen for each partition. Scripts that could begin a new epoch get
//! them as an argument, so that a new epoch is always higher (`lua/include/epoch.lua`).

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use futures::{StreamExt, TryStreamExt, stream};

use super::{Store, StoreError};
use crate::domain::Epoch;

/// First epochs to write in parallel.
const CALLS_MAX: usize = 16;

/// The highest epochs seen in each partition, and the length of an owner's lease.
pub(super) struct Epochs {
    seen: Vec<Seen>,
    lease_ms: u64,
}

#[derive(Default)]
struct Seen {
    /// The epoch of the partition itself.
    own: AtomicU64,
    /// The highest epoch that a message carried or a destination was created in. It may be above
    /// that of the partition.
    carried: AtomicU64,
}

impl Epochs {
    pub(super) fn new(partitions: u16, owner_lease: Duration) -> Epochs {
        let seen = (0..partitions).map(|_| Seen::default()).collect();
        Epochs { seen, lease_ms: owner_lease.as_millis() as u64 }
    }

    /// Notes the epoch that Redis returned for a partition.
    pub(super) fn note(&self, partition: u16, epoch: Epoch) {
        if let Some(seen) = self.seen.get(usize::from(partition)) {
            seen.own.fetch_max(epoch, Ordering::Relaxed);
        }
    }

    /// Notes an epoch that messages carry, or may carry.
    pub(super) fn note_carried(&self, partition: u16, epoch: Epoch) {
        if let Some(seen) = self.seen.get(usize::from(partition)) {
            seen.carried.fetch_max(epoch, Ordering::Relaxed);
        }
    }

    /// The known epochs, as a script's argument.
    pub(super) fn known(&self, partition: u16) -> String {
        self.text(partition, self.lease_ms)
    }

    fn text(&self, partition: u16, lease_ms: u64) -> String {
        let load = |of: &AtomicU64| of.load(Ordering::Relaxed);
        let seen = self.seen.get(usize::from(partition));
        let (own, carried) = seen.map_or((0, 0), |seen| (load(&seen.own), load(&seen.carried)));
        format!("{lease_ms} {own} {carried}")
    }
}

impl Store {
    /// The script argument with the epochs of a partition.
    pub(super) fn known_of_epoch(&self, partition: u16) -> String {
        self.inner.epochs.known(partition)
    }

    /// Passes the answer on. Notes the epoch if the answer is a refusal that names it.
    pub(super) fn learned<T>(
        &self,
        partition: u16,
        answer: Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if let Err(StoreError::StaleEpoch(epoch)) = &answer {
            self.inner.epochs.note(partition, *epoch);
        }
        answer
    }

    /// Forgets all epochs, like a pod that has just started. For tests that roll Redis back.
    pub fn forget_epochs(&self) {
        for seen in &self.inner.epochs.seen {
            seen.own.store(0, Ordering::Relaxed);
            seen.carried.store(0, Ordering::Relaxed);
        }
    }

    /// Writes the first epoch of every partition of a new deployment. Does not change existing
    /// ones.
    pub async fn init_epoch(&self) -> Result<(), StoreError> {
        let calls = stream::iter(0..self.keys().partitions()).map(async |partition| {
            let (name, mut call) = self.script(|scripts| &scripts.init_epoch);
            call.key(self.keys().partition(partition).epoch());
            call.arg(self.inner.epochs.text(partition, 0));
            self.run::<u64>(name, &call).await
        });
        calls.buffer_unordered(CALLS_MAX).try_collect::<Vec<u64>>().await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_epoch_is_remembered_of_each_partition() {
        let epochs = Epochs::new(2, Duration::from_secs(5));
        epochs.note(1, 9);
        epochs.note(1, 7);
        epochs.note(2, 11);
        epochs.note_carried(1, 12);
        epochs.note_carried(1, 10);
        assert_eq!((epochs.known(0), epochs.known(1)), ("5000 0 0".into(), "5000 9 12".into()));
    }
}
