//! Postpones a head that its receiver did not accept (`lua/postpone.lua`).

use std::time::Duration;

use super::release::Owner;
use crate::{
    domain::{AttemptError, Sequence},
    store::{
        Store, StoreError, attempts,
        entry::{CatalogEntry, set_key},
    },
};

/// A lane's head that its receiver refused.
#[derive(Debug, Clone, Copy)]
pub struct RefusedHead<'a> {
    /// Its lane, as in [`LaneRequest::key`].
    pub lane: Option<&'a str>,
    /// The head.
    pub sequence: Sequence,
    /// Failed attempts to deliver it, including this one.
    pub failed: u32,
    /// The error of this attempt.
    pub error: &'a AttemptError,
}

impl Store {
    /// Delays the next attempt at a lane's head that the receiver refused.
    pub async fn postpone(
        &self,
        owner: &Owner,
        entry: &CatalogEntry,
        head: RefusedHead<'_>,
        wait: Duration,
    ) -> Result<(), StoreError> {
        let name = &entry.destination.name;
        let keys = self.keys().destination(name);
        let mut call = self.call(|scripts| &scripts.postpone);
        call.key(keys.partition.epoch()).key(keys.partition.owner()).key(keys.attempts());
        call.key(keys.partition.releasable()).key(keys.lanes());
        call.key(keys.in_progress(set_key(entry, head.lane))).key(keys.hash());
        call.key(keys.consumer_leases());
        call.arg(owner.token.as_str()).arg(owner.epoch).arg(name.as_str());
        call.arg(entry.ordering_text()).arg(self.known_of_epoch(entry.partition));
        call.arg(head.lane.unwrap_or_default()).arg(head.sequence).arg(head.failed);
        call.arg(wait.as_millis() as u64).arg(attempts::error_text(head.error));
        call.arg(entry.version);
        self.learned(entry.partition, self.run::<u64>(&call).await)?;
        Ok(())
    }
}
