//! Requeues claimed messages (`lua/requeue.lua`).

use super::complete::Status;
use crate::{
    domain::LeaseToken,
    store::{CallSequence, Store, StoreError, entry::CatalogEntry, keys::Claimers},
};

impl Store {
    /// Returns claimed messages of one destination unprocessed, without counting an attempt.
    pub async fn requeue(
        &self,
        call_sequence: &CallSequence,
        entry: &CatalogEntry,
        tokens: &[LeaseToken],
    ) -> Result<Vec<Status>, StoreError> {
        let keys = self.keys().destination(&entry.destination.name);
        let mut call = self.call(|scripts| &scripts.requeue);
        let (caller, number) = call_sequence.current();
        call.key(keys.partition.call(&caller)).key(keys.hash()).key(keys.waiting());
        call.key(keys.messages()).key(keys.partition.leases());
        call.key(keys.partition.active(Claimers::Builtin));
        call.key(keys.partition.active(Claimers::Worker)).key(keys.partition.wake_waiting());
        call.key(keys.partition.epoch());
        call.arg(number).arg(entry.destination.name.as_str());
        for token in tokens {
            call.arg(token.sequence).arg(token.member());
        }
        call_sequence.answered(self.run(&call).await)
    }
}
