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
        caller: &CallSequence,
        entry: &CatalogEntry,
        tokens: &[LeaseToken],
    ) -> Result<Vec<Status>, StoreError> {
        let keys = self.keys().destination(&entry.destination.name);
        let mut call = self.call(|scripts| &scripts.requeue);
        call.key(keys.partition.call(&caller.name)).key(keys.hash()).key(keys.waiting());
        call.key(keys.messages()).key(keys.partition.leases());
        call.key(keys.partition.active(Claimers::Builtin));
        call.key(keys.partition.active(Claimers::Worker)).key(keys.partition.wake_waiting());
        call.key(keys.partition.epoch());
        call.arg(caller.number()).arg(entry.destination.name.as_str());
        for token in tokens {
            call.arg(token.sequence).arg(token.member());
        }
        caller.answered(self.run(&call).await)
    }
}
