//! Completes the removal of a destination: removes its remaining keys in one step (`lua/forget_destination.lua`).

use crate::{Store, StoreError, contract::contract, keys::DestinationKeys};
use domain::DestinationName;

contract! {
    forget_destination
    keys(keys: &DestinationKeys) {
        epoch, destination: keys.hash(), waiting, messages, attempts, lanes,
        in_progress: keys.in_progress(None), ready: keys.ready(None), active_builtin, active_worker,
        releasable, halted, withdrawals, idempotency_keys, dead_letters, dead_letter_messages, log,
        log_order, bodies, dead_lettered_at, withdrawn, previous, ids, consumer_leases,
        consumer_lease_ends, consumers, withdrawing, sources,
    }
    args<'a> {
        seen_epoch: String,
        destination: &'a str,
    }
}

impl Store {
    /// Removes the destination's hash and its other single keys. The messages must have been removed before.
    pub(super) async fn forget_destination(
        &self,
        destination: &DestinationName,
    ) -> Result<(), StoreError> {
        let keys = self.keys().destination(destination);
        let partition = self.keys().partition_of(destination);
        let call =
            Args { seen_epoch: self.known_of_epoch(partition), destination: destination.as_str() }
                .call(self, &keys);
        let epoch: u64 = self.run(&call).await?;
        self.inner.epochs.note_carried(partition, epoch);
        Ok(())
    }
}
