//! Halts a head: it keeps its position, and its lane waits for an operator (`lua/halt.lua`).

use super::{postpone::RefusedHead, release::Owner};
use crate::store::{
    Store, StoreError, attempts,
    entry::{CatalogEntry, set_key},
};

impl Store {
    /// Halts a lane's head whose delivery attempts are used up: the lane waits for an operator.
    pub async fn halt(
        &self,
        owner: &Owner,
        entry: &CatalogEntry,
        head: RefusedHead<'_>,
    ) -> Result<(), StoreError> {
        let keys = self.keys().destination(&entry.destination.name);
        let set = set_key(entry, head.lane);
        let mut call = self.call(|scripts| &scripts.halt);
        call.key(keys.partition.epoch()).key(keys.partition.owner()).key(keys.hash());
        call.key(keys.attempts()).key(keys.halted()).key(keys.lanes()).key(keys.messages());
        call.key(keys.in_progress(set)).key(keys.ready(set)).key(keys.consumer_leases());
        call.arg(owner.token.as_str()).arg(owner.epoch).arg(entry.ordering_text());
        call.arg(self.known_of_epoch(entry.partition));
        call.arg(head.lane.unwrap_or_default()).arg(head.sequence);
        call.arg(head.failed).arg(attempts::error_text(head.error)).arg(entry.version);
        self.learned(entry.partition, self.run::<u64>(&call).await)?;
        Ok(())
    }
}
