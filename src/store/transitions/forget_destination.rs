//! Completes the removal of a destination: removes the rest of it in one step
//! (`lua/forget_destination.lua`).

use crate::{
    domain::DestinationName,
    store::{Store, StoreError, keys::Claimers},
};

impl Store {
    /// Removes the destination's hash and its other single keys. Its messages must be gone.
    pub(super) async fn forget_destination(
        &self,
        destination: &DestinationName,
    ) -> Result<(), StoreError> {
        let keys = self.keys().destination(destination);
        let mut call = self.call(|scripts| &scripts.forget_destination);
        call.key(keys.partition.epoch()).key(keys.hash()).key(keys.waiting());
        call.key(keys.messages()).key(keys.attempts()).key(keys.lanes());
        call.key(keys.in_progress(None)).key(keys.ready(None));
        call.key(keys.partition.active(Claimers::Builtin));
        call.key(keys.partition.active(Claimers::Worker)).key(keys.partition.releasable());
        call.key(keys.halted()).key(keys.withdrawals()).key(keys.idempotency_keys());
        call.key(keys.dead_letters())
            .key(keys.dead_letter_messages())
            .key(keys.log())
            .key(keys.log_order());
        call.key(keys.bodies()).key(keys.dead_lettered_at()).key(keys.withdrawn());
        call.key(keys.previous()).key(keys.ids()).key(keys.consumer_leases());
        call.key(keys.consumer_lease_ends()).key(keys.partition.consumers());
        call.key(keys.partition.withdrawing());
        let partition = destination.partition(self.keys().partitions());
        call.arg(self.known_of_epoch(partition)).arg(destination.as_str());
        let epoch: u64 = self.run(&call).await?;
        self.inner.epochs.note_carried(partition, epoch);
        Ok(())
    }
}
